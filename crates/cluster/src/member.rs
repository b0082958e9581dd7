//! A member of a cluster: its fold and its proposer, driven by the events of the engine.
//!
//! A state machine without threads and clocks: [`crate::MemberHandle`] runs it in a server, and the
//! simulation in tests.

use crate::agreement::{Agreement, WindowDigest};
use crate::engine::{EngineEvent, EngineLog, LogReach, NoReach};
use crate::entry::{MemberEntry, Section, SectionWriter, UnsharedChange};
use crate::fold::{AppliedMark, Fold, FoldStop, FoldedMessage};
use crate::members::FOLLOWS;
use crate::position::TagVerdict;
use crate::proposer::{NotCommitted, ProposalId, ProposalResult, Proposer};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Pause before the log is followed again.
const FOLLOW_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Time after which the log is followed again if it has messages and none arrives: what the engine has for a
/// member may end with one of its nodes, without a word. Doubled as long as that is of no use.
const FOLLOW_SILENT_MIN: Duration = Duration::from_secs(2);
/// Longest such time.
const FOLLOW_SILENT_MAX: Duration = Duration::from_secs(16);
/// Pause before a message is applied again that met trouble of the spool.
const APPLY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Interval at which the engine is asked for the reach of the log, while no reader asks.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Time for which a node may report a log that ends before what was applied, or no log at all: one that has
/// just begun to lead does, and a busy one that applies later than the others. Nothing is appended meanwhile.
const LOST_MAX: Duration = Duration::from_secs(10);
/// Interval at which the engine is asked while what it says is in doubt.
const ASK_IN_DOUBT_EVERY: Duration = Duration::from_millis(50);
/// Interval at which the engine is asked again while it does not answer.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Advice for a site whose log is lost.
pub const NEW_CLUSTER: &str = "newsreel snapshot and newsreel restore make a site of what is here, and newsreel \
     cluster create a new cluster of that";

/// State of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberState {
    /// It has not applied yet what the log had when it began.
    CatchingUp,
    /// It applies the log.
    Following,
    /// The spool accepts nothing at the moment; the same message is tried again.
    Stalled(String),
    /// The log no longer has the next message: the member has to join again.
    Behind,
    /// The log was created at another time than the one that was applied: it is another log.
    Foreign,
    /// The engine has no such log.
    NoLog,
    /// The log ends at this message, before what was applied: it is an older copy.
    Rewound(u64),
    /// The log has another message here than the one that was applied: it is an older copy that has grown.
    Rewritten(u64),
    /// The others have made something else of the log up to this message: its news may not be shown.
    Diverged(u64),
    /// A later process of this member has begun.
    Replaced,
    /// Another process of this member has had the same incarnation.
    SameIncarnation,
    /// It has stopped for good, with the reason: a message cannot be applied.
    Stopped(String),
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CatchingUp => f.write_str("applies what the log had before"),
            Self::Following => f.write_str(FOLLOWS),
            Self::Stalled(why) => write!(f, "waits for its spool: {why}"),
            Self::Behind => f.write_str(
                "has stopped: the log no longer has the next message; join again with newsreel cluster join --replace in \
                 an empty directory",
            ),
            Self::Foreign => write!(f, "has stopped: the log was created again; {NEW_CLUSTER}"),
            Self::NoLog => write!(f, "has stopped: the engine no longer has the log; {NEW_CLUSTER}"),
            Self::Rewound(last) => write!(
                f,
                "has stopped: the log ends at message {last}, before what was applied here, so it is an older copy; \
                 {NEW_CLUSTER}"
            ),
            Self::Rewritten(sequence) => write!(
                f,
                "has stopped: the log has another message {sequence} than the one that was applied here, so it is \
                 an older copy that has grown since; {NEW_CLUSTER}"
            ),
            Self::Diverged(upto) => write!(
                f,
                "has stopped: its news differ from those of the other members, as of message {upto} of the log; \
                 keep its directory for a report, and join again with newsreel cluster join --replace in an \
                 empty one"
            ),
            Self::Replaced => f.write_str("has stopped: a later process of this member has begun"),
            Self::SameIncarnation => f.write_str(
                "has stopped: the log has messages of another process of this member with the same number; \
                 start it again",
            ),
            Self::Stopped(why) => write!(f, "has stopped: {why}; {NEW_CLUSTER}"),
        }
    }
}

impl MemberState {
    /// Reports whether the member has stopped for good.
    pub fn has_stopped(&self) -> bool {
        match self {
            Self::CatchingUp | Self::Following | Self::Stalled(_) => false,
            Self::Behind
            | Self::Foreign
            | Self::NoLog
            | Self::Rewound(_)
            | Self::Rewritten(_)
            | Self::Diverged(_)
            | Self::Replaced
            | Self::SameIncarnation
            | Self::Stopped(_) => true,
        }
    }
}

/// A question that waits until everything is applied that the log had when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FreshQuestion {
    id: u64,
    /// Question to the engine that answers it; `None` until one is sent after it.
    asked: Option<u64>,
    /// Last message of the log, once known.
    upto: Option<u64>,
}

/// A question to the engine for the reach of the log.
#[derive(Debug, Clone, Copy)]
struct ReachQuestion {
    number: u64,
    /// When it is given up.
    until: Duration,
    /// Last message that was applied when it was asked.
    reached: u64,
}

/// A member.
#[derive(Debug)]
pub struct Member {
    fold: Fold,
    proposer: Proposer,
    engine: Arc<dyn EngineLog>,
    number: u16,
    state: MemberState,
    /// End of the log as known last.
    reach: Option<LogReach>,
    /// Time of the last answer about the reach.
    reached_at: Option<Duration>,
    /// Time since which the log ends before what was applied, or is not there.
    lost_since: Option<Duration>,
    /// Message that was applied last when the log was followed or came into doubt, until the log is seen to
    /// have it still.
    mark: Option<AppliedMark>,
    /// Whether the own entry of this incarnation is applied: only then others' messages are surely later.
    is_announced: bool,
    /// End of the log when this process began.
    begun_at: Option<u64>,
    follow_at: Option<Duration>,
    /// Time since which nothing that was missing has arrived, and after which the log is followed again.
    silent_since: Duration,
    silent_max: Duration,
    stalled: Option<(crate::engine::EngineMessage, Duration)>,
    next_question: u64,
    next_fresh: u64,
    /// Question on its way.
    asking: Option<ReachQuestion>,
    ask_at: Duration,
    fresh: Vec<FreshQuestion>,
    fresh_done: Vec<u64>,
    /// Messages that an engine gave twice or too early, as they were not the next.
    out_of_order: u64,
    /// Entry of this incarnation, which ends earlier ones, and the proposal of it.
    announcement: Vec<Section>,
    announcing: Option<ProposalId>,
    agreement: Agreement,
    /// Proposals of digests, whose results no one waits for.
    voting: BTreeSet<ProposalId>,
}

impl Member {
    /// Creates a member of an incarnation that has just begun.
    pub fn new(
        fold: Fold,
        engine: Arc<dyn EngineLog>,
        number: u16,
        name: &str,
        incarnation: u64,
    ) -> Result<Self, UnsharedChange> {
        let proposer = Proposer::new(fold.position().cluster, number, incarnation);
        let entry = MemberEntry { number, incarnation, has_left: false, name };
        let mut announcement = SectionWriter::default();
        announcement.push_member(&entry)?;
        Ok(Self {
            fold,
            proposer,
            engine,
            number,
            state: MemberState::CatchingUp,
            reach: None,
            reached_at: None,
            lost_since: None,
            mark: None,
            is_announced: false,
            begun_at: None,
            follow_at: Some(Duration::ZERO),
            silent_since: Duration::ZERO,
            silent_max: FOLLOW_SILENT_MIN,
            stalled: None,
            next_question: 0,
            next_fresh: 0,
            asking: None,
            ask_at: Duration::ZERO,
            fresh: Vec::new(),
            fresh_done: Vec::new(),
            out_of_order: 0,
            announcement: announcement.finish(),
            announcing: None,
            agreement: Agreement::of(number),
            voting: BTreeSet::new(),
        })
    }

    /// Returns the fold.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Returns the proposer.
    pub fn proposer(&mut self) -> &mut Proposer {
        &mut self.proposer
    }

    #[cfg(test)]
    pub(crate) fn plant(&mut self, flaw: crate::flaw::PlantedFlaw) {
        (self.fold.flaw, self.proposer.flaw) = (Some(flaw), Some(flaw));
    }

    /// Returns the state.
    pub fn state(&self) -> &MemberState {
        &self.state
    }

    /// Returns the reach of the log as known last, and the time of that answer.
    pub fn reach(&self) -> Option<(LogReach, Duration)> {
        self.reach.zip(self.reached_at)
    }

    /// Returns how many messages of the log are not applied yet, as far as is known.
    pub fn lag(&self) -> u64 {
        self.reach.map_or(0, |reach| reach.last.saturating_sub(self.fold.reached()))
    }

    /// Reports whether this member may serve: it has applied everything that the log had at its start.
    pub fn is_ready(&self) -> bool {
        self.begun_at.is_some_and(|end| self.fold.reached() >= end)
    }

    /// Reports whether it may propose: it follows the log, and is the newest process of its number.
    pub fn may_propose(&self) -> bool {
        self.state == MemberState::Following && self.is_announced && self.is_ready()
    }

    /// Takes a proposal.
    pub fn propose(&mut self, sections: Vec<Section>, now: Duration) -> Result<ProposalId, NotCommitted> {
        match &self.state {
            MemberState::Following if self.may_propose() => Ok(self.proposer.propose(sections, now)),
            MemberState::Following | MemberState::CatchingUp | MemberState::Stalled(_) => {
                Err(NotCommitted::NoQuorum)
            }
            _ => Err(NotCommitted::Stopped),
        }
    }

    /// Reports whether questions cannot become fresh: the member applies nothing.
    pub fn is_still(&self) -> bool {
        self.state.has_stopped() || self.stalled.is_some()
    }

    /// Asks that [`Member::take_fresh`] names the question once everything is applied that the log has now.
    pub fn ask_fresh(&mut self) -> u64 {
        let id = self.next_fresh;
        self.next_fresh += 1;
        self.fresh.push(FreshQuestion { id, asked: None, upto: None });
        id
    }

    /// Gives up a question.
    pub fn forget_fresh(&mut self, id: u64) {
        self.fresh.retain(|question| question.id != id);
    }

    /// Returns the questions that are answered.
    pub fn take_fresh(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.fresh_done)
    }

    /// Handles an event of the engine.
    pub fn handle(&mut self, event: EngineEvent, now: Duration) {
        match event {
            EngineEvent::Appended { tag, .. } => self.proposer.appended(tag),
            EngineEvent::AppendFailed { tag } => self.proposer.append_failed(tag),
            EngineEvent::FollowEnded => self.follow_at = Some(now + FOLLOW_AGAIN_AFTER),
            EngineEvent::Message(message) => self.apply(message, now),
            EngineEvent::Reach { question, reach } => {
                let asked = self.asking.take_if(|asked| asked.number == question);
                if asked.is_some() {
                    self.ask_at = now + ASK_EVERY;
                }
                match reach {
                    Ok(reach) => {
                        let ends_early = asked.is_some_and(|asked| reach.last < asked.reached);
                        self.note_reach(question, reach, ends_early, now);
                    }
                    Err(NoReach::NoLog) => self.note_lost(MemberState::NoLog, now),
                    Err(NoReach::NoQuorum) => {}
                }
                if asked.is_some() && self.lost_since.is_some() && !self.state.has_stopped() {
                    self.ask_at = now + ASK_IN_DOUBT_EVERY;
                }
            }
        }
        self.settle_fresh();
    }

    /// Notes the reach of the log; `ends_early` if it ends before what was applied when that was asked.
    fn note_reach(&mut self, question: u64, reach: LogReach, ends_early: bool, now: Duration) {
        if reach.created != self.fold.position().created {
            self.state = MemberState::Foreign;
            self.proposer.stop();
            return;
        }
        // Whatever was acknowledged is in what the leader has.
        let known = self.fresh.iter_mut().filter(|fresh| fresh.asked.is_some_and(|asked| asked <= question));
        known.for_each(|fresh| fresh.upto = fresh.upto.or(Some(reach.last)));
        if ends_early {
            self.note_lost(MemberState::Rewound(reach.last), now);
            return;
        }
        // It may be too old to be there.
        self.mark.take_if(|mark| mark.sequence < reach.first);
        if let Some(mark) = self.mark {
            self.engine.look_up(mark.sequence);
            if self.lost_since.is_some() {
                return;
            }
        }
        self.lost_since = None;
        if self.lag() == 0 {
            self.silent_since = now;
        }
        (self.reach, self.reached_at) = (Some(reach), Some(now));
        self.begun_at.get_or_insert(reach.last);
        if reach.first > self.fold.reached() + 1 {
            self.state = MemberState::Behind;
            self.proposer.stop();
            return;
        }
        self.note_following();
    }

    /// Notes that what was applied is not in the log: stops in this state if that lasts.
    fn note_lost(&mut self, state: MemberState, now: Duration) {
        self.mark = self.mark.or_else(|| self.fold.mark());
        let since = *self.lost_since.get_or_insert(now);
        if now.saturating_sub(since) > LOST_MAX && !self.state.has_stopped() {
            self.state = state;
            self.proposer.stop();
        }
    }

    fn note_following(&mut self) {
        if self.is_ready() && self.state == MemberState::CatchingUp {
            self.state = MemberState::Following;
        }
    }

    fn apply(&mut self, message: crate::engine::EngineMessage, now: Duration) {
        if self.state.has_stopped() {
            return;
        }
        if let Some(mark) = self.mark.take_if(|mark| mark.sequence == message.sequence) {
            if !self.fold.is_marked(mark, &message) {
                self.state = MemberState::Rewritten(mark.sequence);
                self.proposer.stop();
            }
            if self.lost_since.is_some() {
                self.ask_at = now;
            }
            // It is applied.
            return;
        }
        match self.fold.apply(&message) {
            Ok(Some(folded)) => {
                self.stalled = None;
                (self.silent_since, self.silent_max) = (now, FOLLOW_SILENT_MIN);
                if matches!(self.state, MemberState::Stalled(_)) {
                    self.state = MemberState::CatchingUp;
                }
                self.note_folded(message.sequence, &folded);
                self.note_following();
                self.note_digests(message.sequence, folded.tag.member, folded.window, &folded.digests, now);
            }
            Ok(None) => self.out_of_order += 1,
            // The engine lost something on the way: the fold asks for it, and never skips.
            Err(FoldStop::Gap { .. }) => {
                self.out_of_order += 1;
                self.follow_at = Some(now + FOLLOW_AGAIN_AFTER);
            }
            Err(stop) if stop.passes() => {
                self.state = MemberState::Stalled(stop.to_string());
                self.stalled = Some((message, now + APPLY_AGAIN_AFTER));
            }
            Err(stop) => {
                self.state = MemberState::Stopped(stop.to_string());
                self.proposer.stop();
            }
        }
    }

    /// Compares what was made of the log here with what the others have made of it.
    fn note_digests(
        &mut self,
        sequence: u64,
        member: u16,
        window: Option<WindowDigest>,
        digests: &[(u64, WindowDigest)],
        now: Duration,
    ) {
        if let Some(digest) = window {
            self.agreement.note_own(sequence, digest);
            let mut section = SectionWriter::default();
            // One that may not propose compares, and is not compared with.
            if self.may_propose() && section.push_digest(sequence, &digest).is_ok() {
                self.voting.insert(self.proposer.propose(section.finish(), now));
            }
        }
        digests.iter().for_each(|(upto, digest)| self.agreement.note(member, *upto, *digest));
        if let Some(upto) = self.agreement.differs(sequence) {
            self.state = MemberState::Diverged(upto);
            self.proposer.stop();
        }
    }

    fn note_folded(&mut self, sequence: u64, folded: &FoldedMessage) {
        let FoldedMessage { tag, verdict, outcomes, ticket, .. } = folded;
        let own = (self.number, self.proposer.incarnation());
        if (tag.member, tag.incarnation) == own {
            // Nothing of this process was in the log before it knew how far that reaches.
            let is_earlier = self.begun_at.is_none_or(|end| sequence <= end);
            match verdict {
                TagVerdict::Fresh if !is_earlier => {
                    self.is_announced = true;
                    self.proposer.folded(*tag, outcomes, *ticket);
                }
                TagVerdict::Repeated if self.is_announced => {}
                TagVerdict::Fresh | TagVerdict::Repeated => {
                    self.state = MemberState::SameIncarnation;
                    self.proposer.stop();
                }
                TagVerdict::Outdated => self.end_replaced(),
            }
        } else if tag.member == self.number && *verdict == TagVerdict::Fresh && tag.incarnation > own.1 {
            self.end_replaced();
        }
    }

    fn end_replaced(&mut self) {
        self.state = MemberState::Replaced;
        self.proposer.outdated();
    }

    /// Sends what is due. `time` is the time of day in Unix seconds.
    pub fn tick(&mut self, now: Duration, time: u32) {
        if let Some((message, _)) = self.stalled.take_if(|(_, again_at)| *again_at <= now) {
            self.apply(message, now);
            if self.stalled.is_none() {
                self.follow_at = Some(now);
            }
        }
        if self.silent_until().is_some_and(|until| until <= now) {
            self.follow_at = Some(now);
            self.silent_max = (self.silent_max * 2).min(FOLLOW_SILENT_MAX);
        }
        if self.follow_at.is_some_and(|at| at <= now) && self.stalled.is_none() && !self.state.has_stopped() {
            self.follow_at = None;
            self.silent_since = now;
            if self.lost_since.is_none() {
                self.mark = self.fold.mark();
            }
            // The message of the mark is the first to come, unless the log begins after it.
            let first = self.reach.map_or(0, |reach| reach.first);
            let mark = self.mark.filter(|mark| mark.sequence >= first);
            self.engine.follow(mark.map_or(self.fold.reached(), |mark| mark.sequence - 1));
        }
        self.ask(now);
        if !self.is_announced && self.announcing.is_none() && self.reached_at.is_some() && !self.is_in_doubt()
        {
            self.announcing = Some(self.proposer.propose(self.announcement.clone(), now));
        }
        self.proposer.tick(now);
        if !self.state.has_stopped() && !self.is_in_doubt() {
            while let Some((tag, bytes)) = self.proposer.next_message(now, time) {
                self.engine.append(tag, bytes);
            }
        }
        self.settle_fresh();
    }

    /// Reports whether the log may be an older copy, to which nothing is appended.
    fn is_in_doubt(&self) -> bool {
        self.lost_since.is_some() || self.mark.is_some()
    }

    /// Asks the engine for the reach of the log: for the questions that wait, and else now and then.
    fn ask(&mut self, now: Duration) {
        self.asking.take_if(|asked| asked.until <= now);
        let is_wanted = self.fresh.iter().any(|fresh| fresh.asked.is_none()) || self.ask_at <= now;
        if self.asking.is_some() || !is_wanted {
            return;
        }
        let question = self.next_question;
        self.next_question += 1;
        let (until, reached) = (now + ASK_AGAIN_AFTER, self.fold.reached());
        self.asking = Some(ReachQuestion { number: question, until, reached });
        self.fresh
            .iter_mut()
            .filter(|fresh| fresh.asked.is_none())
            .for_each(|fresh| fresh.asked = Some(question));
        self.engine.ask_reach(question);
    }

    /// Returns when the log is followed again, unless something arrives; `None` if nothing is missing.
    fn silent_until(&self) -> Option<Duration> {
        let is_missing = self.lag() > 0 && self.stalled.is_none() && !self.state.has_stopped();
        is_missing.then_some(self.silent_since + self.silent_max)
    }

    fn settle_fresh(&mut self) {
        let reached = self.fold.reached();
        let is_answered = |fresh: &FreshQuestion| fresh.upto.is_some_and(|upto| upto <= reached);
        self.fresh_done.extend(self.fresh.iter().filter(|fresh| is_answered(fresh)).map(|fresh| fresh.id));
        self.fresh.retain(|fresh| !is_answered(fresh));
    }

    /// Returns when [`Member::tick`] has something to do at the latest.
    pub fn next_event(&self) -> Option<Duration> {
        let asking = self.asking.map_or(self.ask_at, |asked| asked.until);
        let stalled = self.stalled.as_ref().map(|(_, again_at)| *again_at);
        // As in `tick`: else the thread would not rest meanwhile.
        let follow_at = self.follow_at.filter(|_| self.stalled.is_none() && !self.state.has_stopped());
        let proposals = self.proposer.next_event().filter(|_| !self.is_in_doubt());
        let events = [follow_at, self.silent_until(), Some(asking), stalled, proposals];
        events.into_iter().flatten().min()
    }

    /// Returns the results of proposals that are new.
    pub fn take_done(&mut self) -> Vec<ProposalResult> {
        let mut done = self.proposer.take_done();
        done.retain(|result| !self.voting.remove(&result.id));
        // Proposed again if it was given up.
        if let Some(own) = self.announcing.take_if(|own| done.iter().any(|result| result.id == *own)) {
            done.retain(|result| result.id != own);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::tests::{CREATED, fold_on};
    use crate::memory::{MemoryClient, MemoryEngine};
    use disk::SimDisk;

    /// Lets the engine answer, and the member handle it, until nothing is left. `after` changes each answer.
    fn settle(
        member: &mut Member,
        client: &MemoryClient,
        engine: &MemoryEngine,
        now: Duration,
        after: impl Fn(EngineEvent) -> EngineEvent,
    ) {
        loop {
            member.tick(now, 1_000);
            if let Some(append) = engine.take(0) {
                let sequence = engine.take_effect(&append);
                engine.answer(&append, sequence);
            } else if let Some(event) = client.next_event(false) {
                member.handle(after(event), now);
            } else {
                break;
            }
        }
    }

    /// Starts a member with a new disk, and lets it follow the log.
    fn started(engine: &MemoryEngine, disk: &SimDisk, number: u16) -> (Member, Arc<MemoryClient>) {
        let client = Arc::new(engine.connect());
        let mut member = Member::new(fold_on(disk), client.clone(), number, "m", 1).unwrap();
        for secs in [1, 3] {
            settle(&mut member, &client, engine, Duration::from_secs(secs), |event| event);
        }
        assert!(member.may_propose(), "{:?}", member.state());
        (member, client)
    }

    /// Appends marks of a member, each in a message, until the log has this many.
    fn grow(member: &mut Member, client: &MemoryClient, engine: &MemoryEngine, messages: u64) {
        while engine.last() < messages {
            let mut mark = SectionWriter::default();
            mark.push_mark().unwrap();
            let now = Duration::from_secs(4);
            member.propose(mark.finish(), now).unwrap();
            settle(member, client, engine, now, |event| event);
        }
    }

    #[test]
    fn an_older_copy_of_the_log_is_noticed_although_it_has_grown() {
        #[derive(Debug)]
        enum Before {
            /// The log has been seen to end early.
            InDoubt,
            /// It is followed again.
            Followed,
            /// The member is started again.
            Started,
        }
        for before in [Before::InDoubt, Before::Followed, Before::Started] {
            let (engine, disk) = (MemoryEngine::new(CREATED), SimDisk::new());
            let (mut member, client) = started(&engine, &disk, 1);
            grow(&mut member, &client, &engine, 6);
            let reached = member.fold().reached();
            engine.rewind(2);
            let running = match before {
                Before::InDoubt => {
                    settle(&mut member, &client, &engine, Duration::from_secs(6), |event| event);
                    assert!(member.is_in_doubt());
                    Some((member, client))
                }
                Before::Followed => {
                    engine.end_following();
                    Some((member, client))
                }
                Before::Started => {
                    client.disconnect();
                    member.fold().spool().close().unwrap();
                    drop(member);
                    None
                }
            };
            let (mut other, others) = started(&engine, &SimDisk::new(), 2);
            grow(&mut other, &others, &engine, reached + 2);
            let last = engine.last();
            let (mut member, client) = running.unwrap_or_else(|| {
                let client = Arc::new(engine.connect());
                (Member::new(fold_on(&disk), client.clone(), 1, "m", 2).unwrap(), client)
            });
            for secs in 8..12 {
                settle(&mut member, &client, &engine, Duration::from_secs(secs), |event| event);
            }
            assert_eq!(*member.state(), MemberState::Rewritten(reached), "{before:?}");
            assert_eq!((member.fold().reached(), engine.last()), (reached, last), "{before:?}");
        }
    }

    #[test]
    fn a_process_whose_incarnation_was_used_before_stops_and_says_why() {
        let engine = MemoryEngine::new(CREATED);
        let disk = SimDisk::new();
        // Runs a process until nothing is left to do.
        let run = |disk: &SimDisk, incarnation| {
            let client = Arc::new(engine.connect());
            let mut member = Member::new(fold_on(disk), client.clone(), 1, "m", incarnation).unwrap();
            for secs in [1, 3, 5] {
                settle(&mut member, &client, &engine, Duration::from_secs(secs), |event| event);
            }
            client.disconnect();
            member.fold().spool().close().unwrap();
            member
        };
        assert!(run(&disk, 7).may_propose());
        // It has applied the announcement of the one before, or finds it in the log.
        for disk in [&disk, &SimDisk::new()] {
            let again = run(disk, 7);
            assert_eq!(*again.state(), MemberState::SameIncarnation);
            assert!(!again.may_propose());
        }
        assert!(run(&disk, 8).may_propose());
    }

    #[test]
    fn proposals_wait_while_the_leader_says_less_than_was_applied() {
        let engine = MemoryEngine::new(CREATED);
        let client = Arc::new(engine.connect());
        let mut member = Member::new(fold_on(&SimDisk::new()), client.clone(), 1, "m", 1).unwrap();
        settle(&mut member, &client, &engine, Duration::from_secs(1), |event| event);
        settle(&mut member, &client, &engine, Duration::from_secs(3), |event| event);
        assert!(member.may_propose(), "{:?}", member.state());

        let early = |event| match event {
            EngineEvent::Reach { question, reach: Ok(reach) } => {
                EngineEvent::Reach { question, reach: Ok(LogReach { last: reach.last - 1, ..reach }) }
            }
            event => event,
        };
        settle(&mut member, &client, &engine, Duration::from_secs(5), early);
        let mut mark = SectionWriter::default();
        mark.push_mark().unwrap();
        let id = member.propose(mark.finish(), Duration::from_secs(5)).expect("it is held");
        let fresh = member.ask_fresh();
        settle(&mut member, &client, &engine, Duration::from_secs(6), early);
        assert!(member.take_done().is_empty());
        assert_eq!(member.take_fresh(), [fresh]);
        settle(&mut member, &client, &engine, Duration::from_secs(8), |event| event);
        let done = member.take_done();
        assert!(done.iter().any(|result| result.id == id && result.outcome.is_ok()), "{done:?}");

        settle(&mut member, &client, &engine, Duration::from_secs(10), early);
        settle(&mut member, &client, &engine, Duration::from_secs(30), early);
        assert!(matches!(member.state(), MemberState::Rewound(_)), "{:?}", member.state());
    }
}
