//! The record of a day: a small JSON file that is replaced as a whole.

use super::DAYS_KEPT;
use crate::report::LoginStatus;
use disk::{Disk, FileAccess, durable_replace, read_or_set_aside};
use serde::{Deserialize, Serialize};
use site_base::summed::{text_without_sum, with_sum};
use site_base::units::{self, DAY_SECS};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Directory below `site.data`.
const DIR: &str = "days";
const FIRST_LINE: &str = "newsreel day 1\n";
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of names counted individually in each table; further ones are counted together.
const NAMES_MAX: usize = 5_000;
/// Name under which these are counted.
const OTHERS: &str = "(others)";
/// Maximum number of troubles recorded.
const TROUBLES_MAX: usize = 50;

/// Record of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DayRecord {
    /// Sequence number below which all articles have been counted, in this record or earlier ones.
    pub next: u64,
    /// Number of articles accepted.
    pub accepted: u64,
    /// Number of articles rejected.
    pub rejected: u64,
    /// Number of articles deferred with "try later".
    pub try_later: u64,
    /// Number of connections refused.
    pub refused: u64,
    /// Number of connections of readers served.
    pub readers: u64,
    /// Logins that succeeded and failed.
    pub logins: LoginStatus,
    /// Reasons for which articles were rejected.
    pub reasons: BTreeMap<String, u64>,
    /// Figures of each peer, by name.
    pub peers: BTreeMap<String, PeerDay>,
    /// Origins of articles: `peer NAME`, `injected`, `rnews`, `import`.
    pub origins: BTreeMap<String, u64>,
    /// Number of articles of each group.
    pub groups: BTreeMap<String, u64>,
    /// How often readers selected each group.
    pub selections: BTreeMap<String, u64>,
    /// Occurrences of each server in the Paths that were sampled.
    pub path: BTreeMap<String, u64>,
    /// Number of Paths sampled.
    pub paths: u64,
    /// Articles stored in each class, by its name.
    pub classes: BTreeMap<String, ClassDay>,
    /// Troubles, and since when, in Unix seconds.
    pub trouble: BTreeMap<String, u64>,
}

/// Figures of a peer on a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerDay {
    /// Number of articles that the peer offered.
    pub offered: u64,
    /// Number of its articles accepted here.
    pub accepted: u64,
    /// Number of its articles rejected here.
    pub rejected: u64,
    /// Number of articles offered to the peer.
    pub sent_offered: u64,
    /// Number of articles that the peer did not want.
    pub sent_refused: u64,
    /// Number of articles that the peer accepted.
    pub sent_accepted: u64,
    /// Number of articles that the peer rejected after they were sent.
    pub sent_rejected: u64,
    /// Number of times that the peer deferred an article.
    pub sent_deferred: u64,
    /// Bytes of articles sent to the peer.
    pub sent_bytes: u64,
    /// Number of articles not offered: the journal moved on, or they were overwritten or too old.
    pub missed: u64,
}

/// Articles stored in a class on a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassDay {
    /// Number of articles stored on the day.
    pub articles: u64,
    /// Stored size of these articles, in bytes.
    pub bytes: u64,
    /// Last estimate of how long articles stay, in seconds.
    pub stays_secs: Option<u64>,
}

impl DayRecord {
    /// Adds a trouble.
    pub fn note(&mut self, what: String, now: u64) {
        if self.trouble.len() < TROUBLES_MAX {
            self.trouble.entry(what).or_insert(now);
        }
    }
}

/// Adds `n` to the count of a name.
pub(super) fn count(counts: &mut BTreeMap<String, u64>, name: &str, n: u64) {
    if n == 0 {
        return;
    }
    if let Some(known) = counts.get_mut(name) {
        *known += n;
        return;
    }
    let name = if counts.len() < NAMES_MAX { name } else { OTHERS };
    *counts.entry(name.to_owned()).or_default() += n;
}

/// Returns the date of a day, as its record is named: `2026-11-23`.
pub fn date_of(day: u64) -> String {
    units::day_text(i64::try_from(day.saturating_mul(DAY_SECS)).unwrap_or(i64::MAX))
}

fn path(data: &Path, day: u64) -> PathBuf {
    data.join(DIR).join(date_of(day))
}

/// Returns the days that have records, oldest first.
pub fn days(disk: &dyn Disk, data: &Path) -> Vec<u64> {
    let names = disk.list(&data.join(DIR)).unwrap_or_default();
    let day = |name: &String| {
        let digits = name.replace('-', "");
        let secs =
            netnews::date::parse_nntp(digits.as_bytes(), b"000000", 0).filter(|_| digits.len() == 8)?;
        u64::try_from(secs).ok().map(|secs| secs / DAY_SECS).filter(|day| date_of(*day) == **name)
    };
    names.iter().filter_map(day).collect()
}

/// Reads the record of a day; `None` if there is none, or it was damaged.
pub fn read(disk: &dyn Disk, data: &Path, day: u64) -> io::Result<Option<DayRecord>> {
    let costs = "what was counted on that day is lost";
    Ok(read_or_set_aside(disk, &path(data, day), FILE_BYTES_MAX, costs, parsed)?.whole())
}

fn parsed(bytes: &[u8]) -> Option<DayRecord> {
    let json = text_without_sum(bytes)?.strip_prefix(FIRST_LINE)?;
    serde_json::from_str(json.trim_end()).ok()
}

/// Returns whether the record of a day is whole.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    parsed(bytes).is_some()
}

/// Replaces the record of a day; durable on return. The first write of a day removes outdated records.
pub(super) fn write(disk: &dyn Disk, data: &Path, day: u64, record: &DayRecord) -> io::Result<()> {
    let dir = data.join(DIR);
    disk.create_dir(&dir)?;
    let path = path(data, day);
    if disk.about(&path)?.is_none() {
        for old in days(disk, data).into_iter().filter(|old| old + DAYS_KEPT < day) {
            disk.remove(&dir.join(date_of(old)))?;
        }
    }
    let text = with_sum(format!("{FIRST_LINE}{}\n", serde_json::to_string(record)?));
    durable_replace(disk, &path, &[text.as_bytes()], FileAccess::Group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    const DATA: &str = "/data";

    fn record(n: u64) -> DayRecord {
        let mut record = DayRecord { next: n, accepted: n, ..DayRecord::default() };
        count(&mut record.groups, "a.b", n);
        record.note("trouble".into(), 7);
        record
    }

    #[test]
    fn records_are_read_back_and_old_ones_removed() {
        let disk = SimDisk::new();
        let data = Path::new(DATA);
        for day in [19_000, 20_000, 20_001] {
            write(&disk, data, day, &record(day)).unwrap();
        }
        assert_eq!(days(&disk, data), [20_000, 20_001], "a record of 1,000 days ago is gone");
        assert_eq!(read(&disk, data, 20_001).unwrap(), Some(record(20_001)));
        assert_eq!(read(&disk, data, 20_002).unwrap(), None);
        durable_replace(&disk, &path(data, 20_000), &[b"garbage"], FileAccess::Group).unwrap();
        assert_eq!(read(&disk, data, 20_000).unwrap(), None);
        assert_eq!((date_of(0), date_of(20_000)), ("1970-01-01".to_owned(), "2024-10-04".to_owned()));
    }

    #[test]
    fn crash_at_any_write_leaves_old_or_new_record() {
        let run = |disk: &SimDisk| (1..=3).try_for_each(|n| write(disk, Path::new(DATA), 20_000, &record(n)));
        let whole = SimDisk::new();
        run(&whole).unwrap();
        for step in 1..=whole.steps() {
            for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
                let disk = SimDisk::new();
                disk.crash_at(step, kind, step);
                let stopped = run(&disk);
                let after = if disk.crashed() { disk.image().unwrap() } else { disk };
                let found = read(&after, Path::new(DATA), 20_000).unwrap();
                let written = found.as_ref().map_or(0, |found| found.next);
                assert!(
                    stopped.is_err() || kind != CrashKind::Kill || written == 3,
                    "step {step}: {written}"
                );
                assert!(found.is_none_or(|found| found == record(found.next)), "{kind:?} at step {step}");
            }
        }
    }

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let mut counts = BTreeMap::new();
        (0..NAMES_MAX + 7).for_each(|n| count(&mut counts, &n.to_string(), 2));
        count(&mut counts, "0", 1);
        assert_eq!((counts.len(), counts["0"], counts[OTHERS]), (NAMES_MAX + 1, 3, 14));
    }
}
