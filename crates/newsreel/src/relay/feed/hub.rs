//! Reads the journal once for all feeds that keep up.
//!
//! Each article goes into the windows of the peers that want it, as its row says; idle peers cost nothing. A
//! peer whose window is full leaves and reads for itself ([`super::backlog`]) until it has caught up. The
//! hub's mark is set after everything before it is in the windows.

use super::frontier::Frontier;
use super::offer::Offer;
use super::peer::{Peer, Source};
use parking_lot::Mutex;
use spool::{Batch, Event, Mark, Spool, Start, Tail};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::error;

/// While articles arrive, the journal is read so often at most.
const READ_INTERVAL: Duration = Duration::from_millis(2);
/// After an error of the disk.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// The feeds that keep up.
#[derive(Debug, Default)]
pub(super) struct Hub {
    pub frontier: Frontier,
    /// By their numbers.
    peers: Mutex<BTreeMap<u32, Arc<Peer>>>,
}

impl Hub {
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins with what arrives from now on.
    pub fn open(&self, spool: &Spool) -> io::Result<Tail> {
        let tail = spool.tail("feeds", Start::Now)?;
        self.frontier.move_to(tail.mark());
        Ok(tail)
    }

    /// Hands `peer` what follows `mark`, up to which it has read by itself. False: it is not there yet.
    pub fn join(&self, peer: &Arc<Peer>, mark: Mark) -> bool {
        let mut peers = self.peers.lock();
        if mark.position < self.frontier.mark().position {
            return false;
        }
        let mut window = peer.window.lock();
        if window.source != Source::Cursor(mark) {
            return false;
        }
        window.source = Source::Hub(mark);
        drop(window);
        peers.insert(peer.number, peer.clone());
        true
    }

    /// Hands `peer` nothing more.
    pub fn leave(&self, peer: &Peer) {
        self.peers.lock().remove(&peer.number);
    }

    /// Hands out a batch that ends at `end`.
    fn hand_out(&self, batch: &Batch, end: Mark) {
        let mut peers = self.peers.lock();
        let mut woken = Vec::new();
        if !peers.is_empty() {
            for (position, event) in batch.events() {
                let Event::Article(row) = event else { continue };
                let mut offer = None;
                for number in numbers(row.tagged.sites()) {
                    let Some(peer) = peers.get(&number) else { continue };
                    let offer = offer.get_or_insert_with(|| Offer::of(position, &row));
                    if !give(peer, offer) {
                        peers.remove(&number);
                    }
                    woken.push(number);
                }
            }
        }
        self.frontier.move_to(end);
        woken.sort_unstable();
        woken.dedup();
        for peer in woken.iter().filter_map(|number| peers.get(number)) {
            peer.offers.notify_waiters();
            if peer.connections.load(std::sync::atomic::Ordering::Relaxed) == 0 {
                peer.attention.notify_one();
            }
        }
    }

    /// Lets every peer read for itself, from its place on.
    fn dismiss(&self) {
        for peer in std::mem::take(&mut *self.peers.lock()).into_values() {
            let mut window = peer.window.lock();
            if let Source::Hub(from) = window.source {
                let mark = self.frontier.mark();
                window.source = Source::Seek(if mark.position < from.position { from } else { mark });
            }
            drop(window);
            peer.attention.notify_one();
        }
    }
}

/// Puts an offer into a peer's window; false: the peer reads for itself from there on.
fn give(peer: &Peer, offer: &Arc<Offer>) -> bool {
    let mut window = peer.window.lock();
    match window.source {
        Source::Hub(from) if offer.mark.position < from.position => true,
        Source::Hub(_) if window.queue.has_room() => {
            window.queue.push(offer.clone());
            true
        }
        Source::Hub(_) => {
            window.source = Source::Seek(offer.mark);
            drop(window);
            peer.attention.notify_one();
            false
        }
        // An operator has sent it elsewhere.
        Source::Cursor(_) | Source::Seek(_) => false,
    }
}

/// The numbers whose bits are set.
fn numbers(sites: &[u8]) -> impl Iterator<Item = u32> + '_ {
    sites.iter().enumerate().filter(|(_, byte)| **byte != 0).flat_map(|(at, byte)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at as u32 * 8 + bit)
    })
}

/// Reads the journal until the spool is closed.
pub(super) async fn run(hub: Arc<Hub>, mut tail: Tail) {
    let mut batch = Batch::default();
    let mut lost = tail.pin().lost();
    loop {
        poll_fn(|context| tail.poll_rows(context)).await;
        if tail.is_ended() {
            return;
        }
        let begun = Instant::now();
        if let Err(error) = block_in_place(|| tail.next(&mut batch)) {
            error!(%error, "cannot read the journal for feeds");
            hub.dismiss();
            sleep(ERROR_PAUSE).await;
            continue;
        }
        if tail.pin().lost() != lost {
            // What is missing is counted by each cursor.
            lost = tail.pin().lost();
            hub.dismiss();
        }
        hub.hand_out(&batch, tail.mark());
        if tail.poll_rows(&std::task::Context::from_waker(std::task::Waker::noop())).is_ready() {
            sleep_until(begun + READ_INTERVAL).await;
        }
    }
}
