//! Which NoCeM notices were carried out: so that none is carried out again that was sent again, and for the
//! limits of their issuers.
//!
//! One line a notice in a file below `site.data`; bounded. Of what is forgotten the date is kept: nothing
//! older is carried out. Format: `docs/formats/notices.md`.

use hashbrown::HashMap;
use spool::{Access, AppendLog, Disk, Line};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of the file below `site.data`.
const FILE_NAME: &str = "notices-done";
/// Length of the file at most.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Notices that are remembered.
const ENTRIES_MAX: usize = 50_000;
/// Lines of the file beyond twice those of use before it is replaced.
const LINES_SPARE: usize = 1_024;

/// The SHA-256 of what is signed.
pub(super) type Digest = [u8; 32];

/// A notice that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoneNotice {
    /// When it was signed, and when it was carried out; Unix seconds.
    pub signed: i64,
    pub at: i64,
    /// How many articles it listed.
    pub listed: usize,
    /// The fingerprint of the key.
    pub key: String,
}

/// What was carried out.
#[derive(Debug)]
pub(super) struct NoticesDone {
    log: AppendLog,
    lines: usize,
    done: HashMap<Digest, DoneNotice>,
    /// Notices that were signed before this may have been forgotten.
    forgotten: i64,
}

impl NoticesDone {
    /// That of the site in `data`.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let (mut lines, mut done, mut forgotten) = (0, HashMap::new(), 0);
        let log = AppendLog::open(disk, data.join(FILE_NAME), Access::Group, FILE_BYTES_MAX, |line| {
            lines += 1;
            let Line::Whole(text) = line else { return };
            match text.strip_prefix("forgotten ") {
                Some(time) => forgotten = forgotten.max(time.parse().unwrap_or_default()),
                None => done.extend(parsed(text)),
            }
        })?;
        Ok(Self { log, lines, done, forgotten })
    }

    /// Why a notice that was signed then is not carried out.
    pub fn refuses(&self, digest: &Digest, signed: i64) -> Option<&'static str> {
        if self.done.contains_key(digest) {
            return Some("it was carried out before");
        }
        (signed < self.forgotten).then_some("it is older than what is remembered of notices")
    }

    /// How many notices of a key were carried out since then, and how many articles they listed.
    pub fn since(&self, time: i64, key: &str) -> (usize, usize) {
        let of_key = self.done.values().filter(|done| done.at >= time && done.key == key);
        of_key.fold((0, 0), |(notices, listed), done| (notices + 1, listed + done.listed))
    }

    /// A notice was carried out; durable when this returns.
    pub fn add(&mut self, digest: Digest, notice: DoneNotice) -> io::Result<()> {
        let line = text(&digest, &notice);
        self.done.insert(digest, notice);
        if self.done.len() > ENTRIES_MAX {
            self.forget_some();
        }
        if self.lines > 2 * self.done.len() + LINES_SPARE {
            let forgotten = [format!("forgotten {}", self.forgotten)];
            let texts = self.done.iter().map(|(digest, notice)| text(digest, notice));
            let texts: Vec<String> = forgotten.into_iter().chain(texts).collect();
            self.lines = texts.len();
            return self.log.replace(texts.iter().map(String::as_str));
        }
        self.lines += 1;
        self.log.append(&line)?;
        self.log.sync()
    }

    /// Forgets the quarter that was signed first.
    fn forget_some(&mut self) {
        let mut dates: Vec<i64> = self.done.values().map(|done| done.signed).collect();
        dates.sort_unstable();
        let from = dates.get(ENTRIES_MAX / 4).copied().unwrap_or(i64::MIN);
        self.done.retain(|_, done| done.signed >= from);
        self.forgotten = self.forgotten.max(from);
        // So that the next line is of a new file, which says it.
        self.lines = usize::MAX / 2;
    }
}

fn text(digest: &Digest, notice: &DoneNotice) -> String {
    let digest: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    format!("{digest} {} {} {} {}", notice.signed, notice.at, notice.listed, notice.key)
}

fn parsed(line: &str) -> Option<(Digest, DoneNotice)> {
    let mut words = line.split(' ');
    let hex = words.next().filter(|hex| hex.len() == 64 && hex.is_ascii())?;
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let signed = words.next()?.parse().ok()?;
    let at = words.next()?.parse().ok()?;
    let listed = words.next()?.parse().ok()?;
    let key = words.next()?.to_owned();
    Some((digest, DoneNotice { signed, at, listed, key }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::{CrashKind, SimDisk};

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
    fn what_was_carried_out_is_known_after_a_restart_too() {
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
    fn a_crash_at_any_step_loses_nothing_that_was_recorded() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                sim.crash_at(step, kind, step * 7919);
                let mut recorded = 0;
                if let Ok(mut done) = NoticesDone::open(Arc::new(sim.clone()), Path::new("/d")) {
                    for n in 1..=3 {
                        done.lines += LINES_SPARE;
                        if done.add(digest(n), notice(n as i64, "A")).is_ok() && !sim.crashed() {
                            recorded = n;
                        }
                    }
                }
                let after = open(&sim.image().unwrap());
                let known = |n| after.refuses(&digest(n), i64::MAX).is_some();
                assert!((1..=recorded).all(known), "{kind:?} at step {step}: {recorded}");
                if !sim.crashed() {
                    assert!(step > 6, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn table_and_file_are_bounded_and_what_is_forgotten_is_too_old() {
        let sim = disk();
        let mut done = open(&sim);
        for n in 0..ENTRIES_MAX as u64 + 100 {
            done.done.insert(digest(n), notice(n as i64, "A"));
        }
        done.add(digest(u64::MAX), notice(1 << 40, "A")).unwrap();
        for done in [done, open(&sim)] {
            assert!(done.done.len() <= ENTRIES_MAX && done.lines <= ENTRIES_MAX + 1);
            assert_eq!(done.refuses(&digest(5), 5), Some("it is older than what is remembered of notices"));
            assert_eq!(done.refuses(&digest(1 << 50), 1 << 40), None);
        }
    }
}
