//! Leases: which member does a job that one member does at a time, such as feeding a peer.
//!
//! A lease only keeps work from being done twice: nothing that decides about news depends on it. Its holder
//! renews an entry of the table; another member takes it once the entry has not changed for some seconds of
//! its own clock. Times of day are compared nowhere. With the entry goes how far the holder has come.

use crate::engine::{EngineTable, TableError};
use spool::JobLead;
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval at which a holder renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Time after which a holder that could not renew its lease gives it up.
const HELD_MAX: Duration = Duration::from_secs(7);
/// Time after which another member takes a lease that was not renewed; longer than holders keep it.
const FREE_AFTER: Duration = Duration::from_secs(10);

/// A lease as the table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeaseEntry {
    /// Number and incarnation of the holder; 0: it was given up.
    member: u16,
    incarnation: u64,
    /// How far the holder has come.
    reached: u64,
}

impl LeaseEntry {
    fn text(&self) -> String {
        format!("{} {} {}", self.member, self.incarnation, self.reached)
    }

    fn of(value: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let entry = Self {
            member: words.next()?.parse().ok()?,
            incarnation: words.next()?.parse().ok()?,
            reached: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(entry)
    }
}

/// What is known here about a lease.
#[derive(Debug, Default)]
struct KnownLease {
    /// Revision of the entry while it is held here, and when it was renewed last.
    held: Option<(u64, Duration)>,
    /// Revision seen last while it is held elsewhere, and since when.
    seen: Option<(u64, Duration)>,
    reached: u64,
}

/// The leases of a member.
#[derive(Debug)]
pub struct Leases {
    member: u16,
    incarnation: u64,
    known: BTreeMap<String, KnownLease>,
}

impl Leases {
    /// Creates those of a process of a member, which holds none.
    pub fn new(member: u16, incarnation: u64) -> Self {
        Self { member, incarnation, known: BTreeMap::new() }
    }

    /// Keeps or takes the lease of a job, in which this member has come so far; `now` is the time before this
    /// call. To be called more often than leases are renewed.
    pub fn lead(&mut self, table: &dyn EngineTable, job: &str, reached: u64, now: Duration) -> JobLead {
        let (member, incarnation) = (self.member, self.incarnation);
        let own = LeaseEntry { member, incarnation, reached };
        let known = self.known.entry(key_of(job)).or_default();
        known.reached = reached;
        match known.held {
            Some((_, renewed)) if now.saturating_sub(renewed) < RENEW_EVERY => JobLead::Held,
            Some(held) => renew(table, &key_of(job), own, held, known, now),
            None => take(table, &key_of(job), own, known, now).unwrap_or(JobLead::Elsewhere),
        }
    }

    /// Gives up the leases that are held here, so that others take them at once.
    pub fn give_up(&mut self, table: &dyn EngineTable) {
        for (key, lease) in std::mem::take(&mut self.known) {
            let Some((revision, _)) = lease.held else { continue };
            let entry = LeaseEntry { member: 0, incarnation: 0, reached: lease.reached };
            // If that fails, it is free after a while.
            let _ = table.put_if(&key, entry.text().as_bytes(), revision);
        }
    }
}

/// Renews a lease that is held here.
fn renew(
    table: &dyn EngineTable,
    key: &str,
    own: LeaseEntry,
    (revision, renewed): (u64, Duration),
    known: &mut KnownLease,
    now: Duration,
) -> JobLead {
    match table.put_if(key, own.text().as_bytes(), revision) {
        Ok(revision) => {
            known.held = Some((revision, now));
            JobLead::Held
        }
        Err(TableError::Changed) => match table.get(key) {
            // An earlier call had an effect although it was not answered.
            Ok(Some(entry)) if LeaseEntry::of(&entry.value).is_some_and(|found| is_same(found, own)) => {
                known.held = Some((entry.revision, renewed));
                still_held(known, renewed, now)
            }
            Ok(_) => {
                known.held = None;
                JobLead::Elsewhere
            }
            Err(_) => still_held(known, renewed, now),
        },
        Err(TableError::NoAnswer(_)) => still_held(known, renewed, now),
    }
}

fn is_same(a: LeaseEntry, b: LeaseEntry) -> bool {
    (a.member, a.incarnation) == (b.member, b.incarnation)
}

/// Keeps a lease that could not be renewed, for some seconds.
fn still_held(known: &mut KnownLease, renewed: Duration, now: Duration) -> JobLead {
    if now.saturating_sub(renewed) < HELD_MAX {
        return JobLead::Held;
    }
    known.held = None;
    JobLead::Elsewhere
}

/// Takes a lease that is free, or whose holder is silent; `None` if it is held elsewhere.
fn take(
    table: &dyn EngineTable,
    key: &str,
    own: LeaseEntry,
    known: &mut KnownLease,
    now: Duration,
) -> Option<JobLead> {
    let (revision, found) = match table.get(key).ok()? {
        None => (0, None),
        Some(entry) => (entry.revision, LeaseEntry::of(&entry.value)),
    };
    // What an earlier process of this member has done is known here.
    let is_own = found.is_none_or(|found| found.member == own.member);
    let is_free = is_own || found.is_some_and(|found| found.member == 0);
    if !is_free {
        let since = known.seen.filter(|(seen, _)| *seen == revision).map_or(now, |(_, since)| since);
        known.seen = Some((revision, since));
        (now.saturating_sub(since) >= FREE_AFTER).then_some(())?;
    }
    let reached = found.filter(|_| !is_own).map(|found| found.reached);
    let entry = LeaseEntry { reached: reached.unwrap_or(own.reached), ..own };
    let revision = table.put_if(key, entry.text().as_bytes(), revision).ok()?;
    known.held = Some((revision, now));
    known.seen = None;
    Some(JobLead::Taken { reached })
}

/// Returns the key of a job; bytes that keys cannot have are written in hexadecimal.
fn key_of(job: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(b).to_string(),
        b => format!("={b:02x}"),
    };
    format!("lease.{}", job.bytes().map(byte).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryEngine;

    const JOB: &str = "feed.peer.example";

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn one_member_holds_a_lease_and_another_takes_it_once_the_holder_is_silent() {
        let table = MemoryEngine::new(1);
        let (mut first, mut second) = (Leases::new(1, 5), Leases::new(2, 9));
        assert_eq!(first.lead(&table, JOB, 100, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(second.lead(&table, JOB, 7, secs(0)), JobLead::Elsewhere);
        for now in 1..60 {
            assert_eq!(first.lead(&table, JOB, 100 + now, secs(now)), JobLead::Held);
            assert_eq!(second.lead(&table, JOB, 7, secs(now)), JobLead::Elsewhere, "{now}");
        }
        // The first is silent from 59 s on; its clock may be another.
        for now in 60..68 {
            assert_eq!(second.lead(&table, JOB, 7, secs(now)), JobLead::Elsewhere, "{now}");
        }
        let taken = (68..72).find_map(|now| match second.lead(&table, JOB, 7, secs(now)) {
            JobLead::Taken { reached } => Some((now, reached)),
            _ => None,
        });
        let (at, reached) = taken.unwrap();
        assert!(at >= 68 && reached.is_some_and(|reached| (156..=159).contains(&reached)), "{taken:?}");
        assert_eq!(first.lead(&table, JOB, 300, secs(72)), JobLead::Elsewhere);
    }

    #[test]
    fn a_lease_that_is_given_up_is_taken_at_once_and_a_process_has_those_of_the_one_before() {
        let table = MemoryEngine::new(1);
        let (mut first, mut second) = (Leases::new(1, 5), Leases::new(2, 9));
        first.lead(&table, JOB, 100, secs(0));
        first.lead(&table, JOB, 150, secs(1));
        first.give_up(&table);
        assert_eq!(second.lead(&table, JOB, 7, secs(1)), JobLead::Taken { reached: Some(150) });
        let mut later = Leases::new(2, 10);
        assert_eq!(later.lead(&table, JOB, 8, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(second.lead(&table, JOB, 7, secs(9)), JobLead::Elsewhere);
        assert_eq!(key_of("feed.a b"), "lease.feed=2ea=20b");
    }

    /// A table that answers nothing.
    #[derive(Debug)]
    struct Silent;

    impl EngineTable for Silent {
        fn get(&self, _: &str) -> Result<Option<crate::engine::TableEntry>, TableError> {
            Err(TableError::NoAnswer(String::new()))
        }

        fn put_if(&self, _: &str, _: &[u8], _: u64) -> Result<u64, TableError> {
            Err(TableError::NoAnswer(String::new()))
        }
    }

    #[test]
    fn a_holder_without_answers_gives_up_before_another_may_take_the_lease() {
        let table = MemoryEngine::new(1);
        let mut first = Leases::new(1, 5);
        assert_eq!(first.lead(&Silent, JOB, 1, secs(0)), JobLead::Elsewhere);
        first.lead(&table, JOB, 1, secs(1));
        for now in 2..8 {
            assert_eq!(first.lead(&Silent, JOB, 1, secs(now)), JobLead::Held, "{now}");
        }
        assert_eq!(first.lead(&Silent, JOB, 1, secs(8)), JobLead::Elsewhere);
        assert!(HELD_MAX < FREE_AFTER);
        // It is its own once the table answers.
        assert_eq!(first.lead(&table, JOB, 1, secs(9)), JobLead::Taken { reached: None });
    }
}
