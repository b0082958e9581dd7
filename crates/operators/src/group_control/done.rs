//! The last message carried out for each group and hierarchy, so that neither a late old message nor a
//! replayed one undoes it.
//!
//! One line for each change in a bounded file below `site.data`. Format: `docs/formats/control.md`.

use disk::{Disk, LogLine};
use netnews::control::group_info::{is_older_serial, is_within};
use site_base::durable_table::{DurableTable, TableEntry};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Subject of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ControlSubject {
    Group(String),
    Hierarchy(String),
}

/// Last message about a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastControl {
    /// Date of the message, in Unix seconds.
    date: i64,
    /// Digits of the serial number; empty if it had none.
    serial: String,
}

impl TableEntry for LastControl {
    type Key = ControlSubject;
    const FILE_NAME: &'static str = "control-done";
    const FILE_BYTES_MAX: u64 = 64 << 20;
    const ENTRIES_MAX: usize = 100_000;

    fn lines(&self, subject: &ControlSubject, lines: &mut Vec<String>) {
        lines.push(text(subject, self));
    }
}

/// Messages carried out last.
#[derive(Debug)]
pub(super) struct ControlHistory(DurableTable<LastControl>);

impl ControlHistory {
    /// Opens the table of the site in `data`.
    pub fn open(disk: Arc<dyn Disk>, data: &Path) -> io::Result<Self> {
        let table = DurableTable::open(disk, data, |table, line| {
            let Some((subject, last)) = entry(line) else { return false };
            table.insert(subject, last);
            true
        })?;
        Ok(Self(table))
    }

    /// Returns whether a message about the group that is not older was carried out.
    pub fn has_group(&self, group: &str, date: i64) -> bool {
        let own = self.0.get(&ControlSubject::Group(group.into())).is_some_and(|last| last.date >= date);
        own || prefixes(group).any(|hierarchy| {
            self.0.get(&ControlSubject::Hierarchy(hierarchy.into())).is_some_and(|last| last.date >= date)
        })
    }

    /// Returns whether a newgroup or rmgroup for the group newer than a checkgroups message was carried out.
    pub fn has_newer_group(&self, group: &str, date: i64) -> bool {
        self.0.get(&ControlSubject::Group(group.into())).is_some_and(|last| last.date > date)
    }

    /// Returns the reason why a checkgroups message about `hierarchy` is outdated.
    pub fn is_outdated(&self, hierarchy: &str, date: i64, serial: &[u8]) -> Option<&'static str> {
        let last = self.0.get(&ControlSubject::Hierarchy(hierarchy.into()))?;
        if is_older_serial(serial, last.serial.as_bytes()) {
            return Some("its serial number is smaller than that of the last one carried out");
        }
        (last.date >= date).then_some(NOT_NEWER)
    }

    /// Records that messages of these dates about these groups were carried out; durable on return.
    pub fn add_groups<'g>(&mut self, groups: impl Iterator<Item = (&'g str, i64)>) -> io::Result<()> {
        for (group, date) in groups {
            self.add(ControlSubject::Group(group.into()), LastControl { date, serial: String::new() })?;
        }
        self.0.sync().map(drop)
    }

    /// Records that a checkgroups message about these hierarchies was carried out; durable on return.
    pub fn add_hierarchies(&mut self, hierarchies: &[&str], date: i64, serial: &[u8]) -> io::Result<()> {
        let serial = String::from_utf8_lossy(serial).into_owned();
        for hierarchy in hierarchies {
            let last = LastControl { date, serial: serial.clone() };
            self.add(ControlSubject::Hierarchy((*hierarchy).into()), last)?;
            // The hierarchy's line covers its groups.
            let is_covered = |subject: &ControlSubject, last: &LastControl| match subject {
                ControlSubject::Group(group) => {
                    last.date <= date && is_within(group.as_bytes(), hierarchy.as_bytes())
                }
                ControlSubject::Hierarchy(_) => false,
            };
            self.0.retain(|subject, last| !is_covered(subject, last));
        }
        self.0.sync().map(drop)
    }

    fn add(&mut self, subject: ControlSubject, last: LastControl) -> io::Result<()> {
        let line = text(&subject, &last);
        self.0.insert(subject, last);
        self.0.append(&line)?;
        self.0.tidy_up()
    }
}

/// Reason for refusing a message that was carried out, or is older than one that was.
pub(super) const NOT_NEWER: &str = "it is not newer than the last one that was carried out";

/// Returns the group's name and those of its hierarchies.
fn prefixes(group: &str) -> impl Iterator<Item = &str> {
    let ends = group.bytes().enumerate().filter(|(_, b)| *b == b'.').map(|(at, _)| at);
    ends.chain([group.len()]).filter_map(|end| group.get(..end))
}

fn text(subject: &ControlSubject, last: &LastControl) -> String {
    let (word, name) = match subject {
        ControlSubject::Group(name) => ("group", name),
        ControlSubject::Hierarchy(name) => ("hierarchy", name),
    };
    let serial = if last.serial.is_empty() { "-" } else { &last.serial };
    format!("{word} {} {serial} {name}", last.date)
}

fn entry(line: LogLine<'_>) -> Option<(ControlSubject, LastControl)> {
    if let LogLine::Whole(text) = line { parsed(text) } else { None }
}

/// Returns whether a line of the file is whole.
pub(crate) fn is_whole(line: LogLine<'_>) -> bool {
    entry(line).is_some()
}

fn parsed(line: &str) -> Option<(ControlSubject, LastControl)> {
    let mut words = line.splitn(4, ' ');
    let word = words.next()?;
    let date = words.next()?.parse().ok()?;
    let serial =
        words.next().filter(|serial| *serial == "-" || serial.bytes().all(|b| b.is_ascii_digit()))?;
    let serial = serial.trim_start_matches('-').to_owned();
    let name = words.next()?.to_owned();
    let subject = match word {
        "group" => ControlSubject::Group(name),
        "hierarchy" => ControlSubject::Hierarchy(name),
        _ => return None,
    };
    Some((subject, LastControl { date, serial }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    fn open(sim: &SimDisk) -> ControlHistory {
        ControlHistory::open(Arc::new(sim.clone()), Path::new("/d")).unwrap()
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    #[test]
    fn outdated_messages_are_recognized_after_a_restart() {
        let sim = disk();
        let mut done = open(&sim);
        done.add_groups([("x.a", 100), ("x.late", 500)].into_iter()).unwrap();
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
    fn oldest_entries_beyond_the_limit_are_forgotten() {
        let mut done = open(&disk());
        for n in 0..LastControl::ENTRIES_MAX as i64 + 1_000 {
            done.add(
                ControlSubject::Group(format!("x.g{n}")),
                LastControl { date: n, serial: String::new() },
            )
            .unwrap();
        }
        assert!(
            done.has_group(&format!("x.g{}", LastControl::ENTRIES_MAX + 900), 1)
                && !done.has_group("x.g1", 1)
        );
    }
}
