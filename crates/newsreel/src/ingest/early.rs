//! Withdrawals that came before their article, until it comes.
//!
//! What they show is kept, since only the article's lock decides whether it may be withdrawn. The table is
//! bounded (the oldest goes) and outlives a restart in one file of lines, which is appended to, and replaced
//! when more than half of it is of no use. Called by `withdraw`. Format: `docs/formats/early-cancels.md`.

use hashbrown::HashMap;
use netnews::control::cancel_lock::elements;
use parking_lot::Mutex;
use spool::{Access, AppendLog, Disk, Key, Line};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use tracing::warn;

/// Name of the file below `site.data`.
const FILE_NAME: &str = "early-cancels";
/// Articles that are waited for at once.
const WAITING_MAX: usize = 65_536;
/// Keys kept for one article, in bytes.
const KEYS_BYTES_MAX: usize = 2_048;
/// Lines of the file beyond twice those of use before it is replaced.
const LINES_SPARE: usize = 1_024;
/// Length of the file at most.
const FILE_BYTES_MAX: u64 = 256 << 20;
const DAY_SECS: i64 = 86_400;

#[derive(Debug)]
struct Waiting {
    since: i64,
    keys: String,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u128, Waiting>,
    /// In the order they came; those that are no longer waited for too.
    order: VecDeque<u128>,
    /// `None` if the file cannot be read.
    log: Option<AppendLog>,
    lines: usize,
    /// The file lacks something.
    is_incomplete: bool,
}

/// The withdrawals that wait.
#[derive(Debug)]
pub(super) struct Early {
    path: PathBuf,
    keep_secs: AtomicI64,
    /// How many wait: asked for every article, mostly 0.
    count: AtomicUsize,
    epoch: AtomicU64,
    table: Mutex<Table>,
}

impl Early {
    /// Those of the site in `data`; what is older than `keep_days` is forgotten.
    pub fn open(disk: Arc<dyn Disk>, data: &Path, keep_days: u32, now: i64) -> Self {
        let path = data.join(FILE_NAME);
        let keep_secs = i64::from(keep_days) * DAY_SECS;
        let mut table = Table::default();
        match load(disk, &path, now - keep_secs, &mut table) {
            Ok(log) => table.log = Some(log),
            Err(error) => {
                warn!(file = %path.display(), %error, "cannot read withdrawals that came before their articles");
            }
        }
        let early = Self {
            path,
            keep_secs: AtomicI64::new(keep_secs),
            count: AtomicUsize::new(table.waiting.len()),
            epoch: AtomicU64::new(0),
            table: Mutex::new(table),
        };
        early.tidy_up(&mut early.table.lock());
        early
    }

    /// Makes durable what was remembered; false if some of it would be forgotten at a restart.
    pub fn sync(&self) -> bool {
        let mut table = self.table.lock();
        let is_whole = !table.is_incomplete;
        let synced = table.log.as_mut().map_or(Ok(()), AppendLog::sync);
        if let Err(error) = &synced {
            warn!(file = %self.path.display(), %error, "withdrawals that came before their articles may be forgotten");
        }
        is_whole && synced.is_ok()
    }

    /// What is older than `keep_days` is forgotten from now on.
    pub fn keep_for(&self, keep_days: u32) {
        self.keep_secs.store(i64::from(keep_days) * DAY_SECS, Ordering::Relaxed);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Changes with every `remember` that changes something.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The keys shown by withdrawals of this article.
    pub fn keys(&self, key: Key) -> Option<Vec<u8>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.table.lock().waiting.get(&key.0).map(|waiting| waiting.keys.clone().into_bytes())
    }

    /// Keeps what a withdrawal shows; without a key only if `keyless` ones are of use.
    pub fn remember(&self, key: Key, keys: &[u8], keyless: bool, now: i64) {
        let mut shown = String::new();
        for element in elements(keys) {
            let text = String::from_utf8_lossy(element.text);
            if shown.len() + text.len() < KEYS_BYTES_MAX / 2 {
                let gap = if shown.is_empty() { "" } else { " " };
                let _ = write!(shown, "{gap}{}:{text}", element.scheme.name());
            }
        }
        if shown.is_empty() && !keyless {
            return;
        }
        let mut table = self.table.lock();
        if !table.add(key.0, now, &shown) {
            return;
        }
        if let Err(error) = table.append(&text(key.0, now, &shown)) {
            table.is_incomplete = true;
            warn!(file = %self.path.display(), %error, "a withdrawal that came before its article will be forgotten at a restart");
        }
        table.forget_before(now - self.keep_secs.load(Ordering::Relaxed));
        self.count.store(table.waiting.len(), Ordering::Release);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.tidy_up(&mut table);
    }

    /// Replaces the file when most of it is of no use.
    fn tidy_up(&self, table: &mut Table) {
        if table.lines <= 2 * table.waiting.len() + LINES_SPARE {
            return;
        }
        if let Err(error) = table.replace_file() {
            warn!(file = %self.path.display(), %error, "cannot replace the file by a shorter one");
        }
    }
}

impl Table {
    fn append(&mut self, text: &str) -> io::Result<()> {
        let log = self.log.as_mut().ok_or_else(|| io::Error::other("the file could not be read"))?;
        self.lines += 1;
        log.append(text)
    }

    fn replace_file(&mut self) -> io::Result<()> {
        let waiting = self.order.iter().filter_map(|key| Some((key, self.waiting.get(key)?)));
        let texts: Vec<String> =
            waiting.map(|(key, waiting)| text(*key, waiting.since, &waiting.keys)).collect();
        if let Some(log) = &mut self.log {
            log.replace(texts.iter().map(String::as_str))?;
            self.is_incomplete = false;
        }
        self.lines = texts.len();
        Ok(())
    }

    /// False if it was known, or there is no room for more keys of this article.
    fn add(&mut self, key: u128, since: i64, keys: &str) -> bool {
        if let Some(waiting) = self.waiting.get_mut(&key) {
            let known = keys.split(' ').all(|key| waiting.keys.split(' ').any(|known| known == key));
            if known || waiting.keys.len() + keys.len() >= KEYS_BYTES_MAX {
                return false;
            }
            waiting.keys.push(' ');
            waiting.keys.push_str(keys);
            return true;
        }
        self.waiting.insert(key, Waiting { since, keys: keys.to_owned() });
        self.order.push_back(key);
        while self.waiting.len() > WAITING_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.waiting.remove(&oldest);
        }
        true
    }

    fn forget_before(&mut self, time: i64) {
        while let Some(oldest) = self.order.front().copied() {
            if self.waiting.get(&oldest).is_some_and(|waiting| waiting.since >= time) {
                break;
            }
            self.order.pop_front();
            self.waiting.remove(&oldest);
        }
    }
}

fn text(key: u128, since: i64, keys: &str) -> String {
    format!("{key:032x} {since} {keys}")
}

/// Reads the file; lines that make no sense are skipped.
fn load(disk: Arc<dyn Disk>, path: &Path, oldest: i64, table: &mut Table) -> io::Result<AppendLog> {
    AppendLog::open(disk, path.to_owned(), Access::Group, FILE_BYTES_MAX, |line| {
        table.lines += 1;
        let text = match line {
            Line::Whole(text) => Some(text),
            // Written without a checksum by earlier versions.
            Line::Other(bytes) => std::str::from_utf8(bytes).ok(),
        };
        if let Some((key, since, keys)) = text.and_then(parsed)
            && since >= oldest
        {
            table.add(key, since, keys);
        }
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
    use spool::{CrashKind, SimDisk};

    const NOW: i64 = 1_780_000_000;

    fn shown(early: &Early, key: u128) -> Option<String> {
        early.keys(Key(key)).map(|keys| String::from_utf8(keys).unwrap())
    }

    fn open(sim: &SimDisk, now: i64) -> Early {
        Early::open(Arc::new(sim.clone()), Path::new("/d"), 10, now)
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn content(sim: &SimDisk) -> Vec<u8> {
        spool::read_small(sim, &Path::new("/d").join(FILE_NAME), u64::MAX).unwrap().unwrap_or_default()
    }

    #[test]
    fn kept_over_restarts_and_forgotten_in_time() {
        let sim = disk();
        let early = open(&sim, NOW);
        assert_eq!(shown(&early, 1), None);
        early.remember(Key(1), b"sha256:a (comment)\r\n SHA1:b", false, NOW);
        early.remember(Key(1), b"sha256:a", false, NOW);
        early.remember(Key(1), b"sha256:c", false, NOW + 1);
        early.remember(Key(2), b"md5:x", false, NOW);
        early.remember(Key(3), b"", true, NOW + DAY_SECS);
        drop(early);
        let mut text = content(&sim);
        assert_eq!(text.iter().filter(|b| **b == b'\n').count(), 3);
        text.extend_from_slice(b"garbage\n\xff\xff 1 x\n00000000000000000000000000000004 17800");
        spool::durable_replace(&sim, &Path::new("/d").join(FILE_NAME), &[&text], Access::Group).unwrap();
        let early = open(&sim, NOW);
        assert_eq!(shown(&early, 1).unwrap(), "sha256:a sha1:b sha256:c");
        assert_eq!((shown(&early, 2), shown(&early, 4)), (None, None));
        assert_eq!(shown(&early, 3).unwrap(), "");
        early.remember(Key(5), b"sha256:e", false, NOW);
        drop(early);
        let early = open(&sim, NOW + 10 * DAY_SECS + 2);
        assert_eq!((shown(&early, 1), shown(&early, 5)), (None, None));
        assert!(shown(&early, 3).is_some());
    }

    #[test]
    fn lines_without_a_checksum_are_read() {
        let sim = disk();
        let text = format!("{:032x} {NOW} sha256:a\n{:032x} {NOW} sha1:b\n", 7, 8);
        spool::durable_replace(&sim, &Path::new("/d").join(FILE_NAME), &[text.as_bytes()], Access::Group)
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
                    early.remember(Key(n), b"sha256:a", false, NOW);
                    if n == 2 {
                        early.tidy_up(&mut early.table.lock());
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
                after.remember(Key(9), b"sha256:z", false, NOW);
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
        for n in 0..WAITING_MAX as u128 + 10 {
            early.remember(Key(n), b"sha256:a", false, NOW);
        }
        assert_eq!(early.table.lock().waiting.len(), WAITING_MAX);
        assert_eq!((shown(&early, 9), shown(&early, 10)), (None, Some("sha256:a".into())));
        for n in 0..10_000 {
            early.remember(Key(77), format!("sha256:{n:0900}").as_bytes(), false, NOW);
        }
        assert!(shown(&early, 77).unwrap().len() <= KEYS_BYTES_MAX);
        drop(early);
        let early = open(&sim, NOW + 11 * DAY_SECS);
        assert_eq!(early.table.lock().lines, 0, "replaced");
        assert_eq!(content(&sim).len(), 0);
    }
}
