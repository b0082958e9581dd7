//! NoCeM notices that were carried out, so that none is repeated, and for the limits of their issuers.
//!
//! One line for each notice in a bounded file below `site.data`. For forgotten notices a date is kept:
//! nothing older is carried out. Format: `docs/formats/notices.md`.

use disk::{Disk, LogLine, hex};
use site_base::durable_table::{DurableTable, TableEntry};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Prefix of the file's first line if it records a date.
const FORGOTTEN: &str = "forgotten ";

/// SHA-256 of the signed text.
pub(super) type Digest = [u8; 32];

/// A notice that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoneNotice {
    /// Times of signing and of carrying out, in Unix seconds.
    pub signed: i64,
    pub at: i64,
    /// Number of articles listed.
    pub listed: usize,
    /// Fingerprint of the key.
    pub key: String,
}

impl TableEntry for DoneNotice {
    type Key = Digest;
    const FILE_NAME: &'static str = "notices-done";
    const FILE_BYTES_MAX: u64 = 64 << 20;
    const ENTRIES_MAX: usize = 50_000;

    fn lines(&self, digest: &Digest, lines: &mut Vec<String>) {
        lines.push(text(digest, self));
    }
}

/// Notices that were carried out.
#[derive(Debug)]
pub(super) struct NoticesDone {
    table: DurableTable<DoneNotice>,
    /// Notices signed before this time may have been forgotten.
    forgotten: i64,
}

impl NoticesDone {
    /// Opens the table of the site in `data`.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let mut forgotten = 0;
        let table = DurableTable::open(disk, data, |table, line| {
            let time = match entry(line) {
                Some(NoticeLine::Forgotten(time)) => Some(time),
                Some(NoticeLine::Done(digest, notice)) => went(table.insert(digest, notice)),
                None => return false,
            };
            forgotten = time.unwrap_or(forgotten).max(forgotten);
            true
        })?;
        let mut done = Self { table, forgotten: 0 };
        done.forget_before(forgotten);
        Ok(done)
    }

    fn forget_before(&mut self, time: i64) {
        self.forgotten = self.forgotten.max(time);
        self.table.head = (self.forgotten > 0).then(|| format!("{FORGOTTEN}{}", self.forgotten));
    }

    /// Returns the reason why a notice signed at this time is refused.
    pub fn refuses(&self, digest: &Digest, signed: i64) -> Option<&'static str> {
        if self.table.get(digest).is_some() {
            return Some("it was carried out before");
        }
        (signed < self.forgotten).then_some("it is older than what is remembered of notices")
    }

    /// Returns the number of a key's notices carried out since `time`, and of the articles they listed.
    pub fn since(&self, time: i64, key: &str) -> (usize, usize) {
        let of_key = self.table.values().filter(|done| done.at >= time && done.key == key);
        of_key.fold((0, 0), |(notices, listed), done| (notices + 1, listed + done.listed))
    }

    /// Records that a notice was carried out; durable on return.
    pub fn add(&mut self, digest: Digest, notice: DoneNotice) -> io::Result<()> {
        let line = text(&digest, &notice);
        if let Some(time) = went(self.table.insert(digest, notice)) {
            self.forget_before(time);
        }
        self.table.append(&line)?;
        self.table.tidy_up()?;
        self.table.sync().map(drop)
    }
}

/// A line of the file.
enum NoticeLine {
    Done(Digest, DoneNotice),
    /// Notices signed before this time may have been forgotten.
    Forgotten(i64),
}

fn entry(line: LogLine<'_>) -> Option<NoticeLine> {
    let text = line.text()?;
    match text.strip_prefix(FORGOTTEN) {
        Some(time) => time.parse().ok().map(NoticeLine::Forgotten),
        None => parsed(text).map(|(digest, notice)| NoticeLine::Done(digest, notice)),
    }
}

/// Returns whether a line of the file is whole.
pub(crate) fn is_whole(line: LogLine<'_>) -> bool {
    entry(line).is_some()
}

/// Returns the date before which notices may be forgotten once this one is.
fn went(notice: Option<DoneNotice>) -> Option<i64> {
    notice.map(|notice| notice.signed.saturating_add(1))
}

fn text(digest: &Digest, notice: &DoneNotice) -> String {
    format!("{} {} {} {} {}", hex::digits(digest), notice.signed, notice.at, notice.listed, notice.key)
}

fn parsed(line: &str) -> Option<(Digest, DoneNotice)> {
    let mut words = line.split(' ');
    let digest = hex::octets(words.next()?.as_bytes())?;
    let signed = words.next()?.parse().ok()?;
    let at = words.next()?.parse().ok()?;
    let listed = words.next()?.parse().ok()?;
    let key = words.next()?.to_owned();
    Some((digest, DoneNotice { signed, at, listed, key }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    fn open(sim: &SimDisk) -> NoticesDone {
        NoticesDone::open(Arc::new(sim.clone()), Path::new("/d")).unwrap()
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn digest(n: u64) -> Digest {
        let mut digest = [7; 32];
        digest[..8].copy_from_slice(&n.to_le_bytes());
        digest
    }

    fn notice(signed: i64, key: &str) -> DoneNotice {
        DoneNotice { signed, at: signed + 5, listed: 10, key: key.into() }
    }

    #[test]
    fn notices_done_are_known_after_a_restart() {
        let sim = disk();
        let mut done = open(&sim);
        done.add(digest(1), notice(100, "A")).unwrap();
        done.add(digest(2), notice(200, "A")).unwrap();
        done.add(digest(3), notice(200, "B")).unwrap();
        for done in [done, open(&sim)] {
            assert!(done.refuses(&digest(1), 100).is_some() && done.refuses(&digest(4), 1).is_none());
            assert_eq!((done.since(0, "A"), done.since(106, "A")), ((2, 20), (1, 10)));
            assert_eq!((done.since(0, "B"), done.since(0, "C")), ((1, 10), (0, 0)));
        }
    }

    #[test]
    fn forgotten_notices_are_too_old() {
        let sim = disk();
        let mut done = open(&sim);
        for n in 0..DoneNotice::ENTRIES_MAX as u64 {
            done.table.insert(digest(n), notice(n as i64, "A"));
        }
        done.table.replace_file().unwrap();
        for n in 0..100 {
            done.add(digest(u64::MAX - n), notice(1 << 40, "A")).unwrap();
        }
        let old = Some("it is older than what is remembered of notices");
        for done in [done, open(&sim)] {
            assert_eq!((done.refuses(&digest(5), 5), done.refuses(&digest(1 << 50), 99)), (old, old));
            assert_eq!(done.refuses(&digest(1 << 50), 100), None);
            assert_eq!(done.refuses(&digest(100), 100), Some("it was carried out before"));
        }
        let mut done = open(&sim);
        done.table.replace_file().unwrap();
        assert_eq!(open(&sim).refuses(&digest(1 << 50), 99), old, "the first line says so");
    }
}
