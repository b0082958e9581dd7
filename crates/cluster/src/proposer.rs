//! The proposer: gathers what sessions propose into messages, appends them, retries, and says what became of
//! each proposal once the own fold has applied it.
//!
//! A retry has the tag and the bytes of the first attempt, forever. What the fold shows is the truth; an
//! answer of the engine only makes room for the next message. Time comes with the calls.

use crate::entry::{SECTION_BYTES_MAX, Section};
use crate::fold::EntryOutcome;
use crate::message::{ClusterId, MessageHead, MessageTag, encode};
use crate::position::COUNTERS_MAX;
use bytes::Bytes;
use spool::CommitTicket;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// Messages on their way to the engine.
const IN_FLIGHT_MAX: usize = 4;
/// Messages whose counter the own fold has not shown yet: fewer than the counters that folds distinguish.
const OPEN_MAX: u64 = COUNTERS_MAX / 2;
/// Length at which a message is full while others are on their way.
const BODY_BYTES_USUAL: usize = 256 << 10;
/// Length of what waits from which on it is sent although another message is on its way. Less waits for the
/// answer, as every message costs the nodes a sync, however short it is.
const BODY_BYTES_MIN: usize = 64 << 10;
/// Pause before a message is appended again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Time for which a proposal is held that is not on its way yet: an election of the engine takes 4 to 9 s.
const HELD_MAX: Duration = Duration::from_secs(12);
/// Time after which a proposal on its way is in doubt.
const IN_DOUBT_AFTER: Duration = Duration::from_secs(30);
/// Maximum length of the proposals that wait.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Number of a proposal, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProposalId(pub u64);

/// Reason why a proposal was not carried out, as far as is known: try later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCommitted {
    /// It is not in the log, and will not be: the engine takes nothing.
    NoQuorum,
    /// So much is waiting that it was not accepted.
    Busy,
    /// A section of it is too long for a message.
    TooLong,
    /// It may be in the log, or get there.
    InDoubt,
    /// A later process of this member has begun, so it does not count.
    Outdated,
    /// This member does not apply the log.
    Stopped,
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoQuorum => "the log of the cluster takes nothing at the moment",
            Self::Busy => "too much waits for the log of the cluster",
            Self::TooLong => "it is too long for the log of the cluster",
            Self::InDoubt => "the log of the cluster has not answered: it may have been accepted",
            Self::Outdated => "a later process of this member has begun",
            Self::Stopped => "this member of the cluster has stopped applying the log",
        })
    }
}

impl std::error::Error for NotCommitted {}

/// What became of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalResult {
    /// The proposal.
    pub id: ProposalId,
    /// What became of each of its entries, and the ticket of the spool.
    pub outcome: Result<(Vec<EntryOutcome>, CommitTicket), NotCommitted>,
}

/// A section that waits to be sent.
#[derive(Debug)]
struct QueuedSection {
    section: Section,
    proposal: ProposalId,
    /// Place of its entries among those of the proposal.
    first_entry: usize,
}

/// Entries of a message that belong to one proposal.
#[derive(Debug)]
struct MessageShare {
    proposal: ProposalId,
    first_entry: usize,
    entries: usize,
}

/// A message that the own fold has not shown yet.
#[derive(Debug)]
struct OpenMessage {
    bytes: Bytes,
    shares: Vec<MessageShare>,
    /// Whether the engine has it, as far as is known.
    is_appended: bool,
    /// Whether an append is on its way.
    is_sent: bool,
    /// When it is to be appended again.
    retry_at: Duration,
}

#[derive(Debug)]
struct WaitingProposal {
    outcomes: Vec<Option<EntryOutcome>>,
    begun: Duration,
    /// Sections that are not in a message yet.
    queued: usize,
    /// Messages with sections of it that the fold has not shown.
    open: usize,
}

/// The proposer of a member.
#[derive(Debug)]
pub struct Proposer {
    cluster: ClusterId,
    member: u16,
    incarnation: u64,
    next_counter: u64,
    next_proposal: u64,
    queue: VecDeque<QueuedSection>,
    queued_bytes: usize,
    open: BTreeMap<u64, OpenMessage>,
    waiting: BTreeMap<ProposalId, WaitingProposal>,
    done: Vec<ProposalResult>,
    compresses: bool,
    /// Messages that were appended again.
    retries: u64,
    #[cfg(test)]
    pub(crate) flaw: Option<crate::flaw::PlantedFlaw>,
}

impl Proposer {
    /// Creates the proposer of an incarnation.
    pub fn new(cluster: ClusterId, member: u16, incarnation: u64) -> Self {
        Self {
            cluster,
            member,
            incarnation,
            next_counter: 0,
            next_proposal: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            done: Vec::new(),
            compresses: false,
            retries: 0,
            #[cfg(test)]
            flaw: None,
        }
    }

    /// Lets bodies be compressed.
    pub fn compress(&mut self, compresses: bool) {
        self.compresses = compresses;
    }

    /// Returns the incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns how many messages are on their way, and how many were appended again.
    pub fn in_flight_and_retries(&self) -> (usize, u64) {
        (self.open.values().filter(|message| message.is_sent).count(), self.retries)
    }

    /// Reports whether a message may still be applied that has sections of proposals that were given up.
    pub fn is_in_doubt(&self) -> bool {
        let is_given_up = |share: &MessageShare| !self.waiting.contains_key(&share.proposal);
        self.open.values().any(|message| message.shares.iter().any(is_given_up))
    }

    /// Takes a proposal; its result comes from [`Proposer::take_done`].
    pub fn propose(&mut self, sections: Vec<Section>, now: Duration) -> ProposalId {
        let id = ProposalId(self.next_proposal);
        self.next_proposal += 1;
        // It would never be sent, and those after it neither.
        if sections.iter().any(|section| section.bytes.len() > SECTION_BYTES_MAX) {
            self.done.push(ProposalResult { id, outcome: Err(NotCommitted::TooLong) });
            return id;
        }
        let bytes: usize = sections.iter().map(|section| section.bytes.len()).sum();
        if self.queued_bytes + bytes > WAITING_BYTES_MAX && self.queued_bytes > 0 {
            self.done.push(ProposalResult { id, outcome: Err(NotCommitted::Busy) });
            return id;
        }
        let entries = sections.iter().map(|section| section.entries).sum();
        if entries == 0 {
            self.done.push(ProposalResult { id, outcome: Ok((Vec::new(), CommitTicket::default())) });
            return id;
        }
        let waiting =
            WaitingProposal { outcomes: vec![None; entries], begun: now, queued: sections.len(), open: 0 };
        self.waiting.insert(id, waiting);
        self.queued_bytes += bytes;
        let mut first_entry = 0;
        for section in sections {
            let entries = section.entries;
            self.queue.push_back(QueuedSection { section, proposal: id, first_entry });
            first_entry += entries;
        }
        id
    }

    /// Returns the next message to be appended, first or again; `None` if none is due.
    pub fn next_message(&mut self, now: Duration, time: u32) -> Option<(MessageTag, Bytes)> {
        let sent = self.open.values().filter(|message| message.is_sent && !message.is_appended).count();
        let is_due = |message: &OpenMessage| !message.is_appended && message.retry_at <= now;
        let due = self.open.iter_mut().find(|(_, message)| is_due(message));
        if let Some((counter, message)) = due {
            message.is_sent = true;
            message.retry_at = now + RETRY_AFTER;
            self.retries += 1;
            let (counter, bytes) = (*counter, message.bytes.clone());
            return Some((self.tag(counter), bytes));
        }
        let waits =
            self.open.first_key_value().is_some_and(|(first, _)| self.next_counter - first >= OPEN_MAX);
        let is_little = sent > 0 && self.queued_bytes < BODY_BYTES_MIN;
        if sent >= IN_FLIGHT_MAX || waits || is_little {
            return None;
        }
        self.begin_message(now, time)
    }

    fn tag(&self, counter: u64) -> MessageTag {
        MessageTag { member: self.member, incarnation: self.incarnation, counter }
    }

    /// Makes a message of what waits.
    fn begin_message(&mut self, now: Duration, time: u32) -> Option<(MessageTag, Bytes)> {
        let (mut body, mut shares) = (Vec::new(), Vec::new());
        while let Some(queued) = self.queue.front() {
            let bytes = queued.section.bytes.len();
            // A section whose parts are not in the log yet waits, and all others after it.
            let is_early = queued.section.follows
                && (shares.iter().any(|share: &MessageShare| share.proposal == queued.proposal)
                    || self.waiting.get(&queued.proposal).is_some_and(|waiting| waiting.open > 0));
            let is_full = !body.is_empty() && body.len() + bytes > BODY_BYTES_USUAL;
            if is_early || is_full {
                break;
            }
            let Some(QueuedSection { section, proposal, first_entry }) = self.queue.pop_front() else {
                break;
            };
            self.queued_bytes -= bytes;
            let Some(waiting) = self.waiting.get_mut(&proposal) else { continue };
            waiting.queued -= 1;
            if shares.iter().all(|share| share.proposal != proposal) {
                waiting.open += 1;
            }
            body.extend_from_slice(&section.bytes);
            shares.push(MessageShare { proposal, first_entry, entries: section.entries });
        }
        if shares.is_empty() {
            return None;
        }
        let counter = self.next_counter;
        let tag = self.tag(counter);
        let head = MessageHead { cluster: self.cluster, tag, revision: 0, time };
        // Never too long: it is one section, or less than is usual.
        let bytes: Bytes = encode(&head, &body, self.compresses)?.into();
        self.next_counter += 1;
        let message = OpenMessage {
            bytes: bytes.clone(),
            shares,
            is_appended: false,
            is_sent: true,
            retry_at: now + RETRY_AFTER,
        };
        self.open.insert(counter, message);
        Some((tag, bytes))
    }

    /// Notes that the engine has a message.
    pub fn appended(&mut self, tag: MessageTag) {
        #[cfg(test)]
        if self.flaw == Some(crate::flaw::PlantedFlaw::AnswersWhenAppended) {
            let token = spool::Token { method: spool::MethodKind::Cnfs, class: 0, volume: 0, place: 0 };
            let filed = spool::ChangeOutcome::Filed(spool::FiledArticle { token });
            self.folded(tag, &[EntryOutcome::Applied(filed); 64], CommitTicket::default());
        }
        if let Some(message) = self.open_message(tag) {
            (message.is_appended, message.is_sent) = (true, false);
        }
    }

    /// Notes that an append has failed: the message is appended again after a pause.
    pub fn append_failed(&mut self, tag: MessageTag) {
        #[cfg(test)]
        if self.flaw == Some(crate::flaw::PlantedFlaw::ForgetsTag)
            && let Some(message) = self.open.remove(&tag.counter)
        {
            let mut bytes = message.bytes.to_vec();
            let counter = self.next_counter;
            let end = bytes.len() - 4;
            bytes[24..32].copy_from_slice(&counter.to_le_bytes());
            let checksum = disk::crc::crc32c(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&checksum);
            self.next_counter += 1;
            self.open.insert(counter, OpenMessage { bytes: bytes.into(), ..message });
        }
        if let Some(message) = self.open_message(tag) {
            message.is_sent = false;
        }
    }

    fn open_message(&mut self, tag: MessageTag) -> Option<&mut OpenMessage> {
        let is_own = (tag.member, tag.incarnation) == (self.member, self.incarnation);
        self.open.get_mut(&tag.counter).filter(|_| is_own)
    }

    /// Notes what the own fold did with the entries of a message.
    pub fn folded(&mut self, tag: MessageTag, outcomes: &[EntryOutcome], ticket: CommitTicket) {
        if (tag.member, tag.incarnation) != (self.member, self.incarnation) {
            return;
        }
        let Some(message) = self.open.remove(&tag.counter) else { return };
        let (mut rest, mut seen) = (outcomes, Vec::new());
        for share in message.shares {
            let (own, later) = rest.split_at_checked(share.entries).unwrap_or((rest, &[]));
            rest = later;
            let Some(waiting) = self.waiting.get_mut(&share.proposal) else { continue };
            let places = waiting.outcomes.iter_mut().skip(share.first_entry);
            places.zip(own).for_each(|(place, outcome)| *place = Some(*outcome));
            if !seen.contains(&share.proposal) {
                seen.push(share.proposal);
                waiting.open -= 1;
            }
        }
        for id in seen {
            let is_done =
                self.waiting.get(&id).is_some_and(|waiting| waiting.open == 0 && waiting.queued == 0);
            if let Some(waiting) = is_done.then(|| self.waiting.remove(&id)).flatten() {
                let outcomes = waiting.outcomes.into_iter().map(|one| one.unwrap_or(EntryOutcome::Nothing));
                self.done.push(ProposalResult { id, outcome: Ok((outcomes.collect(), ticket)) });
            }
        }
    }

    /// Gives up what a later incarnation of this member has made void.
    pub fn outdated(&mut self) {
        self.fail_all(NotCommitted::Outdated);
        self.open.clear();
    }

    /// Gives up everything, as this member applies the log no longer.
    pub fn stop(&mut self) {
        self.fail_all(NotCommitted::Stopped);
    }

    fn fail_all(&mut self, reason: NotCommitted) {
        self.queue.clear();
        self.queued_bytes = 0;
        for (id, _) in std::mem::take(&mut self.waiting) {
            self.done.push(ProposalResult { id, outcome: Err(reason) });
        }
    }

    /// Gives up proposals that have waited too long: those not on their way are not in the log.
    pub fn tick(&mut self, now: Duration) {
        let late = |waiting: &WaitingProposal| {
            let age = now.saturating_sub(waiting.begun);
            match waiting.open {
                0 if waiting.outcomes.iter().all(Option::is_none) => {
                    (age >= HELD_MAX).then_some(NotCommitted::NoQuorum)
                }
                _ => (age >= IN_DOUBT_AFTER).then_some(NotCommitted::InDoubt),
            }
        };
        let late: Vec<_> =
            self.waiting.iter().filter_map(|(id, waiting)| Some((*id, late(waiting)?))).collect();
        for (id, reason) in late {
            self.waiting.remove(&id);
            self.queue.retain(|queued| queued.proposal != id);
            self.done.push(ProposalResult { id, outcome: Err(reason) });
        }
        self.queued_bytes = self.queue.iter().map(|queued| queued.section.bytes.len()).sum();
    }

    /// Returns when [`Proposer::next_message`] or [`Proposer::tick`] have something to do at the latest.
    pub fn next_event(&self) -> Option<Duration> {
        let retries =
            self.open.values().filter(|message| !message.is_appended).map(|message| message.retry_at);
        let held = self
            .waiting
            .values()
            .map(|waiting| waiting.begun + if waiting.open == 0 { HELD_MAX } else { IN_DOUBT_AFTER });
        retries.chain(held).min()
    }

    /// Returns the results that are new.
    pub fn take_done(&mut self) -> Vec<ProposalResult> {
        std::mem::take(&mut self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FRAME_BYTES, MESSAGE_BYTES_MAX};
    use spool::ChangeOutcome;

    const DONE: EntryOutcome = EntryOutcome::Applied(ChangeOutcome::Remembered);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn section(bytes: usize, follows: bool) -> Section {
        Section { bytes: vec![7; bytes], entries: 1, follows }
    }

    fn proposer() -> Proposer {
        Proposer::new(ClusterId([1; 8]), 3, 9)
    }

    fn results(proposer: &mut Proposer) -> Vec<Result<usize, NotCommitted>> {
        let done = proposer.take_done();
        done.into_iter().map(|result| result.outcome.map(|(outcomes, _)| outcomes.len())).collect()
    }

    #[test]
    fn a_retry_has_the_tag_and_the_bytes_of_the_first_attempt_until_the_fold_shows_it() {
        let mut proposer = proposer();
        proposer.propose(vec![section(10, false)], secs(1));
        let first = proposer.next_message(secs(1), 5).unwrap();
        assert_eq!(proposer.next_message(secs(2), 6), None);
        proposer.append_failed(first.0);
        assert_eq!(proposer.next_message(secs(4), 8), Some(first.clone()));
        assert_eq!(proposer.next_message(secs(7), 9), Some(first.clone()), "no answer is no answer");
        // The engine has it, but only the fold says what became of it.
        proposer.appended(first.0);
        assert_eq!(proposer.next_message(secs(20), 9), None);
        assert_eq!(results(&mut proposer), []);
        proposer.folded(first.0, &[DONE], CommitTicket::default());
        assert_eq!(results(&mut proposer), [Ok(1)]);
        proposer.folded(first.0, &[DONE], CommitTicket::default());
        assert_eq!(results(&mut proposer), []);
    }

    #[test]
    fn what_waits_is_joined_while_a_message_or_four_long_ones_are_on_their_way() {
        for (bytes, at_once) in [(10, 1), (BODY_BYTES_MIN, IN_FLIGHT_MAX)] {
            let mut proposer = proposer();
            let mut sent = Vec::new();
            for _ in 0..at_once + 3 {
                proposer.propose(vec![section(bytes, false)], secs(1));
                sent.extend(proposer.next_message(secs(1), 5));
            }
            assert_eq!(sent.len(), at_once);
            proposer.appended(sent[0].0);
            let joined = proposer.next_message(secs(1), 5).unwrap();
            assert_eq!(joined.1.len(), FRAME_BYTES + 3 * bytes);
            proposer.folded(joined.0, &[DONE; 3], CommitTicket::default());
            assert_eq!(results(&mut proposer), vec![Ok(1); 3]);
        }
    }

    #[test]
    fn what_was_never_sent_is_refused_and_what_was_is_in_doubt() {
        let mut proposer = proposer();
        for _ in 0..IN_FLIGHT_MAX {
            proposer.propose(vec![section(BODY_BYTES_MIN, false)], secs(1));
            assert!(proposer.next_message(secs(1), 5).is_some());
        }
        proposer.propose(vec![section(10, false)], secs(1));
        assert_eq!(proposer.next_message(secs(1), 5), None);
        proposer.tick(secs(12));
        assert_eq!(results(&mut proposer), []);
        assert!(!proposer.is_in_doubt(), "nothing is given up");
        proposer.tick(secs(13));
        assert_eq!(results(&mut proposer), [Err(NotCommitted::NoQuorum)]);
        proposer.tick(secs(31));
        assert_eq!(results(&mut proposer), [Err(NotCommitted::InDoubt); IN_FLIGHT_MAX]);
        // A message in doubt is still sent again, and what was refused is not in any.
        let again: Vec<_> = std::iter::from_fn(|| proposer.next_message(secs(32), 5)).collect();
        assert_eq!(again.len(), IN_FLIGHT_MAX);
        assert!(again.iter().all(|(tag, _)| tag.counter < IN_FLIGHT_MAX as u64));
        for (tag, _) in again {
            assert!(proposer.is_in_doubt());
            proposer.folded(tag, &[DONE], CommitTicket::default());
        }
        assert!(!proposer.is_in_doubt());
    }

    #[test]
    fn an_article_is_sent_once_its_parts_are_in_the_log() {
        let mut proposer = proposer();
        proposer.propose(vec![section(10, false), section(20, false), section(30, true)], secs(1));
        let (parts, _) = proposer.next_message(secs(1), 5).unwrap();
        assert_eq!(proposer.next_message(secs(1), 5), None);
        proposer.appended(parts);
        assert_eq!(proposer.next_message(secs(1), 5), None, "other members may have another order");
        proposer.folded(parts, &[EntryOutcome::Nothing; 2], CommitTicket::default());
        let (article, bytes) = proposer.next_message(secs(1), 5).unwrap();
        assert_eq!(bytes.len(), FRAME_BYTES + 30);
        proposer.folded(article, &[DONE], CommitTicket::default());
        assert_eq!(results(&mut proposer), [Ok(3)]);
    }

    #[test]
    fn a_section_that_no_message_holds_is_refused_and_one_that_just_fits_is_sent() {
        let mut proposer = proposer();
        proposer.propose(vec![section(10, false), section(SECTION_BYTES_MAX + 1, false)], secs(1));
        assert_eq!(results(&mut proposer), [Err(NotCommitted::TooLong)]);
        assert_eq!(proposer.next_message(secs(1), 5), None);
        proposer.propose(vec![section(SECTION_BYTES_MAX, false)], secs(1));
        let (tag, bytes) = proposer.next_message(secs(1), 5).unwrap();
        assert_eq!(bytes.len(), MESSAGE_BYTES_MAX);
        proposer.folded(tag, &[DONE], CommitTicket::default());
        assert_eq!(results(&mut proposer), [Ok(1)]);
    }

    #[test]
    fn too_much_that_waits_is_refused() {
        let mut proposer = proposer();
        let much: Vec<_> = (0..WAITING_BYTES_MAX >> 18).map(|_| section(1 << 18, false)).collect();
        proposer.propose(much, secs(1));
        proposer.propose(vec![section(1, false)], secs(1));
        assert_eq!(results(&mut proposer), [Err(NotCommitted::Busy)]);
        proposer.stop();
        assert_eq!(results(&mut proposer), [Err(NotCommitted::Stopped)]);
        assert_eq!(proposer.next_message(secs(1), 5), None);
    }
}
