//! Leases: which member does a job that one member does at a time, such as feeding a peer.
//!
//! A lease only keeps work from being done twice: nothing that decides about news depends on it. Its holder
//! renews an entry of the table; another member takes it once the entry has not changed for some seconds of
//! its own clock. Times of day are compared nowhere. With the entry goes how far the holder has come.

use crate::engine::{EngineTable, TableError};
use crate::member::MemberState;
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

/// Time for which a member keeps its jobs although it does not follow the log.
const NOT_FOLLOWING_MAX: Duration = Duration::from_secs(10);

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

impl KnownLease {
    /// Keeps a lease that could not be renewed, for some seconds.
    fn lead_without_renewal(&mut self, now: Duration) -> JobLead {
        self.held = self.held.filter(|held| now.saturating_sub(held.renewed) < HELD_MAX);
        self.held.map_or(JobLead::Elsewhere { reached: None }, |_| JobLead::Held)
    }
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
        self.try_lead(table, job, reached, now)
            .unwrap_or_else(|_| self.known.entry(key_of(job)).or_default().lead_without_renewal(now))
    }

    /// Like [`Leases::lead`], but fails if the table does not answer; a lease that is held stays so then.
    fn try_lead(
        &mut self,
        table: &dyn EngineTable,
        job: &str,
        reached: u64,
        now: Duration,
    ) -> Result<JobLead, TableError> {
        let (member, incarnation) = (self.member, self.incarnation);
        let known = self.known.entry(key_of(job)).or_default();
        // What was settled once stays so.
        known.reached = known.reached.max(reached);
        let own = LeaseEntry { member, incarnation, reached: known.reached };
        match known.held {
            Some(held) if now.saturating_sub(held.renewed) < RENEW_EVERY => Ok(JobLead::Held),
            Some(held) => renew(table, &key_of(job), own, held, known, now),
            None => take(table, &key_of(job), own, known, now),
        }
    }

    /// Returns until when the lease of a job is held without being renewed; `None` if it is not held.
    fn held_until(&self, job: &str) -> Option<Duration> {
        self.known.get(&key_of(job))?.held.map(|held| held.renewed + HELD_MAX)
    }

    /// Gives up the lease of a job, if it is held here.
    fn give_up_one(&mut self, table: &dyn EngineTable, job: &str) -> Result<(), TableError> {
        let key = key_of(job);
        self.known.remove(&key).map_or(Ok(()), |lease| free(table, &key, &lease))
    }

    /// Gives up the leases that are held here, so that others take them at once. What cannot be written, as
    /// the table does not answer, is free after a while.
    pub fn give_up(&mut self, table: &dyn EngineTable) {
        let known = std::mem::take(&mut self.known);
        let _ = known.iter().try_for_each(|(key, lease)| free(table, key, lease));
    }
}

/// Writes that no one holds a lease any more, if it is held here. Fails if the table does not answer.
fn free(table: &dyn EngineTable, key: &str, lease: &KnownLease) -> Result<(), TableError> {
    let Some(HeldLease { revision, .. }) = lease.held else { return Ok(()) };
    let entry = LeaseEntry { member: 0, incarnation: 0, reached: lease.reached };
    match table.put_if(key, entry.text().as_bytes(), revision) {
        Err(TableError::NoAnswer(why)) => Err(TableError::NoAnswer(why)),
        // If another member has it, there is nothing to give up.
        Ok(_) | Err(TableError::Changed) => Ok(()),
    }
}

/// Whether a member may do jobs: one that does not follow the log would leave them undone.
#[derive(Debug, Default)]
pub struct JobFitness {
    /// Time since which the member does not follow the log.
    since: Option<Duration>,
}

impl JobFitness {
    /// Notes the state of the member; returns whether it may do jobs. One that may follow the log again by
    /// itself keeps them for some seconds.
    pub fn note(&mut self, state: &MemberState, now: Duration) -> bool {
        if *state == MemberState::Following {
            self.since = None;
            return true;
        }
        let since = *self.since.get_or_insert(now);
        !state.has_stopped() && now.saturating_sub(since) < NOT_FOLLOWING_MAX
    }
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
    /// `now` returns the time. Ends early once the table does not answer, as each question takes its time
    /// then, or `goes_on` returns false.
    pub fn renew(
        &self,
        leases: &mut Leases,
        table: &dyn EngineTable,
        now: impl Fn() -> Duration,
        goes_on: impl Fn() -> bool,
    ) {
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
        if forgotten.iter().any(|job| leases.give_up_one(table, job).is_err()) {
            return;
        }
        for (job, reached) in wanted {
            if !goes_on() {
                return;
            }
            // Those that are held without being renewed lapse.
            let Ok(lead) = leases.try_lead(table, &job, reached, now()) else { return };
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

    /// Leaves all jobs to other members, until [`WantedJobs::renew`] is called again.
    pub fn give_up(&self, leases: &mut Leases, table: &dyn EngineTable) {
        // First here, then where others see it.
        for wanted in self.0.lock().values_mut() {
            (wanted.held_until, wanted.taken) = (Duration::ZERO, None);
        }
        leases.give_up(table);
    }
}

/// Renews a lease that is held here. Fails if the table does not answer.
fn renew(
    table: &dyn EngineTable,
    key: &str,
    own: LeaseEntry,
    held: HeldLease,
    known: &mut KnownLease,
    now: Duration,
) -> Result<JobLead, TableError> {
    match table.put_if(key, own.text().as_bytes(), held.revision) {
        Ok(revision) => {
            known.held = Some(HeldLease { revision, renewed: now });
            Ok(JobLead::Held)
        }
        Err(TableError::Changed) => {
            let found = table.get(key)?;
            let revision = found.as_ref().map(|entry| entry.revision);
            let found = found.and_then(|entry| LeaseEntry::of(&entry.value));
            // An earlier call had an effect although it was not answered.
            if let Some(revision) = revision.filter(|_| found.is_some_and(|found| is_same(found, own))) {
                known.held = Some(HeldLease { revision, ..held });
                return Ok(known.lead_without_renewal(now));
            }
            known.held = None;
            Ok(JobLead::Elsewhere { reached: found.map(|found| found.reached) })
        }
        Err(error) => Err(error),
    }
}

fn is_same(a: LeaseEntry, b: LeaseEntry) -> bool {
    (a.member, a.incarnation) == (b.member, b.incarnation)
}

/// Takes a lease that is free, or whose holder is silent. Fails if the table does not answer.
fn take(
    table: &dyn EngineTable,
    key: &str,
    own: LeaseEntry,
    known: &mut KnownLease,
    now: Duration,
) -> Result<JobLead, TableError> {
    let (revision, found) = match table.get(key)? {
        None => (0, None),
        Some(entry) => (entry.revision, LeaseEntry::of(&entry.value)),
    };
    let elsewhere = JobLead::Elsewhere { reached: found.map(|found| found.reached) };
    // What an earlier process of this member has done is known here. A later one runs elsewhere.
    let is_own = found.is_none_or(|found| found.member == own.member && found.incarnation <= own.incarnation);
    let is_free = is_own || found.is_some_and(|found| found.member == 0);
    if !is_free {
        let since = known.seen.filter(|seen| seen.revision == revision).map_or(now, |seen| seen.since);
        known.seen = Some(SeenLease { revision, since });
        if now.saturating_sub(since) < FREE_AFTER {
            return Ok(elsewhere);
        }
    }
    known.reached = found.map_or(own.reached, |found| found.reached.max(own.reached));
    let entry = LeaseEntry { reached: known.reached, ..own };
    let revision = match table.put_if(key, entry.text().as_bytes(), revision) {
        Ok(revision) => revision,
        Err(TableError::Changed) => return Ok(elsewhere),
        Err(error) => return Err(error),
    };
    known.held = Some(HeldLease { revision, renewed: now });
    known.seen = None;
    Ok(JobLead::Taken { reached: found.filter(|_| !is_own).map(|found| found.reached) })
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
    use std::sync::atomic::{AtomicUsize, Ordering};

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
        ours.renew(&mut first, &table, || secs(0), || true);
        assert_eq!(asked(&ours, 1, 0), vec![JobLead::Taken { reached: None }; 30]);
        for now in 1..20 {
            assert_eq!(asked(&ours, now, now), vec![JobLead::Held; 30], "{now}");
            ours.renew(&mut first, &table, || secs(now), || true);
            let lead = asked(&theirs, 0, now);
            assert!(lead.iter().all(|lead| matches!(lead, JobLead::Elsewhere { .. })), "{now}: {lead:?}");
            theirs.renew(&mut second, &table, || secs(now), || true);
        }
        assert_eq!(asked(&theirs, 0, 19), vec![elsewhere(18); 30], "as renewed last, at 18 s");
        // The first is silent from here on, and must not work any more before the second begins.
        let moved = (20..).find(|now| {
            theirs.renew(&mut second, &table, || secs(*now), || true);
            let (here, there) = (asked(&ours, 19, *now), asked(&theirs, 0, *now));
            let is_at_work = |lead: &JobLead| !matches!(lead, JobLead::Elsewhere { .. });
            assert!(!here.iter().any(is_at_work) || !there.iter().any(is_at_work), "{now}: both");
            there.iter().all(|lead| matches!(lead, JobLead::Taken { reached: Some(17..) }))
        });
        assert!(moved.is_some_and(|at| at - 19 <= 12), "{moved:?}");
        // What is not asked about is given up at once, and what was reached stays with it.
        theirs.renew(&mut second, &table, || secs(40) + ASKED_WITHIN, || true);
        let mut third = Leases::new(3, 1);
        assert_eq!(third.lead(&table, "job.0", 0, secs(1)), JobLead::Taken { reached: Some(18) });
    }

    #[test]
    fn a_job_begins_again_where_its_lease_was_not_renewed_in_time_and_not_taken_by_another_member() {
        let table = MemoryEngine::new(1);
        let (mut leases, wanted) = (Leases::new(1, 5), WantedJobs::default());
        let lapsed = JobLead::Elsewhere { reached: None };
        assert_eq!(wanted.lead(JOB, 0, secs(0)), lapsed);
        wanted.renew(&mut leases, &table, || secs(0), || true);
        assert_eq!(wanted.lead(JOB, 0, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(wanted.lead(JOB, 5, secs(6)), JobLead::Held);
        assert_eq!(wanted.lead(JOB, 5, secs(8)), lapsed);
        wanted.renew(&mut leases, &table, || secs(8), || true);
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

    /// A table that answers nothing, and counts the questions.
    #[derive(Debug, Default)]
    struct Silent(AtomicUsize);

    impl Silent {
        fn answer<T>(&self) -> Result<T, TableError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(TableError::NoAnswer(String::new()))
        }
    }

    impl EngineTable for Silent {
        fn get(&self, _: &str) -> Result<Option<crate::engine::TableEntry>, TableError> {
            self.answer()
        }

        fn put_if(&self, _: &str, _: &[u8], _: u64) -> Result<u64, TableError> {
            self.answer()
        }

        fn now(&self) -> Result<u32, TableError> {
            self.answer()
        }
    }

    #[test]
    fn a_table_that_does_not_answer_is_asked_once_however_many_jobs_there_are() {
        let (table, silent) = (MemoryEngine::new(1), Silent::default());
        let asked = || silent.0.load(Ordering::Relaxed);
        let (mut leases, wanted) = (Leases::new(1, 5), WantedJobs::default());
        let jobs: Vec<String> = (0..30).map(|n| format!("job.{n}")).collect();
        let lead = |now| jobs.iter().map(|job| wanted.lead(job, 0, secs(now))).collect::<Vec<_>>();
        lead(0);
        wanted.renew(&mut leases, &silent, || secs(0), || true);
        assert_eq!(asked(), 1);
        wanted.renew(&mut leases, &silent, || secs(0), || false);
        assert_eq!(asked(), 1, "it ends");
        wanted.renew(&mut leases, &table, || secs(1), || true);
        assert_eq!(lead(1), vec![JobLead::Taken { reached: None }; 30]);
        for now in 2..8 {
            wanted.renew(&mut leases, &silent, || secs(now), || true);
            assert_eq!(lead(now), vec![JobLead::Held; 30], "{now}");
        }
        wanted.renew(&mut leases, &silent, || secs(8), || true);
        assert_eq!(lead(8), vec![JobLead::Elsewhere { reached: None }; 30]);
        let before = asked();
        leases.give_up(&silent);
        assert_eq!(asked(), before + 1);
    }

    #[test]
    fn a_member_that_cannot_work_leaves_its_jobs_to_others() {
        let mut fitness = JobFitness::default();
        let stalled = MemberState::Stalled("no room".into());
        assert!(fitness.note(&MemberState::CatchingUp, secs(0)));
        assert!(fitness.note(&MemberState::Following, secs(60)));
        assert!(fitness.note(&stalled, secs(70)), "for a moment");
        assert!(fitness.note(&MemberState::CatchingUp, secs(79)));
        assert!(!fitness.note(&stalled, secs(80)));
        assert!(fitness.note(&MemberState::Following, secs(81)));
        assert!(!fitness.note(&MemberState::Behind, secs(82)), "it does not follow the log again");

        let table = MemoryEngine::new(1);
        let (mut first, mut second) = (Leases::new(1, 5), Leases::new(2, 9));
        let wanted = WantedJobs::default();
        wanted.lead(JOB, 0, secs(0));
        wanted.renew(&mut first, &table, || secs(0), || true);
        assert_eq!(wanted.lead(JOB, 7, secs(0)), JobLead::Taken { reached: None });
        assert_eq!(wanted.lead(JOB, 7, secs(1)), JobLead::Held);
        wanted.renew(&mut first, &table, || secs(2), || true);
        wanted.give_up(&mut first, &table);
        assert!(matches!(wanted.lead(JOB, 7, secs(2)), JobLead::Elsewhere { .. }));
        assert_eq!(second.lead(&table, JOB, 0, secs(2)), JobLead::Taken { reached: Some(7) });
    }

    #[test]
    fn a_process_leaves_a_lease_to_a_later_one_of_its_member() {
        let table = MemoryEngine::new(1);
        let (mut first, mut later) = (Leases::new(1, 5), Leases::new(1, 6));
        first.lead(&table, JOB, 100, secs(0));
        assert_eq!(later.lead(&table, JOB, 100, secs(1)), JobLead::Taken { reached: None });
        for now in 2..60 {
            let lead = first.lead(&table, JOB, 100, secs(now));
            assert!(matches!(lead, JobLead::Elsewhere { .. }), "{now}: {lead:?}");
            assert_eq!(later.lead(&table, JOB, 100, secs(now)), JobLead::Held, "{now}");
        }
    }

    #[test]
    fn a_holder_without_answers_gives_up_before_another_may_take_the_lease() {
        let (table, silent) = (MemoryEngine::new(1), Silent::default());
        let mut first = Leases::new(1, 5);
        assert_eq!(first.lead(&silent, JOB, 1, secs(0)), JobLead::Elsewhere { reached: None });
        first.lead(&table, JOB, 1, secs(1));
        for now in 2..8 {
            assert_eq!(first.lead(&silent, JOB, 1, secs(now)), JobLead::Held, "{now}");
        }
        assert_eq!(first.lead(&silent, JOB, 1, secs(8)), JobLead::Elsewhere { reached: None });
        assert!(HELD_MAX < FREE_AFTER);
        // It is its own once the table answers.
        assert_eq!(first.lead(&table, JOB, 1, secs(9)), JobLead::Taken { reached: None });
    }
}
