//! Articles that a NoCeM notice hides before they come.
//!
//! An article that is filed is looked up here, under a gate ([`Hides::filing`]), as late as can be: either it
//! is found here, or whoever adds it under the closed gate ([`Hides::closed`]) finds the article in the
//! spool. The table is bounded (the oldest goes) and outlives a restart in one file of lines, which is
//! appended to, and replaced when more than half of it is of no use. Called by `committing` and by
//! `operations::group_control`. Format: `docs/formats/early-hides.md`.

use crate::config::Groups;
use hashbrown::HashMap;
use netnews::newsgroups;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use spool::{Access, AppendLog, Disk, Key, Line};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use tracing::warn;

/// Name of the file below `site.data`.
const FILE_NAME: &str = "early-hides";
/// Articles that are waited for at once.
const WAITING_MAX: usize = 65_536;
/// Issuers that wait for the same article.
const ISSUERS_MAX: usize = 8;
/// Lines of the file beyond twice those of use before it is replaced.
const LINES_SPARE: usize = 1_024;
/// Length of the file at most.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The longest wildmat that is kept with an article.
const GROUPS_BYTES_MAX: usize = 1_024;
const DAY_SECS: i64 = 86_400;

/// Who hides articles, why, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hider {
    /// `nocem:ISSUER`.
    pub by: String,
    pub reason: String,
    /// All groups of an article must match.
    pub groups: Groups,
}

impl Hider {
    /// Whether it hides an article in the groups of this Newsgroups header.
    pub fn hides(&self, names: &[u8]) -> bool {
        newsgroups::split(names).next().is_some()
            && newsgroups::split(names).all(|name| self.groups.matches(name))
    }
}

#[derive(Debug, Default)]
struct Table {
    /// By key; when it came, Unix seconds.
    waiting: HashMap<u128, Vec<(i64, Arc<Hider>)>>,
    /// In the order they came.
    order: VecDeque<u128>,
    /// `None` if the file cannot be read.
    log: Option<AppendLog>,
    lines: usize,
}

/// The articles that wait.
#[derive(Debug)]
pub(crate) struct Hides {
    keep_secs: AtomicI64,
    /// How many wait: asked for every batch, mostly 0.
    count: AtomicUsize,
    gate: RwLock<()>,
    table: Mutex<Table>,
}

impl Hides {
    /// Those of the site in `data`; what is older than `keep_days` is forgotten.
    pub fn open(disk: Arc<dyn Disk>, data: &Path, keep_days: u32, now: i64) -> Self {
        let keep_secs = i64::from(keep_days) * DAY_SECS;
        let mut table = Table::default();
        match load(disk, data, now - keep_secs, &mut table) {
            Ok(log) => table.log = Some(log),
            Err(error) => warn!(%error, "cannot read which articles are hidden when they come ({FILE_NAME})"),
        }
        Self {
            keep_secs: AtomicI64::new(keep_secs),
            count: AtomicUsize::new(table.waiting.len()),
            gate: RwLock::default(),
            table: Mutex::new(table),
        }
    }

    /// What is older than `keep_days` is forgotten from now on.
    pub fn keep_for(&self, keep_days: u32) {
        self.keep_secs.store(i64::from(keep_days) * DAY_SECS, Ordering::Relaxed);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Held from before articles are looked up here until they are filed.
    pub fn filing(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Nothing is being filed, and nothing will be, as long as it is held.
    pub fn closed(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// Who hides the article with this key, in the groups of this Newsgroups header.
    pub fn hider(&self, key: Key, names: &[u8]) -> Option<Arc<Hider>> {
        if self.len() == 0 {
            return None;
        }
        let table = self.table.lock();
        table.waiting.get(&key.0)?.iter().map(|(_, hider)| hider).find(|hider| hider.hides(names)).cloned()
    }

    /// Articles that are hidden when they come; durable with the next [`Hides::sync`].
    pub fn add(&self, keys: &[Key], hider: &Arc<Hider>, now: i64) -> io::Result<()> {
        if hider.groups.as_str().len() > GROUPS_BYTES_MAX {
            return Err(io::Error::other("the groups of a [[control]] section are too long to be kept"));
        }
        let mut table = self.table.lock();
        for key in keys {
            if table.add(key.0, now, hider)
                && let Err(error) = table.append(&text(key.0, now, hider))
            {
                // It is tried again.
                table.remove(key.0, &hider.by);
                table.put_in_order();
                return Err(error);
            }
        }
        table.forget_before(now - self.keep_secs.load(Ordering::Relaxed));
        self.count.store(table.waiting.len(), Ordering::Release);
        table.tidy_up()
    }

    /// Articles that `by` does not hide any more when they come; returns how many it would have.
    pub fn remove(&self, keys: &[Key], by: &str) -> io::Result<usize> {
        let mut table = self.table.lock();
        let mut removed = 0;
        for key in keys {
            if table.remove(key.0, by) {
                table.append(&format!("{:032x}\t{by}", key.0))?;
                removed += 1;
            }
        }
        table.put_in_order();
        self.count.store(table.waiting.len(), Ordering::Release);
        Ok(removed)
    }

    /// Makes durable what was added and removed.
    pub fn sync(&self) -> io::Result<()> {
        self.table.lock().log.as_mut().map_or(Ok(()), AppendLog::sync)
    }
}

impl Table {
    fn append(&mut self, text: &str) -> io::Result<()> {
        let unread = || io::Error::other(format!("{FILE_NAME} could not be read"));
        self.lines += 1;
        self.log.as_mut().ok_or_else(unread)?.append(text)
    }

    /// Replaces the file when most of it is of no use.
    fn tidy_up(&mut self) -> io::Result<()> {
        if self.lines <= 2 * self.waiting.len() + LINES_SPARE {
            return Ok(());
        }
        let waiting = self.order.iter().filter_map(|key| Some((key, self.waiting.get(key)?)));
        let lines = waiting
            .flat_map(|(key, hiders)| hiders.iter().map(move |(since, hider)| text(*key, *since, hider)));
        let texts: Vec<String> = lines.collect();
        self.lines = texts.len();
        match &mut self.log {
            Some(log) => log.replace(texts.iter().map(String::as_str)),
            None => Ok(()),
        }
    }

    /// False if it was known, or there is no room for more issuers of this article.
    fn add(&mut self, key: u128, since: i64, hider: &Arc<Hider>) -> bool {
        if let Some(hiders) = self.waiting.get_mut(&key) {
            let is_new = !hiders.iter().any(|(_, other)| other.by == hider.by) && hiders.len() < ISSUERS_MAX;
            if is_new {
                hiders.push((since, hider.clone()));
            }
            return is_new;
        }
        self.waiting.insert(key, vec![(since, hider.clone())]);
        self.order.push_back(key);
        while self.waiting.len() > WAITING_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.waiting.remove(&oldest);
        }
        true
    }

    /// Whether it was there. To be followed by [`Table::put_in_order`].
    fn remove(&mut self, key: u128, by: &str) -> bool {
        let Some(hiders) = self.waiting.get_mut(&key) else { return false };
        let before = hiders.len();
        hiders.retain(|(_, hider)| hider.by != by);
        let is_less = hiders.len() < before;
        if hiders.is_empty() {
            self.waiting.remove(&key);
        }
        is_less
    }

    /// Leaves what is not waited for any more out of the order: for all that were removed at once.
    fn put_in_order(&mut self) {
        if self.order.len() > self.waiting.len() {
            self.order.retain(|key| self.waiting.contains_key(key));
        }
    }

    fn forget_before(&mut self, time: i64) {
        while let Some(oldest) = self.order.front().copied() {
            let since = self.waiting.get(&oldest).and_then(|hiders| hiders.first()).map(|(since, _)| *since);
            if since.is_some_and(|since| since >= time) {
                break;
            }
            self.order.pop_front();
            self.waiting.remove(&oldest);
        }
    }
}

fn text(key: u128, since: i64, hider: &Hider) -> String {
    format!("{key:032x}\t{}\t{since}\t{}\t{}", hider.by, hider.groups.as_str(), hider.reason)
}

/// Reads the file; lines that make no sense are skipped.
fn load(disk: Arc<dyn Disk>, data: &Path, oldest: i64, table: &mut Table) -> io::Result<AppendLog> {
    let mut last: Option<Arc<Hider>> = None;
    let log = AppendLog::open(disk, data.join(FILE_NAME), Access::Group, FILE_BYTES_MAX, |line| {
        table.lines += 1;
        let Line::Whole(line) = line else { return };
        let mut fields = line.splitn(5, '\t');
        let (Some(key), Some(by)) = (fields.next(), fields.next()) else { return };
        let Ok(key) = u128::from_str_radix(key, 16) else { return };
        let (Some(since), Some(groups), Some(reason)) = (fields.next(), fields.next(), fields.next()) else {
            table.remove(key, by);
            return;
        };
        let (Ok(since), Ok(groups)) = (since.parse(), Groups::parse(groups)) else { return };
        let hider = Hider { by: by.to_owned(), reason: reason.to_owned(), groups };
        // Those of one notice share it.
        let hider = last.take().filter(|last| **last == hider).unwrap_or_else(|| Arc::new(hider));
        if since >= oldest {
            table.add(key, since, &hider);
        }
        last = Some(hider);
    })?;
    table.put_in_order();
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::{CrashKind, SimDisk};

    const NOW: i64 = 1_780_000_000;

    fn open(sim: &SimDisk, now: i64) -> Hides {
        Hides::open(Arc::new(sim.clone()), Path::new("/d"), 10, now)
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn hider(by: &str, groups: &str) -> Arc<Hider> {
        Arc::new(Hider { by: by.into(), reason: "spam, 7".into(), groups: Groups::parse(groups).unwrap() })
    }

    fn by(hides: &Hides, key: u128, names: &str) -> Option<String> {
        hides.hider(Key(key), names.as_bytes()).map(|hider| hider.by.clone())
    }

    #[test]
    fn kept_over_restarts_and_forgotten_in_time() {
        let sim = disk();
        let hides = open(&sim, NOW);
        assert_eq!(by(&hides, 1, "comp.a"), None);
        hides.add(&[Key(1), Key(2)], &hider("nocem:a b", "comp.*,!comp.x"), NOW).unwrap();
        hides.add(&[Key(1)], &hider("nocem:c", "de.*"), NOW + 5).unwrap();
        hides.add(&[Key(3)], &hider("nocem:c", "*"), NOW + DAY_SECS).unwrap();
        for hides in [hides, open(&sim, NOW)] {
            assert_eq!(by(&hides, 1, "comp.a,comp.b").unwrap(), "nocem:a b");
            assert_eq!(by(&hides, 1, "de.a").unwrap(), "nocem:c");
            for names in ["comp.a,de.a", "comp.a,comp.x", "", "alt.a"] {
                assert_eq!(by(&hides, 1, names), None, "a crosspost is hidden where it may be, or nowhere");
            }
            assert_eq!((hides.len(), by(&hides, 9, "comp.a")), (3, None));
        }
        let hides = open(&sim, NOW);
        assert_eq!(hides.remove(&[Key(1), Key(2), Key(9)], "nocem:a b").unwrap(), 2);
        for hides in [hides, open(&sim, NOW)] {
            assert_eq!((by(&hides, 1, "comp.a"), by(&hides, 2, "comp.a"), hides.len()), (None, None, 2));
        }
        let hides = open(&sim, NOW + 10 * DAY_SECS + 6);
        assert_eq!((by(&hides, 1, "de.a"), by(&hides, 3, "x").unwrap()), (None, "nocem:c".into()));
    }

    #[test]
    fn a_crash_at_any_step_loses_nothing_that_was_synced() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                sim.crash_at(step, kind, step * 7919);
                let hides = open(&sim, NOW);
                let mut synced = 0;
                for n in 1..=3 {
                    let _failed = hides.add(&[Key(n)], &hider("nocem:a", "*"), NOW);
                    if n == 2 {
                        hides.table.lock().lines += 10 * LINES_SPARE;
                        let _failed = hides.table.lock().tidy_up();
                    }
                    if hides.sync().is_ok() && !sim.crashed() {
                        synced = n;
                    }
                }
                let image = sim.image().unwrap();
                let after = open(&image, NOW);
                assert!((1..=synced).all(|n| by(&after, n, "x").is_some()), "{kind:?} at step {step}");
                after.add(&[Key(9)], &hider("nocem:a", "*"), NOW).unwrap();
                assert!(by(&open(&image, NOW), 9, "x").is_some(), "{kind:?} at step {step}");
                if !sim.crashed() {
                    assert!(step > 5, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn table_and_file_are_bounded() {
        let hides = open(&disk(), NOW);
        let keys: Vec<Key> = (0..WAITING_MAX as u128 + 10).map(Key).collect();
        hides.add(&keys, &hider("nocem:a", "*"), NOW).unwrap();
        assert_eq!((hides.len(), by(&hides, 9, "x")), (WAITING_MAX, None));
        for n in 0..20 {
            hides.add(&[Key(77)], &hider(&format!("nocem:{n}"), "*"), NOW).unwrap();
        }
        assert_eq!(hides.table.lock().waiting.get(&77).unwrap().len(), ISSUERS_MAX);
        assert!(hides.add(&[Key(1)], &hider("nocem:a", &("x,".repeat(1_000) + "y")), NOW).is_err());
        assert_eq!(hides.remove(&keys, "nocem:a").unwrap(), WAITING_MAX);
        assert_eq!(hides.table.lock().order.len(), hides.len());
        hides.add(&[Key(1)], &hider("nocem:a", "*"), NOW + 11 * DAY_SECS).unwrap();
        assert_eq!((hides.len(), hides.table.lock().lines), (1, 1));
    }
}
