//! Manages the feed of one peer: fills its window, opens and closes connections, saves its cursor.

use crate::journal::backlog::{FillOutcome, fill};
use crate::outlets::Outlet;
use crate::outlets::{batches, channel, file, hand_over};
use crate::peer::feed::{FeedActivity, FeedTrouble, OfferSource, PeerFeed};
use crate::peer::growth::{ConnectionGrowth, ConnectionLoad};
use crate::sending::connection::{ConnectionEnd, converse};
use crate::shared::FeedContext;
use site_base::clock::unix_ms;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet, block_in_place};
use tokio::time::{sleep_until, timeout};
use tracing::{debug, info};

/// Time a peer has for outstanding answers when its feed ends.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval for saving the cursor while articles are sent; in between it is only recorded.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval for checks of a feed that is about to join the hub.
const SOON: Duration = Duration::from_millis(5);
/// Interval for saving the position of an idle feed.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after an error of the disk.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// A running feed.
struct FeedTask {
    peer: Arc<PeerFeed>,
    shared: Arc<FeedContext>,
    connections: JoinSet<ConnectionEnd>,
    /// Task that hands over batches.
    handing_over: Option<JoinHandle<()>>,
    /// Consecutive connections that ended without progress.
    failures: u32,
    /// Time before which no connection is opened.
    not_before: Instant,
    /// Decides when a further connection may be opened.
    growth: ConnectionGrowth,
    /// Time when the cursor is to be saved.
    save_at: Instant,
    /// Time when to fill the window again.
    fill_at: Instant,
}

/// Feeds a peer until it is asked to end.
pub(crate) async fn run(peer: Arc<PeerFeed>, shared: Arc<FeedContext>) {
    info!(peer = peer.name, "feed begins");
    let now = Instant::now();
    let mut feed = FeedTask {
        peer,
        shared,
        connections: JoinSet::new(),
        handing_over: None,
        failures: 0,
        not_before: now,
        growth: ConnectionGrowth::new(now),
        save_at: now + SAVE_INTERVAL,
        fill_at: now,
    };
    feed.prepare();
    let mut end = feed.peer.end.subscribe();
    while !feed.peer.is_ending() {
        feed.shared.rest();
        let more = feed.fill();
        feed.connect();
        feed.save_if_due();
        if more {
            // Other tasks go first.
            tokio::task::yield_now().await;
            continue;
        }
        let until = feed.next();
        let peer = feed.peer.clone();
        tokio::select! {
            () = peer.attention.notified() => {}
            () = sleep_until(until.into()) => {}
            _ = end.changed() => {}
            Some(ended) = feed.connections.join_next() => feed.ended(ended.unwrap_or_default()),
        }
    }
    feed.finish().await;
}

impl FeedTask {
    /// Prepares the directory of batches and their handing over.
    fn prepare(&mut self) {
        let Outlet::Batches(own) = &self.peer.outlet else { return };
        if let Err(error) = block_in_place(|| own.clean()) {
            self.peer.fail(FeedTrouble::Peer, format!("cannot look into {}: {error}", own.dir.display()));
        }
        self.handing_over = Some(tokio::spawn(hand_over::run(self.peer.clone(), self.shared.clone())));
    }

    /// Fills the window; returns true if it should be called again at once.
    fn fill(&mut self) -> bool {
        if self.fill_at > Instant::now() {
            return false;
        }
        let peer = &self.peer;
        let filled = fill(peer, &self.shared);
        if filled.is_ok() {
            peer.works(FeedTrouble::Journal);
        }
        let (pause, more) = match filled {
            Ok(FillOutcome::More) => (Duration::ZERO, true),
            Ok(FillOutcome::Soon) => (SOON, false),
            Ok(FillOutcome::Full | FillOutcome::Joined) => (Duration::ZERO, false),
            Err(error) => {
                peer.fail(FeedTrouble::Journal, format!("cannot read the journal: {error}"));
                (ERROR_PAUSE, false)
            }
        };
        self.fill_at = Instant::now() + pause;
        more
    }

    /// Opens connections as they are needed.
    fn connect(&mut self) {
        let (peer, now) = (&self.peer, Instant::now());
        if peer.is_hurried.swap(false, Ordering::Relaxed) {
            self.not_before = now;
        }
        let open = self.connections.len();
        let due = peer.next_due().is_some_and(|due| due <= unix_ms());
        let settled = peer.counts.settled();
        let may = due && !peer.is_halted() && self.not_before <= now;
        let mut adds = false;
        if open > 0 && self.may_grow() && self.growth.after <= now {
            let (waiting, is_working) = {
                let queue = &peer.window.lock().queue;
                (queue.open(), queue.has_out())
            };
            peer.is_working.store(is_working, Ordering::Relaxed);
            let waiting = if may { waiting } else { 0 };
            adds = self
                .growth
                .adds(now, ConnectionLoad { open, waiting, settled }, || self.shared.load.is_busy(now));
        }
        if open == 0 && may {
            self.growth.begin(now, settled);
            // Restarts the measurement of the load, which later checks then take from this moment on.
            self.shared.load.is_busy(now);
        }
        if adds || open == 0 && may {
            self.connections.spawn(let_out(peer.clone(), self.shared.clone(), open == 0));
        }
        if due && open > 0 {
            // Offers that have become due, or were returned, are for waiting connections.
            peer.offers.notify_waiters();
        }
        self.tell(due);
    }

    /// Returns whether a further connection may be opened when the present ones do not keep up.
    fn may_grow(&self) -> bool {
        let peer = &self.peer;
        peer.is_working.load(Ordering::Relaxed)
            && !peer.is_halted()
            && self.connections.len() < peer.outlet.tasks_max(&peer.send)
    }

    /// Records the activity of the feed.
    fn tell(&self, due: bool) {
        let (peer, now) = (&self.peer, Instant::now());
        let doing = match () {
            () if peer.is_halted() => FeedActivity::Stopped,
            () if peer.outlet.is_full() => FeedActivity::Full,
            () if peer.connections.load(Ordering::Relaxed) > 0 => FeedActivity::Sending,
            () if self.not_before > now => FeedActivity::Waiting(self.not_before),
            () if let Some(at) = peer.outlet.retry_at() => FeedActivity::Waiting(at),
            () if !matches!(peer.outlet, Outlet::Connections) => match peer.window.lock().queue.len() {
                0 => FeedActivity::Idle,
                _ if due => FeedActivity::Sending,
                _ => FeedActivity::Collecting,
            },
            () if due || !self.connections.is_empty() => FeedActivity::Connecting,
            () => FeedActivity::Idle,
        };
        *peer.doing.lock() = doing;
    }

    /// Handles the end of a connection.
    fn ended(&mut self, end: ConnectionEnd) {
        let ConnectionEnd { error, progressed } = end;
        let Some(error) = error else {
            // Only failures in a row make the pause longer.
            if progressed {
                self.failures = 0;
            }
            return;
        };
        debug!(peer = self.peer.name, error, "connection ended");
        self.peer.fail(FeedTrouble::Peer, error);
        self.failures = if progressed { 1 } else { self.failures.saturating_add(1) };
        let pause = Duration::from_millis(self.peer.pause_ms(self.failures));
        if self.connections.is_empty() {
            self.not_before = Instant::now() + pause;
        } else {
            // The others suffice for now.
            self.growth.wait(Instant::now(), pause);
        }
    }

    fn save_if_due(&mut self) {
        let now = Instant::now();
        if self.peer.is_unnoted.swap(false, Ordering::Relaxed) {
            self.peer.note(&self.shared.hub.frontier);
        }
        if self.save_at > now {
            return;
        }
        block_in_place(|| self.peer.save(&self.shared.hub.frontier));
        self.save_at = Instant::now() + SAVE_INTERVAL;
    }

    /// Returns when there is something to do, if nothing happens before.
    fn next(&self) -> Instant {
        let (peer, now) = (&self.peer, Instant::now());
        let is_dirty = peer.durable.try_lock().is_none_or(|durable| durable.is_dirty);
        let mut next = if is_dirty { self.save_at } else { now + IDLE_INTERVAL };
        let reads = {
            let window = peer.window.lock();
            !matches!(window.source, OfferSource::Hub(_)) && window.wakes_at.is_none()
        };
        if reads {
            next = next.min(self.fill_at);
        }
        if self.may_grow() && !self.connections.is_empty() {
            next = next.min(self.growth.after.max(self.not_before));
        }
        // Open connections know themselves when offers are due.
        if let Some(due) = peer.next_due()
            && self.connections.is_empty()
            && !peer.is_halted()
        {
            let due = now + Duration::from_millis(due.saturating_sub(unix_ms()));
            next = next.min(due.max(self.not_before));
        }
        next
    }

    /// Lets connections finish outstanding transfers, and saves.
    async fn finish(mut self) {
        let drained = timeout(DRAIN_TIMEOUT, async { while self.connections.join_next().await.is_some() {} });
        if drained.await.is_err() {
            self.connections.shutdown().await;
        }
        if let Some(handing_over) = self.handing_over.take() {
            // The task ends by itself, within the same bound.
            let _failed = handing_over.await;
        }
        self.shared.hub.leave(&self.peer);
        block_in_place(|| self.peer.save(&self.shared.hub.frontier));
        info!(peer = self.peer.name, "feed ends");
    }
}

/// Lets due articles out. `is_only`: there is no other task for this peer.
async fn let_out(peer: Arc<PeerFeed>, shared: Arc<FeedContext>, is_only: bool) -> ConnectionEnd {
    match &peer.outlet {
        Outlet::Connections => converse(peer.clone(), shared, is_only).await,
        Outlet::Batches(own) => batches::make_due(&peer, own, &shared).await,
        Outlet::File(own) => file::write_due(&peer, own, &shared).await,
        Outlet::Program(own) => channel::run(&peer, own, &shared).await,
    }
}
