//! What the parts of one peer's feed share: its offers, what it has on disk, its counts, and who is woken.

use super::frontier::Frontier;
use super::no_check::NoCheck;
use super::order::{Order, Place, place_of};
use super::outlet::Outlet;
use super::pause::{now_ms, pause_ms};
use super::queue::{Queue, SetAside, Taken, Ticket, WINDOW_MAX};
use super::rank;
use super::set_aside::{SetAsideArticle, SetAsideLog};
use super::target::OFFERS_MAX;
use ingest::routing::Route;
use lock_order::Ordered;
use site_base::clock::unix_secs;
use site_base::counters::{add, read};
use site_base::lock::Leaf;
use site_config::{FeedOrder, FeedStart, PeerSend};
use spool::{Cursor, Deferrals, Mark, Spool, Start};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::warn;

/// What the cursors of peers are called: this and the peer's name.
pub(super) const CURSOR_PREFIX: &str = "feed.";
const DAY_SECS: u64 = 86_400;
/// Message-IDs of missed articles that are remembered.
const MISSED_MAX: usize = 1_000;
/// No article was decided with the peer yet.
const UNDECIDED: u64 = u64::MAX;

/// Counts since the feed began.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Articles offered, or sent without an offer.
    pub offered: AtomicU64,
    /// Of them those that the peer wanted.
    pub wanted: AtomicU64,
    /// Offers that it did not want.
    pub refused: AtomicU64,
    pub accepted: AtomicU64,
    /// Articles that were sent and not taken.
    pub rejected: AtomicU64,
    /// Times that it wanted one later.
    pub deferred: AtomicU64,
    /// Articles that were given up after odd answers.
    pub given_up: AtomicU64,
    /// Answers to offers and transfers that the protocol has.
    pub proper: AtomicU64,
    /// Articles that it was not offered, since they were overwritten or too old, or cannot be sent.
    pub missed: AtomicU64,
    /// Bytes of articles sent.
    pub sent_bytes: AtomicU64,
}

impl Counts {
    /// Articles that were taken, refused or rejected.
    pub fn settled(&self) -> u64 {
        [&self.accepted, &self.refused, &self.rejected].into_iter().map(read).sum()
    }
}

/// What a feed is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing is to be sent.
    Idle,
    Connecting,
    Sending,
    /// Articles wait until there are enough for a batch.
    Collecting,
    /// As much waits to be taken away as may.
    Full,
    /// Until it tries again.
    Waiting(Instant),
    /// By an operator.
    Stopped,
}

/// What may go wrong with a feed, and right again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Reaching the peer, or speaking with it.
    Peer,
    /// Reading the journal.
    Journal,
    /// Writing what was sent.
    Record,
    /// Handing batches over.
    HandOver,
    /// As much waits to be taken away as may.
    Room,
}

/// What a feed has on disk.
#[derive(Debug)]
pub(super) struct Durable {
    pub cursor: Cursor,
    pub deferrals: Deferrals,
    pub is_dirty: bool,
}

/// Where new offers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The hub, which reads for all. Rows before this position are known already.
    Hub(Mark),
    /// Its own cursor, which is there.
    Cursor(Mark),
    /// The same, but the cursor has to go there first.
    Seek(Mark),
}

/// The window and where it is filled from.
#[derive(Debug)]
pub(super) struct Window {
    pub queue: Queue,
    pub source: Source,
    /// It was full when there was more to read: the feed is to be woken when so few offers are left.
    pub wakes_at: Option<usize>,
}

impl Window {
    /// How many offers there is room for, of `most`; `None`: it is full, and the feed is woken when half of
    /// it is settled.
    pub fn room(&mut self, most: usize) -> Option<usize> {
        let room = most.checked_sub(self.queue.len()).filter(|room| *room > 0);
        self.wakes_at = if room.is_none() { Some(most / 2) } else { None };
        room
    }
}

/// The feed of one peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub name: String,
    /// Its number in journal rows.
    pub number: u32,
    pub send: PeerSend,
    /// How articles leave.
    pub outlet: Outlet,
    pub window: Ordered<Window, { rank::WINDOW }>,
    pub durable: Ordered<Durable, { rank::DURABLE }>,
    pub no_check: Leaf<NoCheck>,
    pub counts: Counts,
    pub missed: Leaf<VecDeque<Box<[u8]>>>,
    pub set_aside: Leaf<SetAsideLog>,
    pub doing: Leaf<Doing>,
    pub last_error: Leaf<Option<(Trouble, String)>>,
    pub connections: AtomicUsize,
    pub began: Instant,
    /// Articles that arrived before are left out, Unix seconds.
    pub since: AtomicU64,
    /// What its cursor says of it; [`UNDECIDED`]: not known yet.
    pub decided_from: AtomicU64,
    /// Connections may take offers.
    pub offers: Notify,
    /// The feed has something to look at: an order, an answer, a connection that has ended.
    pub attention: Notify,
    /// Connections have taken offers since the feed last looked whether they keep up.
    pub is_working: AtomicBool,
    /// By an operator.
    pub is_stopped: AtomicBool,
    /// Something was settled and could not be noted at once.
    pub is_unnoted: AtomicBool,
    /// Attempts that wait are to be made now.
    pub is_hurried: AtomicBool,
    /// True: the feed ends.
    pub end: watch::Sender<bool>,
}

impl Peer {
    /// The feed of a peer, with what it has on disk; a new one begins where its configuration says.
    /// `identity` is our path identity. Blocks.
    pub fn open(spool: &Arc<Spool>, route: &Route, identity: &str) -> io::Result<Self> {
        let name = format!("{CURSOR_PREFIX}{}", route.name);
        let start = if route.send.from == FeedStart::Now { Start::Now } else { Start::Oldest };
        let mut cursor = spool.cursor(&name, start)?;
        let mut deferrals = spool.deferrals(&name)?;
        if deferrals.lacks_articles() {
            // Their rows lie before the cursor.
            let oldest = spool.journal_mark(Start::Oldest)?;
            cursor.seek(oldest);
            cursor.save_at(oldest)?;
            deferrals.mend()?;
        }
        let queue = Queue::with(deferrals.all().cloned());
        let queue = if route.send.order == FeedOrder::Newest { queue.newest_first() } else { queue };
        let window = Window { queue, source: Source::Cursor(cursor.mark()), wakes_at: None };
        // Only as long as there is something to decide by itself.
        let since = if cursor.decided_from().is_none() { route.send.from.since() } else { 0 };
        let decided_from = cursor.decided_from().unwrap_or(UNDECIDED);
        Ok(Self {
            name: route.name.clone(),
            number: route.number,
            outlet: Outlet::of(&route.send, identity),
            send: route.send.clone(),
            window: Ordered::new(window),
            durable: Ordered::new(Durable { cursor, deferrals, is_dirty: false }),
            no_check: Leaf::new(NoCheck::new(route.send.no_check_high, route.send.no_check_low)),
            counts: Counts::default(),
            missed: Leaf::default(),
            set_aside: Leaf::default(),
            doing: Leaf::new(Doing::Idle),
            last_error: Leaf::default(),
            connections: AtomicUsize::new(0),
            began: Instant::now(),
            since: AtomicU64::new(since),
            decided_from: AtomicU64::new(decided_from),
            offers: Notify::new(),
            attention: Notify::new(),
            is_working: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            is_unnoted: AtomicBool::new(false),
            is_hurried: AtomicBool::new(false),
            end: watch::Sender::new(false),
        })
    }

    /// Tells the feed to end in order.
    pub fn retire(&self) {
        self.end.send_replace(true);
        self.offers.notify_waiters();
        self.attention.notify_one();
    }

    /// Whether it was told to end.
    pub fn is_ending(&self) -> bool {
        *self.end.borrow()
    }

    /// Whether connections are to take no more offers.
    pub fn is_halted(&self) -> bool {
        self.is_ending() || self.is_stopped.load(Ordering::Relaxed)
    }

    /// Carries out an operator's order.
    pub fn order(&self, spool: &Spool, order: Order) -> io::Result<()> {
        match order {
            Order::Start => {
                self.is_stopped.store(false, Ordering::Relaxed);
                self.is_hurried.store(true, Ordering::Relaxed);
            }
            Order::Stop => self.is_stopped.store(true, Ordering::Relaxed),
            Order::Flush => {
                self.window.lock().queue.hurry();
                self.is_hurried.store(true, Ordering::Relaxed);
                self.outlet.flush()?;
            }
            Order::From(place) => {
                let mark = place_of(spool, place)?;
                let since = if let Place::Since(since) = place { since } else { 0 };
                self.since.store(since, Ordering::Relaxed);
                let mut window = self.window.lock();
                window.queue.clear();
                window.source = Source::Seek(mark);
            }
        }
        self.offers.notify_waiters();
        self.attention.notify_one();
        Ok(())
    }

    /// The next offer for a connection; those that the peer is too far behind for are skipped.
    pub fn take(&self, frontier: &Frontier) -> Option<Taken> {
        loop {
            if self.is_halted() {
                return None;
            }
            let taken = self.window.lock().queue.take(now_ms(), self.delay_ms())?;
            let position = match taken.ticket {
                Ticket::Slot(_) => Some(taken.offer.mark.position),
                // It is no longer in its place in the journal.
                Ticket::Deferred(_) => None,
            };
            let Some(why) = self.is_too_late(taken.offer.arrived, position, frontier) else {
                self.works_on();
                return Some(taken);
            };
            self.miss(&taken.offer.message_id, why);
            self.settle(taken.ticket);
        }
    }

    /// An offer was taken: the feed is to look whether its connections keep up.
    fn works_on(&self) {
        if self.outlet.tasks_max(&self.send) > 1 && !self.is_working.load(Ordering::Relaxed) {
            self.is_working.store(true, Ordering::Relaxed);
            self.attention.notify_one();
        }
    }

    /// Why an article of such an age, at such a position of the journal, is not sent any more.
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

    /// Returns when an offer may be made, of those that there are now.
    pub async fn is_due(&self) {
        if self.is_halted() {
            return std::future::pending().await;
        }
        let due = self.window.lock().queue.next_due(self.delay_ms());
        match due.map(|due| due.saturating_sub(now_ms())) {
            Some(0) => {}
            Some(wait_ms) => sleep(Duration::from_millis(wait_ms)).await,
            None => std::future::pending().await,
        }
    }

    /// When there is something to do, Unix milliseconds; `None`: nothing waits.
    pub fn next_due(&self) -> Option<u64> {
        let window = self.window.lock();
        // While the journal is being read, more will be there in a moment.
        let is_read = matches!(window.source, Source::Hub(_));
        self.outlet.next_due(&window.queue, is_read, &self.send)
    }

    /// How long articles wait before they are offered.
    pub fn delay_ms(&self) -> u64 {
        self.send.delay.as_millis() as u64
    }

    /// How long to wait after so many failures.
    pub fn pause_ms(&self, tries: u32) -> u64 {
        pause_ms(self.send.retry_first, self.send.retry_longest, tries)
    }

    /// An offer needs nothing more.
    pub fn settle(&self, ticket: Ticket) {
        let mut window = self.window.lock();
        window.queue.settle(ticket);
        self.feed(&mut window);
    }

    /// Has a window filled again that was full and has room now: for many articles at once.
    fn feed(&self, window: &mut Window) {
        if window.wakes_at.is_some_and(|few| window.queue.len() <= few) {
            window.wakes_at = None;
            self.attention.notify_one();
        }
    }

    /// How many offers it reads ahead for itself. They are its own: with many peers that are behind, a window
    /// full of them for each would be much memory. Enough for connections to be busy until more are read;
    /// what chooses among those in the window, or collects them, gets the whole window.
    pub fn own_offers_max(&self) -> usize {
        if !matches!(self.outlet, Outlet::Connections) || self.send.order == FeedOrder::Newest {
            return WINDOW_MAX;
        }
        let connections = self.connections.load(Ordering::Relaxed).max(1);
        (2 * OFFERS_MAX * connections).min(WINDOW_MAX)
    }

    /// Sequence number of the first article that was decided with this peer, once it is known.
    pub fn decided_from(&self) -> Option<u64> {
        Some(self.decided_from.load(Ordering::Relaxed)).filter(|sequence| *sequence != UNDECIDED)
    }

    /// The peer wants an article later.
    pub fn defer(&self, ticket: Ticket) {
        add(&self.counts.deferred, 1);
        self.window.lock().queue.defer(ticket, now_ms(), |tries| self.pause_ms(tries));
    }

    /// The peer has answered as the protocol says.
    pub fn answered_properly(&self, taken: &Taken) {
        add(&self.counts.proper, 1);
        if taken.is_aside {
            self.set_aside.lock().forget(&taken.offer.message_id);
        }
    }

    /// The peer has given an article an odd answer, which may be about who asks (`is_about_us`).
    pub fn set_aside(&self, taken: &Taken, is_about_us: bool, answer: &str) {
        let proper = read(&self.counts.proper);
        let aside = {
            let mut window = self.window.lock();
            let pause = |tries| self.pause_ms(tries);
            let aside = window.queue.set_aside(taken.ticket, is_about_us, proper, now_ms(), pause);
            self.feed(&mut window);
            aside
        };
        // None: an operator has sent the feed elsewhere.
        let Some(SetAside { answers, is_given_up }) = aside else { return };
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

    /// An article is not offered, or cannot be sent.
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

    /// Notes what is settled, so that it is not offered again should the process die. If somebody else is at
    /// it, it is done a little later.
    pub fn note(&self, frontier: &Frontier) {
        let Some(mut durable) = self.durable.try_lock() else {
            self.is_unnoted.store(true, Ordering::Relaxed);
            return self.attention.notify_one();
        };
        if let Err(error) = self.record(&mut durable, frontier, false) {
            self.fail(Trouble::Record, format!("cannot note what was sent: {error}"));
        }
    }

    /// Saves what is settled. Blocks for a sync.
    pub fn save(&self, frontier: &Frontier) {
        let mut durable = self.durable.lock();
        if let Err(error) = self.record(&mut durable, frontier, true) {
            self.fail(Trouble::Record, format!("cannot save what was sent: {error}"));
        }
    }

    fn record(&self, durable: &mut Durable, frontier: &Frontier, sync: bool) -> io::Result<()> {
        let changes = self.window.lock().queue.changes();
        // Until it is saved, and after an error: it is tried again.
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
        self.works(Trouble::Record);
        Ok(())
    }

    /// Up to where everything is settled.
    pub fn mark(&self, window: &Window, frontier: &Frontier) -> Mark {
        // The frontier moves after everything before it is in the windows.
        let read_to = match window.source {
            Source::Hub(from) => {
                let mark = frontier.mark();
                if mark.position < from.position { from } else { mark }
            }
            Source::Cursor(mark) | Source::Seek(mark) => mark,
        };
        window.queue.mark(read_to)
    }

    /// Remembers what is wrong, and logs it if it is something else than before.
    pub fn fail(&self, trouble: Trouble, error: String) {
        let mut last = self.last_error.lock();
        if last.as_ref().is_none_or(|(_, last)| *last != error) {
            warn!(peer = self.name, error, "feed");
        }
        *last = Some((trouble, error));
    }

    /// What was wrong of this kind is right again.
    pub fn works(&self, trouble: Trouble) {
        let mut last = self.last_error.lock();
        if last.as_ref().is_some_and(|(last, _)| *last == trouble) {
            *last = None;
        }
    }
}
