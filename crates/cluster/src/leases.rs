//! Leases: which member does a job that one member does at a time, such as feeding a peer.
//!
//! A lease only keeps work from being done twice: nothing that decides about news depends on it. Its holder
//! renews an entry of the table; another member takes it once the entry has not changed for some seconds of
//! its own clock. Times of day are compared nowhere. With the entry goes how far the holder has come.

use crate::engine::{EngineTable, TableError};
use lock_order::Innermost;
use spool::JobLead;
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval at which a holder renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Time after which a holder that could not renew its lease gives it up.
const HELD_MAX: Duration = Duration::from_secs(7);
/// Time after which another member takes a lease that was not renewed; longer than holders keep it.
const FREE_AFTER: Duration = Duration::from_secs(10);
/// Time after which a job that no one here asks about is left to others.
const ASKED_WITHIN: Duration = Duration::from_secs(3_600);

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

/// A lease that this member holds.
#[derive(Debug, Clone, Copy)]
struct HeldLease {
    /// Revision of the entry.
    revision: u64,
    /// Time at which it was renewed last.
    renewed: Duration,
}

/// Entry of a lease that another member holds.
#[derive(Debug, Clone, Copy)]
struct SeenLease {
    /// Revision seen last.
    revision: u64,
    /// Time at which that revision was first seen.
    since: Duration,
}

/// Knowledge of this member about a lease.
#[derive(Debug, Default)]
struct KnownLease {
    held: Option<HeldLease>,
    seen: Option<SeenLease>,
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
        let known = self.known.entry(key_of(job)).or_default();
        // What was settled once stays so.
        known.reached = known.reached.max(reached);
        let own = LeaseEntry { member, incarnation, reached: known.reached };
        match known.held {
            Some(held) if now.saturating_sub(held.renewed) < RENEW_EVERY => JobLead::Held,
            Some(held) => renew(table, &key_of(job), own, held, known, now),
            None => take(table, &key_of(job), own, known, now),
        }
    }

    /// Returns until when the lease of a job is held without being renewed; `None` if it is not held.
    fn held_until(&self, job: &str) -> Option<Duration> {
        self.known.get(&key_of(job))?.held.map(|held| held.renewed + HELD_MAX)
    }

    /// Gives up the lease of a job, if it is held here.
    fn give_up_one(&mut self, table: &dyn EngineTable, job: &str) {
        let key = key_of(job);
        if let Some(lease) = self.known.remove(&key) {
            free(table, &key, &lease);
        }
    }

    /// Gives up the leases that are held here, so that others take them at once.
    pub fn give_up(&mut self, table: &dyn EngineTable) {
        std::mem::take(&mut self.known).iter().for_each(|(key, lease)| free(table, key, lease));
    }
}

/// Writes that no one holds a lease any more, if it is held here.
fn free(table: &dyn EngineTable, key: &str, lease: &KnownLease) {
    let Some(HeldLease { revision, .. }) = lease.held else { return };
    let entry = LeaseEntry { member: 0, incarnation: 0, reached: lease.reached };
    // If that fails, it is free after a while.
    let _ = table.put_if(key, entry.text().as_bytes(), revision);
}

/// A job that someone here would do.
#[derive(Debug, Default)]
struct WantedJob {
    reached: u64,
    /// Time of the last question about it.
    asked: Duration,
    /// Time until which it is done here.
    held_until: Duration,
    /// What was found when it was taken, until that is asked for.
    taken: Option<Option<u64>>,
    /// Whether the last answer was that another member does it.
    was_elsewhere: bool,
    /// How far the member that does it had come, if another does.
    elsewhere: Option<u64>,
}

/// The jobs that this member would do. Questions about them are answered without waiting, of what
/// [`WantedJobs::renew`] last found, which a thread calls about every second.
#[derive(Debug, Default)]
pub struct WantedJobs(Innermost<BTreeMap<String, WantedJob>>);

impl WantedJobs {
    /// Says that this member would do a job, and how far it has come; see [`spool::SharedLog::lead`].
    pub fn lead(&self, job: &str, reached: u64, now: Duration) -> JobLead {
        let mut jobs = self.0.lock();
        let wanted = jobs.entry(job.to_owned()).or_default();
        wanted.asked = now;
        if wanted.held_until <= now {
            wanted.was_elsewhere = true;
            return JobLead::Elsewhere { reached: wanted.elsewhere };
        }
        // A lease that could not be renewed in time, and that no other member has taken, is held again: the
        // job has ended here, and begins again where this member was.
        let was_elsewhere = std::mem::take(&mut wanted.was_elsewhere);
        if let Some(reached) = wanted.taken.take().or(was_elsewhere.then_some(None)) {
            return JobLead::Taken { reached };
        }
        wanted.reached = wanted.reached.max(reached);
        JobLead::Held
    }

    /// Keeps the leases of the jobs, takes those that are free, and gives up those that no one asks about;
    /// `now` returns the time.
    pub fn renew(&self, leases: &mut Leases, table: &dyn EngineTable, now: impl Fn() -> Duration) {
        let begun = now();
        let mut forgotten = Vec::new();
        let wanted: Vec<(String, u64)> = {
            let mut jobs = self.0.lock();
            jobs.retain(|job, wanted| {
                let is_wanted = begun.saturating_sub(wanted.asked) < ASKED_WITHIN;
                if !is_wanted {
                    forgotten.push(job.clone());
                }
                is_wanted
            });
            jobs.iter().map(|(job, wanted)| (job.clone(), wanted.reached)).collect()
        };
        forgotten.iter().for_each(|job| leases.give_up_one(table, job));
        for (job, reached) in wanted {
            let lead = leases.lead(table, &job, reached, now());
            let held_until = leases.held_until(&job).unwrap_or_default();
            let mut jobs = self.0.lock();
            let Some(wanted) = jobs.get_mut(&job) else { continue };
            wanted.held_until = held_until;
            match lead {
                JobLead::Held => {}
                JobLead::Taken { reached } => wanted.taken = Some(reached),
                JobLead::Elsewhere { reached } => {
                    wanted.taken = None;
                    wanted.elsewhere = reached.or(wanted.elsewhere);
                }
            }
        }
    }
}

/// Renews a lease that is held here.
fn renew(
    table: &dyn EngineTable,
    key: &str,
    own: LeaseEntry,
    held: HeldLease,
    known: &mut KnownLease,
    now: Duration,
) -> JobLead {
    match table.put_if(key, own.text().as_bytes(), held.revision) {
        Ok(revision) => {
            known.held = Some(HeldLease { revision, renewed: now });
            JobLead::Held
        }
        Err(TableError::Changed) => match table.get(key) {
            // An earlier call had an effect although it was not answered.
            Ok(Some(entry)) if LeaseEntry::of(&entry.value).is_some_and(|found| is_same(found, own)) => {
                known.held = Some(HeldLease { revision: entry.revision, ..held });
                still_held(known, held.renewed, now)
            }
            Ok(found) => {
                known.held = None;
                let found = found.and_then(|entry| LeaseEntry::of(&entry.value));
                JobLead::Elsewhere { reached: found.map(|found| found.reached) }
            }
            Err(_) => still_held(known, held.renewed, now),
        },
        Err(TableError::NoAnswer(_)) => still_held(known, held.renewed, now),
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
    JobLead::Elsewhere { reached: None }
}

/// Takes a lease that is free, or whose holder is silent.
fn take(
    table: &dyn EngineTable,
    key: &str,
    own: LeaseEntry,
    known: &mut KnownLease,
    now: Duration,
) -> JobLead {
    let (revision, found) = match table.get(key) {
        Err(_) => return JobLead::Elsewhere { reached: None },
        Ok(None) => (0, None),
        Ok(Some(entry)) => (entry.revision, LeaseEntry::of(&entry.value)),
    };
    let elsewhere = JobLead::Elsewhere { reached: found.map(|found| found.reached) };
    // What an earlier process of this member has done is known here.
    let is_own = found.is_none_or(|found| found.member == own.member);
    let is_free = is_own || found.is_some_and(|found| found.member == 0);
    if !is_free {
        let since = known.seen.filter(|seen| seen.revision == revision).map_or(now, |seen| seen.since);
        known.seen = Some(SeenLease { revision, since });
        if now.saturating_sub(since) < FREE_AFTER {
            return elsewhere;
        }
    }
    known.reached = found.map_or(own.reached, |found| found.reached.max(own.reached));
    let entry = LeaseEntry { reached: known.reached, ..own };
    let Ok(revision) = table.put_if(key, entry.text().as_bytes(), revision) else { return elsewhere };
    known.held = Some(HeldLease { revision, renewed: now });
    known.seen = None;
    JobLead::Taken { reached: found.filter(|_| !is_own).map(|found| found.reached) }
}

/// Frees the leases that earlier processes of a member had, whose disk is lost: what they had done is known
/// nowhere but in the entries. `keys` are those of the table.
pub fn disown(table: &dyn EngineTable, keys: impl IntoIterator<Item = String>, member: u16) {
    for key in keys.into_iter().filter(|key| key.starts_with(LEASE_PREFIX)) {
        let Ok(Some(entry)) = table.get(&key) else { continue };
        let Some(lease) = LeaseEntry::of(&entry.value).filter(|lease| lease.member == member) else {
            continue;
        };
        let freed = LeaseEntry { member: 0, incarnation: 0, ..lease };
        // Another member may have taken it meanwhile.
        let _ = table.put_if(&key, freed.text().as_bytes(), entry.revision);
    }
}

/// Beginning of the keys of leases.
pub const LEASE_PREFIX: &str = "lease.";

/// Returns the number of the member that holds the lease with this entry; `None` if none does.
pub fn holder_of(value: &[u8]) -> Option<u16> {
    LeaseEntry::of(value).map(|entry| entry.member).filter(|member| *member > 0)
}

/// Returns the job of a key; `None` if it is the key of something else.
pub fn job_of(key: &str) -> Option<String> {
    let mut pieces = key.strip_prefix(LEASE_PREFIX)?.split('=');
    let mut job = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (byte, rest) = piece.split_at_checked(2)?;
        job.push(u8::from_str_radix(byte, 16).ok()?);
        job.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(job).ok()
}

/// Returns the key of a job; bytes that keys cannot have are written in hexadecimal.
fn key_of(job: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(b).to_string(),
        b => format!("={b:02x}"),
    };
    format!("{LEASE_PREFIX}{}", job.bytes().map(byte).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryEngine;

    const JOB: &str = "feed.peer.example";

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn elsewhere(reached: u64) -> JobLead {
        JobLead::Elsewhere { reached: Some(reached) }
    }

    #[test]
    fn jobs_of_a_member_that_is_silent_move_within_12_seconds_with_what_it_had_reached() {
        let table = MemoryEngine::new(1);
        let (mut first, mut second) = (Leases::new(1, 5), Leases::new(2, 9));
        let (ours, theirs) = (WantedJobs::default(), WantedJobs::default());
        let jobs: Vec<String> = (0..30).map(|n| format!("job.{n}")).collect();
        let asked = |wanted: &WantedJobs, reached, now| -> Vec<JobLead> {
            jobs.iter().map(|job| wanted.lead(job, reached, secs(now))).collect()
        };
        assert_eq!(asked(&ours, 1, 0), vec![JobLead::Elsewhere { reached: None }; 30]);
        ours.renew(&mut first, &table, || secs(0));
        assert_eq!(asked(&ours, 1, 0), vec![JobLead::Taken { reached: None }; 30]);
        for now in 1..20 {
            assert_eq!(asked(&ours, now, now), vec![JobLead::Held; 30], "{now}");
            ours.renew(&mut first, &table, || secs(now));
            let lead = asked(&theirs, 0, now);
            assert!(lead.iter().all(|lead| matches!(lead, JobLead::Elsewhere { .. })), "{now}: {lead:?}");
            theirs.renew(&mut second, &table, || secs(now));
        }
        assert_eq!(asked(&theirs, 0, 19), vec![elsewhere(18); 30], "as renewed last, at 18 s");
        // The first is silent from here on, and must not work any more before the second begins.
        let moved = (20..).find(|now| {
            theirs.renew(&mut second, &table, || secs(*now));
            let (here, there) = (asked(&ours, 19, *now), asked(&theirs, 0, *now));
            let is_at_work = |lead: &JobLead| !matches!(lead, JobLead::Elsewhere { .. });
            assert!(!here.iter().any(is_at_work) || !there.iter().any(is_at_work), "{now}: both");
            there.iter().all(|lead| matches!(lead, JobLead::Taken { reached: Some(17..) }))
        });
        assert!(moved.is_some_and(|at| at - 19 <= 12), "{moved:?}");
        // What is not asked about is given up at once, and what was reached stays with it.
        theirs.renew(&mut second, &table, || secs(40) + ASKED_WITHIN);
        let mut third = Leases::new(3, 1);
        assert_eq!(third.lead(&table, "job.0", 0, secs(1)), JobLead::Taken { reached: Some(18) });
    }

    #[test]
    fn a_job_begins_again_where_its_lease_was_not_renewed_in_time_and_not_taken_by_another_member() {
        let table = MemoryEngine::new(1);
        let (mut leases, wanted) = (Leases::new(1, 5), WantedJobs::default());
        let lapsed = JobLead::Elsewhere { reached: None };
        assert_eq!(wanted.lead(JOB, 0, secs(0)), lapsed);
        wanted.renew(&mut leases, &table, || secs(0));
        assert_eq!(wanted.lead(JOB, 0, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(wanted.lead(JOB, 5, secs(6)), JobLead::Held);
        assert_eq!(wanted.lead(JOB, 5, secs(8)), lapsed);
        wanted.renew(&mut leases, &table, || secs(8));
        assert_eq!(wanted.lead(JOB, 5, secs(8)), JobLead::Taken { reached: None });
        assert_eq!(wanted.lead(JOB, 5, secs(9)), JobLead::Held);
    }

    #[test]
    fn one_member_holds_a_lease_and_another_takes_it_once_the_holder_is_silent() {
        let table = MemoryEngine::new(1);
        let (mut first, mut second) = (Leases::new(1, 5), Leases::new(2, 9));
        assert_eq!(first.lead(&table, JOB, 100, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(second.lead(&table, JOB, 7, secs(0)), elsewhere(100));
        for now in 1..60 {
            assert_eq!(first.lead(&table, JOB, 100 + now, secs(now)), JobLead::Held);
            let lead = second.lead(&table, JOB, 7, secs(now));
            assert!(matches!(lead, JobLead::Elsewhere { reached: Some(100..) }), "{now}: {lead:?}");
        }
        // The first is silent from 59 s on; its clock may be another.
        for now in 60..68 {
            let lead = second.lead(&table, JOB, 7, secs(now));
            assert!(matches!(lead, JobLead::Elsewhere { reached: Some(156..) }), "{now}: {lead:?}");
        }
        let taken = (68..72).find_map(|now| match second.lead(&table, JOB, 7, secs(now)) {
            JobLead::Taken { reached } => Some((now, reached)),
            _ => None,
        });
        let (at, reached) = taken.unwrap();
        assert!(at >= 68 && reached.is_some_and(|reached| (156..=159).contains(&reached)), "{taken:?}");
        assert!(matches!(first.lead(&table, JOB, 300, secs(72)), JobLead::Elsewhere { .. }));
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
        // Its disk is lost: what it knew has to come from the entry.
        disown(&table, table.table_keys(), 2);
        let mut replaced = Leases::new(2, 11);
        assert_eq!(replaced.lead(&table, JOB, 0, secs(0)), JobLead::Taken { reached: Some(150) });
        let mut later = Leases::new(2, 12);
        assert_eq!(later.lead(&table, JOB, 8, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(second.lead(&table, JOB, 7, secs(9)), elsewhere(150));
        assert_eq!(key_of("feed.a b"), "lease.feed=2ea=20b");
        assert_eq!(job_of("lease.feed=2ea=20b").as_deref(), Some("feed.a b"));
        assert_eq!((job_of("report.fe1"), job_of("lease.a=2")), (None, None));
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

        fn now(&self) -> Result<u32, TableError> {
            Err(TableError::NoAnswer(String::new()))
        }
    }

    #[test]
    fn a_holder_without_answers_gives_up_before_another_may_take_the_lease() {
        let table = MemoryEngine::new(1);
        let mut first = Leases::new(1, 5);
        assert_eq!(first.lead(&Silent, JOB, 1, secs(0)), JobLead::Elsewhere { reached: None });
        first.lead(&table, JOB, 1, secs(1));
        for now in 2..8 {
            assert_eq!(first.lead(&Silent, JOB, 1, secs(now)), JobLead::Held, "{now}");
        }
        assert_eq!(first.lead(&Silent, JOB, 1, secs(8)), JobLead::Elsewhere { reached: None });
        assert!(HELD_MAX < FREE_AFTER);
        // It is its own once the table answers.
        assert_eq!(first.lead(&table, JOB, 1, secs(9)), JobLead::Taken { reached: None });
    }
}
