//! Shared state of one peer's feed: offers, durable state, counters and notifications.

use crate::journal::frontier::Frontier;
use crate::outlets::Outlet;
use crate::peer::no_check::NoCheck;
use crate::peer::order::{FeedStartPoint, OperatorOrder, place_of};
use crate::peer::queue::{OddAnswerResult, OfferQueue, OfferTicket, TakenOffer, WINDOW_MAX};
use crate::peer::set_aside::{SetAsideArticle, SetAsideLog};
use crate::peer::target::OFFERS_MAX;
use crate::rank;
use ingest::routing::PeerRoute;
use lock_order::Ordered;
use site_base::back_off::BackOff;
use site_base::clock::{unix_ms, unix_secs};
use site_base::counters::{add, read};
use site_base::lock::Leaf;
use site_base::units::DAY_SECS;
use site_config::{FeedOrder, FeedStart, PeerSend};
use spool::{Cursor, Deferrals, JournalMark, Spool, TailStart};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::warn;

/// Prefix of the cursor names of peers, before the peer's name.
pub(crate) const CURSOR_PREFIX: &str = "feed.";
/// Most Message-IDs of missed articles remembered.
const MISSED_MAX: usize = 1_000;
/// Value before any article was decided with the peer.
const UNDECIDED: u64 = u64::MAX;

/// Counts since the feed began.
#[derive(Debug, Default)]
pub(crate) struct FeedCounts {
    /// Articles offered, or sent without an offer.
    pub offered: AtomicU64,
    /// Offered articles that the peer wanted.
    pub wanted: AtomicU64,
    /// Offers that the peer refused.
    pub refused: AtomicU64,
    pub accepted: AtomicU64,
    /// Articles sent and not taken.
    pub rejected: AtomicU64,
    /// Number of times that the peer deferred an article.
    pub deferred: AtomicU64,
    /// Articles given up after odd answers.
    pub given_up: AtomicU64,
    /// Answers to offers and transfers within the protocol.
    pub proper: AtomicU64,
    /// Articles not offered, since they were overwritten or too old, or cannot be sent.
    pub missed: AtomicU64,
    /// Bytes of articles sent.
    pub sent_bytes: AtomicU64,
}

impl FeedCounts {
    /// Returns the number of articles that were taken, refused or rejected.
    pub fn settled(&self) -> u64 {
        [&self.accepted, &self.refused, &self.rejected].into_iter().map(read).sum()
    }
}

/// Activity of a feed, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedActivity {
    /// Nothing is to be sent.
    Idle,
    Connecting,
    Sending,
    /// Articles wait until there are enough for a batch.
    Collecting,
    /// The output has reached its limit.
    Full,
    /// Waiting until the next attempt.
    Waiting(Instant),
    /// Stopped by an operator.
    Stopped,
}

/// Kinds of trouble of a feed, which may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedTrouble {
    /// Reaching the peer, or speaking with it.
    Peer,
    /// Reading the journal.
    Journal,
    /// Recording sent articles.
    Record,
    /// Handing batches over.
    HandOver,
    /// The output has reached its limit.
    Room,
}

/// Durable state of a feed.
#[derive(Debug)]
pub(crate) struct DurableFeedState {
    pub cursor: Cursor,
    pub deferrals: Deferrals,
    pub is_dirty: bool,
}

/// Source of new offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfferSource {
    /// The hub, which reads for all. Rows before this position are known already.
    Hub(JournalMark),
    /// The peer's own cursor, at this position.
    Cursor(JournalMark),
    /// The peer's own cursor, which must first be moved to this position.
    Seek(JournalMark),
}

/// The window and its source.
#[derive(Debug)]
pub(crate) struct FeedWindow {
    pub queue: OfferQueue,
    pub source: OfferSource,
    /// Number of offers left at which the feed is woken, after the window was full with more to read.
    pub wakes_at: Option<usize>,
}

impl FeedWindow {
    /// Returns the room for offers, up to `most` in the window; `None` if it is full, and the feed is woken
    /// when half of it is settled.
    pub fn room(&mut self, most: usize) -> Option<usize> {
        let room = most.checked_sub(self.queue.len()).filter(|room| *room > 0);
        self.wakes_at = if room.is_none() { Some(most / 2) } else { None };
        room
    }
}

/// The feed of one peer.
#[derive(Debug)]
pub(crate) struct PeerFeed {
    pub name: String,
    /// Number of the peer in journal rows.
    pub number: u32,
    pub send: PeerSend,
    /// Outlet for its articles.
    pub outlet: Outlet,
    pub window: Ordered<FeedWindow, { rank::WINDOW }>,
    pub durable: Ordered<DurableFeedState, { rank::DURABLE }>,
    pub no_check: Leaf<NoCheck>,
    pub counts: FeedCounts,
    pub missed: Leaf<VecDeque<Box<[u8]>>>,
    pub set_aside: Leaf<SetAsideLog>,
    pub doing: Leaf<FeedActivity>,
    pub last_error: Leaf<Option<(FeedTrouble, String)>>,
    pub connections: AtomicUsize,
    pub began: Instant,
    /// Time before which arrived articles are left out, in Unix seconds.
    pub since: AtomicU64,
    /// First decided sequence number, as in its cursor; [`UNDECIDED`]: not known yet.
    pub decided_from: AtomicU64,
    /// Notifies connections that they may take offers.
    pub offers: Notify,
    /// Notifies the feed of an order, an answer, or a connection that has ended.
    pub attention: Notify,
    /// Whether connections have taken offers since the last check whether they keep up.
    pub is_working: AtomicBool,
    /// Whether an operator has stopped it.
    pub is_stopped: AtomicBool,
    /// Whether another member of the cluster feeds the peer.
    is_elsewhere: AtomicBool,
    /// Whether a settled offer could not be recorded at once.
    pub is_unnoted: AtomicBool,
    /// Whether waiting attempts should be made now.
    pub is_hurried: AtomicBool,
    /// Set to true when the feed should end.
    pub end: watch::Sender<bool>,
}

impl PeerFeed {
    /// Opens the feed of a peer with its durable state; a new one begins where its configuration says.
    /// `identity` is our path identity. Blocks.
    pub fn open(spool: &Arc<Spool>, route: &PeerRoute, identity: &str) -> io::Result<Self> {
        let name = format!("{CURSOR_PREFIX}{}", route.name);
        let start = if route.send.from == FeedStart::Now { TailStart::Now } else { TailStart::Oldest };
        let mut cursor = spool.journal().cursor(&name, start)?;
        let mut deferrals = spool.journal().deferrals(&name)?;
        if deferrals.lacks_articles() {
            // Rows of the missing articles lie before the cursor.
            let oldest = spool.journal().mark(TailStart::Oldest)?;
            cursor.seek(oldest);
            cursor.save_at(oldest)?;
            deferrals.mend()?;
        }
        let queue = OfferQueue::with(deferrals.all().cloned());
        let set_aside = SetAsideLog::with(deferrals.all());
        let queue = if route.send.order == FeedOrder::Newest { queue.newest_first() } else { queue };
        let window = FeedWindow { queue, source: OfferSource::Cursor(cursor.mark()), wakes_at: None };
        // Needed only as long as the peer has rows to decide by itself.
        let since = if cursor.decided_from().is_none() { route.send.from.since() } else { 0 };
        let decided_from = cursor.decided_from().unwrap_or(UNDECIDED);
        Ok(Self {
            name: route.name.clone(),
            number: route.number,
            outlet: Outlet::of(&route.send, identity, spool.disk().clone()),
            send: route.send.clone(),
            window: Ordered::new(window),
            durable: Ordered::new(DurableFeedState { cursor, deferrals, is_dirty: false }),
            no_check: Leaf::new(NoCheck::new(route.send.no_check_high, route.send.no_check_low)),
            counts: FeedCounts::default(),
            missed: Leaf::default(),
            set_aside: Leaf::new(set_aside),
            doing: Leaf::new(FeedActivity::Idle),
            last_error: Leaf::default(),
            connections: AtomicUsize::new(0),
            began: Instant::now(),
            since: AtomicU64::new(since),
            decided_from: AtomicU64::new(decided_from),
            offers: Notify::new(),
            attention: Notify::new(),
            is_working: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            // In a cluster it begins once it is known that no other member feeds the peer.
            is_elsewhere: AtomicBool::new(spool.shared_log().is_some()),
            is_unnoted: AtomicBool::new(false),
            is_hurried: AtomicBool::new(false),
            end: watch::Sender::new(false),
        })
    }

    /// Asks the feed to end in order.
    pub fn retire(&self) {
        self.end.send_replace(true);
        self.offers.notify_waiters();
        self.attention.notify_one();
    }

    /// Returns whether the feed was asked to end.
    pub fn is_ending(&self) -> bool {
        *self.end.borrow()
    }

    /// Returns whether connections should take no more offers.
    pub fn is_halted(&self) -> bool {
        self.is_ending() || self.is_stopped.load(Ordering::Relaxed) || self.is_elsewhere()
    }

    /// Returns whether another member of the cluster feeds the peer.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }

    /// Carries out an order.
    pub fn order(&self, spool: &Spool, order: OperatorOrder) -> io::Result<()> {
        match order {
            OperatorOrder::Start => {
                self.is_stopped.store(false, Ordering::Relaxed);
                self.is_hurried.store(true, Ordering::Relaxed);
            }
            OperatorOrder::Stop => self.is_stopped.store(true, Ordering::Relaxed),
            OperatorOrder::Here => {
                self.is_elsewhere.store(false, Ordering::Relaxed);
                self.is_hurried.store(true, Ordering::Relaxed);
            }
            OperatorOrder::Elsewhere => self.is_elsewhere.store(true, Ordering::Relaxed),
            OperatorOrder::Flush => {
                self.window.lock().queue.hurry();
                self.is_hurried.store(true, Ordering::Relaxed);
                self.outlet.flush()?;
            }
            OperatorOrder::From(place) => {
                let mark = place_of(spool, place)?;
                let since = if let FeedStartPoint::Since(since) = place { since } else { 0 };
                self.since.store(since, Ordering::Relaxed);
                let mut window = self.window.lock();
                window.queue.clear();
                window.source = OfferSource::Seek(mark);
            }
        }
        self.offers.notify_waiters();
        self.attention.notify_one();
        Ok(())
    }

    /// Takes the next offer for a connection; offers too far behind are skipped.
    pub fn take(&self, frontier: &Frontier) -> Option<TakenOffer> {
        loop {
            if self.is_halted() {
                return None;
            }
            let taken = self.window.lock().queue.take(unix_ms(), self.delay_ms())?;
            let position = match taken.ticket {
                OfferTicket::Slot(_) => Some(taken.offer.mark.position),
                // A deferred article is no longer at its position in the journal.
                OfferTicket::Deferred(_) => None,
            };
            let Some(why) = self.is_too_late(taken.offer.arrived, position, frontier) else {
                self.works_on();
                return Some(taken);
            };
            self.miss(&taken.offer.message_id, why);
            self.settle(taken.ticket);
        }
    }

    /// Records that an offer was taken: the feed checks whether its connections keep up.
    fn works_on(&self) {
        if self.outlet.tasks_max(&self.send) > 1 && !self.is_working.load(Ordering::Relaxed) {
            self.is_working.store(true, Ordering::Relaxed);
            self.attention.notify_one();
        }
    }

    /// Returns why an article of this age, at this position of the journal, is not sent any more.
    pub fn is_too_late(
        &self,
        arrived: u32,
        position: Option<u64>,
        frontier: &Frontier,
    ) -> Option<&'static str> {
        if let (Some(position), Some(bytes)) = (position, self.send.backlog_max_bytes)
            && frontier.mark().position.saturating_sub(position) > bytes
        {
            return Some("the peer was more than backlog_max_bytes behind");
        }
        let days = self.send.backlog_max_days?;
        let oldest = unix_secs().saturating_sub(u64::from(days) * DAY_SECS);
        (u64::from(arrived) < oldest).then_some("it arrived more than backlog_max_days ago")
    }

    /// Waits until an offer may be made, of those present now.
    pub async fn is_due(&self) {
        if self.is_halted() {
            return std::future::pending().await;
        }
        let due = self.window.lock().queue.next_due(self.delay_ms());
        match due.map(|due| due.saturating_sub(unix_ms())) {
            Some(0) => {}
            Some(wait_ms) => sleep(Duration::from_millis(wait_ms)).await,
            None => std::future::pending().await,
        }
    }

    /// Returns when there is something to do, in Unix milliseconds; `None` if nothing waits.
    pub fn next_due(&self) -> Option<u64> {
        let window = self.window.lock();
        // While the journal is being read, more offers follow in a moment.
        let is_read = matches!(window.source, OfferSource::Hub(_));
        self.outlet.next_due(&window.queue, is_read, &self.send)
    }

    /// Returns how long articles wait before they are offered.
    pub fn delay_ms(&self) -> u64 {
        self.send.delay.as_millis() as u64
    }

    /// Returns how long to wait after this many failures.
    pub fn pause_ms(&self, tries: u32) -> u64 {
        let pause = BackOff::new(self.send.retry_first, self.send.retry_longest).pause(tries);
        u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
    }

    /// Settles an offer.
    pub fn settle(&self, ticket: OfferTicket) {
        let mut window = self.window.lock();
        window.queue.settle(ticket);
        self.feed(&mut window);
    }

    /// Has a window that was full filled again when there is room for many articles.
    fn feed(&self, window: &mut FeedWindow) {
        if window.wakes_at.is_some_and(|few| window.queue.len() <= few) {
            window.wakes_at = None;
            self.attention.notify_one();
        }
    }

    /// Returns how many offers the peer reads ahead for itself. They are not shared: with many peers
    /// behind, a full window for each would take much memory. The number keeps connections busy until more
    /// are read; outlets that choose among offers in the window, or collect them, get the whole window.
    pub fn own_offers_max(&self) -> usize {
        if !matches!(self.outlet, Outlet::Connections) || self.send.order == FeedOrder::Newest {
            return WINDOW_MAX;
        }
        let connections = self.connections.load(Ordering::Relaxed).max(1);
        (2 * OFFERS_MAX * connections).min(WINDOW_MAX)
    }

    /// Returns the sequence number of the first article decided with this peer, once it is known.
    pub fn decided_from(&self) -> Option<u64> {
        Some(self.decided_from.load(Ordering::Relaxed)).filter(|sequence| *sequence != UNDECIDED)
    }

    /// Defers an article that the peer wants later.
    pub fn defer(&self, ticket: OfferTicket) {
        add(&self.counts.deferred, 1);
        self.window.lock().queue.defer(ticket, unix_ms(), |tries| self.pause_ms(tries));
    }

    /// Records a proper answer of the peer.
    pub fn answered_properly(&self, taken: &TakenOffer) {
        add(&self.counts.proper, 1);
        if taken.is_aside {
            self.set_aside.lock().forget(&taken.offer.message_id);
        }
    }

    /// Sets an article aside after an odd answer, which may be about us (`is_about_us`).
    pub fn set_aside(&self, taken: &TakenOffer, is_about_us: bool, answer: &str) {
        let proper = read(&self.counts.proper);
        let aside = {
            let mut window = self.window.lock();
            let pause = |tries| self.pause_ms(tries);
            let aside = window.queue.set_aside(taken.ticket, is_about_us, answer, proper, unix_ms(), pause);
            self.feed(&mut window);
            aside
        };
        // None: an operator has moved the feed's position.
        let Some(OddAnswerResult { answers, is_given_up }) = aside else { return };
        let message_id = String::from_utf8_lossy(&taken.offer.message_id).into_owned();
        if is_given_up {
            add(&self.counts.given_up, 1);
            warn!(peer = self.name, id = message_id, answer, answers, "article given up: odd answers");
        } else if answers == 1 {
            warn!(peer = self.name, id = message_id, answer, "article set aside: odd answer");
        }
        let (answer, answers) = (answer.to_owned(), u64::from(answers));
        let article = SetAsideArticle { message_id, answer, answers, given_up: is_given_up };
        self.set_aside.lock().note(article);
    }

    /// Records that an article is not offered, or cannot be sent.
    pub fn miss(&self, message_id: &[u8], why: &str) {
        if self.counts.missed.fetch_add(1, Ordering::Relaxed) == 0 {
            let id = String::from_utf8_lossy(message_id);
            warn!(peer = self.name, %id, why, "feed misses articles; `newsreel status --json` has the last ones");
        }
        let mut missed = self.missed.lock();
        if missed.len() >= MISSED_MAX {
            missed.pop_front();
        }
        missed.push_back(message_id.into());
    }

    /// Records settled offers, so that they are not offered again should the process die. If another task
    /// is recording, it is done a little later.
    pub fn note(&self, frontier: &Frontier) {
        let Some(mut durable) = self.durable.try_lock() else {
            self.is_unnoted.store(true, Ordering::Relaxed);
            return self.attention.notify_one();
        };
        if let Err(error) = self.record(&mut durable, frontier, false) {
            self.fail(FeedTrouble::Record, format!("cannot note what was sent: {error}"));
        }
    }

    /// Saves settled offers. Blocks for a sync.
    pub fn save(&self, frontier: &Frontier) {
        let mut durable = self.durable.lock();
        if let Err(error) = self.record(&mut durable, frontier, true) {
            self.fail(FeedTrouble::Record, format!("cannot save what was sent: {error}"));
        }
    }

    fn record(&self, durable: &mut DurableFeedState, frontier: &Frontier, sync: bool) -> io::Result<()> {
        let changes = self.window.lock().queue.changes();
        // Dirty until saved, and after an error, so that it is tried again.
        durable.is_dirty = true;
        if !changes.is_empty()
            && let Err(error) = durable.deferrals.change(&changes.add, &changes.remove)
        {
            self.window.lock().queue.unrecorded(changes);
            return Err(error);
        }
        let mark = {
            let mut window = self.window.lock();
            window.queue.recorded(changes);
            self.feed(&mut window);
            self.mark(&window, frontier)
        };
        if sync {
            self.outlet.sync()?;
            durable.deferrals.sync()?;
            durable.cursor.save_at(mark)?;
            durable.is_dirty = false;
        } else {
            durable.cursor.note(mark)?;
        }
        self.works(FeedTrouble::Record);
        Ok(())
    }

    /// Returns the mark up to which everything is settled.
    pub fn mark(&self, window: &FeedWindow, frontier: &Frontier) -> JournalMark {
        // The frontier moves after everything before it is in the windows.
        let read_to = match window.source {
            OfferSource::Hub(from) => {
                let mark = frontier.mark();
                if mark.position < from.position { from } else { mark }
            }
            OfferSource::Cursor(mark) | OfferSource::Seek(mark) => mark,
        };
        window.queue.mark(read_to)
    }

    /// Remembers an error, and logs it if it differs from the last one.
    pub fn fail(&self, trouble: FeedTrouble, error: String) {
        let mut last = self.last_error.lock();
        if last.as_ref().is_none_or(|(_, last)| *last != error) {
            warn!(peer = self.name, error, "feed");
        }
        *last = Some((trouble, error));
    }

    /// Clears an error of this kind.
    pub fn works(&self, trouble: FeedTrouble) {
        let mut last = self.last_error.lock();
        if last.as_ref().is_some_and(|(last, _)| *last == trouble) {
            *last = None;
        }
    }
}
