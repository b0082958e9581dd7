//! Reads the journal once for all feeds that keep up.
//!
//! Each article goes into the windows of the peers that want it, as recorded in its row; idle peers cost
//! nothing. A peer whose window is full leaves, fills its window from the offers handed out last
//! ([`RecentOffers`]) or, if they do not reach back far enough, from the journal ([`super::backlog`]), and
//! joins again once it has caught up. The hub's mark is set after everything before it is in the windows.

use crate::journal::frontier::Frontier;
use crate::journal::offer::FeedOffer;
use crate::journal::recent::RecentOffers;
use crate::peer::feed::{OfferSource, PeerFeed};
use crate::rank;
use lock_order::Ordered;
use spool::{JournalBatch, JournalEvent, JournalMark, Spool, Tail, TailStart};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::error;

/// Interval in which the journal is read at most [`READS_MAX`] times while articles arrive; each of them
/// then waits for half of it on average. A single article does not wait.
const READ_INTERVAL: Duration = Duration::from_millis(4);
const READS_MAX: u32 = 2;
/// Pause after an error of the disk.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of recently written rows that are in memory, so that reading them does not wait for the disk.
const IN_MEMORY_BYTES: u64 = 4 << 20;

/// The feeds that keep up.
#[derive(Debug, Default)]
pub(crate) struct FeedHub {
    pub frontier: Frontier,
    /// Whether the hub reads the journal; if not, no peer may wait for it.
    is_reading: AtomicBool,
    /// Peers by their numbers.
    peers: Ordered<BTreeMap<u32, Arc<PeerFeed>>, { rank::PEERS }>,
    recent: Ordered<RecentOffers, { rank::RECENT }>,
}

impl FeedHub {
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins at the journal's end: see [`run`].
    pub fn begin(&self, spool: &Spool) -> Option<Tail> {
        match spool.journal().tail("feeds", TailStart::Now) {
            Ok(tail) => {
                self.begin_at(tail.mark());
                Some(tail.kept_open())
            }
            Err(error) => {
                error!(%error, "cannot follow the journal: each feed reads it for itself");
                None
            }
        }
    }

    /// Begins at `mark`: earlier rows have been handed out, later ones will be.
    pub fn begin_at(&self, mark: JournalMark) {
        let _peers = self.peers.lock();
        self.recent.lock().begin_at(mark);
        self.frontier.move_to(mark);
        self.is_reading.store(true, Ordering::Relaxed);
    }

    /// Hands `peer` the offers after `mark`, up to which it has read by itself. Returns false if the hub is
    /// not there yet, or does not read the journal.
    pub fn join(&self, peer: &Arc<PeerFeed>, mark: JournalMark) -> bool {
        let mut peers = self.peers.lock();
        if !self.is_reading.load(Ordering::Relaxed) || mark.position < self.frontier.mark().position {
            return false;
        }
        let mut window = peer.window.lock();
        if !matches!(window.source, OfferSource::Cursor(own) | OfferSource::Seek(own) if own == mark) {
            return false;
        }
        window.source = OfferSource::Hub(mark);
        drop(window);
        peers.insert(peer.number, peer.clone());
        true
    }

    /// Stops handing offers to `peer`.
    pub fn leave(&self, peer: &PeerFeed) {
        self.peers.lock().remove(&peer.number);
    }

    /// See [`RecentOffers::since`].
    pub fn since(
        &self,
        mark: JournalMark,
        number: u32,
        most: usize,
    ) -> Option<(Vec<Arc<FeedOffer>>, JournalMark)> {
        self.recent.lock().since(mark, number, most)
    }

    /// Hands out a batch that ends at `end`.
    pub(crate) fn hand_out(&self, batch: &JournalBatch, end: JournalMark) {
        let mut peers = self.peers.lock();
        let mut woken = Vec::new();
        let mut recent = Vec::new();
        for (position, event) in batch.events() {
            let JournalEvent::Article(row) = event else { continue };
            let sites = row.tagged.sites();
            if sites.is_empty() {
                continue;
            }
            let offer = FeedOffer::of(position, &row);
            for number in numbers(sites) {
                let Some(peer) = peers.get(&number) else { continue };
                if !give(peer, &offer) {
                    peers.remove(&number);
                }
                woken.push(number);
            }
            recent.push((offer, sites));
        }
        {
            let mut all = self.recent.lock();
            recent.into_iter().for_each(|(offer, sites)| all.push(offer, sites));
            all.end_at(end);
        }
        self.frontier.move_to(end);
        woken.sort_unstable();
        woken.dedup();
        for peer in woken.iter().filter_map(|number| peers.get(number)) {
            peer.offers.notify_waiters();
            if peer.connections.load(Ordering::Relaxed) == 0 {
                peer.attention.notify_one();
            }
        }
    }

    /// Makes every peer read for itself, from its position on.
    pub fn dismiss(&self) {
        let mut peers = self.peers.lock();
        self.is_reading.store(false, Ordering::Relaxed);
        for peer in std::mem::take(&mut *peers).into_values() {
            let mut window = peer.window.lock();
            if let OfferSource::Hub(from) = window.source {
                let mark = self.frontier.mark();
                window.source = OfferSource::Seek(if mark.position < from.position { from } else { mark });
            }
            drop(window);
            peer.attention.notify_one();
        }
    }
}

/// Puts an offer into a peer's window; returns false if the peer reads for itself from there on.
fn give(peer: &PeerFeed, offer: &Arc<FeedOffer>) -> bool {
    let mut window = peer.window.lock();
    match window.source {
        OfferSource::Hub(from) if offer.mark.position < from.position => true,
        OfferSource::Hub(_) if window.queue.has_room() => {
            window.queue.push(offer.clone());
            true
        }
        OfferSource::Hub(_) => {
            window.source = OfferSource::Seek(offer.mark);
            drop(window);
            peer.attention.notify_one();
            false
        }
        // An operator has moved the position.
        OfferSource::Cursor(_) | OfferSource::Seek(_) => false,
    }
}

/// Returns the numbers whose bits are set.
fn numbers(sites: &[u8]) -> impl Iterator<Item = u32> + '_ {
    sites.iter().enumerate().filter(|(_, byte)| **byte != 0).flat_map(|(at, byte)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at as u32 * 8 + bit)
    })
}

/// Reads the journal, beginning with the tail returned by [`FeedHub::begin`], until the spool is closed.
/// While reading fails, each feed reads for itself.
pub(crate) async fn run(mut tail: Option<Tail>, hub: Arc<FeedHub>, spool: Arc<Spool>) {
    loop {
        if let Some(tail) = tail {
            return follow(&hub, tail).await;
        }
        sleep(ERROR_PAUSE).await;
        tail = block_in_place(|| hub.begin(&spool));
    }
}

async fn follow(hub: &FeedHub, mut tail: Tail) {
    let mut batch = JournalBatch::default();
    let mut lost = tail.pin().lost();
    let mut pace = ReadPace { begun: Instant::now(), reads: 0 };
    loop {
        poll_fn(|context| tail.poll_rows(context)).await;
        if tail.is_ended() {
            return;
        }
        pace.begin(Instant::now());
        let read = match tail.unread_bytes() <= IN_MEMORY_BYTES {
            // No peer wants any of these rows.
            _ if tail.pass_over_unsent() => {
                batch.clear();
                Ok(())
            }
            true => tail.next(&mut batch),
            false => block_in_place(|| tail.next(&mut batch)),
        };
        if let Err(error) = read {
            error!(%error, "cannot read the journal: each feed reads it for itself");
            hub.dismiss();
            sleep(ERROR_PAUSE).await;
            hub.begin_at(tail.mark());
            continue;
        }
        if tail.pin().lost() != lost {
            // Each cursor counts the lost rows.
            lost = tail.pin().lost();
            hub.dismiss();
            hub.begin_at(tail.mark());
            continue;
        }
        hub.hand_out(&batch, tail.mark());
        let has_more = tail.poll_rows(&std::task::Context::from_waker(std::task::Waker::noop())).is_ready();
        if let Some(until) = pace.end(has_more) {
            sleep_until(until).await;
        }
    }
}

/// Limits how often the journal is read. A wake-up costs the thread that commits articles, and takes a
/// processor from it.
struct ReadPace {
    begun: Instant,
    /// Reads since `begun`.
    reads: u32,
}

impl ReadPace {
    /// Records that a read begins.
    fn begin(&mut self, now: Instant) {
        if now >= self.begun + READ_INTERVAL {
            *self = Self { begun: now, reads: 0 };
        }
        self.reads += 1;
    }

    /// Returns the time before which not to read again, if more rows have arrived or several reads followed
    /// each other.
    fn end(&self, has_more: bool) -> Option<Instant> {
        (has_more || self.reads >= READS_MAX).then_some(self.begun + READ_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_articles_are_read_at_once_and_others_together() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = ReadPace { begun: start, reads: 0 };
        pace.begin(at(10));
        assert_eq!(pace.end(false), None, "alone");
        pace.begin(at(11));
        assert_eq!(pace.end(false), Some(at(14)), "soon after another");
        pace.begin(at(14));
        assert_eq!(pace.end(true), Some(at(18)), "while more comes");
        pace.begin(at(100));
        assert_eq!(pace.end(false), None, "alone again");
    }
}
