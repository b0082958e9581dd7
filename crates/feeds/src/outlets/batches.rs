//! Makes batches for a peer (`docs/formats/outgoing.md`).
//!
//! A batch is made of all offers in the peer's window when there are enough of them or the first has waited
//! long enough. Batches due at the same time are made in one run: they are written one after the other, and
//! then synced together. Their rows are durable before they get their names; the cursor passes them after
//! that. The name is the position at which a batch begins: one that is made again after a crash replaces
//! the first. Batches in the directory wait to be taken away, by `after_batch` ([`super::hand_over`]) or by
//! another program; when the directory is full, no more are made, and the cursor waits.

use crate::journal::backlog::{FillOutcome, fill};
use crate::outlets::Outlet;
use crate::outlets::batch_dir::{BatchDirFull, IHAVE_IDS_MAX, OutgoingBatches};
use crate::outlets::sendme::{self, SendmeVerb};
use crate::peer::feed::{FeedTrouble, PeerFeed};
use crate::peer::queue::{OfferTicket, TakenOffer};
use crate::sending::bundle::OfferBundle;
use crate::sending::connection::ConnectionEnd;
use crate::shared::FeedContext;
use disk::{FileAccess, Replacements};
use ingest::batches::BatchPacker;
use site_base::clock::unix_ms;
use site_base::counters::add;
use spool::TailStart;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::info;

/// Interval for checking a full directory.
const ROOM_INTERVAL: Duration = Duration::from_secs(2);
/// Time that newly filed articles may take to reach the window.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval for checking that.
const CATCH_UP_INTERVAL: Duration = Duration::from_millis(2);
/// Number and bytes of batches at which a run ends: they wait for each other, and a crash has them made
/// again.
const RUN_MAX: usize = 512;
const RUN_BYTES_MAX: u64 = 32 << 20;

/// Counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Files made.
    pub batches: u64,
    /// Articles in them.
    pub articles: u64,
    /// Articles announced to the peer, which it may request.
    pub announced: u64,
    /// Size of the files.
    pub bytes: u64,
}

impl BatchCounts {
    fn add(&mut self, other: Self) {
        self.batches += other.batches;
        self.articles += other.articles;
        self.announced += other.announced;
        self.bytes += other.bytes;
    }
}

/// Makes the batches that are due.
pub(crate) async fn make_due(peer: &PeerFeed, own: &OutgoingBatches, shared: &FeedContext) -> ConnectionEnd {
    let mut end = peer.end.subscribe();
    let mut progressed = false;
    loop {
        let due = peer.next_due();
        if peer.is_halted() || due.is_none_or(|due| due > unix_ms()) {
            return ConnectionEnd { error: None, progressed };
        }
        let made = block_in_place(|| make_run(peer, own, shared, BatchSelection::Due));
        if made.is_ok() {
            peer.works(FeedTrouble::Room);
        }
        match made {
            Ok(Some(made)) => progressed |= made.batches > 0,
            Ok(None) => return ConnectionEnd { error: None, progressed },
            Err(BatchError::Full(full)) => {
                peer.fail(FeedTrouble::Room, full.to_string());
                peer.attention.notify_one();
                tokio::select! {
                    () = own.room.notified() => {}
                    () = sleep(ROOM_INTERVAL) => {}
                    _ = end.changed() => {}
                }
            }
            Err(error) => return ConnectionEnd { error: Some(error.to_string()), progressed },
        }
    }
}

/// Makes batches of everything that is in the journal now. Blocks.
pub(crate) fn make_now(peer: &Arc<PeerFeed>, shared: &FeedContext) -> Result<BatchCounts, BatchError> {
    let Outlet::Batches(own) = &peer.outlet else {
        return Err(BatchError::NoBatches(peer.name.clone()));
    };
    if peer.is_elsewhere() {
        return Err(BatchError::Elsewhere(peer.name.clone()));
    }
    if peer.is_halted() {
        return Err(BatchError::Stopped(peer.name.clone()));
    }
    let end = shared.spool.journal().mark(TailStart::Now).map_err(BatchError::Io)?.position;
    let mut all = BatchCounts::default();
    // Restarted when the last batch was made.
    let mut begun = Instant::now();
    loop {
        let filled = fill(peer, shared).map_err(BatchError::Io)?;
        let is_all = filled == FillOutcome::Joined && shared.hub.frontier.mark().position >= end;
        if !is_all && filled != FillOutcome::Full {
            if filled != FillOutcome::More {
                std::thread::sleep(CATCH_UP_INTERVAL);
            }
            if begun.elapsed() < CATCH_UP_TIMEOUT {
                continue;
            }
        }
        loop {
            match make_run(peer, own, shared, BatchSelection::All) {
                Ok(None) => break,
                Ok(Some(made)) => {
                    all.add(made);
                    begun = Instant::now();
                }
                Err(error) => return Err(error),
            }
        }
        if is_all || begun.elapsed() >= CATCH_UP_TIMEOUT {
            return Ok(all);
        }
    }
}

/// Reason why no batch was made.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// No feed to a peer of this name runs.
    #[error("there is no feed to a peer `{0}`")]
    NoFeed(String),
    /// No peer of this name is sent articles.
    #[error("there is no peer `{0}` with [peer.send]")]
    NoPeer(String),
    /// The feed to the peer of this name does not make batches.
    #[error("the feed to {0} does not make batches: it has no key `batch`")]
    NoBatches(String),
    /// Another member of the cluster feeds the peer of this name.
    #[error("{0} is fed by another member of the cluster, which makes its batches")]
    Elsewhere(String),
    /// An operator has stopped the feed to the peer of this name.
    #[error("the feed to {0} is stopped")]
    Stopped(String),
    /// As many batches as may wait are not fetched yet.
    #[error("{0}")]
    Full(BatchDirFull),
    /// A batch cannot be written.
    #[error("cannot make a batch: {0}")]
    Write(io::Error),
    /// The journal cannot be read.
    #[error("cannot read the journal: {0}")]
    Journal(io::Error),
    /// The spool has failed; the error has all words.
    #[error("{0}")]
    Io(io::Error),
}

/// Selection of the batches of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchSelection {
    /// Batches that are due.
    Due,
    /// Batches of all offers.
    All,
}

/// A batch without its name; if dropped, its offers are returned to the window.
struct UnnamedBatch<'a> {
    bundle: OfferBundle<'a>,
    /// Path of the file; `None` if none of its articles is left.
    path: Option<PathBuf>,
    made: BatchCounts,
    article_bytes: u64,
}

/// Makes some batches, which share their syncs; returns `None` if there are no articles for one.
fn make_run(
    peer: &PeerFeed,
    own: &OutgoingBatches,
    shared: &FeedContext,
    which: BatchSelection,
) -> Result<Option<BatchCounts>, BatchError> {
    let _one_at_a_time = own.making.lock();
    let mut room = own.room(&peer.send).map_err(BatchError::Write)?.map_err(BatchError::Full)?;
    let mut batches = own.begin().map_err(BatchError::Write)?;
    let is_due = || which == BatchSelection::All || peer.next_due().is_some_and(|due| due <= unix_ms());
    let mut run: Vec<UnnamedBatch<'_>> = Vec::new();
    let mut bytes = 0;
    while run.is_empty() || run.len() < RUN_MAX && bytes < RUN_BYTES_MAX && !room.is_none() && is_due() {
        match pack(peer, own, shared, &mut batches) {
            Ok(Some(packed)) => {
                bytes += packed.made.bytes;
                room = room.without(packed.made.bytes);
                run.push(packed);
            }
            Ok(None) => break,
            Err(error) if run.is_empty() => return Err(error),
            // The batches already written are finished first; the next run meets the error again.
            Err(_) => break,
        }
    }
    if run.is_empty() {
        own.is_wanted.store(false, Ordering::Relaxed);
        return Ok(None);
    }
    if bytes > 0 {
        // Articles whose rows the journal may still lose must not be in a batch: others would get their
        // positions, and the name.
        shared.spool.sync().map_err(|trouble| BatchError::Io(io::Error::other(trouble)))?;
        own.complete(batches).map_err(BatchError::Write)?;
    }
    let mut all = BatchCounts::default();
    for UnnamedBatch { bundle, path, made, article_bytes } in run {
        bundle.settle();
        all.add(made);
        add(&own.made, made.batches as usize);
        add(&peer.counts.offered, (made.articles + made.announced) as usize);
        add(&peer.counts.accepted, made.articles as usize);
        add(&peer.counts.sent_bytes, article_bytes as usize);
        if let Some(batch) = path {
            let (batch, articles) = (batch.display(), made.articles);
            info!(peer = peer.name, %batch, articles, bytes = made.bytes, "batch made");
        }
    }
    // Saved before the batches are handed over.
    peer.save(&shared.hub.frontier);
    own.fresh.notify_one();
    Ok(Some(all))
}

/// Writes a batch of the next articles; returns `None` if there are none.
fn pack<'a>(
    peer: &'a PeerFeed,
    own: &OutgoingBatches,
    shared: &FeedContext,
    batches: &mut Replacements<'_>,
) -> Result<Option<UnnamedBatch<'a>>, BatchError> {
    let _one_in_memory = shared.packing.lock();
    let mut packer = BatchPacker::new(peer.send.batch_compress).map_err(BatchError::Write)?;
    let mut bundle = OfferBundle::new(peer);
    let mut first: Option<TakenOffer> = None;
    let mut announced = Vec::new();
    while packer.bytes() < peer.send.batch_bytes
        && announced.len() < IHAVE_IDS_MAX
        && let Some(taken) = peer.take(&shared.hub.frontier)
    {
        bundle.push(taken.ticket);
        // Requested articles were deferred.
        if peer.send.ihave && matches!(taken.ticket, OfferTicket::Slot(_)) {
            let is_there = shared.is_there(peer, &taken.offer);
            announced.extend(is_there.then(|| taken.offer.message_id.clone()));
        } else if let Some(wire) = shared.article(peer, &taken.offer) {
            packer.add(wire.bytes()).map_err(BatchError::Write)?;
        }
        first.get_or_insert(taken);
    }
    let Some(first) = first else { return Ok(None) };
    let (articles, article_bytes) = (packer.articles(), packer.bytes());
    let mut made = BatchCounts { articles, announced: announced.len() as u64, ..BatchCounts::default() };
    if articles + made.announced == 0 {
        return Ok(Some(UnnamedBatch { bundle, path: None, made, article_bytes }));
    }
    if !announced.is_empty() {
        let serial = match first.ticket {
            OfferTicket::Slot(_) => format!("{}.{}", first.offer.mark.position, first.offer.arrived),
            OfferTicket::Deferred(key) => format!("{:032x}.{}", key.0, first.offer.arrived),
        };
        let ihave = sendme::message(SendmeVerb::Ihave, &own.identity, &peer.name, &serial, &announced);
        packer.add(&ihave).map_err(BatchError::Write)?;
    }
    let (path, batch) = (own.path_of(&first), packer.finish().map_err(BatchError::Write)?);
    batches.add(&path, &[&batch], FileAccess::Group).map_err(BatchError::Write)?;
    (made.batches, made.bytes) = (1, batch.len() as u64);
    Ok(Some(UnnamedBatch { bundle, path: Some(path), made, article_bytes }))
}
