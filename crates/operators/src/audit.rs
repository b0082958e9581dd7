//! The audit log: a line for each action of an operator, over the web, the control socket, or by a command
//! that has opened the spool itself.
//!
//! A line says when, who, from where, what, and with which result. It is also an event of the log, with
//! target `audit`. Lines are durable before the operator is answered; a line that cannot be written is logged
//! and holds up nothing, as the action is done by then. The newest 1 to 2 MiB are kept. Called by `dispatch`
//! and, for what visitors do with accounts, by `web`. Format: `docs/formats/audit-log.md`.

use disk::{Disk, FileAccess, LogLine, RollingFiles, RollingLog};
use site_base::clock::unix_secs;
use site_base::lock::Leaf;
use site_base::printable;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::{error, info};

/// Name of the file below `site.data`.
const FILE_NAME: &str = "audit-log";
/// Most bytes of each of the two files.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest text of an action or its result that is recorded, in bytes.
const TEXT_BYTES_MAX: usize = 500;
/// Longest name of a user or an address that is recorded, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// The road by which an operator acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditRoad {
    /// A page of the server.
    Web,
    /// The control socket.
    Socket,
    /// A command without a server.
    Command,
}

impl AuditRoad {
    const ALL: [Self; 3] = [Self::Web, Self::Socket, Self::Command];

    /// Returns the word for it in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Socket => "socket",
            Self::Command => "command",
        }
    }
}

/// The acting party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditParty {
    /// Road of the action.
    pub road: AuditRoad,
    /// Name of the user: a login on the web, otherwise `uid` and the system's number.
    pub user: String,
    /// Address of the client; empty if the action came from this machine.
    pub address: String,
}

impl AuditParty {
    /// Returns the process's own user, for a command without a server.
    pub fn own() -> Self {
        Self::of_uid(AuditRoad::Command, rustix::process::getuid().as_raw())
    }

    /// Returns a user of this machine.
    pub fn of_uid(road: AuditRoad, uid: u32) -> Self {
        Self { road, user: format!("uid {uid}"), address: String::new() }
    }
}

/// A recorded action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Time of the end of the action, in Unix seconds.
    pub at: u64,
    /// The acting party.
    pub by: AuditParty,
    /// The action: name and options.
    pub action: String,
    /// Whether it succeeded.
    pub ok: bool,
    /// Last line of the answer; may be empty.
    pub said: String,
}

impl AuditEntry {
    /// Returns an entry for an action that has just ended.
    pub fn now(by: &AuditParty, action: &str, ok: bool, said: &str) -> Self {
        let by = AuditParty {
            road: by.road,
            user: shortened(&by.user, NAME_BYTES_MAX),
            address: shortened(&by.address, NAME_BYTES_MAX),
        };
        let (action, said) = (shortened(action, TEXT_BYTES_MAX), shortened(said, TEXT_BYTES_MAX));
        Self { at: unix_secs(), by, action, ok, said }
    }

    fn text(&self) -> String {
        let Self { at, by: AuditParty { road, user, address }, action, ok, said } = self;
        let result = if *ok { "done" } else { "failed" };
        format!("{at}\t{}\t{user}\t{address}\t{result}\t{action}\t{said}", road.word())
    }

    fn parsed(line: LogLine<'_>) -> Option<Self> {
        let fields: Vec<&str> = line.text()?.split('\t').collect();
        let [at, road, user, address, result, action, said] = *fields.as_slice() else { return None };
        let road = AuditRoad::ALL.into_iter().find(|one| one.word() == road)?;
        let ok = match result {
            "done" => true,
            "failed" => false,
            _ => return None,
        };
        let by = AuditParty { road, user: user.to_owned(), address: address.to_owned() };
        Some(Self { at: at.parse().ok()?, by, action: action.to_owned(), ok, said: said.to_owned() })
    }
}

/// Returns text in one printable line of limited length; TABs, which end fields, are written out.
fn shortened(text: &str, bytes_max: usize) -> String {
    let mut shown = printable::line(text.trim()).into_owned();
    if shown.len() > bytes_max {
        shown.truncate(shown.floor_char_boundary(bytes_max));
        shown.push('\u{2026}');
    }
    shown
}

/// Returns whether a line of the file is complete.
pub(crate) fn is_whole(line: LogLine<'_>) -> bool {
    AuditEntry::parsed(line).is_some()
}

/// The audit log of a site.
#[derive(Debug)]
pub struct AuditLog {
    disk: Arc<dyn Disk>,
    files: RollingFiles,
    log: Leaf<RollingLog>,
}

impl AuditLog {
    /// Returns the audit log of the site in `data`.
    pub fn of(disk: Arc<dyn Disk>, data: &Path) -> Self {
        let files = RollingFiles::at(disk.clone(), data.join(FILE_NAME), FileAccess::Group, FILE_BYTES_MAX);
        Self { disk, log: Leaf::new(RollingLog::new(files.clone())), files }
    }

    /// Records an action; durable on return, unless the log says that it could not be written.
    pub fn record(&self, entry: &AuditEntry) {
        let AuditEntry { by: AuditParty { road, user, address }, action, ok, said, .. } = entry;
        info!(target: "audit", road = road.word(), user, address, action, ok, said, "an operator acted");
        let mut log = self.log.lock();
        if let Err(error) = log.append(&entry.text()).and_then(|()| log.sync()) {
            error!(%error, "an action of an operator cannot be written to {FILE_NAME}");
        }
    }

    /// Has the files belong to the owner of the site's directory, whose server appends to them, after a
    /// command of another user has made them.
    pub(crate) fn give_to_owner_of(&self, data: &Path) {
        if let Err(error) = self.disk.make_like(&data.join(FILE_NAME), data, false) {
            error!(%error, "{FILE_NAME} may not be written by the server");
        }
    }

    /// Returns the newest entries, newest first.
    pub fn newest(&self, count_max: usize) -> io::Result<Vec<AuditEntry>> {
        let mut newest = VecDeque::new();
        self.files.read(|line| {
            let entry = AuditEntry::parsed(line);
            let is_one = entry.is_some();
            newest.extend(entry);
            if newest.len() > count_max {
                newest.pop_front();
            }
            is_one
        })?;
        Ok(newest.into_iter().rev().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn log(sim: &SimDisk) -> AuditLog {
        AuditLog::of(Arc::new(sim.clone()), Path::new("/d"))
    }

    fn entry(n: usize) -> AuditEntry {
        let by = AuditParty { road: AuditRoad::Web, user: "carol".into(), address: "192.0.2.1".into() };
        AuditEntry::now(&by, &format!("feed peer={n}"), n.is_multiple_of(2), "feed stopped")
    }

    #[test]
    fn actions_are_read_back_newest_first() {
        let sim = disk();
        let (first, second) = (entry(1), entry(2));
        log(&sim).record(&first);
        log(&sim).record(&second);
        assert_eq!(log(&sim).newest(10).unwrap(), [second.clone(), first]);
        assert_eq!(log(&sim).newest(1).unwrap(), [second]);
    }

    #[test]
    fn text_of_strangers_stays_in_its_field_and_is_short() {
        let sim = disk();
        let by = AuditParty { road: AuditRoad::Web, user: "a\tb\nc\u{1b}[0m".into(), address: String::new() };
        let long = "x\t".repeat(10_000);
        let entry = AuditEntry::now(&by, &long, false, "no\r\n1\tweb\troot\t\tdone\tx\t");
        log(&sim).record(&entry);
        let read = log(&sim).newest(10).unwrap();
        assert_eq!(read, std::slice::from_ref(&entry));
        assert!(entry.action.len() <= TEXT_BYTES_MAX + 3 && entry.by.user.starts_with("a\\u{9}b\\u{a}c"));
    }

    #[test]
    fn the_files_are_bounded_and_keep_the_newest() {
        let sim = disk();
        let log = log(&sim);
        let by = AuditParty::own();
        for n in 0..6_000 {
            log.record(&AuditEntry::now(&by, &format!("{n} {}", "x".repeat(480)), true, ""));
        }
        let newest = log.newest(usize::MAX).unwrap();
        assert!((1_500..4_500).contains(&newest.len()), "{}", newest.len());
        assert!(newest[0].action.starts_with("5999 "));
        for name in ["audit-log", "audit-log.old"] {
            let bytes = disk::read_small(&sim, &Path::new("/d").join(name), u64::MAX).unwrap().unwrap();
            assert!(bytes.len() as u64 <= FILE_BYTES_MAX);
        }
    }

    #[test]
    fn a_crash_at_any_step_loses_no_recorded_action() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                log(&sim).record(&entry(0));
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let mut recorded = 1;
                for n in 1..4 {
                    log(&sim).record(&entry(n));
                    if !sim.crashed() {
                        recorded = n + 1;
                    }
                }
                let read = log(&sim.image().unwrap()).newest(10).unwrap();
                assert!(read.len() >= recorded, "{kind:?} at step {step}: {read:?}");
                if !sim.crashed() {
                    assert!(step > 3, "nothing was tried");
                    break;
                }
            }
        }
    }
}
