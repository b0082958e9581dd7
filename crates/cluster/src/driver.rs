//! A member at work: the thread that drives it, and what sessions ask of it.
//!
//! One thread owns the [`Member`]. Sessions hand it sections and wait for the result; the engine hands it
//! events. Every wait of a session ends: with the result, as the proposal is given up after a while, or as
//! the thread ends.

use crate::engine::{EngineEvent, EngineLog};
use crate::entry::{Section, SectionWriter};
use crate::fold::{EntryOutcome, Fold};
use crate::member::{Member, MemberState};
use crate::position::LogPosition;
use crate::proposer::{NotCommitted, ProposalId};
use crate::world::World;
use lock_order::Innermost;
use parking_lot::Condvar;
use spool::{Change, ChangeOutcome, CommitTicket, SharedLogStatus, Spool, SpoolTrouble, TroubleKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Events of the engine that wait to be handled; beyond that the engine waits.
pub const EVENTS_MAX: usize = 1 << 12;
/// Bytes of messages that wait to be handled; beyond that the engine waits, too.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Time for which a reader waits for a fresh answer.
const FRESH_WAIT_MAX: Duration = Duration::from_secs(2);
/// Events handled before messages are sent again.
const EVENTS_AT_ONCE: usize = 64;

/// Result of a proposal, or that a fresh question is answered.
type Outcome = Result<(Vec<EntryOutcome>, CommitTicket), NotCommitted>;

/// Something that a session waits for.
#[derive(Debug, Default)]
struct Waiter {
    outcome: Innermost<Option<Outcome>>,
    told: Condvar,
}

impl Waiter {
    fn tell(&self, outcome: Outcome) {
        self.outcome.lock().get_or_insert(outcome);
        self.told.notify_all();
    }

    fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.lock();
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => outcome.wait(&self.told),
            }
        }
    }
}

/// Sections that are to be proposed.
#[derive(Debug)]
struct WaitingSections {
    sections: Vec<Section>,
    waiter: Arc<Waiter>,
    /// Whether a reader waits for them, who does not do so for long.
    is_mark: bool,
}

/// What waits for the thread.
#[derive(Debug, Default)]
struct Inbox {
    proposals: VecDeque<WaitingSections>,
    fresh: Vec<Arc<Waiter>>,
    events: VecDeque<EngineEvent>,
    /// Bytes of the messages among the events.
    event_bytes: usize,
    is_ending: bool,
}

impl Inbox {
    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS_MAX || self.event_bytes >= EVENT_BYTES_MAX
    }

    fn push(&mut self, event: EngineEvent) {
        self.event_bytes += bytes_of(&event);
        self.events.push_back(event);
    }

    /// Takes the next events.
    fn take_some(&mut self) -> Vec<EngineEvent> {
        let some = self.events.len().min(EVENTS_AT_ONCE);
        let events: Vec<EngineEvent> = self.events.drain(..some).collect();
        self.event_bytes -= events.iter().map(bytes_of).sum::<usize>();
        events
    }
}

/// Returns the length of the message of an event, if it is one.
fn bytes_of(event: &EngineEvent) -> usize {
    match event {
        EngineEvent::Message(message) => message.bytes.len(),
        _ => 0,
    }
}

/// Status of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Number of the member.
    pub number: u16,
    /// Name of the member.
    pub name: String,
    /// Incarnation of this process.
    pub incarnation: u64,
    /// State.
    pub state: MemberState,
    /// Last message that is applied.
    pub reached: u64,
    /// Time of the log there, in Unix seconds.
    pub time: u32,
    /// First and last message of the log, as known last.
    pub log: Option<(u64, u64)>,
    /// Messages that are not applied yet.
    pub lag: u64,
    /// Time of the engine's last answer.
    answered_at: Option<Duration>,
    /// Message that the log had at a time, and that is not applied yet.
    due: Option<(u64, Duration)>,
    /// Messages on their way to the engine.
    pub in_flight: usize,
    /// Messages that were sent again.
    pub retries: u64,
    /// Whether changes can be proposed.
    pub may_propose: bool,
    /// Fresh answers that were given late, so they may be old.
    pub stale_reads: u64,
    /// Whether changes may still be applied that were reported to be in doubt.
    pub is_in_doubt: bool,
}

/// The handle of a member at work. Clones are of the same member.
#[derive(Debug)]
pub struct MemberHandle {
    inbox: Innermost<Inbox>,
    /// Signalled when there is room for events.
    room: Condvar,
    status: Innermost<MemberStatus>,
    sites: Innermost<Arc<Vec<String>>>,
    world: Arc<dyn World>,
    spool: Arc<Spool>,
}

/// What waits for the thread of a member, and is answered as the thread ends, also by a panic.
struct WaitersOfThread<'a> {
    handle: &'a MemberHandle,
    proposals: BTreeMap<ProposalId, Arc<Waiter>>,
    /// Fresh questions, each with the time until which it waits.
    fresh: BTreeMap<u64, (Arc<Waiter>, Duration)>,
    /// Proposed marks, each with the time until which a reader waits for it.
    marks: VecDeque<(ProposalId, Duration)>,
}

impl<'a> WaitersOfThread<'a> {
    fn of(handle: &'a MemberHandle) -> Self {
        Self { handle, proposals: BTreeMap::new(), fresh: BTreeMap::new(), marks: VecDeque::new() }
    }
}

impl Drop for WaitersOfThread<'_> {
    fn drop(&mut self) {
        self.handle.end();
        let proposals = std::mem::take(&mut self.proposals).into_values();
        let fresh = std::mem::take(&mut self.fresh).into_values().map(|(waiter, _)| waiter);
        let mut waiting: Vec<_> = proposals.chain(fresh).collect();
        let mut inbox = self.handle.inbox.lock();
        waiting.extend(std::mem::take(&mut inbox.proposals).into_iter().map(|waiting| waiting.waiter));
        waiting.append(&mut inbox.fresh);
        drop(inbox);
        waiting.into_iter().for_each(|waiter| waiter.tell(Err(NotCommitted::Stopped)));
    }
}

impl MemberHandle {
    /// Creates a member and its handle; [`MemberHandle::run`] drives it, on a thread of its own.
    pub fn new(
        fold: Fold,
        engine: Arc<dyn EngineLog>,
        world: Arc<dyn World>,
        number: u16,
        name: &str,
        incarnation: u64,
    ) -> Result<(Arc<Self>, Member), SpoolTrouble> {
        let spool = fold.spool().clone();
        let (reached, time) = (fold.reached(), fold.position().time);
        let sites = Arc::new(fold.sites().to_vec());
        let member = Member::new(fold, engine, number, name, incarnation)
            .map_err(|error| SpoolTrouble::new(TroubleKind::Refused, error.to_string()))?;
        let status = MemberStatus {
            number,
            name: name.to_owned(),
            incarnation,
            state: MemberState::CatchingUp,
            reached,
            time,
            log: None,
            lag: 0,
            answered_at: None,
            due: None,
            in_flight: 0,
            retries: 0,
            may_propose: false,
            stale_reads: 0,
            is_in_doubt: false,
        };
        let handle = Self {
            inbox: Innermost::default(),
            room: Condvar::new(),
            status: Innermost::new(status),
            sites: Innermost::new(sites),
            world,
            spool,
        };
        Ok((Arc::new(handle), member))
    }

    /// Returns the status.
    pub fn status(&self) -> MemberStatus {
        self.status.lock().clone()
    }

    /// Returns for how long the log has had what is not applied yet, or has not answered, whichever is
    /// longer.
    pub fn behind(&self) -> Duration {
        let (now, status) = (self.world.now(), self.status.lock());
        let since = [status.answered_at, status.due.map(|(_, since)| since)];
        since.into_iter().flatten().min().map_or(Duration::MAX, |since| now.saturating_sub(since))
    }

    /// Hands over an event of the engine; waits while too many do.
    pub fn tell(&self, event: EngineEvent) {
        let mut inbox = self.inbox.lock();
        while inbox.is_full() && !inbox.is_ending {
            inbox.wait(&self.room);
        }
        inbox.push(event);
        drop(inbox);
        self.world.wake();
    }

    /// Proposes changes, and waits until this member has applied them.
    pub fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let sites = self.sites.lock().clone();
        let mut writer = SectionWriter::default();
        let mut entries = Vec::with_capacity(changes.len());
        for change in changes {
            let pushed = writer.push(change, &sites, || self.world.random());
            entries.push(pushed.map_err(|error| SpoolTrouble::new(TroubleKind::Refused, error.to_string()))?);
        }
        let (folded, ticket) = self.ask_for(writer.finish(), false).map_err(|not| trouble_of(&not))?;
        outcomes.extend(outcomes_of(&entries, &folded));
        match folded.contains(&EntryOutcome::NoBody) {
            false => Ok(ticket),
            true => Err(SpoolTrouble::new(TroubleKind::Io, "parts of a large article got lost on the way")),
        }
    }

    /// Proposes sections, and waits for what becomes of their entries.
    fn ask_for(&self, sections: Vec<Section>, is_mark: bool) -> Outcome {
        let waiter = Arc::new(Waiter::default());
        let mut inbox = self.inbox.lock();
        if inbox.is_ending {
            return Err(NotCommitted::Stopped);
        }
        inbox.proposals.push_back(WaitingSections { sections, waiter: waiter.clone(), is_mark });
        drop(inbox);
        self.world.wake();
        waiter.wait()
    }

    /// Waits until everything is applied that the log has now, for 2 seconds at most; returns false if that
    /// did not suffice. While the engine does not answer, only the first callers wait.
    pub fn freshen(&self) -> bool {
        let waiter = Arc::new(Waiter::default());
        let mut inbox = self.inbox.lock();
        if inbox.is_ending {
            return false;
        }
        inbox.fresh.push(waiter.clone());
        drop(inbox);
        self.world.wake();
        waiter.wait().is_ok()
    }

    /// Waits until everything is applied that the log has once a mark of this member is in it.
    pub fn freshen_strictly(&self) -> bool {
        let mut writer = SectionWriter::default();
        writer.push_mark().is_ok() && self.ask_for(writer.finish(), true).is_ok()
    }

    /// Ends the thread: nothing more is proposed or applied.
    pub fn end(&self) {
        self.inbox.lock().is_ending = true;
        self.room.notify_all();
        self.world.wake();
    }

    /// Returns the position of the spool.
    pub fn position(&self) -> Option<LogPosition> {
        LogPosition::decode(&self.spool.position()?)
    }

    /// Drives the member until [`MemberHandle::end`].
    pub fn run(&self, mut member: Member) {
        let mut waiters = WaitersOfThread::of(self);
        let WaitersOfThread { proposals, fresh, marks, .. } = &mut waiters;
        // When a reader began to wait in vain, until the engine answers again.
        let mut silent_since: Option<Duration> = None;
        loop {
            let now = self.world.now();
            let mut inbox = self.inbox.lock();
            if inbox.is_ending {
                break;
            }
            let (new, asked) = (std::mem::take(&mut inbox.proposals), std::mem::take(&mut inbox.fresh));
            let events = inbox.take_some();
            let has_more = !inbox.events.is_empty();
            drop(inbox);
            self.room.notify_all();
            events.into_iter().for_each(|event| member.handle(event, now));
            let answered_at = member.reach().map(|(_, at)| at);
            silent_since.take_if(|since| answered_at.is_some_and(|at| at > *since));
            let mut late = 0;
            for WaitingSections { sections, waiter, is_mark } in new {
                if is_mark && silent_since.is_some() {
                    late += 1;
                    waiter.tell(Err(NotCommitted::NoQuorum));
                    continue;
                }
                match member.propose(sections, now) {
                    Ok(id) => {
                        proposals.insert(id, waiter);
                        marks.extend(is_mark.then_some((id, now + FRESH_WAIT_MAX)));
                    }
                    Err(not) => waiter.tell(Err(not)),
                }
            }
            for waiter in asked {
                // Readers are answered from what is here.
                if member.is_still() {
                    waiter.tell(Err(NotCommitted::Stopped));
                    continue;
                }
                if silent_since.is_some() {
                    late += 1;
                    waiter.tell(Err(NotCommitted::NoQuorum));
                    continue;
                }
                fresh.insert(member.ask_fresh(), (waiter, now + FRESH_WAIT_MAX));
            }
            member.tick(now, self.world.unix_secs());
            // Before a caller learns of it.
            self.status.lock().is_in_doubt = member.proposer().is_in_doubt();
            for result in member.take_done() {
                proposals
                    .remove(&result.id)
                    .into_iter()
                    .for_each(|waiter| waiter.tell(result.outcome.clone()));
            }
            for id in member.take_fresh() {
                let answer = Ok((Vec::new(), CommitTicket::default()));
                fresh.remove(&id).into_iter().for_each(|(waiter, _)| waiter.tell(answer.clone()));
            }
            let mut in_vain: Vec<(Arc<Waiter>, Duration)> = Vec::new();
            fresh.retain(|id, (waiter, until)| {
                let is_late = *until <= now;
                if is_late {
                    member.forget_fresh(*id);
                    in_vain.push((waiter.clone(), *until));
                }
                !is_late
            });
            while let Some((id, until)) = marks.pop_front_if(|(_, until)| *until <= now) {
                // Those that were answered in time wait no longer.
                in_vain.extend(proposals.remove(&id).map(|waiter| (waiter, until)));
            }
            for (waiter, until) in in_vain {
                late += 1;
                let since = until.saturating_sub(FRESH_WAIT_MAX);
                if answered_at.is_none_or(|at| at <= since) {
                    silent_since = Some(since);
                }
                waiter.tell(Err(NotCommitted::InDoubt));
            }
            self.note_status(&mut member, late);
            if !has_more {
                let fresh_until = fresh
                    .values()
                    .map(|(_, until)| *until)
                    .chain(marks.front().map(|(_, until)| *until))
                    .min();
                let until = [member.next_event(), fresh_until].into_iter().flatten().min();
                self.world.wait(until.unwrap_or(now + FRESH_WAIT_MAX));
            }
        }
    }

    fn note_status(&self, member: &mut Member, late: u64) {
        let sites = member.fold().sites();
        if self.sites.lock().len() != sites.len() {
            *self.sites.lock() = Arc::new(sites.to_vec());
        }
        let (in_flight, retries) = member.proposer().in_flight_and_retries();
        let status = &mut *self.status.lock();
        status.state = member.state().clone();
        (status.reached, status.time) = (member.fold().reached(), member.fold().position().time);
        status.log = member.reach().map(|(reach, _)| (reach.first, reach.last));
        status.answered_at = member.reach().map(|(_, at)| at);
        status.due.take_if(|(message, _)| *message <= status.reached);
        if status.due.is_none() {
            status.due =
                member.reach().map(|(reach, at)| (reach.last, at)).filter(|(last, _)| *last > status.reached);
        }
        status.lag = member.lag();
        (status.in_flight, status.retries) = (in_flight, retries);
        status.may_propose = member.may_propose();
        status.stale_reads += late;
    }
}

/// How fresh answers to readers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadFreshness {
    /// They have everything that the log had when they were asked.
    #[default]
    Fresh,
    /// They have what this member has applied.
    Local,
    /// Like `Fresh`, even if the engine's leader was replaced without its knowledge: a mark is appended.
    Strict,
}

/// The log of a cluster, as the spool of a member follows it.
#[derive(Debug)]
pub struct ClusterLog {
    member: Arc<MemberHandle>,
    reads: ReadFreshness,
    lag_max: Duration,
}

impl ClusterLog {
    /// Creates the log of a member, which takes no changes while it is so far behind.
    pub fn new(member: Arc<MemberHandle>, reads: ReadFreshness, lag_max: Duration) -> Self {
        Self { member, reads, lag_max }
    }
}

impl ClusterLog {
    /// See [`spool::SharedLog::commit`].
    pub fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        self.member.commit(changes, outcomes)
    }

    /// See [`spool::SharedLog::is_accepting`].
    pub fn is_accepting(&self) -> bool {
        self.member.status.lock().may_propose && self.member.behind() <= self.lag_max
    }

    /// See [`spool::SharedLog::is_in_doubt`].
    pub fn is_in_doubt(&self) -> bool {
        self.member.status.lock().is_in_doubt
    }

    /// See [`spool::SharedLog::freshen`].
    pub fn freshen(&self) {
        // An answer that cannot be had in time is given from what is here, and counted.
        match self.reads {
            ReadFreshness::Local => {}
            ReadFreshness::Fresh => _ = self.member.freshen(),
            ReadFreshness::Strict => _ = self.member.freshen_strictly(),
        }
    }

    /// See [`spool::SharedLog::status`].
    pub fn status(&self) -> SharedLogStatus {
        let (status, behind) = (self.member.status(), self.member.behind());
        let (log_first, log_last) = status.log.unwrap_or_default();
        SharedLogStatus {
            member: status.name,
            number: status.number,
            state: status.state.to_string(),
            is_accepting: status.may_propose && behind <= self.lag_max,
            position: status.reached,
            time: status.time.into(),
            log_first,
            log_last,
            behind_ms: u64::try_from(behind.as_millis()).unwrap_or(u64::MAX),
            in_flight: status.in_flight,
            retries: status.retries,
            stale_reads: status.stale_reads,
        }
    }
}

/// Returns the outcomes of changes, each of which had so many entries.
fn outcomes_of(entries: &[usize], folded: &[EntryOutcome]) -> Vec<ChangeOutcome> {
    let mut folded = folded.iter().filter(|outcome| **outcome != EntryOutcome::Nothing);
    let mut outcome = |entries: &usize| {
        let all = folded.by_ref().take(*entries).map(|outcome| match outcome {
            EntryOutcome::Applied(outcome) => *outcome,
            EntryOutcome::NoBody | EntryOutcome::Nothing => ChangeOutcome::NoBody,
        });
        all.reduce(|one, other| match (one, other) {
            (ChangeOutcome::Changed(one), ChangeOutcome::Changed(other)) => {
                ChangeOutcome::Changed(one + other)
            }
            (ChangeOutcome::Changed(_), other) => other,
            (one, _) => one,
        })
    };
    entries.iter().map_while(&mut outcome).collect()
}

/// Returns the trouble of changes that were not committed.
fn trouble_of(not: &NotCommitted) -> SpoolTrouble {
    let kind = match not {
        NotCommitted::InDoubt => TroubleKind::InDoubt,
        NotCommitted::TooLong => TroubleKind::Refused,
        NotCommitted::NoQuorum | NotCommitted::Busy | NotCommitted::Outdated | NotCommitted::Stopped => {
            TroubleKind::Io
        }
    };
    SpoolTrouble::new(kind, not.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineMessage;
    use crate::fold::tests::{CREATED, fold_on};
    use crate::machine::MachineWorld;
    use crate::memory::{MemoryClient, MemoryEngine};
    use crate::message::MessageTag;
    use bytes::Bytes;
    use disk::SimDisk;
    use spool::{FiledArticle, MethodKind, Token};
    use std::sync::mpsc;

    #[test]
    fn every_change_has_the_outcome_of_its_own_entries() {
        let token = Token { method: MethodKind::Trash, class: 0, volume: 0, place: 0 };
        let filed = ChangeOutcome::Filed(FiledArticle { token });
        let changed = |count| EntryOutcome::Applied(ChangeOutcome::Changed(count));
        let folded = [
            EntryOutcome::Applied(filed),
            // Two parts of an article, of which another one is missing, and the article.
            EntryOutcome::Nothing,
            EntryOutcome::Nothing,
            EntryOutcome::NoBody,
            changed(3),
            changed(4),
            EntryOutcome::Applied(filed),
        ];
        let expected = [filed, ChangeOutcome::NoBody, ChangeOutcome::Changed(7), filed];
        assert_eq!(outcomes_of(&[1, 1, 2, 1], &folded), expected);
    }

    /// An engine that is a bug.
    #[derive(Debug)]
    struct Panicking;

    impl EngineLog for Panicking {
        fn append(&self, _: MessageTag, _: Bytes) {}

        fn follow(&self, _: u64) {
            panic!("planted");
        }

        fn ask_reach(&self, _: u64) {}

        fn look_up(&self, _: u64) {}
    }

    #[test]
    fn no_session_waits_for_a_thread_that_has_panicked() {
        let (fold, world) = (fold_on(&SimDisk::new()), Arc::new(MachineWorld::default()));
        let (handle, member) = MemberHandle::new(fold, Arc::new(Panicking), world, 1, "m", 1).unwrap();
        let (answer, answers) = mpsc::channel();
        let ask = || {
            let (handle, answer) = (handle.clone(), answer.clone());
            std::thread::spawn(move || answer.send(handle.freshen()))
        };
        let _before = ask();
        while handle.inbox.lock().fresh.is_empty() {
            std::thread::yield_now();
        }
        let driven = {
            let handle = handle.clone();
            std::thread::spawn(move || handle.run(member))
        };
        assert!(driven.join().is_err());
        let _after = ask();
        for _ in 0..2 {
            assert_eq!(answers.recv_timeout(Duration::from_secs(20)), Ok(false));
        }
    }

    #[test]
    fn messages_that_wait_are_bounded_by_their_number_and_by_their_bytes() {
        let message = |bytes: &Bytes| {
            EngineEvent::Message(EngineMessage { sequence: 1, time: 1, bytes: bytes.clone() })
        };
        for (bytes, most) in [(1 << 20, 16), (100, EVENTS_MAX)] {
            let (mut inbox, bytes) = (Inbox::default(), Bytes::from(vec![0; bytes]));
            while !inbox.is_full() {
                inbox.push(message(&bytes));
            }
            assert_eq!(inbox.events.len(), most);
            inbox.take_some();
            assert!(!inbox.is_full());
            while !inbox.events.is_empty() {
                inbox.take_some();
            }
            assert_eq!(inbox.event_bytes, 0);
        }
    }

    /// A world whose time passes when a test says so.
    #[derive(Debug, Default)]
    struct HeldWorld {
        /// Time, and whether the waiting thread was woken.
        state: Innermost<(Duration, bool)>,
        changed: Condvar,
    }

    impl World for HeldWorld {
        fn now(&self) -> Duration {
            self.state.lock().0
        }

        fn unix_secs(&self) -> u32 {
            1_000
        }

        fn random(&self) -> u64 {
            1
        }

        fn wait(&self, until: Duration) {
            let mut state = self.state.lock();
            while !std::mem::take(&mut state.1) && state.0 < until {
                state.wait(&self.changed);
            }
        }

        fn wake(&self) {
            self.state.lock().1 = true;
            self.changed.notify_all();
        }
    }

    /// A member at work, whose engine and time move by calls of [`WorkingMember::turn`].
    struct WorkingMember {
        engine: MemoryEngine,
        client: Arc<MemoryClient>,
        world: Arc<HeldWorld>,
        handle: Arc<MemberHandle>,
    }

    impl WorkingMember {
        fn turn(&self) {
            while let Some(append) = self.engine.take(0) {
                let sequence = self.engine.take_effect(&append);
                self.engine.answer(&append, sequence);
            }
            while let Some(event) = self.client.next_event(false) {
                self.handle.tell(event);
            }
            self.world.state.lock().0 += Duration::from_millis(50);
            self.world.wake();
        }

        /// Asks for a fresh answer; the receiver gets whether it is one.
        fn ask(&self, is_strict: bool) -> mpsc::Receiver<bool> {
            let (to, answer) = mpsc::channel();
            let handle = self.handle.clone();
            std::thread::spawn(move || {
                to.send(if is_strict { handle.freshen_strictly() } else { handle.freshen() })
            });
            answer
        }

        /// Asks, and lets time pass until that is answered.
        fn is_fresh(&self, is_strict: bool) -> bool {
            let answer = self.ask(is_strict);
            loop {
                match answer.try_recv() {
                    Ok(is_fresh) => return is_fresh,
                    Err(mpsc::TryRecvError::Disconnected) => panic!("the reader has failed"),
                    Err(mpsc::TryRecvError::Empty) => self.turn(),
                }
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn while_the_engine_does_not_answer_only_the_first_readers_wait() {
        for is_strict in [false, true] {
            let engine = MemoryEngine::new(CREATED);
            let (client, world) = (Arc::new(engine.connect()), Arc::new(HeldWorld::default()));
            let fold = fold_on(&SimDisk::new());
            let (handle, member) = MemberHandle::new(fold, client.clone(), world.clone(), 1, "m", 1).unwrap();
            let site = WorkingMember { engine, client, world, handle: handle.clone() };
            let driver = std::thread::spawn(move || handle.run(member));
            let recovers = || (0..10_000).any(|_| site.is_fresh(is_strict));
            assert!(recovers());
            site.engine.set_quorum(false);
            assert!(!site.is_fresh(is_strict));
            for _ in 0..100 {
                // No time passes meanwhile.
                let answer = site.ask(is_strict).recv_timeout(Duration::from_secs(20));
                assert_eq!(answer, Ok(false));
            }
            assert!(site.handle.status().stale_reads >= 100);
            site.engine.set_quorum(true);
            site.turn();
            let recovers = || {
                (0..10_000).any(|_| {
                    site.turn();
                    site.is_fresh(is_strict)
                })
            };
            assert!(recovers());
            site.handle.end();
            driver.join().unwrap();
        }
    }
}
