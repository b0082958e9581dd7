//! Withdrawals that came before their article, until it comes.
//!
//! What they show is kept, since only the article's lock tells whether it may be withdrawn. The table is bounded (the
//! oldest goes) and outlives a restart in one file of lines that is appended to, and made anew when more than half of it
//! is of no use. Called by `withdraw`. Format: `docs/formats/early-cancels.md`.

use hashbrown::HashMap;
use netnews::control::cancel_lock::elements;
use parking_lot::Mutex;
use spool::Key;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use tracing::warn;

/// Name of the file below `site.data`.
const FILE_NAME: &str = "early-cancels";
/// Articles that are waited for at once.
const WAITING_MAX: usize = 65_536;
/// Keys kept for one article, in bytes.
const KEYS_BYTES_MAX: usize = 2_048;
/// Lines of the file, beyond twice those of use, that are borne before it is made anew.
const LINES_SPARE: usize = 1_024;
/// As much of the file as is read.
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
    file: Option<File>,
    lines: usize,
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
    pub fn open(data: &Path, keep_days: u32, now: i64) -> Self {
        let path = data.join(FILE_NAME);
        let keep_secs = i64::from(keep_days) * DAY_SECS;
        let mut table = Table::default();
        if let Err(error) = load(&path, now - keep_secs, &mut table) {
            warn!(file = %path.display(), %error, "cannot read withdrawals that came before their articles");
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
        let line = line(key.0, now, &shown);
        if let Err(error) = self.append(&mut table, &line) {
            warn!(file = %self.path.display(), %error, "a withdrawal that came before its article will be forgotten at a restart");
        }
        table.forget_before(now - self.keep_secs.load(Ordering::Relaxed));
        self.count.store(table.waiting.len(), Ordering::Release);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.tidy_up(&mut table);
    }

    fn append(&self, table: &mut Table, line: &str) -> io::Result<()> {
        let file = match table.file.take() {
            Some(file) => file,
            None => OpenOptions::new().create(true).append(true).open(&self.path)?,
        };
        table.lines += 1;
        table.file.insert(file).write_all(line.as_bytes())
    }

    /// Makes the file anew when most of it is of no use.
    fn tidy_up(&self, table: &mut Table) {
        if table.lines <= 2 * table.waiting.len() + LINES_SPARE {
            return;
        }
        if let Err(error) = self.rewrite(table) {
            warn!(file = %self.path.display(), %error, "cannot make the file anew");
        }
    }

    fn rewrite(&self, table: &mut Table) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut text = String::new();
        for key in &table.order {
            if let Some(waiting) = table.waiting.get(key) {
                text.push_str(&line(*key, waiting.since, &waiting.keys));
            }
        }
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        table.lines = table.waiting.len();
        table.file = None;
        Ok(())
    }
}

impl Table {
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

fn line(key: u128, since: i64, keys: &str) -> String {
    format!("{key:032x} {since} {keys}\n")
}

/// Reads the file; lines that make no sense, as the last one may after a crash, are passed over.
fn load(path: &Path, oldest: i64, table: &mut Table) -> io::Result<()> {
    let mut text = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_BYTES_MAX).read_to_end(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for line in text.split_inclusive(|&b| b == b'\n') {
        table.lines += 1;
        if let Some((key, since, keys)) = parsed(line)
            && since >= oldest
        {
            table.add(key, since, keys);
        }
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        // What is appended next must not become part of the unfinished line.
        OpenOptions::new().append(true).open(path)?.write_all(b"\n")?;
    }
    Ok(())
}

fn parsed(line: &[u8]) -> Option<(u128, i64, &str)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (key, rest) = line.split_once(' ')?;
    let (since, keys) = rest.split_once(' ')?;
    let key = u128::from_str_radix(key, 16).ok().filter(|_| key.len() == 32)?;
    (keys.len() <= KEYS_BYTES_MAX).then_some((key, since.parse().ok()?, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_780_000_000;

    fn shown(early: &Early, key: u128) -> Option<String> {
        early.keys(Key(key)).map(|keys| String::from_utf8(keys).unwrap())
    }

    #[test]
    fn kept_over_restarts_and_forgotten_in_time() {
        let dir = tempfile::TempDir::new().unwrap();
        let early = Early::open(dir.path(), 10, NOW);
        assert_eq!(shown(&early, 1), None);
        early.remember(Key(1), b"sha256:a (comment)\r\n SHA1:b", false, NOW);
        early.remember(Key(1), b"sha256:a", false, NOW);
        early.remember(Key(1), b"sha256:c", false, NOW + 1);
        early.remember(Key(2), b"md5:x", false, NOW);
        early.remember(Key(3), b"", true, NOW + DAY_SECS);
        drop(early);
        let file = dir.path().join(FILE_NAME);
        let mut text = fs::read(&file).unwrap();
        assert_eq!(text.iter().filter(|b| **b == b'\n').count(), 3);
        text.extend_from_slice(b"garbage\n\xff\xff 1 x\n00000000000000000000000000000004 17800");
        fs::write(&file, &text).unwrap();
        let early = Early::open(dir.path(), 10, NOW);
        assert_eq!(shown(&early, 1).unwrap(), "sha256:a sha1:b sha256:c");
        assert_eq!((shown(&early, 2), shown(&early, 4)), (None, None));
        assert_eq!(shown(&early, 3).unwrap(), "");
        early.remember(Key(5), b"sha256:e", false, NOW);
        drop(early);
        let early = Early::open(dir.path(), 10, NOW + 10 * DAY_SECS + 2);
        assert_eq!((shown(&early, 1), shown(&early, 5)), (None, None));
        assert!(shown(&early, 3).is_some());
    }

    #[test]
    fn table_and_file_are_bounded() {
        let dir = tempfile::TempDir::new().unwrap();
        let early = Early::open(dir.path(), 10, NOW);
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
        let early = Early::open(dir.path(), 10, NOW + 11 * DAY_SECS);
        assert_eq!(early.table.lock().lines, 0, "made anew");
        assert_eq!(fs::metadata(dir.path().join(FILE_NAME)).unwrap().len(), 0);
    }
}
