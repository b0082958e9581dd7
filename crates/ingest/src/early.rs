//! Withdrawals that arrived before their article, kept until it arrives.
//!
//! Their keys are kept, since only the article's lock decides whether it may be withdrawn, and beside them in
//! which groups no key is needed, as the sender is no longer known when the article arrives. They are notes
//! of the spool, which bounds their number and forgets them with the Message-IDs of their time. Called by
//! `withdraw`. Format: `docs/formats/notes.md`.

use super::control::WithdrawalProof;
use disk::LogLine;
use lock_order::Ordered;
use netnews::control::cancel_lock::elements;
use site_base::lock::rank;
use site_config::NamePattern;
use site_log::SiteLog;
use spool::{ArticleKey, Change, ChangeMaker as _, NoteKind, SpoolTrouble};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::warn;

/// Most bytes of keys kept for one article.
const KEYS_BYTES_MAX: usize = 2_048;
/// Most bytes kept of the groups in which a withdrawal needs no key.
const PERMITS_BYTES_MAX: usize = 1_000;
/// Begins a word with groups in which an article may be withdrawn without a key.
const WITHOUT_KEY: &str = "any";
/// Begins a word with groups in which an article without a lock may be withdrawn without a key.
const WITHOUT_LOCK: &str = "unlocked";
/// Separates the groups of a permit and those that are excepted; no name of a group has it.
const EXCEPT: char = '|';
/// Name and longest length of the file that earlier versions kept them in.
const OLD_FILE: &str = "early-cancels";
const OLD_FILE_BYTES_MAX: u64 = 256 << 20;
const KIND: NoteKind = NoteKind::EarlyCancel;

/// The waiting withdrawals.
#[derive(Debug)]
pub(super) struct EarlyWithdrawals {
    log: Arc<SiteLog>,
    epoch: AtomicU64,
    /// Held from reading a note until it is replaced.
    adding: Ordered<(), { rank::EARLY_CANCELS }>,
}

impl EarlyWithdrawals {
    /// Takes over the file of an earlier version in `data`; lines from before `oldest` (Unix seconds) no
    /// longer count.
    pub fn open(log: Arc<SiteLog>, data: &Path, oldest: i64) -> Self {
        let early = Self { log, epoch: AtomicU64::new(0), adding: Ordered::default() };
        let taken = early.log.take_over(data.join(OLD_FILE), OLD_FILE_BYTES_MAX, |line| {
            let Some((key, since, keys)) = entry(line) else { return Ok(false) };
            if since >= oldest {
                early.add(ArticleKey(key), since, keys).map_err(io::Error::other)?;
            }
            Ok(true)
        });
        if let Err(error) = taken {
            warn!(file = OLD_FILE, %error, "cannot read withdrawals that came before their articles");
        }
        early
    }

    /// Returns the number of waiting withdrawals.
    pub fn len(&self) -> usize {
        self.log.spool().note_count(KIND)
    }

    /// Returns a counter that changes with every effective `remember`.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the keys shown by withdrawals of this article, and their permits.
    pub fn keys(&self, key: ArticleKey) -> Option<Vec<u8>> {
        Some(self.log.spool().note_of(KIND, &name(key))?.value.to_vec())
    }

    /// Keeps the keys shown by a withdrawal and its permits ([`permits`]), if it has any of them. Returns
    /// whether something is kept that was not; it is durable with the journal's next sync.
    pub fn remember(
        &self,
        key: ArticleKey,
        keys: &[u8],
        permits: &str,
        now: i64,
    ) -> Result<bool, SpoolTrouble> {
        let mut shown = String::new();
        for element in elements(keys) {
            let text = String::from_utf8_lossy(element.text);
            if shown.len() + text.len() < KEYS_BYTES_MAX / 2 {
                let gap = if shown.is_empty() { "" } else { " " };
                let _ = write!(shown, "{gap}{}:{text}", element.scheme.name());
            }
        }
        if !shown.is_empty() && !permits.is_empty() {
            shown.push(' ');
        }
        shown.push_str(permits);
        if shown.is_empty() {
            return Ok(false);
        }
        self.add(key, now, &shown)
    }

    /// Adds keys; returns false if they were known, or there is no room for more keys of this article.
    fn add(&self, key: ArticleKey, since: i64, keys: &str) -> Result<bool, SpoolTrouble> {
        let _adding = self.adding.lock();
        let known = self.keys(key);
        let Some(value) = with_keys(known.as_deref(), keys) else { return Ok(false) };
        let since = u64::try_from(since).unwrap_or_default();
        let (key, value) = (name(key), Some(value.as_bytes()));
        self.log.commit_one(Change::Note { kind: KIND, key: &key, value, since })?;
        self.epoch.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }
}

/// Returns the permits of a withdrawal: where it needs no key. Of `proofs` the first counts whose groups
/// match all groups of the article.
pub(super) fn permits(proofs: &[(WithdrawalProof, &str)]) -> String {
    let mut words = String::new();
    for (at, (proof, groups)) in proofs.iter().enumerate() {
        let kind = match proof {
            WithdrawalProof::Nothing => WITHOUT_KEY,
            WithdrawalProof::KeyIfLocked => WITHOUT_LOCK,
            WithdrawalProof::Key | WithdrawalProof::NotHonored => continue,
        };
        let gap = if words.is_empty() { "" } else { " " };
        let mut word = format!("{gap}{kind}:{groups}");
        proofs.iter().take(at).for_each(|(_, earlier)| word.push_str(&format!("{EXCEPT}{earlier}")));
        let is_one_word = |(_, groups): &(WithdrawalProof, &str)| {
            !groups.contains(|c: char| c.is_whitespace() || c == EXCEPT || c == '(')
        };
        if words.len() + word.len() < PERMITS_BYTES_MAX && proofs.iter().take(at + 1).all(is_one_word) {
            words.push_str(&word);
        }
    }
    words
}

/// Reports whether one of the permits among `keys` needs no key for an article in these groups.
pub(super) fn needs_no_key(keys: &[u8], has_lock: bool, groups: &[&[u8]]) -> bool {
    let matches = |pattern: &str| {
        NamePattern::parse(pattern).is_ok_and(|pattern| groups.iter().all(|group| pattern.matches(group)))
    };
    String::from_utf8_lossy(keys).split(' ').any(|word| {
        let (covers_locked, scope) = match word.split_once(':') {
            Some((WITHOUT_KEY, scope)) => (true, scope),
            Some((WITHOUT_LOCK, scope)) => (false, scope),
            // As earlier versions have written it.
            None if word.is_empty() => (false, "*"),
            _ => return false,
        };
        let mut patterns = scope.split(EXCEPT);
        (covers_locked || !has_lock) && patterns.next().is_some_and(matches) && !patterns.any(matches)
    })
}

/// Returns the key of an article's note.
fn name(key: ArticleKey) -> [u8; 16] {
    key.0.to_le_bytes()
}

/// Returns the known keys and new ones; `None` if all were known, or there is no room for more.
fn with_keys(known: Option<&[u8]>, keys: &str) -> Option<String> {
    let Some(known) = known else { return Some(keys.to_owned()) };
    let known = std::str::from_utf8(known).unwrap_or_default();
    let is_known = keys.split(' ').all(|key| known.split(' ').any(|other| other == key));
    if is_known || known.len() + keys.len() >= KEYS_BYTES_MAX {
        return None;
    }
    Some(format!("{known} {keys}"))
}

/// Parses a line of the file, which may have no checksum, as written by the earliest versions.
fn entry(line: LogLine<'_>) -> Option<(u128, i64, &str)> {
    match line {
        LogLine::Whole(text) => parsed(text),
        LogLine::Other(bytes) => std::str::from_utf8(bytes).ok().and_then(parsed),
    }
}

fn parsed(line: &str) -> Option<(u128, i64, &str)> {
    let (key, rest) = line.split_once(' ')?;
    let (since, keys) = rest.split_once(' ')?;
    let key = u128::from_str_radix(key, 16).ok().filter(|_| key.len() == 32)?;
    (keys.len() <= KEYS_BYTES_MAX).then_some((key, since.parse().ok()?, keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk as _, FileAccess, SimDisk};
    use spool::{Spool, SpoolConfig};

    const NOW: i64 = 1_780_000_000;

    fn shown(early: &EarlyWithdrawals, key: u128) -> Option<String> {
        early.keys(ArticleKey(key)).map(|keys| String::from_utf8(keys).unwrap())
    }

    fn open(sim: &SimDisk, oldest: i64) -> EarlyWithdrawals {
        let config = SpoolConfig::new(Path::new("/d"));
        let (spool, _) = Spool::open(Arc::new(sim.clone()), config, &()).unwrap();
        EarlyWithdrawals::open(Arc::new(SiteLog::new(Arc::new(spool))), Path::new("/d"), oldest)
    }

    #[test]
    fn keys_are_merged_and_survive_restarts() {
        let sim = SimDisk::new();
        let early = open(&sim, 0);
        assert_eq!(shown(&early, 1), None);
        assert!(early.remember(ArticleKey(1), b"sha256:a (comment)\r\n SHA1:b", "", NOW).unwrap());
        assert!(!early.remember(ArticleKey(1), b"sha256:a", "", NOW).unwrap());
        assert!(early.remember(ArticleKey(1), b"sha256:c", "", NOW + 1).unwrap());
        assert!(!early.remember(ArticleKey(2), b"md5:x", "", NOW).unwrap());
        assert!(early.remember(ArticleKey(3), b"", "unlocked:*", NOW).unwrap());
        assert_eq!(early.epoch(), 3);
        drop(early);
        let early = open(&sim, 0);
        assert_eq!(shown(&early, 1).unwrap(), "sha256:a sha1:b sha256:c");
        assert_eq!(
            (shown(&early, 2), shown(&early, 3).unwrap(), early.len()),
            (None, "unlocked:*".into(), 2)
        );
        for n in 0..10_000 {
            early.remember(ArticleKey(77), format!("sha256:{n:0900}").as_bytes(), "", NOW).unwrap();
        }
        assert!(shown(&early, 77).unwrap().len() <= KEYS_BYTES_MAX);
    }

    #[test]
    fn permits_say_in_which_groups_no_key_is_needed() {
        use WithdrawalProof::{Key, KeyIfLocked, NotHonored, Nothing};
        let needs_none = |permits: &str, has_lock: bool, groups: &[&str]| {
            let groups: Vec<&[u8]> = groups.iter().map(|group| group.as_bytes()).collect();
            needs_no_key(permits.as_bytes(), has_lock, &groups)
        };
        let words = permits(&[(Key, "a.b.*"), (Nothing, "a.*"), (NotHonored, "c.*"), (KeyIfLocked, "*")]);
        assert_eq!(words, "any:a.*|a.b.* unlocked:*|a.b.*|a.*|c.*");
        for (groups, locked, unlocked) in [
            (&["a.b.c"][..], false, false),
            (&["a.x", "a.b.c"], true, true),
            (&["a.x", "d.x"], false, true),
            (&["c.x"], false, false),
            (&["d.x"], false, true),
        ] {
            let found = [true, false].map(|has_lock| needs_none(&words, has_lock, groups));
            assert_eq!(found, [locked, unlocked], "{groups:?}");
        }
        assert_eq!(permits(&[(Key, "*"), (NotHonored, "*")]), "");
        assert_eq!(permits(&[(Nothing, "a b"), (Key, "*")]), "", "it would be two words");
        assert_eq!(permits(&[(Nothing, &"a".repeat(PERMITS_BYTES_MAX)), (Key, "*")]), "");
        assert!(needs_none("", false, &["d.x"]) && !needs_none("", true, &["d.x"]), "an earlier version");
        assert!(!needs_none("sha256:a", false, &["d.x"]));
    }

    #[test]
    fn the_file_of_an_earlier_version_is_taken_over_once() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let line = |text: &str| format!("{:08x} {text}\n", disk::crc::crc32c(text.as_bytes()));
        let text = [
            line(&format!("{:032x} {NOW} sha256:a", 7)),
            format!("{:032x} {NOW} sha1:b\n", 8),
            line(&format!("{:032x} {NOW} sha256:c", 7)),
            line(&format!("{:032x} {} sha256:old", 9, NOW - 10)),
            "garbage\n".to_owned(),
            format!("{:032x} 17800", 4),
        ];
        let path = Path::new("/d").join(OLD_FILE);
        disk::durable_replace(&sim, &path, &[text.concat().as_bytes()], FileAccess::Group).unwrap();
        for _ in 0..2 {
            let early = open(&sim, NOW);
            assert_eq!(shown(&early, 7).unwrap(), "sha256:a sha256:c");
            assert_eq!((shown(&early, 8).unwrap(), early.len()), ("sha1:b".into(), 2));
            let names = sim.list(Path::new("/d")).unwrap();
            assert!(!names.iter().any(|name| name == OLD_FILE), "{names:?}");
            assert!(names.iter().any(|name| name == "early-cancels.damaged"), "{names:?}");
        }
    }
}
