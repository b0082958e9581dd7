//! The table of a cluster: its members, how far each has come, and the settings that all of them must share.
//!
//! Entries are lines of text, changed by comparing their revision. Nothing that decides about news is here:
//! the log alone does that.

use crate::clocks::{ahead_between, clock_fault};
use crate::engine::{EngineTable, TableError, change_entry};
use spool::OtherMember;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Key of the list of members.
const MEMBERS_KEY: &str = "members";
/// Key of the settings.
const SETTINGS_KEY: &str = "settings";
/// Longest name of a member, in bytes.
const NAME_BYTES_MAX: usize = 32;
/// Seconds after which a member that has not reported does not run.
const REPORTED_SECS_MAX: u32 = 15;
/// Time after which a member that has not reported counts as away.
pub const SILENT_MAX: Duration = Duration::from_secs(REPORTED_SECS_MAX as u64);
/// Seconds by which a report may be late.
const LATE_SECS_MAX: i64 = 60;
/// Maximum number of members.
pub const MEMBERS_MAX: usize = 64;

/// Failure to read or change the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembersError {
    /// The engine does not answer.
    Table(TableError),
    /// An entry cannot be read.
    Damaged(&'static str),
    /// There is no room for another member.
    Full,
    /// A name that no member can have.
    Name(String),
    /// The members write a newer format than this version can read.
    Newer {
        /// Format that they write.
        in_force: u8,
        /// Newest format that can be read here.
        newest: u8,
    },
    /// A setting differs from that of the cluster.
    Setting {
        /// Name of the setting.
        name: String,
        /// Value here.
        own: String,
        /// Value in the cluster.
        shared: String,
    },
}

impl fmt::Display for MembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(error) => error.fmt(f),
            Self::Damaged(key) => write!(f, "the entry {key} in the table of the cluster cannot be read"),
            Self::Name(name) => {
                write!(f, "`{name}` is no name of a member: use at most 32 letters, digits and \"-\"")
            }
            Self::Newer { in_force, newest } => write!(
                f,
                "the members write format {in_force}, and this version of newsreel reads formats up to {newest}; \
                 install a newer one"
            ),
            Self::Full => write!(f, "a cluster has at most {MEMBERS_MAX} members"),
            Self::Setting { name, own, shared } => write!(
                f,
                "{name} is {own} here and {shared} in the cluster; all members must have the same, as what they \
                 answer follows from it"
            ),
        }
    }
}

impl std::error::Error for MembersError {}

impl From<TableError> for MembersError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

/// A member, as the table names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedMember {
    /// Number of the member, which its messages have; never used again for another.
    pub number: u16,
    /// Name of the member.
    pub name: String,
    /// Whether it has left.
    pub has_left: bool,
}

/// Reads the list of members in its entry; without one there are none.
fn read_members(value: Option<&[u8]>) -> Result<Vec<NamedMember>, MembersError> {
    let damaged = || MembersError::Damaged(MEMBERS_KEY);
    let text = std::str::from_utf8(value.unwrap_or_default()).map_err(|_| damaged())?;
    let member = |line: &str| {
        let mut words = line.split(' ');
        let (number, name) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let has_left = match words.next() {
            None => false,
            Some("left") => true,
            Some(_) => return None,
        };
        Some(NamedMember { number, name, has_left })
    };
    text.lines().map(member).collect::<Option<_>>().ok_or_else(damaged)
}

/// Changes the list of members.
fn change_members<T>(
    table: &dyn EngineTable,
    mut change: impl FnMut(&mut Vec<NamedMember>) -> Result<T, MembersError>,
) -> Result<T, MembersError> {
    change_entry(table, MEMBERS_KEY, |value| {
        let before = read_members(value)?;
        let mut members = before.clone();
        let done = change(&mut members)?;
        let line = |member: &NamedMember| {
            let left = if member.has_left { " left" } else { "" };
            format!("{} {}{left}\n", member.number, member.name)
        };
        let text = (members != before).then(|| members.iter().map(line).collect::<String>());
        Ok((text.map(Into::into), done))
    })
}

/// Returns the members, also those that have left.
pub fn members(table: &dyn EngineTable) -> Result<Vec<NamedMember>, MembersError> {
    let entry = table.get(MEMBERS_KEY)?;
    read_members(entry.as_ref().map(|entry| entry.value.as_slice()))
}

/// Returns the number of a member that has not left; `None` if there is none of this name.
pub fn number_of(table: &dyn EngineTable, name: &str) -> Result<Option<u16>, MembersError> {
    let is_it = |member: &&NamedMember| member.name == name && !member.has_left;
    Ok(members(table)?.iter().find(is_it).map(|member| member.number))
}

/// Adds a member of this name, if there is none; returns its number.
pub fn add_member(table: &dyn EngineTable, name: &str) -> Result<u16, MembersError> {
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_plain || !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(MembersError::Name(name.to_owned()));
    }
    change_members(table, |members| {
        if let Some(known) = members.iter().find(|member| member.name == name && !member.has_left) {
            return Ok(known.number);
        }
        let last = members.iter().map(|member| member.number).max().unwrap_or_default();
        let number = last.checked_add(1).ok_or(MembersError::Full)?;
        if members.iter().filter(|member| !member.has_left).count() >= MEMBERS_MAX {
            return Err(MembersError::Full);
        }
        members.push(NamedMember { number, name: name.to_owned(), has_left: false });
        Ok(number)
    })
}

/// Puts a member back that the table does not know, as after it was damaged; returns whether that was
/// needed. One that has left stays so.
pub fn keep_member(table: &dyn EngineTable, name: &str, number: u16) -> Result<bool, MembersError> {
    change_members(table, |members| {
        let is_there = members.iter().any(|member| member.number == number);
        if !is_there {
            members.push(NamedMember { number, name: name.to_owned(), has_left: false });
            members.sort_by_key(|member| member.number);
        }
        Ok(!is_there)
    })
}

/// Notes that a member has left; returns whether it was one, and how many others there still are.
pub fn remove_member(table: &dyn EngineTable, name: &str) -> Result<(bool, usize), MembersError> {
    change_members(table, |members| {
        let own = members.iter_mut().find(|member| member.name == name && !member.has_left);
        let was_one = own.map(|member| member.has_left = true).is_some();
        Ok((was_one, members.iter().filter(|member| !member.has_left).count()))
    })
}

/// Ends a cluster: notes that its last member has left. Nothing is changed while there are others; returns
/// their names.
pub fn remove_last_member(table: &dyn EngineTable, name: &str) -> Result<Vec<String>, MembersError> {
    change_members(table, |members| {
        let others = members.iter().filter(|member| member.name != name && !member.has_left);
        let others: Vec<String> = others.map(|member| member.name.clone()).collect();
        let own = members.iter_mut().filter(|member| member.name == name && others.is_empty());
        own.for_each(|member| member.has_left = true);
        Ok(others)
    })
}

/// Keeps the settings that all members must share, where the table has none yet; else compares them.
pub fn share_settings(table: &dyn EngineTable, own: &[(&str, String)]) -> Result<(), MembersError> {
    change_entry(table, SETTINGS_KEY, |shared| {
        let Some(shared) = shared else {
            let text: String = own.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
            return Ok((Some(text.into()), ()));
        };
        let shared = std::str::from_utf8(shared).map_err(|_| MembersError::Damaged(SETTINGS_KEY))?;
        // A setting that only one of the versions knows does not count.
        for (name, own) in own {
            let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
            if let Some(shared) = shared.lines().find_map(of_name).filter(|shared| shared != own) {
                return Err(MembersError::Setting { name: (*name).to_owned(), own: own.clone(), shared });
            }
        }
        Ok((None, ()))
    })
}

/// Key of the format of messages that is in force.
const FORMAT_KEY: &str = "format";

/// Formats of messages in a cluster: every member writes what every other can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFormats {
    /// Format that is written.
    pub in_force: u8,
    /// Newest format that each member can read, by name; those that have left are not there.
    pub of_members: Vec<(String, u8)>,
}

impl ClusterFormats {
    /// Reads them. Members that have never said anything can read format 1.
    pub fn read(table: &dyn EngineTable) -> Result<Self, MembersError> {
        let in_force = format_of(table, FORMAT_KEY)?;
        let mut of_members = Vec::new();
        for member in members(table)?.into_iter().filter(|member| !member.has_left) {
            of_members.push((member.name.clone(), format_of(table, &format_key(&member.name))?));
        }
        Ok(Self { in_force, of_members })
    }

    /// Returns the newest format that all members can read.
    pub fn common(&self) -> u8 {
        self.of_members.iter().map(|(_, format)| *format).min().unwrap_or(self.in_force)
    }

    /// Returns the names of the members that keep the others from writing a format.
    pub fn without(&self, format: u8) -> Vec<&str> {
        self.of_members.iter().filter(|(_, own)| *own < format).map(|(name, _)| name.as_str()).collect()
    }
}

fn format_key(name: &str) -> String {
    format!("{FORMAT_KEY}.{name}")
}

/// Reads a format in its entry; without one it is 1.
fn read_format(value: Option<&[u8]>) -> Result<u8, MembersError> {
    let Some(value) = value else { return Ok(1) };
    let format = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    format.ok_or(MembersError::Damaged(FORMAT_KEY))
}

/// Returns the format in an entry of the table.
fn format_of(table: &dyn EngineTable, key: &str) -> Result<u8, MembersError> {
    read_format(table.get(key)?.as_ref().map(|entry| entry.value.as_slice()))
}

/// Says which formats this member can read, up to `newest`; refused if the others write a newer one.
pub fn announce_format(table: &dyn EngineTable, name: &str, newest: u8) -> Result<(), MembersError> {
    let in_force = format_of(table, FORMAT_KEY)?;
    if in_force > newest {
        return Err(MembersError::Newer { in_force, newest });
    }
    change_entry(table, &format_key(name), |known| {
        let is_known = known.is_some() && read_format(known)? == newest;
        Ok(((!is_known).then(|| newest.to_string().into()), ()))
    })
}

/// Puts the newest format that all members can read in force; returns it, and whether that is a change.
pub fn raise_format(table: &dyn EngineTable) -> Result<(u8, bool), MembersError> {
    change_entry(table, FORMAT_KEY, |in_force| {
        let in_force = read_format(in_force)?;
        let common = ClusterFormats::read(table)?.common();
        Ok(match common > in_force {
            true => (Some(common.to_string().into()), (common, true)),
            false => (None, (in_force, false)),
        })
    })
}

/// State in the last report of a member that has ended in good order.
pub const ENDED: &str = "has stopped";

/// State of a member that takes connections and articles.
pub const FOLLOWS: &str = "follows the log";

/// What a member says about itself from time to time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberReport {
    /// Time of the report, in Unix seconds, by the clock of the member.
    pub time: u32,
    /// Version of the program.
    pub version: String,
    /// Last message that is applied.
    pub position: u64,
    /// Digest of the site at that position; empty if it is not known.
    pub digest: String,
    /// State, in a few words.
    pub state: String,
}

impl MemberReport {
    /// Writes the report of a member.
    pub fn put(&self, table: &dyn EngineTable, name: &str) -> Result<(), TableError> {
        let Self { time, version, position, digest, state } = self;
        let digest = if digest.is_empty() { "-" } else { digest };
        let text = format!("{time} {version} {position} {digest} {}", state.replace('\n', " "));
        change_entry(table, &key_of(name), |_| Ok((Some(text.clone().into()), ())))
    }

    /// Reads the report of a member; `None` if there is none.
    pub fn get(table: &dyn EngineTable, name: &str) -> Result<Option<HeardReport>, MembersError> {
        let Some(entry) = table.get(&key_of(name))? else { return Ok(None) };
        let read = || {
            let text = String::from_utf8(entry.value).ok()?;
            let mut words = text.splitn(5, ' ');
            Some(Self {
                time: words.next()?.parse().ok()?,
                version: words.next()?.to_owned(),
                position: words.next()?.parse().ok()?,
                digest: words.next().map(|digest| digest.trim_start_matches('-').to_owned())?,
                state: words.next()?.to_owned(),
            })
        };
        let report = read().ok_or(MembersError::Damaged("report"))?;
        Ok(Some(HeardReport { report, heard: entry.time }))
    }
}

/// The last report of a member, with the time at which it came. Clocks of members are not compared with each
/// other: what is old is so by the engine's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeardReport {
    /// The report.
    pub report: MemberReport,
    /// Time at which the engine took it, in Unix seconds by the engine's clock.
    pub heard: u32,
}

impl HeardReport {
    /// Reports whether the member may run still; `now` is the time of the engine's clock.
    pub fn may_run(&self, now: u32) -> bool {
        self.report.state != ENDED && self.silent_secs(now) < REPORTED_SECS_MAX
    }

    /// Reports whether the member takes connections and articles, as far as is known; `now` is as there.
    pub fn serves(&self, now: u32) -> bool {
        self.may_run(now) && self.report.state == FOLLOWS
    }

    /// Returns the time since the report came, in seconds.
    pub fn silent_secs(&self, now: u32) -> u32 {
        now.saturating_sub(self.heard)
    }

    /// Returns by how many seconds the clock of the member was ahead of the engine's. A report that is late
    /// looks as if the clock were a little behind, so that counts as nothing.
    pub fn clock_ahead(&self) -> i64 {
        let ahead = i64::from(self.report.time) - i64::from(self.heard);
        if (-LATE_SECS_MAX..0).contains(&ahead) { 0 } else { ahead }
    }
}

/// Returns by how many seconds a clock is wrong, if it is: it is compared with the engine's and with those of
/// other members that run. `own_time` returns its time, in Unix seconds.
pub fn wrong_clock(
    table: &dyn EngineTable,
    own: &str,
    own_time: impl Fn() -> u64,
) -> Result<Option<i64>, MembersError> {
    let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    let before = signed(own_time());
    let now = table.now()?;
    let ahead = ahead_between(before, signed(own_time()), now.into());
    let mut others = Vec::new();
    for member in members(table)?.into_iter().filter(|member| !member.has_left && member.name != own) {
        let report = MemberReport::get(table, &member.name)?.filter(|report| report.may_run(now));
        others.extend(report.map(|report| report.clock_ahead()));
    }
    Ok(clock_fault(ahead, &others))
}

fn key_of(name: &str) -> String {
    format!("report.{name}")
}

/// The other members, and since when each is silent by the clock of this one: no times of day are compared.
#[derive(Debug, Clone)]
pub struct Neighbours {
    own: u16,
    /// Those that have not left, each with the revision of its report seen last, and since when.
    seen: BTreeMap<u16, (String, u64, Duration)>,
}

impl Neighbours {
    /// Creates those of a member, which has not looked for any yet.
    pub fn of(own: u16) -> Self {
        Self { own, seen: BTreeMap::new() }
    }

    /// Looks at the table; what cannot be read stays as it was.
    pub fn look(&mut self, table: &dyn EngineTable, now: Duration) {
        let Ok(mut members) = members(table) else { return };
        members.retain(|member| !member.has_left && member.number != self.own);
        self.seen.retain(|number, _| members.iter().any(|member| member.number == *number));
        for NamedMember { number, name, .. } in members {
            // Each question that is not answered takes its time.
            let Ok(found) = table.get(&key_of(&name)) else { return };
            let revision = found.map_or(0, |entry| entry.revision);
            let known = self.seen.get(&number).filter(|(_, known, _)| *known == revision);
            let since = known.map_or(now, |(_, _, since)| *since);
            self.seen.insert(number, (name, revision, since));
        }
    }

    /// Returns them, as last seen.
    pub fn others(&self, now: Duration) -> Vec<OtherMember> {
        let other = |(number, (name, _, since)): (&u16, &(String, u64, Duration))| OtherMember {
            name: name.clone(),
            number: *number,
            silent: now.saturating_sub(*since),
        };
        self.seen.iter().map(other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryEngine;

    #[test]
    fn members_keep_their_numbers_and_numbers_are_not_used_again() {
        let table = MemoryEngine::new(1);
        assert_eq!(number_of(&table, "fe1"), Ok(None));
        assert_eq!(add_member(&table, "fe1"), Ok(1));
        assert_eq!(add_member(&table, "fe2"), Ok(2));
        assert_eq!(add_member(&table, "fe1"), Ok(1));
        assert_eq!(remove_member(&table, "fe2"), Ok((true, 1)));
        assert_eq!(remove_member(&table, "fe2"), Ok((false, 1)));
        assert_eq!(number_of(&table, "fe2"), Ok(None));
        assert_eq!(add_member(&table, "fe2"), Ok(3));
        assert_eq!((keep_member(&table, "fe2", 2), keep_member(&table, "fe2", 3)), (Ok(false), Ok(false)));
        assert_eq!(add_member(&table, "f 3"), Err(MembersError::Name("f 3".into())));
        let names: Vec<String> = members(&table).unwrap().into_iter().map(|member| member.name).collect();
        assert_eq!(names, ["fe1", "fe2", "fe2"]);
    }

    #[test]
    fn members_put_themselves_back_into_an_empty_table() {
        let table = MemoryEngine::new(1);
        for (name, number) in [("fe3", 3), ("fe1", 1)] {
            assert_eq!(keep_member(&table, name, number), Ok(true));
        }
        let names: Vec<String> = members(&table).unwrap().into_iter().map(|member| member.name).collect();
        assert_eq!((names, add_member(&table, "fe4")), (vec!["fe1".to_owned(), "fe3".to_owned()], Ok(4)));
    }

    #[test]
    fn the_last_member_ends_the_cluster_and_no_other_does() {
        let table = MemoryEngine::new(1);
        for name in ["fe1", "fe2"] {
            add_member(&table, name).unwrap();
        }
        assert_eq!(remove_last_member(&table, "fe1"), Ok(vec!["fe2".to_owned()]));
        assert_eq!(number_of(&table, "fe1"), Ok(Some(1)));
        remove_member(&table, "fe2").unwrap();
        for _ in 0..2 {
            assert_eq!(remove_last_member(&table, "fe1"), Ok(Vec::new()));
        }
        assert_eq!(number_of(&table, "fe1"), Ok(None));
    }

    #[test]
    fn settings_of_the_first_member_count_for_all() {
        let table = MemoryEngine::new(1);
        let settings =
            |identity: &str| [("path_identity", identity.to_owned()), ("remember_days", "10".into())];
        share_settings(&table, &settings("a.example")).unwrap();
        share_settings(&table, &settings("a.example")).unwrap();
        let differs = share_settings(&table, &settings("b.example")).unwrap_err().to_string();
        assert!(
            differs.contains("path_identity is b.example here and a.example in the cluster"),
            "{differs}"
        );
    }

    #[test]
    fn a_newer_format_is_written_once_all_members_can_read_it_and_older_versions_are_refused_from_then_on() {
        let table = MemoryEngine::new(1);
        for name in ["fe1", "fe2"] {
            add_member(&table, name).unwrap();
            announce_format(&table, name, 1).unwrap();
        }
        assert_eq!(raise_format(&table), Ok((1, false)));
        announce_format(&table, "fe1", 3).unwrap();
        let formats = ClusterFormats::read(&table).unwrap();
        assert_eq!((formats.in_force, formats.common(), formats.without(3)), (1, 1, vec!["fe2"]));
        assert_eq!(raise_format(&table), Ok((1, false)));
        // The old version may come back until then.
        announce_format(&table, "fe1", 1).unwrap();
        announce_format(&table, "fe1", 3).unwrap();
        announce_format(&table, "fe2", 2).unwrap();
        assert_eq!(raise_format(&table), Ok((2, true)));
        let refused = announce_format(&table, "fe2", 1).unwrap_err();
        assert_eq!(refused, MembersError::Newer { in_force: 2, newest: 1 });
        remove_member(&table, "fe2").unwrap();
        assert_eq!(raise_format(&table), Ok((3, true)));
    }

    #[test]
    fn a_member_is_silent_since_its_last_report_and_one_that_has_left_is_forgotten() {
        let table = MemoryEngine::new(1);
        for name in ["fe1", "fe2", "fe3"] {
            add_member(&table, name).unwrap();
        }
        let mut seen = Neighbours::of(1);
        let secs = Duration::from_secs;
        seen.look(&table, secs(10));
        for now in 11..=20 {
            MemberReport::default().put(&table, "fe2").unwrap();
            seen.look(&table, secs(now));
        }
        let other =
            |name: &str, number, silent| OtherMember { name: name.into(), number, silent: secs(silent) };
        assert_eq!(seen.others(secs(21)), [other("fe2", 2, 1), other("fe3", 3, 11)]);
        remove_member(&table, "fe3").unwrap();
        seen.look(&table, secs(25));
        assert_eq!(seen.others(secs(25)), [other("fe2", 2, 5)]);
    }

    #[test]
    fn reports_are_read_as_written() {
        let table = MemoryEngine::new(1);
        assert_eq!(MemberReport::get(&table, "fe1"), Ok(None));
        let mut report = MemberReport {
            time: 5,
            version: "0.2.0".into(),
            position: 77,
            digest: "abc".into(),
            state: "follows the log".into(),
        };
        for digest in ["abc", ""] {
            report.digest = digest.into();
            table.set_time(9);
            report.put(&table, "fe1").unwrap();
            let heard = HeardReport { report: report.clone(), heard: 9 };
            assert_eq!(MemberReport::get(&table, "fe1"), Ok(Some(heard)));
        }
    }

    #[test]
    fn a_member_runs_or_does_not_whatever_its_clock_says() {
        const YEAR: u32 = 366 * 86_400;
        let (table, now) = (MemoryEngine::new(1), 1_795_000_000);
        table.set_time(now);
        for name in ["fe1", "fe2", "fe3"] {
            add_member(&table, name).unwrap();
        }
        let report = |name: &str, time| MemberReport { time, ..MemberReport::default() }.put(&table, name);
        for (name, time) in [("fe1", now), ("fe2", now - YEAR), ("fe3", now + YEAR)] {
            report(name, time).unwrap();
        }
        let may_run = |now| -> Vec<bool> {
            let report = |name| MemberReport::get(&table, name).unwrap().unwrap().may_run(now);
            ["fe1", "fe2", "fe3"].map(report).into()
        };
        assert_eq!(may_run(now + 14), [true; 3]);
        assert_eq!(may_run(now + 15), [false; 3]);
        let wrong = |name, time: u32| wrong_clock(&table, name, || time.into()).unwrap();
        assert_eq!(wrong("fe1", now), None);
        assert_eq!(wrong("fe2", now - YEAR), Some(-i64::from(YEAR)));
        assert_eq!(wrong("fe3", now + YEAR), Some(i64::from(YEAR)));
        // The engine's clock is wrong: those of the members agree.
        ["fe1", "fe2", "fe3"].iter().for_each(|name| report(name, now + YEAR).unwrap());
        assert_eq!(wrong("fe1", now + YEAR), None);
    }
}
