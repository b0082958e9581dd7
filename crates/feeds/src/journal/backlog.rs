//! Fills the window of a peer that does not keep up, or is new: from the hub's recent offers, or from the
//! peer's own cursor.
//!
//! Articles filed before the peer was known to `routing` are decided here, by the same function, which
//! means reading them.

use crate::journal::offer::FeedOffer;
use crate::peer::feed::{OfferSource, PeerFeed};
use crate::peer::queue::WINDOW_MAX;
use crate::shared::FeedContext;
use ingest::kind;
use ingest::routing::{RoutingDecision, RoutingFacts, RoutingTable};
use netnews::Article;
use site_base::counters::add;
use spool::{ArticleKind, ArticleRow, Cursor, JournalBatch, JournalEvent, JournalMark, TailStart};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::block_in_place;
use tracing::warn;

/// Result of filling a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillOutcome {
    /// There may be more to read.
    More,
    /// The window is full; the feed is woken when it has room.
    Full,
    /// The hub fills the window from now on.
    Joined,
    /// The hub is a little behind, or it is not yet known from which row on the peer was part of decisions.
    Soon,
}

/// Fills the window with the next offers. May wait for the disk, without delaying other tasks.
pub(crate) fn fill(peer: &Arc<PeerFeed>, shared: &FeedContext) -> io::Result<FillOutcome> {
    match fill_from_recent(peer, shared) {
        Some(filled) => Ok(filled),
        None => block_in_place(|| {
            let mut batch = shared.batches.take();
            let filled = fill_from_journal(peer, shared, &mut batch);
            shared.batches.give(batch);
            filled
        }),
    }
}

/// Fills the window with offers that the hub still has; returns `None` if they do not reach back far
/// enough.
fn fill_from_recent(peer: &Arc<PeerFeed>, shared: &FeedContext) -> Option<FillOutcome> {
    let decided_from = peer.decided_from()?;
    let since = peer.since.load(Ordering::Relaxed);
    let mut late = Vec::new();
    let mut window = peer.window.lock();
    let mark = match window.source {
        OfferSource::Hub(_) => return Some(FillOutcome::Joined),
        OfferSource::Cursor(mark) | OfferSource::Seek(mark) => mark,
    };
    let Some(room) = window.room(WINDOW_MAX) else { return Some(FillOutcome::Full) };
    if mark.sequence.is_none_or(|sequence| sequence < decided_from) {
        return None;
    }
    let (offers, end) = shared.hub.since(mark, peer.number, room)?;
    let is_empty = offers.is_empty() && end == mark;
    for offer in offers {
        match peer.is_too_late(offer.arrived, Some(offer.mark.position), &shared.hub.frontier) {
            _ if u64::from(offer.arrived) < since => {}
            None => window.queue.push(offer),
            Some(why) => late.push((offer, why)),
        }
    }
    // The cursor itself stays where it was.
    window.source = OfferSource::Seek(end);
    drop(window);
    late.iter().for_each(|(offer, why)| peer.miss(&offer.message_id, why));
    Some(filled(peer, shared, end, is_empty))
}

/// Returns the result of filling up to `end`.
fn filled(peer: &Arc<PeerFeed>, shared: &FeedContext, end: JournalMark, is_empty: bool) -> FillOutcome {
    peer.offers.notify_waiters();
    match peer.decided_from().is_some() && shared.hub.join(peer, end) {
        true => FillOutcome::Joined,
        false if is_empty => FillOutcome::Soon,
        false => FillOutcome::More,
    }
}

/// Records from which row on articles are decided with this peer, once none decided without it is still
/// being filed.
pub(crate) fn begin_deciding(peer: &PeerFeed, shared: &FeedContext) -> io::Result<()> {
    note_decided(peer, shared, &mut peer.durable.lock().cursor)
}

fn note_decided(peer: &PeerFeed, shared: &FeedContext, cursor: &mut Cursor) -> io::Result<()> {
    if cursor.decided_from().is_none() && shared.filer.router.is_settled() {
        let end = shared.spool.journal().mark(TailStart::Now)?;
        let decided_from = end.sequence.unwrap_or(u64::MAX - 1);
        cursor.set_decided_from(decided_from);
        peer.decided_from.store(decided_from, Ordering::Relaxed);
    }
    Ok(())
}

/// Fills the window with the next rows of the journal. Blocks.
fn fill_from_journal(
    peer: &Arc<PeerFeed>,
    shared: &FeedContext,
    batch: &mut JournalBatch,
) -> io::Result<FillOutcome> {
    let mut durable = peer.durable.lock();
    let cursor = &mut durable.cursor;
    let mark = {
        let mut window = peer.window.lock();
        match window.source {
            OfferSource::Hub(_) => return Ok(FillOutcome::Joined),
            OfferSource::Cursor(mark) => mark,
            OfferSource::Seek(mark) => {
                window.source = OfferSource::Cursor(mark);
                cursor.seek(mark);
                mark
            }
        }
    };
    let most = peer.own_offers_max();
    if peer.window.lock().room(most).is_none() {
        return Ok(FillOutcome::Full);
    }
    note_decided(peer, shared, cursor)?;
    let lost = cursor.tail().pin().lost();
    cursor.next(batch)?;
    let lost_articles = cursor.tail().pin().lost().1 - lost.1;
    if lost_articles > 0 {
        warn!(peer = peer.name, lost_articles, "feed misses articles: the journal no longer has them");
    }
    add(&peer.counts.missed, lost_articles as usize);
    let (end, decided_from, is_empty) = (cursor.mark(), cursor.decided_from(), batch.is_empty());
    drop(durable);
    // This may read articles.
    let offers = offers(peer, shared, batch, decided_from);
    {
        let mut window = peer.window.lock();
        if !matches!(window.source, OfferSource::Cursor(own) if own.position == mark.position) {
            // An operator has moved the position in the meantime.
            return Ok(FillOutcome::More);
        }
        offers.into_iter().for_each(|offer| window.queue.push(offer));
        window.source = OfferSource::Cursor(end);
    }
    Ok(filled(peer, shared, end, is_empty))
}

/// Returns the offers of a batch for the peer.
fn offers(
    peer: &PeerFeed,
    shared: &FeedContext,
    batch: &JournalBatch,
    decided_from: Option<u64>,
) -> Vec<Arc<FeedOffer>> {
    let table = shared.spool.group_table();
    let routes = shared.filer.router.routes(&table);
    let since = peer.since.load(Ordering::Relaxed);
    let mut offers = Vec::new();
    for (position, event) in batch.events() {
        let JournalEvent::Article(row) = event else { continue };
        if u64::from(row.arrived) < since {
            continue;
        }
        let was_decided = decided_from.is_some_and(|sequence| row.sequence >= sequence);
        let is_kept_here = row.tagged.kind().is_some_and(|kind| kind.has(ArticleKind::LOCAL));
        let wanted = row.tagged.is_wanted_by(peer.number)
            || !was_decided && !is_kept_here && wants(peer, shared, &routes, &row);
        if !wanted {
            continue;
        }
        if let Some(why) = peer.is_too_late(row.arrived, Some(position), &shared.hub.frontier) {
            peer.miss(row.message_id, why);
            continue;
        }
        offers.push(FeedOffer::of(position, &row));
    }
    offers
}

/// Decides on an article that was filed before the peer was known.
fn wants(peer: &PeerFeed, shared: &FeedContext, routes: &RoutingTable, row: &ArticleRow<'_>) -> bool {
    let Some(wire) = shared.articles.whole(&FeedOffer::of(0, row)) else { return false };
    let origin = row.tagged.origin().and_then(|origin| std::str::from_utf8(origin).ok()).unwrap_or_default();
    decide(peer, routes, wire.bytes(), origin)
}

/// Returns the offer of an article that a peer has requested, if it may have it by the same decision.
pub(crate) fn is_for(peer: &PeerFeed, shared: &FeedContext, offer: FeedOffer) -> Option<FeedOffer> {
    let wire = shared.articles.whole(&offer)?;
    let routes = shared.filer.router.routes(&shared.spool.group_table());
    let wire_bytes = wire.bytes().len() as u64;
    decide(peer, &routes, wire.bytes(), "").then_some(FeedOffer { wire_bytes, ..offer })
}

fn decide(peer: &PeerFeed, routes: &RoutingTable, wire: &[u8], origin: &str) -> bool {
    let Ok(article) = Article::parse(wire) else { return false };
    let mut decision = RoutingDecision::default();
    routes.decide(&RoutingFacts::of(&article, kind(&article), origin, wire.len() as u64), &mut decision);
    decision.has(peer.number)
}
