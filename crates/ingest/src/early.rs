//! Withdrawals that arrived before their article, kept until it arrives.
//!
//! Their keys are kept, since only the article's lock decides whether it may be withdrawn. They are notes of
//! the spool, which bounds their number and forgets them with the Message-IDs of their time. Called by
//! `withdraw`. Format: `docs/formats/notes.md`.

use disk::LogLine;
use lock_order::Ordered;
use netnews::control::cancel_lock::elements;
use site_base::lock::rank;
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

    /// Returns the keys shown by withdrawals of this article.
    pub fn keys(&self, key: ArticleKey) -> Option<Vec<u8>> {
        Some(self.log.spool().note_of(KIND, &name(key))?.value.to_vec())
    }

    /// Keeps the keys shown by a withdrawal; one without keys only if `keyless` ones are of use. Returns
    /// whether something is kept that was not; it is durable with the journal's next sync.
    pub fn remember(
        &self,
        key: ArticleKey,
        keys: &[u8],
        keyless: bool,
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
        if shown.is_empty() && !keyless {
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
        assert!(early.remember(ArticleKey(1), b"sha256:a (comment)\r\n SHA1:b", false, NOW).unwrap());
        assert!(!early.remember(ArticleKey(1), b"sha256:a", false, NOW).unwrap());
        assert!(early.remember(ArticleKey(1), b"sha256:c", false, NOW + 1).unwrap());
        assert!(!early.remember(ArticleKey(2), b"md5:x", false, NOW).unwrap());
        assert!(early.remember(ArticleKey(3), b"", true, NOW).unwrap());
        assert_eq!(early.epoch(), 3);
        drop(early);
        let early = open(&sim, 0);
        assert_eq!(shown(&early, 1).unwrap(), "sha256:a sha1:b sha256:c");
        assert_eq!((shown(&early, 2), shown(&early, 3).unwrap(), early.len()), (None, String::new(), 2));
        for n in 0..10_000 {
            early.remember(ArticleKey(77), format!("sha256:{n:0900}").as_bytes(), false, NOW).unwrap();
        }
        assert!(shown(&early, 77).unwrap().len() <= KEYS_BYTES_MAX);
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
