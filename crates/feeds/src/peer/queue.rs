//! Offers of one peer: a bounded window of articles in the order of the journal, and deferred articles.
//!
//! An offer is *open* until a connection takes it, then *out* until it is settled. The cursor may move to the
//! first unsettled one ([`OfferQueue::mark`]). A deferred article leaves the window for the list of deferred
//! articles, once that is on disk ([`OfferQueue::changes`], [`OfferQueue::recorded`]); while the list is full
//! it stays in the window, which then fills up, and nothing is lost. Independent of clock, disk and network.

use crate::journal::offer::FeedOffer;
use nntp_io::ODD_ANSWERS_MAX;
use spool::{ArticleKey, DeferredArticle, JournalMark, ODD_ANSWER_BYTES_MAX, OddAnswerRecord};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Minimum pause of an article that a peer answers with 480 or 483, while it takes others.
const RIGHTS_PAUSE_MS: u64 = 3_600_000;

/// Most offers in the window of a peer.
pub(crate) const WINDOW_MAX: usize = 8_192;
/// Most deferred articles, beside the window.
pub(crate) const DEFERRED_MAX: usize = 8_192;
/// Connections that may end on an article before others go first.
const DEATHS_MAX: u8 = 3;

/// Identifies an offer taken by a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfferTicket {
    /// An offer of the window.
    Slot(u64),
    /// A deferred offer.
    Deferred(ArticleKey),
}

/// Odd answers to one article.
#[derive(Debug, Clone, Default)]
struct OddAnswers {
    /// Answers about the article.
    count: u8,
    /// Answers about us, for which it is not given up.
    about_us: u8,
    /// Proper answers of the peer before the first odd one; after a restart those before it do not count.
    proper_before: u64,
    /// Last answer.
    answer: Arc<str>,
}

impl OddAnswers {
    fn all(&self) -> u8 {
        self.count.saturating_add(self.about_us)
    }

    fn of(record: Option<OddAnswerRecord>) -> Self {
        record.map_or_else(Self::default, |OddAnswerRecord { count, about_us, answer }| Self {
            count,
            about_us,
            proper_before: 0,
            answer,
        })
    }

    fn record(&self) -> Option<OddAnswerRecord> {
        let Self { count, about_us, answer, .. } = self;
        (self.all() > 0).then(|| OddAnswerRecord {
            count: *count,
            about_us: *about_us,
            answer: answer.clone(),
        })
    }
}

/// Result of an odd answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OddAnswerResult {
    /// Odd answers to the article so far.
    pub answers: u8,
    /// Whether the article is not offered again.
    pub is_given_up: bool,
}

/// An offer taken by a connection.
#[derive(Debug, Clone)]
pub(crate) struct TakenOffer {
    pub ticket: OfferTicket,
    pub offer: Arc<FeedOffer>,
    /// Whether it was set aside before.
    pub is_aside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfferState {
    Open,
    Out,
    /// Deferred, and not on disk yet.
    Moving,
    Settled,
}

#[derive(Debug)]
struct OfferSlot {
    offer: Arc<FeedOffer>,
    state: OfferState,
    /// Number of times the peer deferred it while the list was full.
    tries: u32,
    /// Connections that ended on it.
    deaths: u8,
    odd: OddAnswers,
}

#[derive(Debug)]
struct DeferredOffer {
    offer: Arc<FeedOffer>,
    tries: u32,
    due_ms: u64,
    is_out: bool,
    odd: OddAnswers,
}

/// Changes to the list of deferred articles that are not on disk yet.
#[derive(Debug, Default)]
pub(crate) struct DeferralChanges {
    pub add: Vec<DeferredArticle>,
    pub remove: Vec<ArticleKey>,
    /// Slots to be settled once the changes are on disk.
    slots: Vec<u64>,
}

impl DeferralChanges {
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.slots.is_empty()
    }
}

/// The offers of one peer.
#[derive(Debug, Default)]
pub(crate) struct OfferQueue {
    slots: VecDeque<OfferSlot>,
    /// Number of the first slot.
    first: u64,
    /// Number of the first slot that was never taken.
    fresh: u64,
    /// Open slots before `fresh`, with the time from which they may be taken (Unix milliseconds).
    again: BTreeSet<(u64, u64)>,
    deferred: BTreeMap<ArticleKey, DeferredOffer>,
    /// Deferred articles not out, by the time they are due.
    due: BTreeSet<(u64, ArticleKey)>,
    changes: DeferralChanges,
    out: usize,
    /// Bytes of the open articles in the window.
    bytes: u64,
    /// Slots never taken, if the newest article goes first: `fresh` is not used then.
    untaken: Option<BTreeSet<u64>>,
}

impl OfferQueue {
    /// Creates a queue with the articles deferred before.
    pub fn with(deferred: impl Iterator<Item = DeferredArticle>) -> Self {
        let mut queue = Self::default();
        for DeferredArticle { key, token, message_id, wire_bytes, arrived, due_ms, tries, odd } in deferred {
            let mark = JournalMark::default();
            let offer = Arc::new(FeedOffer { key, token, message_id, wire_bytes, arrived, mark });
            queue.due.insert((due_ms, key));
            queue
                .deferred
                .insert(key, DeferredOffer { offer, tries, due_ms, is_out: false, odd: OddAnswers::of(odd) });
        }
        queue
    }

    /// Makes the queue offer the newest waiting article first.
    #[must_use]
    pub fn newest_first(self) -> Self {
        Self { untaken: Some(BTreeSet::new()), ..self }
    }

    /// Returns whether the window has room.
    pub fn has_room(&self) -> bool {
        self.slots.len() < WINDOW_MAX
    }

    /// Returns the number of offers in the window.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the window is full of offers none of which is out.
    pub fn is_stuck(&self) -> bool {
        !self.has_room() && self.out == 0
    }

    /// Returns whether any offers are out.
    pub fn has_out(&self) -> bool {
        self.out > 0
    }

    /// Returns the bytes of open articles in the window, as sent.
    pub fn open_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of open offers in the window.
    pub fn open(&self) -> usize {
        self.fresh() + self.again.len()
    }

    /// Returns whether deferred articles wait for another attempt.
    pub fn has_deferred(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the number of deferred articles.
    pub fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Returns the number of offers never taken by a connection.
    pub fn fresh(&self) -> usize {
        match &self.untaken {
            Some(untaken) => untaken.len(),
            None => self.slots.len() - (self.fresh - self.first) as usize,
        }
    }

    /// Returns when the oldest unsettled article arrived, in Unix seconds.
    pub fn oldest(&self) -> Option<u32> {
        self.slots.front().map(|slot| slot.offer.arrived)
    }

    /// Returns when the oldest open article arrived, in Unix seconds.
    pub fn oldest_open(&self) -> Option<u32> {
        let again = self.again.iter().map(|(_, number)| *number).min();
        let fresh = match &self.untaken {
            Some(untaken) => untaken.first().copied(),
            None => Some(self.fresh),
        };
        let number = again.into_iter().chain(fresh).min()?;
        Some(self.slots.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.offer.arrived)
    }

    /// Adds the next article of the journal.
    pub fn push(&mut self, offer: Arc<FeedOffer>) {
        self.bytes += offer.wire_bytes;
        if let Some(untaken) = &mut self.untaken {
            untaken.insert(self.first + self.slots.len() as u64);
        }
        self.slots.push_back(OfferSlot {
            offer,
            state: OfferState::Open,
            tries: 0,
            deaths: 0,
            odd: OddAnswers::default(),
        });
    }

    /// Takes the next offer that may be made now; those that wait for another attempt go first. An article
    /// is offered `delay_ms` after its arrival.
    pub fn take(&mut self, now_ms: u64, delay_ms: u64) -> Option<TakenOffer> {
        if let Some((_, number)) = self.again.first().copied().filter(|(due, _)| *due <= now_ms) {
            self.again.pop_first();
            return self.take_slot(number);
        }
        if let Some((_, key)) = self.due.first().copied().filter(|(due, _)| *due <= now_ms) {
            self.due.pop_first();
            let waiting = self.deferred.get_mut(&key)?;
            waiting.is_out = true;
            self.out += 1;
            let (offer, is_aside) = (waiting.offer.clone(), waiting.odd.all() > 0);
            return Some(TakenOffer { ticket: OfferTicket::Deferred(key), offer, is_aside });
        }
        if self.untaken.is_some() {
            return self.take_newest(now_ms, delay_ms);
        }
        self.fresh_due(delay_ms).filter(|due| *due <= now_ms)?;
        let number = self.fresh;
        self.fresh += 1;
        self.take_slot(number)
    }

    /// Takes the newest article that may be offered now and never was.
    fn take_newest(&mut self, now_ms: u64, delay_ms: u64) -> Option<TakenOffer> {
        let mut latest = self.untaken.iter().flatten().rev().copied();
        let number = latest.find(|number| self.due_of(*number, delay_ms).is_some_and(|due| due <= now_ms))?;
        self.untaken.as_mut()?.remove(&number);
        self.take_slot(number)
    }

    fn take_slot(&mut self, number: u64) -> Option<TakenOffer> {
        let slot = self.slot(number)?;
        slot.state = OfferState::Out;
        let (offer, is_aside) = (slot.offer.clone(), slot.odd.all() > 0);
        self.bytes = self.bytes.saturating_sub(offer.wire_bytes);
        self.out += 1;
        Some(TakenOffer { ticket: OfferTicket::Slot(number), offer, is_aside })
    }

    fn fresh_due(&self, delay_ms: u64) -> Option<u64> {
        let number = match &self.untaken {
            Some(untaken) => *untaken.first()?,
            None => self.fresh,
        };
        self.due_of(number, delay_ms)
    }

    fn due_of(&self, number: u64, delay_ms: u64) -> Option<u64> {
        let slot = self.slots.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        // Without a delay the clocks of two machines do not matter.
        Some(if delay_ms == 0 { 0 } else { u64::from(slot.offer.arrived) * 1_000 + delay_ms })
    }

    /// Returns when the next offer may be made, in Unix milliseconds.
    pub fn next_due(&self, delay_ms: u64) -> Option<u64> {
        let again = self.again.first().map(|(due, _)| *due);
        let due = self.due.first().map(|(due, _)| *due);
        [again, due, self.fresh_due(delay_ms)].into_iter().flatten().min()
    }

    /// Settles an offer: the peer has it, does not want it, or it no longer exists.
    pub fn settle(&mut self, ticket: OfferTicket) {
        self.out = self.out.saturating_sub(1);
        match ticket {
            OfferTicket::Slot(number) => self.set(number, OfferState::Settled),
            OfferTicket::Deferred(key) => {
                if self.deferred.remove(&key).is_some() {
                    self.changes.remove.push(key);
                }
            }
        }
        self.shrink();
    }

    /// Defers an offer; `pause` returns the time to wait, in milliseconds, by the number of deferrals.
    pub fn defer(&mut self, ticket: OfferTicket, now_ms: u64, pause: impl Fn(u32) -> u64) {
        self.out = self.out.saturating_sub(1);
        let has_room = self.deferred.len() < DEFERRED_MAX;
        match ticket {
            OfferTicket::Deferred(key) => {
                let Some(waiting) = self.deferred.get_mut(&key) else { return };
                waiting.tries += 1;
                (waiting.due_ms, waiting.is_out) = (now_ms + pause(waiting.tries), false);
                let (due, entry) = (waiting.due_ms, entry(waiting));
                self.due.insert((due, key));
                self.changes.add.push(entry);
            }
            OfferTicket::Slot(number) => {
                let Some(slot) = self.slot(number) else { return };
                slot.tries += 1;
                let (due_ms, tries, odd) = (now_ms + pause(slot.tries), slot.tries, slot.odd.clone());
                let offer = slot.offer.clone();
                slot.state = OfferState::Moving;
                if !has_room {
                    self.open_again(number, due_ms);
                    return;
                }
                let key = offer.key;
                // The article was on the list before: an operator has had it offered again.
                self.changes.remove.retain(|own| *own != key);
                let waiting = DeferredOffer { offer, tries, due_ms, is_out: false, odd };
                self.changes.add.push(entry(&waiting));
                self.changes.slots.push(number);
                self.due.insert((due_ms, key));
                self.deferred.insert(key, waiting);
            }
        }
    }

    /// Sets an article aside after an odd `answer` of the peer, which has given `proper` proper answers so
    /// far. The article is offered again, like a deferred one, until it has had too many odd answers. It is
    /// then given up, but only if the peer has answered other articles properly since the first odd answer,
    /// and the answers are not about us (`is_about_us`): otherwise the article may not be the reason. If such
    /// answers say that we lack the right to send it, the article waits for [`RIGHTS_PAUSE_MS`].
    pub fn set_aside(
        &mut self,
        ticket: OfferTicket,
        is_about_us: bool,
        answer: &str,
        proper: u64,
        now_ms: u64,
        pause: impl Fn(u32) -> u64,
    ) -> Option<OddAnswerResult> {
        let odd = match ticket {
            OfferTicket::Slot(number) => self.slot(number).map(|slot| &mut slot.odd),
            OfferTicket::Deferred(key) => self.deferred.get_mut(&key).map(|waiting| &mut waiting.odd),
        };
        let Some(odd) = odd else {
            // The window was cleared meanwhile.
            self.out = self.out.saturating_sub(1);
            return None;
        };
        if odd.all() == 0 {
            odd.proper_before = proper;
        }
        let count = if is_about_us { &mut odd.about_us } else { &mut odd.count };
        *count = count.saturating_add(1);
        odd.answer =
            answer.get(..answer.floor_char_boundary(ODD_ANSWER_BYTES_MAX)).unwrap_or_default().into();
        let is_singled_out = *count >= ODD_ANSWERS_MAX && proper > odd.proper_before;
        let is_given_up = is_singled_out && !is_about_us;
        let answers = odd.all();
        if is_given_up {
            self.settle(ticket);
        } else if is_singled_out {
            self.defer(ticket, now_ms, |tries| pause(tries).max(RIGHTS_PAUSE_MS));
        } else {
            self.defer(ticket, now_ms, pause);
        }
        Some(OddAnswerResult { answers, is_given_up })
    }

    /// Returns the number of articles set aside that wait to be offered again.
    pub fn set_aside_count(&self) -> usize {
        let deferred = self.deferred.values().filter(|waiting| waiting.odd.all() > 0).count();
        let is_aside = |slot: &&OfferSlot| slot.odd.all() > 0 && slot.state == OfferState::Open;
        deferred + self.slots.iter().filter(is_aside).count()
    }

    /// Reopens an offer whose connection ended before the peer had answered.
    pub fn give_back(&mut self, ticket: OfferTicket) {
        self.out = self.out.saturating_sub(1);
        match ticket {
            OfferTicket::Slot(number) => self.open_again(number, 0),
            OfferTicket::Deferred(key) => {
                if let Some(waiting) = self.deferred.get_mut(&key) {
                    waiting.is_out = false;
                    self.due.insert((waiting.due_ms, key));
                }
            }
        }
    }

    /// Like [`OfferQueue::give_back`], for the article being sent when the connection ended: after several
    /// times others go first, since it may be the cause.
    pub fn give_back_suspect(&mut self, ticket: OfferTicket, now_ms: u64, pause: impl Fn(u32) -> u64) {
        let is_first = |slot: &mut OfferSlot| {
            slot.deaths = slot.deaths.saturating_add(1);
            slot.deaths < DEATHS_MAX
        };
        match ticket {
            OfferTicket::Slot(number) if self.slot(number).is_some_and(is_first) => self.give_back(ticket),
            _ => self.defer(ticket, now_ms, pause),
        }
    }

    /// Queues an article requested by the peer, due at once. Returns false if the list is full.
    pub fn request(&mut self, offer: Arc<FeedOffer>, now_ms: u64) -> bool {
        let key = offer.key;
        if self.deferred.contains_key(&key) {
            return true;
        }
        if self.deferred.len() >= DEFERRED_MAX {
            return false;
        }
        let waiting =
            DeferredOffer { offer, tries: 0, due_ms: now_ms, is_out: false, odd: OddAnswers::default() };
        self.changes.add.push(entry(&waiting));
        self.due.insert((now_ms, key));
        self.deferred.insert(key, waiting);
        true
    }

    /// Makes all offers that wait for another attempt due now.
    pub fn hurry(&mut self) {
        self.again = self.again.iter().map(|(_, number)| (0, *number)).collect();
        self.due = self.due.iter().map(|(_, key)| (0, *key)).collect();
    }

    /// Takes the changes to be written to the list of deferred articles.
    pub fn changes(&mut self) -> DeferralChanges {
        std::mem::take(&mut self.changes)
    }

    /// Records that these changes are on disk.
    pub fn recorded(&mut self, changes: DeferralChanges) {
        for number in changes.slots {
            self.set(number, OfferState::Settled);
        }
        self.shrink();
    }

    /// Keeps changes that could not be written for the next attempt; the list has its entries in memory.
    pub fn unrecorded(&mut self, changes: DeferralChanges) {
        self.changes.slots.splice(0..0, changes.slots);
    }

    /// Returns the mark up to which everything is settled; `read_to` is the end of the window.
    pub fn mark(&self, read_to: JournalMark) -> JournalMark {
        self.slots.front().map_or(read_to, |slot| slot.offer.mark)
    }

    /// Clears the window: the feed continues elsewhere. Offers that are out are not reopened.
    pub fn clear(&mut self) {
        self.first += self.slots.len() as u64;
        self.fresh = self.first;
        self.slots.clear();
        self.bytes = 0;
        if let Some(untaken) = &mut self.untaken {
            untaken.clear();
        }
        self.again.clear();
        self.changes.slots.clear();
    }

    fn slot(&mut self, number: u64) -> Option<&mut OfferSlot> {
        self.slots.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Reopens an offer that was out, from `due_ms` on.
    fn open_again(&mut self, number: u64, due_ms: u64) {
        let Some(slot) = self.slot(number) else { return };
        slot.state = OfferState::Open;
        let bytes = slot.offer.wire_bytes;
        self.bytes += bytes;
        self.again.insert((due_ms, number));
    }

    fn set(&mut self, number: u64, state: OfferState) {
        if let Some(slot) = self.slot(number) {
            slot.state = state;
        }
    }

    fn shrink(&mut self) {
        while self.slots.pop_front_if(|slot| slot.state == OfferState::Settled).is_some() {
            self.first += 1;
        }
        self.fresh = self.fresh.max(self.first);
    }
}

fn entry(waiting: &DeferredOffer) -> DeferredArticle {
    let FeedOffer { key, token, message_id, wire_bytes, arrived, .. } = &*waiting.offer;
    DeferredArticle {
        key: *key,
        token: *token,
        message_id: message_id.clone(),
        wire_bytes: *wire_bytes,
        arrived: *arrived,
        due_ms: waiting.due_ms,
        tries: waiting.tries,
        odd: waiting.odd.record(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::{MethodKind, Token};

    #[test]
    fn open_offers_are_counted_through_all_states() {
        let open = |queue: &OfferQueue| (queue.open(), queue.open_bytes(), queue.oldest_open());
        let mut queue = queue(3);
        assert_eq!(open(&queue), (3, 300, Some(1_000)));
        let tickets: Vec<OfferTicket> = (0..3).map(|_| take(&mut queue, 0).unwrap().1).collect();
        assert_eq!((open(&queue), queue.has_deferred()), ((0, 0, None), false));
        queue.give_back(tickets[1]);
        assert_eq!(open(&queue), (1, 100, Some(1_000)));
        queue.defer(tickets[0], 0, |_| 500);
        assert_eq!((open(&queue), queue.has_deferred()), ((1, 100, Some(1_000)), true));
        let changes = queue.changes();
        queue.recorded(changes);
        let again = take(&mut queue, 0).unwrap().1;
        [again, tickets[2]].into_iter().for_each(|ticket| queue.settle(ticket));
        assert_eq!((open(&queue), queue.len()), ((0, 0, None), 0));
        queue.push(offer(3));
        assert_eq!(open(&queue), (1, 100, Some(1_000)));
        queue.clear();
        assert_eq!(open(&queue), (0, 0, None));
    }

    fn offer(n: u64) -> Arc<FeedOffer> {
        Arc::new(FeedOffer {
            key: ArticleKey(u128::from(n)),
            token: Token { method: MethodKind::Cnfs, class: 0, volume: 0, place: n },
            message_id: format!("<{n}@x>").into_bytes().into(),
            wire_bytes: 100,
            arrived: 1_000,
            mark: at(n),
        })
    }

    fn at(n: u64) -> JournalMark {
        JournalMark { position: n * 10, sequence: Some(n) }
    }

    fn queue(offers: u64) -> OfferQueue {
        let mut queue = OfferQueue::default();
        (0..offers).for_each(|n| queue.push(offer(n)));
        queue
    }

    fn take(queue: &mut OfferQueue, now_ms: u64) -> Option<(u64, OfferTicket)> {
        let taken = queue.take(now_ms, 0)?;
        Some((taken.offer.key.0 as u64, taken.ticket))
    }

    #[test]
    fn the_mark_follows_the_first_unsettled_offer() {
        let mut queue = queue(4);
        let tickets: Vec<OfferTicket> = (0..4).map(|_| take(&mut queue, 0).unwrap().1).collect();
        assert_eq!((take(&mut queue, 0), queue.out), (None, 4));
        queue.settle(tickets[1]);
        assert_eq!(queue.mark(at(4)), at(0));
        queue.settle(tickets[0]);
        assert_eq!(queue.mark(at(4)), at(2));
        queue.settle(tickets[3]);
        queue.give_back(tickets[2]);
        assert_eq!((queue.mark(at(4)), queue.out), (at(2), 0));
        assert_eq!(take(&mut queue, 0), Some((2, tickets[2])));
        queue.settle(tickets[2]);
        assert_eq!((queue.mark(at(4)), queue.len()), (at(4), 0));
    }

    #[test]
    fn a_deferred_offer_leaves_the_window_once_recorded() {
        let mut queue = queue(2);
        let (_, first) = take(&mut queue, 0).unwrap();
        let (_, second) = take(&mut queue, 0).unwrap();
        queue.settle(second);
        queue.defer(first, 1_000, |tries| u64::from(tries) * 100);
        assert_eq!((queue.mark(at(2)), queue.deferred()), (at(0), 1));
        let changes = queue.changes();
        assert_eq!((changes.add.len(), changes.add[0].due_ms, changes.add[0].tries), (1, 1_100, 1));
        let restarted = OfferQueue::with(changes.add.iter().cloned());
        queue.recorded(changes);
        assert_eq!(queue.mark(at(2)), at(2));
        for mut queue in [queue, restarted] {
            assert_eq!((take(&mut queue, 1_099), queue.next_due(0)), (None, Some(1_100)));
            let (n, ticket) = take(&mut queue, 1_100).unwrap();
            assert_eq!((n, ticket), (0, OfferTicket::Deferred(ArticleKey(0))));
            queue.defer(ticket, 2_000, |tries| u64::from(tries) * 100);
            assert_eq!((take(&mut queue, 2_199), queue.next_due(0)), (None, Some(2_200)));
            queue.hurry();
            let (_, ticket) = take(&mut queue, 0).unwrap();
            queue.give_back(ticket);
            let (_, ticket) = take(&mut queue, 3_000).unwrap();
            queue.settle(ticket);
            let changes = queue.changes();
            assert_eq!((changes.add.len(), changes.remove), (1, vec![ArticleKey(0)]));
            assert_eq!((queue.deferred(), take(&mut queue, 9_000)), (0, None));
        }
    }

    #[test]
    fn unrecorded_offers_leave_the_window_with_the_next_recording() {
        let mut queue = queue(3);
        for _ in 0..2 {
            let (_, ticket) = take(&mut queue, 0).unwrap();
            queue.defer(ticket, 0, |_| 50);
            let changes = queue.changes();
            assert!(!changes.is_empty());
            queue.unrecorded(changes);
            assert_eq!((queue.len(), queue.mark(at(3))), (3, at(0)));
        }
        let changes = queue.changes();
        assert!(!changes.is_empty());
        queue.recorded(changes);
        assert_eq!((queue.len(), queue.mark(at(3)), queue.deferred()), (1, at(2), 2));
        assert!(queue.changes().is_empty());
    }

    #[test]
    fn an_article_offered_and_deferred_again_stays_on_the_list() {
        let mut queue = OfferQueue::with(std::iter::empty());
        let defer = |queue: &mut OfferQueue, now_ms| {
            queue.push(offer(1));
            let (_, ticket) = take(queue, now_ms).unwrap();
            queue.defer(ticket, now_ms, |_| 50);
        };
        defer(&mut queue, 0);
        let (_, ticket) = take(&mut queue, 50).unwrap();
        queue.settle(ticket);
        queue.clear();
        defer(&mut queue, 60);
        let changes = queue.changes();
        assert_eq!((changes.add.len(), changes.remove.len()), (2, 0));
    }

    #[test]
    fn a_full_list_holds_the_window_and_loses_nothing() {
        let mut queue = queue(DEFERRED_MAX as u64 + 2);
        for _ in 0..DEFERRED_MAX + 1 {
            let (_, ticket) = take(&mut queue, 0).unwrap();
            queue.defer(ticket, 0, |_| 50);
        }
        let changes = queue.changes();
        queue.recorded(changes);
        assert_eq!(
            (queue.deferred(), queue.mark(JournalMark::default())),
            (DEFERRED_MAX, at(DEFERRED_MAX as u64))
        );
        // The offer that found the list full is tried again, with all others.
        let mut seen: Vec<u64> =
            std::iter::from_fn(|| take(&mut queue, 50)).map(|(number, _)| number).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..DEFERRED_MAX as u64 + 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_article_on_which_connections_end_lets_others_go_first() {
        let mut queue = queue(2);
        for _ in 0..DEATHS_MAX - 1 {
            let (n, ticket) = take(&mut queue, 0).unwrap();
            assert_eq!(n, 0);
            queue.give_back_suspect(ticket, 0, |_| 1_000);
        }
        let (_, ticket) = take(&mut queue, 0).unwrap();
        queue.give_back_suspect(ticket, 0, |_| 1_000);
        assert_eq!(take(&mut queue, 0).map(|(n, _)| n), Some(1));
        assert_eq!(take(&mut queue, 1_000).map(|(n, _)| n), Some(0));
    }

    #[test]
    fn odd_answers_are_counted_across_a_restart() {
        let mut first = queue(1);
        let (_, ticket) = take(&mut first, 0).unwrap();
        first.set_aside(ticket, false, "501 no", 7, 0, |_| 100);
        let (_, ticket) = take(&mut first, 1_000).unwrap();
        first.set_aside(ticket, false, "503 never", 8, 1_000, |_| 100);
        let saved = first.changes().add.pop().unwrap();
        let odd = saved.odd.as_ref().unwrap();
        assert_eq!((odd.count, odd.about_us, &*odd.answer), (2, 0, "503 never"));
        let mut restarted = OfferQueue::with([saved].into_iter());
        assert_eq!(restarted.set_aside_count(), 1);
        // No proper answer has come since the restart, then one.
        for (answers, proper) in [(3, 0), (4, 1)] {
            let (_, ticket) = take(&mut restarted, 10_000).unwrap();
            let aside = restarted.set_aside(ticket, false, "501 no", proper, 2_000, |_| 100);
            assert_eq!(aside, Some(OddAnswerResult { answers, is_given_up: proper > 0 }));
        }
        assert_eq!((restarted.set_aside_count(), restarted.deferred()), (0, 0));
    }

    #[test]
    fn an_odd_answer_after_the_window_was_cleared_leaves_nothing_out() {
        let mut queue = queue(2);
        let (_, ticket) = take(&mut queue, 0).unwrap();
        queue.clear();
        assert!(queue.has_out());
        assert_eq!(queue.set_aside(ticket, false, "501 no", 7, 0, |_| 100), None);
        assert!(!queue.has_out());
    }

    #[test]
    fn an_article_with_odd_answers_is_given_up_once_others_get_proper_ones() {
        let mut queue = queue(2);
        let (_, ticket) = take(&mut queue, 0).unwrap();
        let aside = |answers, is_given_up| Some(OddAnswerResult { answers, is_given_up });
        assert_eq!(queue.set_aside(ticket, false, "501 no", 7, 0, |_| 100), aside(1, false));
        let changes = queue.changes();
        assert_eq!(changes.add.len(), 1, "a crash leaves it on the list");
        queue.recorded(changes);
        assert_eq!((queue.mark(at(2)), queue.set_aside_count()), (at(1), 1), "the cursor passes it");
        let (n, other) = take(&mut queue, 50).unwrap();
        assert_eq!(n, 1, "others go first");
        for (answers, proper) in [(2, 7), (3, 7), (4, 7), (5, 8)] {
            let (n, ticket) = take(&mut queue, 1_000).unwrap();
            assert_eq!(n, 0);
            assert_eq!(
                queue.set_aside(ticket, false, "501 no", proper, 0, |_| 100),
                aside(answers, proper > 7)
            );
        }
        queue.settle(other);
        let changes = queue.changes();
        assert_eq!((changes.remove.len(), queue.set_aside_count(), queue.deferred()), (1, 0, 0));
    }

    #[test]
    fn an_article_is_never_given_up_for_answers_about_us() {
        let mut queue = queue(1);
        for (is_about_us, is_given_up) in
            [(false, false), (true, false), (true, false), (true, false), (false, false), (false, true)]
        {
            let (_, ticket) = take(&mut queue, RIGHTS_PAUSE_MS).unwrap();
            let proper = 1 + u64::from(queue.set_aside_count() > 0);
            let aside = queue.set_aside(ticket, is_about_us, "480 who?", proper + 7, 0, |_| 100).unwrap();
            assert_eq!(aside.is_given_up, is_given_up, "{aside:?}");
        }
    }

    #[test]
    fn an_article_that_we_have_no_right_to_send_is_offered_once_an_hour() {
        let mut queue = queue(1);
        for proper in 7..10 {
            let (_, ticket) = take(&mut queue, 100).unwrap();
            assert!(!queue.set_aside(ticket, true, "480 who?", proper, 0, |_| 100).unwrap().is_given_up);
        }
        assert_eq!(take(&mut queue, RIGHTS_PAUSE_MS - 1).map(|(n, _)| n), None);
        assert_eq!(take(&mut queue, RIGHTS_PAUSE_MS).map(|(n, _)| n), Some(0));
    }

    #[test]
    fn the_last_article_may_go_first() {
        let mut queue = OfferQueue::default().newest_first();
        (0..3).for_each(|n| queue.push(offer(n)));
        let (n, last) = take(&mut queue, 0).unwrap();
        assert_eq!((n, queue.fresh(), queue.mark(at(4))), (2, 2, at(0)));
        queue.push(offer(3));
        let (n, newest) = take(&mut queue, 0).unwrap();
        assert_eq!(n, 3);
        queue.give_back(last);
        assert_eq!(take(&mut queue, 0), Some((2, last)), "what was given back goes first");
        [last, newest].into_iter().for_each(|ticket| queue.settle(ticket));
        assert_eq!(queue.take(1_000_499, 500).map(|_| ()), None);
        assert_eq!(queue.next_due(500), Some(1_000_500));
        for (expected, mark) in [(1, 0), (0, 4)] {
            let (n, ticket) = take(&mut queue, 0).unwrap();
            queue.settle(ticket);
            assert_eq!((n, queue.mark(at(4))), (expected, at(mark)));
        }
        queue.push(offer(4));
        queue.clear();
        assert_eq!((take(&mut queue, 0), queue.fresh(), queue.len()), (None, 0, 0));
    }

    #[test]
    fn a_requested_article_is_due_and_on_disk_once() {
        let mut queue = queue(1);
        assert!(queue.request(offer(7), 500) && queue.request(offer(7), 600));
        let changes = queue.changes();
        assert_eq!((changes.add.len(), changes.add[0].due_ms), (1, 500));
        queue.recorded(changes);
        assert_eq!(take(&mut queue, 500).map(|(n, _)| n), Some(7));
        for n in 100..100 + DEFERRED_MAX as u64 {
            queue.request(offer(n), 500);
        }
        assert_eq!((queue.deferred(), queue.request(offer(8), 500)), (DEFERRED_MAX, false));
    }

    #[test]
    fn a_delay_is_kept() {
        let mut queue = queue(1);
        assert_eq!(queue.next_due(500), Some(1_000_500));
        assert!(queue.take(1_000_499, 500).is_none());
        assert!(queue.take(1_000_500, 500).is_some());
    }

    #[test]
    fn a_cleared_window_takes_no_answers() {
        let mut queue = queue(3);
        let (_, ticket) = take(&mut queue, 0).unwrap();
        queue.clear();
        queue.push(offer(7));
        queue.settle(ticket);
        assert_eq!(take(&mut queue, 0).map(|(n, _)| n), Some(7));
    }
}
