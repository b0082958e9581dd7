//! What was carried out last, for each group and hierarchy: so that neither an old message that comes late
//! nor a replayed one undoes it.
//!
//! One line a change in a file below `site.data`; bounded. Format: `docs/formats/control.md`.

use hashbrown::HashMap;
use netnews::control::group_info::{is_older_serial, is_within};
use spool::{Access, AppendLog, Disk, Line};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of the file below `site.data`.
const FILE_NAME: &str = "control-done";
/// Length of the file at most.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Groups and hierarchies that are remembered.
const ENTRIES_MAX: usize = 100_000;
/// Lines of the file beyond twice those of use before it is replaced.
const LINES_SPARE: usize = 1_024;

/// What a message is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Group(String),
    Hierarchy(String),
}

/// The last message about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    /// Its date, Unix seconds.
    date: i64,
    /// Digits of its serial number; empty: it had none.
    serial: String,
}

/// What was carried out last.
#[derive(Debug)]
pub(super) struct Done {
    log: AppendLog,
    lines: usize,
    last: HashMap<Subject, Last>,
}

impl Done {
    /// That of the site in `data`.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let (mut lines, mut last) = (0, HashMap::new());
        let log = AppendLog::open(disk, data.join(FILE_NAME), Access::Group, FILE_BYTES_MAX, |line| {
            lines += 1;
            if let Line::Whole(text) = line {
                last.extend(parsed(text));
            }
        })?;
        Ok(Self { log, lines, last })
    }

    /// Whether something was carried out about the group by a message that is not older.
    pub fn has_group(&self, group: &str, date: i64) -> bool {
        let own = self.last.get(&Subject::Group(group.into())).is_some_and(|last| last.date >= date);
        own || prefixes(group).any(|hierarchy| {
            self.last.get(&Subject::Hierarchy(hierarchy.into())).is_some_and(|last| last.date >= date)
        })
    }

    /// Whether a newgroup or rmgroup was carried out for the group that is newer than a checkgroups message.
    pub fn has_newer_group(&self, group: &str, date: i64) -> bool {
        self.last.get(&Subject::Group(group.into())).is_some_and(|last| last.date > date)
    }

    /// What keeps a checkgroups message about `hierarchy` from being carried out.
    pub fn is_outdated(&self, hierarchy: &str, date: i64, serial: &[u8]) -> Option<&'static str> {
        let last = self.last.get(&Subject::Hierarchy(hierarchy.into()))?;
        if is_older_serial(serial, last.serial.as_bytes()) {
            return Some("its serial number is smaller than that of the last one carried out");
        }
        (last.date >= date).then_some(NOT_NEWER)
    }

    /// Something was carried out about a group; durable when this returns.
    pub fn add_group(&mut self, group: &str, date: i64) -> io::Result<()> {
        self.add(Subject::Group(group.into()), Last { date, serial: String::new() })?;
        self.log.sync()
    }

    /// A checkgroups message about these hierarchies was carried out; durable when this returns.
    pub fn add_hierarchies(&mut self, hierarchies: &[&str], date: i64, serial: &[u8]) -> io::Result<()> {
        let serial = String::from_utf8_lossy(serial).into_owned();
        for hierarchy in hierarchies {
            let last = Last { date, serial: serial.clone() };
            self.add(Subject::Hierarchy((*hierarchy).into()), last)?;
            // What it says of its groups is what the hierarchy's line says.
            let is_covered = |subject: &Subject, last: &Last| match subject {
                Subject::Group(group) => {
                    last.date <= date && is_within(group.as_bytes(), hierarchy.as_bytes())
                }
                Subject::Hierarchy(_) => false,
            };
            self.last.retain(|subject, last| !is_covered(subject, last));
        }
        self.log.sync()
    }

    fn add(&mut self, subject: Subject, last: Last) -> io::Result<()> {
        let line = text(&subject, &last);
        self.last.insert(subject, last);
        if self.last.len() > ENTRIES_MAX {
            let mut dates: Vec<i64> = self.last.values().map(|last| last.date).collect();
            dates.sort_unstable();
            let keep_from = dates.get(ENTRIES_MAX / 4).copied().unwrap_or(i64::MIN);
            self.last.retain(|_, last| last.date >= keep_from);
        }
        if self.lines > 2 * self.last.len() + LINES_SPARE {
            let texts: Vec<String> = self.last.iter().map(|(subject, last)| text(subject, last)).collect();
            self.lines = texts.len();
            return self.log.replace(texts.iter().map(String::as_str));
        }
        self.lines += 1;
        self.log.append(&line)
    }
}

/// Why a message is not carried out that was, or is older than one that was.
pub(super) const NOT_NEWER: &str = "it is not newer than the last one that was carried out";

/// The group's name and those of the hierarchies that it is in.
fn prefixes(group: &str) -> impl Iterator<Item = &str> {
    let ends = group.bytes().enumerate().filter(|(_, b)| *b == b'.').map(|(at, _)| at);
    ends.chain([group.len()]).filter_map(|end| group.get(..end))
}

fn text(subject: &Subject, last: &Last) -> String {
    let (word, name) = match subject {
        Subject::Group(name) => ("group", name),
        Subject::Hierarchy(name) => ("hierarchy", name),
    };
    let serial = if last.serial.is_empty() { "-" } else { &last.serial };
    format!("{word} {} {serial} {name}", last.date)
}

fn parsed(line: &str) -> Option<(Subject, Last)> {
    let mut words = line.splitn(4, ' ');
    let word = words.next()?;
    let date = words.next()?.parse().ok()?;
    let serial =
        words.next().filter(|serial| *serial == "-" || serial.bytes().all(|b| b.is_ascii_digit()))?;
    let serial = serial.trim_start_matches('-').to_owned();
    let name = words.next()?.to_owned();
    let subject = match word {
        "group" => Subject::Group(name),
        "hierarchy" => Subject::Hierarchy(name),
        _ => return None,
    };
    Some((subject, Last { date, serial }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::{CrashKind, SimDisk};

    fn open(sim: &SimDisk) -> Done {
        Done::open(Arc::new(sim.clone()), Path::new("/d")).unwrap()
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    #[test]
    fn what_is_not_newer_is_known_after_a_restart_too() {
        let sim = disk();
        let mut done = open(&sim);
        done.add_group("x.a", 100).unwrap();
        done.add_group("x.late", 500).unwrap();
        done.add_hierarchies(&["x", "y.z"], 200, b"2026").unwrap();
        for done in [done, open(&sim)] {
            assert!(done.has_group("x.a", 200) && !done.has_group("x.a", 201), "by the hierarchy");
            assert!(done.has_group("x.late", 500) && !done.has_group("x.late", 501));
            assert!(done.has_newer_group("x.late", 499) && !done.has_newer_group("x.a", 100));
            assert!(!done.has_group("xx.a", 1) && !done.has_group("y.other", 1));
            assert!(done.is_outdated("x", 200, b"2026").is_some());
            assert!(
                done.is_outdated("x", 300, b"999").is_some() && done.is_outdated("x", 300, b"").is_some()
            );
            assert_eq!(done.is_outdated("x", 300, b"2026"), None);
            assert_eq!(done.is_outdated("new", 1, b""), None);
        }
    }

    #[test]
    fn a_crash_at_any_step_loses_nothing_that_was_recorded() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                sim.crash_at(step, kind, step * 7919);
                let mut recorded = 0;
                if let Ok(mut done) = Done::open(Arc::new(sim.clone()), Path::new("/d")) {
                    for n in 1..=3 {
                        done.lines += LINES_SPARE;
                        if done.add_group(&format!("x.g{n}"), n).is_ok() && !sim.crashed() {
                            recorded = n;
                        }
                    }
                }
                let after = open(&sim.image().unwrap());
                for n in 1..=recorded {
                    assert!(after.has_group(&format!("x.g{n}"), n), "{kind:?} at step {step}: {n}");
                }
                if !sim.crashed() {
                    assert!(step > 6, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn table_and_file_are_bounded() {
        let mut done = open(&disk());
        for n in 0..ENTRIES_MAX as i64 + 1_000 {
            done.add(Subject::Group(format!("x.g{n}")), Last { date: n, serial: String::new() }).unwrap();
        }
        assert!(done.last.len() <= ENTRIES_MAX);
        assert!(done.has_group(&format!("x.g{}", ENTRIES_MAX + 900), 1) && !done.has_group("x.g1", 1));
        for n in 0..400_000 {
            done.add(Subject::Group("y.same".into()), Last { date: n, serial: String::new() }).unwrap();
        }
        assert!(done.lines <= 3 * ENTRIES_MAX);
    }
}
