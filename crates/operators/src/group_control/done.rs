//! The last message carried out for each group and hierarchy, so that neither a late old message nor a
//! replayed one undoes it.
//!
//! They are notes of the spool. Format: `docs/formats/notes.md`.

use disk::LogLine;
use netnews::control::group_info::{is_older_serial, is_within};
use site_log::SiteLog;
use spool::{Change, ChangeMaker as _, NoteKind};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name and longest length of the file that earlier versions kept them in.
const OLD_FILE: &str = "control-done";
const OLD_FILE_BYTES_MAX: u64 = 64 << 20;
const KIND: NoteKind = NoteKind::ControlDate;

/// Kind of subject of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ControlSubject {
    Group,
    Hierarchy,
}

impl ControlSubject {
    /// Returns the key of the note about a subject with this name.
    fn key(self, name: &str) -> String {
        match self {
            Self::Group => format!("group {name}"),
            Self::Hierarchy => format!("hierarchy {name}"),
        }
    }
}

/// Last message about a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastControl {
    /// Date of the message, in Unix seconds.
    date: i64,
    /// Digits of the serial number; empty if it had none.
    serial: String,
}

impl LastControl {
    /// Returns the value of its note.
    fn text(&self) -> String {
        let serial = if self.serial.is_empty() { "-" } else { &self.serial };
        format!("{} {serial}", self.date)
    }

    /// Reads the value of a note.
    fn parse(text: &str) -> Option<Self> {
        let (date, serial) = text.split_once(' ')?;
        let is_serial = serial == "-" || serial.bytes().all(|b| b.is_ascii_digit());
        is_serial.then_some(())?;
        Some(Self { date: date.parse().ok()?, serial: serial.trim_start_matches('-').to_owned() })
    }
}

/// Messages carried out last.
#[derive(Debug)]
pub(super) struct ControlHistory(Arc<SiteLog>);

impl ControlHistory {
    /// Takes over the file of an earlier version in `data`.
    pub fn open(log: Arc<SiteLog>, data: &Path) -> io::Result<Self> {
        let history = Self(log);
        history.0.take_over(data.join(OLD_FILE), OLD_FILE_BYTES_MAX, |line| {
            let Some((key, last)) = entry(line) else { return Ok(false) };
            history.note(&[(key, Some(last))])?;
            Ok(true)
        })?;
        Ok(history)
    }

    fn last(&self, subject: ControlSubject, name: &str) -> Option<LastControl> {
        let note = self.0.spool().note_of(KIND, subject.key(name).as_bytes())?;
        LastControl::parse(std::str::from_utf8(&note.value).ok()?)
    }

    /// Returns whether a message about the group that is not older was carried out.
    pub fn has_group(&self, group: &str, date: i64) -> bool {
        let is_later = |last: LastControl| last.date >= date;
        self.last(ControlSubject::Group, group).is_some_and(is_later)
            || prefixes(group)
                .any(|hierarchy| self.last(ControlSubject::Hierarchy, hierarchy).is_some_and(is_later))
    }

    /// Returns whether a newgroup or rmgroup for the group newer than a checkgroups message was carried out.
    pub fn has_newer_group(&self, group: &str, date: i64) -> bool {
        self.last(ControlSubject::Group, group).is_some_and(|last| last.date > date)
    }

    /// Returns the reason why a checkgroups message about `hierarchy` is outdated.
    pub fn is_outdated(&self, hierarchy: &str, date: i64, serial: &[u8]) -> Option<&'static str> {
        let last = self.last(ControlSubject::Hierarchy, hierarchy)?;
        if is_older_serial(serial, last.serial.as_bytes()) {
            return Some("its serial number is smaller than that of the last one carried out");
        }
        (last.date >= date).then_some(NOT_NEWER)
    }

    /// Records that messages of these dates about these groups were carried out; durable on return.
    pub fn add_groups<'g>(&self, groups: impl Iterator<Item = (&'g str, i64)>) -> io::Result<()> {
        let last = |date| Some(LastControl { date, serial: String::new() });
        let notes: Vec<_> =
            groups.map(|(group, date)| (ControlSubject::Group.key(group), last(date))).collect();
        self.note(&notes)?;
        self.sync()
    }

    /// Records that a checkgroups message about these hierarchies was carried out; durable on return.
    pub fn add_hierarchies(&self, hierarchies: &[&str], date: i64, serial: &[u8]) -> io::Result<()> {
        let serial = String::from_utf8_lossy(serial).into_owned();
        let last = |name: &&str| {
            (ControlSubject::Hierarchy.key(name), Some(LastControl { date, serial: serial.clone() }))
        };
        let mut notes: Vec<_> = hierarchies.iter().map(last).collect();
        // The hierarchies' notes cover their groups.
        for (key, note) in self.0.spool().notes(KIND) {
            let Some((key, last)) = text_of(&key).zip(text_of(&note.value).and_then(LastControl::parse))
            else {
                continue;
            };
            let is_within = |group: &str| {
                hierarchies.iter().any(|hierarchy| is_within(group.as_bytes(), hierarchy.as_bytes()))
            };
            if last.date <= date && key.strip_prefix("group ").is_some_and(is_within) {
                notes.push((key.to_owned(), None));
            }
        }
        self.note(&notes)?;
        self.sync()
    }

    /// Makes and removes notes, by key.
    fn note(&self, notes: &[(String, Option<LastControl>)]) -> io::Result<()> {
        let texts: Vec<Option<String>> =
            notes.iter().map(|(_, last)| last.as_ref().map(LastControl::text)).collect();
        let mut changes = Vec::with_capacity(notes.len());
        for ((key, last), text) in notes.iter().zip(&texts) {
            let since = last.as_ref().map_or(0, |last| u64::try_from(last.date).unwrap_or_default());
            let value = text.as_deref().map(str::as_bytes);
            changes.push(Change::Note { kind: KIND, key: key.as_bytes(), value, since });
        }
        self.0.commit(&changes, &mut Vec::new()).map(drop).map_err(io::Error::other)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.spool().sync().map_err(io::Error::other)
    }
}

/// Reason for refusing a message that was carried out, or is older than one that was.
pub(super) const NOT_NEWER: &str = "it is not newer than the last one that was carried out";

/// Returns the group's name and those of its hierarchies.
fn prefixes(group: &str) -> impl Iterator<Item = &str> {
    let ends = group.bytes().enumerate().filter(|(_, b)| *b == b'.').map(|(at, _)| at);
    ends.chain([group.len()]).filter_map(|end| group.get(..end))
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Reads a line of the file of earlier versions: the key of its note, and the message.
fn entry(line: LogLine<'_>) -> Option<(String, LastControl)> {
    let line = line.text()?;
    let (word, rest) = line.split_once(' ')?;
    let subject = match word {
        "group" => ControlSubject::Group,
        "hierarchy" => ControlSubject::Hierarchy,
        _ => return None,
    };
    let at = rest.match_indices(' ').nth(1)?.0;
    let (last, name) = rest.split_at_checked(at)?;
    Some((subject.key(name.trim_start()), LastControl::parse(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk as _, FileAccess, SimDisk};
    use spool::{Spool, SpoolConfig};

    fn open(sim: &SimDisk) -> ControlHistory {
        let (spool, _) = Spool::open(Arc::new(sim.clone()), SpoolConfig::new(Path::new("/d")), &()).unwrap();
        ControlHistory::open(Arc::new(SiteLog::new(Arc::new(spool))), Path::new("/d")).unwrap()
    }

    fn check(done: &ControlHistory) {
        assert!(done.has_group("x.a", 200) && !done.has_group("x.a", 201), "by the hierarchy");
        assert!(done.has_group("x.late", 500) && !done.has_group("x.late", 501));
        assert!(done.has_newer_group("x.late", 499) && !done.has_newer_group("x.a", 100));
        assert!(!done.has_group("xx.a", 1) && !done.has_group("y.other", 1));
        assert!(done.is_outdated("x", 200, b"2026").is_some());
        assert!(done.is_outdated("x", 300, b"999").is_some() && done.is_outdated("x", 300, b"").is_some());
        assert_eq!(done.is_outdated("x", 300, b"2026"), None);
        assert_eq!(done.is_outdated("new", 1, b""), None);
    }

    #[test]
    fn outdated_messages_are_recognized_after_a_restart() {
        let sim = SimDisk::new();
        let done = open(&sim);
        done.add_groups([("x.a", 100), ("x.late", 500)].into_iter()).unwrap();
        done.add_hierarchies(&["x", "y.z"], 200, b"2026").unwrap();
        check(&done);
        drop(done);
        check(&open(&sim));
    }

    #[test]
    fn the_file_of_an_earlier_version_is_taken_over_once() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let line = |text: &str| format!("{:08x} {text}\n", disk::crc::crc32c(text.as_bytes()));
        let text =
            ["group 100 - x.a", "group 500 - x.late", "hierarchy 200 2026 x", "hierarchy 200 2026 y.z"]
                .map(line);
        let path = Path::new("/d").join(OLD_FILE);
        disk::durable_replace(&sim, &path, &[text.concat().as_bytes()], FileAccess::Group).unwrap();
        for _ in 0..2 {
            check(&open(&sim));
            let names = sim.list(Path::new("/d")).unwrap();
            assert!(!names.iter().any(|name| name.starts_with(OLD_FILE)), "{names:?}");
        }
    }
}
