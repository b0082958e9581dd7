//! Withdrawals that arrived before their article, kept until it arrives.
//!
//! Their keys are kept, since only the article's lock decides whether it may be withdrawn, and beside them in
//! which groups no key is needed, as the sender is no longer known when the article arrives. The table is
//! bounded (the oldest entry is dropped) and survives a restart. Called by `withdraw`. Format:
//! `docs/formats/early-cancels.md`.

use super::control::WithdrawalProof;
use disk::{Disk, LogLine};
use netnews::control::cancel_lock::elements;
use site_base::durable_table::{DurableTable, TableEntry};
use site_base::lock::Leaf;
use site_config::NamePattern;
use spool::ArticleKey;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use tracing::warn;

/// Most bytes of keys kept for one article.
const KEYS_BYTES_MAX: usize = 2_048;
/// Most bytes kept of the groups in which a withdrawal needs no key.
const PERMITS_BYTES_MAX: usize = 1_000;
const DAY_SECS: i64 = 86_400;
/// Begins a word with groups in which an article may be withdrawn without a key.
const WITHOUT_KEY: &str = "any";
/// Begins a word with groups in which an article without a lock may be withdrawn without a key.
const WITHOUT_LOCK: &str = "unlocked";
/// Separates the groups of a permit and those that are excepted; no name of a group has it.
const EXCEPT: char = '|';

#[derive(Debug)]
struct EarlyWithdrawal {
    since: i64,
    /// Elements of Cancel-Keys, and permits.
    keys: String,
}

impl TableEntry for EarlyWithdrawal {
    type Key = u128;
    const FILE_NAME: &'static str = "early-cancels";
    const FILE_BYTES_MAX: u64 = 256 << 20;
    const ENTRIES_MAX: usize = 65_536;

    fn lines(&self, key: &u128, lines: &mut Vec<String>) {
        lines.push(text(*key, self.since, &self.keys));
    }
}

type Table = DurableTable<EarlyWithdrawal>;

/// The waiting withdrawals.
#[derive(Debug)]
pub(super) struct EarlyWithdrawals {
    keep_secs: AtomicI64,
    /// Number of entries: read for every article, mostly 0.
    count: AtomicUsize,
    epoch: AtomicU64,
    table: Leaf<Table>,
}

impl EarlyWithdrawals {
    /// Opens the table of the site in `data`; entries older than `keep_days` are dropped.
    pub fn open(disk: Arc<dyn Disk>, data: &Path, keep_days: u32, now: i64) -> Self {
        let keep_secs = i64::from(keep_days) * DAY_SECS;
        let table = match load(disk, data, now - keep_secs) {
            Ok(table) => table,
            Err(error) => {
                warn!(%error, "cannot read withdrawals that came before their articles ({})", EarlyWithdrawal::FILE_NAME);
                Table::unread()
            }
        };
        let early = Self {
            keep_secs: AtomicI64::new(keep_secs),
            count: AtomicUsize::new(table.len()),
            epoch: AtomicU64::new(0),
            table: Leaf::new(table),
        };
        tidy_up(&mut early.table.lock());
        early
    }

    /// Makes new entries durable; returns false if some would be lost at a restart.
    pub fn sync(&self) -> bool {
        self.table.lock().sync().unwrap_or_else(|error| {
            warn!(%error, "withdrawals that came before their articles may be forgotten ({})", EarlyWithdrawal::FILE_NAME);
            false
        })
    }

    /// Sets the age, in days, at which entries are dropped.
    pub fn keep_for(&self, keep_days: u32) {
        self.keep_secs.store(i64::from(keep_days) * DAY_SECS, Ordering::Relaxed);
    }

    /// Returns the number of waiting withdrawals.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns a counter that changes with every effective `remember`.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the keys shown by withdrawals of this article, and their permits.
    pub fn keys(&self, key: ArticleKey) -> Option<Vec<u8>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.table.lock().get(&key.0).map(|waiting| waiting.keys.clone().into_bytes())
    }

    /// Keeps the keys shown by a withdrawal and its permits ([`permits`]), if it has any of them.
    pub fn remember(&self, key: ArticleKey, keys: &[u8], permits: &str, now: i64) {
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
            return;
        }
        let mut table = self.table.lock();
        if !add(&mut table, key.0, now, &shown) {
            return;
        }
        if let Err(error) = table.append(&text(key.0, now, &shown)) {
            let file = EarlyWithdrawal::FILE_NAME;
            warn!(file, %error, "a withdrawal that came before its article will be forgotten at a restart");
        }
        let oldest = now - self.keep_secs.load(Ordering::Relaxed);
        table.remove_while(|waiting| waiting.since < oldest);
        self.count.store(table.len(), Ordering::Release);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        tidy_up(&mut table);
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

/// Replaces the file when most of it is obsolete.
fn tidy_up(table: &mut Table) {
    if let Err(error) = table.tidy_up() {
        warn!(file = EarlyWithdrawal::FILE_NAME, %error, "cannot replace the file by a shorter one");
    }
}

/// Adds keys; returns false if they were known, or there is no room for more keys of this article.
fn add(table: &mut Table, key: u128, since: i64, keys: &str) -> bool {
    let Some(waiting) = table.get_mut(&key) else {
        table.insert(key, EarlyWithdrawal { since, keys: keys.to_owned() });
        return true;
    };
    let known = keys.split(' ').all(|key| waiting.keys.split(' ').any(|known| known == key));
    if known || waiting.keys.len() + keys.len() >= KEYS_BYTES_MAX {
        return false;
    }
    waiting.keys.push(' ');
    waiting.keys.push_str(keys);
    true
}

fn text(key: u128, since: i64, keys: &str) -> String {
    format!("{key:032x} {since} {keys}")
}

/// Parses a line of the file, which may have no checksum, as written by earlier versions.
fn entry(line: LogLine<'_>) -> Option<(u128, i64, &str)> {
    match line {
        LogLine::Whole(text) => parsed(text),
        LogLine::Other(bytes) => std::str::from_utf8(bytes).ok().and_then(parsed),
    }
}

/// Returns whether a line of the file is complete.
pub fn is_whole(line: LogLine<'_>) -> bool {
    entry(line).is_some()
}

/// Reads the file; invalid lines are skipped.
fn load(disk: Arc<dyn Disk>, data: &Path, oldest: i64) -> io::Result<Table> {
    Table::open(disk, data, |table, line| {
        let Some((key, since, keys)) = entry(line) else { return false };
        if since >= oldest {
            add(table, key, since, keys);
        }
        true
    })
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
    use disk::{CrashKind, FileAccess, SimDisk};

    const NOW: i64 = 1_780_000_000;

    fn shown(early: &EarlyWithdrawals, key: u128) -> Option<String> {
        early.keys(ArticleKey(key)).map(|keys| String::from_utf8(keys).unwrap())
    }

    fn open(sim: &SimDisk, now: i64) -> EarlyWithdrawals {
        EarlyWithdrawals::open(Arc::new(sim.clone()), Path::new("/d"), 10, now)
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn content(sim: &SimDisk) -> Vec<u8> {
        disk::read_small(sim, &Path::new("/d").join(EarlyWithdrawal::FILE_NAME), u64::MAX)
            .unwrap()
            .unwrap_or_default()
    }

    #[test]
    fn entries_survive_restarts_and_expire() {
        let sim = disk();
        let early = open(&sim, NOW);
        assert_eq!(shown(&early, 1), None);
        early.remember(ArticleKey(1), b"sha256:a (comment)\r\n SHA1:b", "", NOW);
        early.remember(ArticleKey(1), b"sha256:a", "", NOW);
        early.remember(ArticleKey(1), b"sha256:c", "", NOW + 1);
        early.remember(ArticleKey(2), b"md5:x", "", NOW);
        early.remember(ArticleKey(3), b"", "unlocked:*", NOW + DAY_SECS);
        drop(early);
        let mut text = content(&sim);
        assert_eq!(text.iter().filter(|b| **b == b'\n').count(), 1 + 3);
        text.extend_from_slice(b"garbage\n\xff\xff 1 x\n00000000000000000000000000000004 17800");
        disk::durable_replace(
            &sim,
            &Path::new("/d").join(EarlyWithdrawal::FILE_NAME),
            &[&text],
            FileAccess::Group,
        )
        .unwrap();
        let early = open(&sim, NOW);
        assert_eq!(shown(&early, 1).unwrap(), "sha256:a sha1:b sha256:c");
        assert_eq!((shown(&early, 2), shown(&early, 4)), (None, None));
        assert_eq!(shown(&early, 3).unwrap(), "unlocked:*");
        early.remember(ArticleKey(5), b"sha256:e", "", NOW);
        drop(early);
        let early = open(&sim, NOW + 10 * DAY_SECS + 2);
        assert_eq!((shown(&early, 1), shown(&early, 5)), (None, None));
        assert!(shown(&early, 3).is_some());
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
    fn lines_without_a_checksum_are_read() {
        let sim = disk();
        let text = format!("{:032x} {NOW} sha256:a\n{:032x} {NOW} sha1:b\n", 7, 8);
        disk::durable_replace(
            &sim,
            &Path::new("/d").join(EarlyWithdrawal::FILE_NAME),
            &[text.as_bytes()],
            FileAccess::Group,
        )
        .unwrap();
        let early = open(&sim, NOW);
        assert_eq!(
            (shown(&early, 7).unwrap(), shown(&early, 8).unwrap()),
            ("sha256:a".into(), "sha1:b".into())
        );
    }

    #[test]
    fn a_crash_at_any_step_loses_nothing_that_was_synced() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                sim.crash_at(step, kind, step * 7919);
                let early = open(&sim, NOW);
                let mut synced = 0;
                for n in 1..=3 {
                    early.remember(ArticleKey(n), b"sha256:a", "", NOW);
                    if n == 2 {
                        tidy_up(&mut early.table.lock());
                        early.table.lock().replace_file().unwrap_or_default();
                    }
                    early.sync();
                    if !sim.crashed() {
                        synced = n;
                    }
                }
                let image = sim.image().unwrap();
                let after = open(&image, NOW);
                for n in 1..=synced {
                    assert!(shown(&after, n).is_some(), "{kind:?} at step {step}: {n} of {synced}");
                }
                after.remember(ArticleKey(9), b"sha256:z", "", NOW);
                assert!(shown(&open(&image, NOW), 9).is_some(), "{kind:?} at step {step}");
                if !sim.crashed() {
                    assert!(step > 6, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn table_and_file_are_bounded() {
        let sim = disk();
        let early = open(&sim, NOW);
        for n in 0..EarlyWithdrawal::ENTRIES_MAX as u128 + 10 {
            early.remember(ArticleKey(n), b"sha256:a", "", NOW);
        }
        assert_eq!(early.table.lock().len(), EarlyWithdrawal::ENTRIES_MAX);
        assert_eq!((shown(&early, 9), shown(&early, 10)), (None, Some("sha256:a".into())));
        for n in 0..10_000 {
            early.remember(ArticleKey(77), format!("sha256:{n:0900}").as_bytes(), "", NOW);
        }
        assert!(shown(&early, 77).unwrap().len() <= KEYS_BYTES_MAX);
        drop(early);
        drop(open(&sim, NOW + 11 * DAY_SECS));
        assert_eq!(
            content(&sim).iter().filter(|b| **b == b'\n').count(),
            1,
            "replaced: only the head is left"
        );
    }
}
