//! Articles that a NoCeM notice hides before they arrive.
//!
//! Every article being filed is looked up here, under a gate ([`EarlyHides::filing`]), as late as possible:
//! either it is found here, or the thread that adds it under the closed gate ([`EarlyHides::closed`]) finds
//! the article in the spool. The table is bounded (the oldest entry is dropped) and survives a restart.
//! Called by `committing` and by `operations::group_control`. Format: `docs/formats/early-hides.md`.

use disk::{Disk, LogLine};
use lock_order::{OrderedRead, OrderedRw, OrderedWrite};
use netnews::newsgroups;
use site_base::durable_table::{DurableTable, TableEntry};
use site_base::lock::{Leaf, rank};
use site_config::NamePattern;
use spool::ArticleKey;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use tracing::warn;

/// Most issuers kept for the same article.
const ISSUERS_MAX: usize = 8;
/// Longest wildmat kept with an article.
const GROUPS_BYTES_MAX: usize = 1_024;
const DAY_SECS: i64 = 86_400;

/// Issuer that hides articles, with its reason and groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Hider {
    /// `nocem:ISSUER`.
    pub by: String,
    /// Reason for hiding, for operators.
    pub reason: String,
    /// Groups all of which an article's groups must match.
    pub groups: NamePattern,
}

impl Hider {
    /// Returns whether it hides an article in the groups of this Newsgroups header.
    pub fn hides(&self, names: &[u8]) -> bool {
        newsgroups::split(names).next().is_some()
            && newsgroups::split(names).all(|name| self.groups.matches(name))
    }
}

/// Hiders of an article that has not arrived, each with its time in Unix seconds.
#[derive(Debug)]
struct AwaitedHide(Vec<(i64, Arc<Hider>)>);

impl TableEntry for AwaitedHide {
    type Key = u128;
    const FILE_NAME: &'static str = "early-hides";
    const FILE_BYTES_MAX: u64 = 256 << 20;
    const ENTRIES_MAX: usize = 65_536;

    fn lines(&self, key: &u128, lines: &mut Vec<String>) {
        lines.extend(self.0.iter().map(|(since, hider)| text(*key, *since, hider)));
    }
}

type Table = DurableTable<AwaitedHide>;

/// The articles to be hidden on arrival.
#[derive(Debug)]
pub struct EarlyHides {
    keep_secs: AtomicI64,
    /// Number of entries: read for every batch, mostly 0.
    count: AtomicUsize,
    gate: OrderedRw<(), { rank::HIDES_GATE }>,
    table: Leaf<Table>,
}

impl EarlyHides {
    /// Opens the table of the site in `data`; entries older than `keep_days` are dropped.
    pub fn open(disk: Arc<dyn Disk>, data: &Path, keep_days: u32, now: i64) -> Self {
        let keep_secs = i64::from(keep_days) * DAY_SECS;
        let table = load(disk, data, now - keep_secs).unwrap_or_else(|error| {
            let file = AwaitedHide::FILE_NAME;
            warn!(file, %error, "cannot read which articles are hidden when they come");
            Table::unread()
        });
        Self {
            keep_secs: AtomicI64::new(keep_secs),
            count: AtomicUsize::new(table.len()),
            gate: OrderedRw::default(),
            table: Leaf::new(table),
        }
    }

    /// Sets the age, in days, at which entries are dropped.
    pub fn keep_for(&self, keep_days: u32) {
        self.keep_secs.store(i64::from(keep_days) * DAY_SECS, Ordering::Relaxed);
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns whether no article is to be hidden on arrival.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens the gate for a lookup; held until the articles are filed.
    pub fn filing(&self) -> OrderedRead<'_, (), { rank::HIDES_GATE }> {
        self.gate.read()
    }

    /// Closes the gate: nothing is being filed while the guard is held.
    pub fn closed(&self) -> OrderedWrite<'_, (), { rank::HIDES_GATE }> {
        self.gate.write()
    }

    /// Returns the issuer that hides the article with this key, in the groups of this Newsgroups header.
    pub fn hider(&self, key: ArticleKey, names: &[u8]) -> Option<Arc<Hider>> {
        if self.is_empty() {
            return None;
        }
        let table = self.table.lock();
        table.get(&key.0)?.0.iter().map(|(_, hider)| hider).find(|hider| hider.hides(names)).cloned()
    }

    /// Adds articles to be hidden on arrival; durable with the next [`EarlyHides::sync`].
    pub fn add(&self, keys: &[ArticleKey], hider: &Arc<Hider>, now: i64) -> io::Result<()> {
        if hider.groups.as_str().len() > GROUPS_BYTES_MAX {
            return Err(io::Error::other("the groups of a [[control]] section are too long to be kept"));
        }
        let mut table = self.table.lock();
        for key in keys {
            if add(&mut table, key.0, now, hider)
                && let Err(error) = table.append(&text(key.0, now, hider))
            {
                // The operation will be retried.
                remove(&mut table, key.0, &hider.by);
                return Err(error);
            }
        }
        let oldest = now - self.keep_secs.load(Ordering::Relaxed);
        table.remove_while(|waiting| waiting.0.first().is_none_or(|(since, _)| *since < oldest));
        self.count.store(table.len(), Ordering::Release);
        table.tidy_up()
    }

    /// Removes articles that `by` no longer hides; returns how many it would have hidden.
    pub fn remove(&self, keys: &[ArticleKey], by: &str) -> io::Result<usize> {
        let mut table = self.table.lock();
        let mut removed = 0;
        for key in keys {
            if remove(&mut table, key.0, by) {
                table.append(&format!("{:032x}\t{by}", key.0))?;
                removed += 1;
            }
        }
        self.count.store(table.len(), Ordering::Release);
        Ok(removed)
    }

    /// Makes additions and removals durable.
    pub fn sync(&self) -> io::Result<()> {
        self.table.lock().sync().map(drop)
    }
}

/// Adds a hider; returns false if it was known, or there is no room for more issuers of this article.
fn add(table: &mut Table, key: u128, since: i64, hider: &Arc<Hider>) -> bool {
    let Some(AwaitedHide(hiders)) = table.get_mut(&key) else {
        table.insert(key, AwaitedHide(vec![(since, hider.clone())]));
        return true;
    };
    let is_new = !hiders.iter().any(|(_, other)| other.by == hider.by) && hiders.len() < ISSUERS_MAX;
    if is_new {
        hiders.push((since, hider.clone()));
    }
    is_new
}

/// Removes a hider; returns whether it was present.
fn remove(table: &mut Table, key: u128, by: &str) -> bool {
    let Some(AwaitedHide(hiders)) = table.get_mut(&key) else { return false };
    let before = hiders.len();
    hiders.retain(|(_, hider)| hider.by != by);
    let is_less = hiders.len() < before;
    if hiders.is_empty() {
        table.remove(&key);
    }
    is_less
}

fn text(key: u128, since: i64, hider: &Hider) -> String {
    format!("{key:032x}\t{}\t{since}\t{}\t{}", hider.by, hider.groups.as_str(), hider.reason)
}

/// A line of the file.
enum HideLine<'a> {
    Waits(u128, i64, Hider),
    /// Retraction of an issuer's entry for an article.
    Back(u128, &'a str),
}

fn entry(line: LogLine<'_>) -> Option<HideLine<'_>> {
    let LogLine::Whole(line) = line else { return None };
    let mut fields = line.splitn(5, '\t');
    let (key, by) = (u128::from_str_radix(fields.next()?, 16).ok()?, fields.next()?);
    let (Some(since), Some(groups), Some(reason)) = (fields.next(), fields.next(), fields.next()) else {
        return Some(HideLine::Back(key, by));
    };
    let groups = NamePattern::parse(groups).ok()?;
    let hider = Hider { by: by.to_owned(), reason: reason.to_owned(), groups };
    Some(HideLine::Waits(key, since.parse().ok()?, hider))
}

/// Returns whether a line of the file is complete.
pub fn is_whole(line: LogLine<'_>) -> bool {
    entry(line).is_some()
}

/// Reads the file; invalid lines are skipped.
fn load(disk: Arc<dyn Disk>, data: &Path, oldest: i64) -> io::Result<Table> {
    let mut last: Option<Arc<Hider>> = None;
    Table::open(disk, data, |table, line| {
        match entry(line) {
            None => return false,
            Some(HideLine::Back(key, by)) => _ = remove(table, key, by),
            Some(HideLine::Waits(key, since, hider)) => {
                // Entries of one notice share a hider.
                let hider = last.take().filter(|last| **last == hider).unwrap_or_else(|| Arc::new(hider));
                if since >= oldest {
                    add(table, key, since, &hider);
                }
                last = Some(hider);
            }
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    const NOW: i64 = 1_780_000_000;

    fn open(sim: &SimDisk, now: i64) -> EarlyHides {
        EarlyHides::open(Arc::new(sim.clone()), Path::new("/d"), 10, now)
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn hider(by: &str, groups: &str) -> Arc<Hider> {
        Arc::new(Hider {
            by: by.into(),
            reason: "spam, 7".into(),
            groups: NamePattern::parse(groups).unwrap(),
        })
    }

    fn by(hides: &EarlyHides, key: u128, names: &str) -> Option<String> {
        hides.hider(ArticleKey(key), names.as_bytes()).map(|hider| hider.by.clone())
    }

    #[test]
    fn entries_survive_restarts_and_expire() {
        let sim = disk();
        let hides = open(&sim, NOW);
        assert_eq!(by(&hides, 1, "comp.a"), None);
        hides.add(&[ArticleKey(1), ArticleKey(2)], &hider("nocem:a b", "comp.*,!comp.x"), NOW).unwrap();
        hides.add(&[ArticleKey(1)], &hider("nocem:c", "de.*"), NOW + 5).unwrap();
        hides.add(&[ArticleKey(3)], &hider("nocem:c", "*"), NOW + DAY_SECS).unwrap();
        for hides in [hides, open(&sim, NOW)] {
            assert_eq!(by(&hides, 1, "comp.a,comp.b").unwrap(), "nocem:a b");
            assert_eq!(by(&hides, 1, "de.a").unwrap(), "nocem:c");
            for names in ["comp.a,de.a", "comp.a,comp.x", "", "alt.a"] {
                assert_eq!(by(&hides, 1, names), None, "a crosspost is hidden where it may be, or nowhere");
            }
            assert_eq!((hides.len(), by(&hides, 9, "comp.a")), (3, None));
        }
        let hides = open(&sim, NOW);
        assert_eq!(hides.remove(&[ArticleKey(1), ArticleKey(2), ArticleKey(9)], "nocem:a b").unwrap(), 2);
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
                    let _failed = hides.add(&[ArticleKey(n)], &hider("nocem:a", "*"), NOW);
                    if n == 2 {
                        let _failed = hides.table.lock().replace_file();
                    }
                    if hides.sync().is_ok() && !sim.crashed() {
                        synced = n;
                    }
                }
                let image = sim.image().unwrap();
                let after = open(&image, NOW);
                assert!((1..=synced).all(|n| by(&after, n, "x").is_some()), "{kind:?} at step {step}");
                after.add(&[ArticleKey(9)], &hider("nocem:a", "*"), NOW).unwrap();
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
        let keys: Vec<ArticleKey> = (0..AwaitedHide::ENTRIES_MAX as u128 + 10).map(ArticleKey).collect();
        hides.add(&keys, &hider("nocem:a", "*"), NOW).unwrap();
        assert_eq!((hides.len(), by(&hides, 9, "x")), (AwaitedHide::ENTRIES_MAX, None));
        for n in 0..20 {
            hides.add(&[ArticleKey(77)], &hider(&format!("nocem:{n}"), "*"), NOW).unwrap();
        }
        assert_eq!(hides.table.lock().get(&77).unwrap().0.len(), ISSUERS_MAX);
        assert!(hides.add(&[ArticleKey(1)], &hider("nocem:a", &("x,".repeat(1_000) + "y")), NOW).is_err());
        assert_eq!(hides.remove(&keys, "nocem:a").unwrap(), AwaitedHide::ENTRIES_MAX);
        hides.add(&[ArticleKey(1)], &hider("nocem:a", "*"), NOW + 11 * DAY_SECS).unwrap();
        assert_eq!(hides.len(), 1);
    }
}
