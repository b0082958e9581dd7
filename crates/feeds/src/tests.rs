//! A feed and the hub, on a spool in memory.

use super::journal::backlog::{FillOutcome, begin_deciding, fill};
use super::journal::offer::FeedOffer;
use super::peer::feed::{FeedTrouble, OfferSource, PeerFeed};
use super::peer::queue::WINDOW_MAX;
use super::peer::status;
use super::shared::FeedContext;
use disk::SimDisk;
use ingest::Filer;
use ingest::routing::PeerRoute;
use site_base::clock::unix_secs;
use site_config as config;
use spool::{ArticleKey, ChangeMaker as _, JournalMark, MethodKind, Spool, TailStart, Token};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns the shared state, and the feed to one peer with these keys.
fn feed(keys: &str) -> (FeedContext, Arc<PeerFeed>) {
    let text = format!(
        "[site]\npath_identity = \"site.example\"\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n\
         [[rule]]\nclass = \"c\"\n[[peer]]\nname = \"down.example\"\n[peer.send]\nto = \"h:119\"\n{keys}\n"
    );
    let config = config::parse(&text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let (spool, _) = Spool::open(Arc::new(SimDisk::new()), config.spool_config(), &()).unwrap();
    let spool = Arc::new(spool);
    let route = PeerRoute::all(&config, |name| spool.site(name)).unwrap().remove(0);
    let peer = Arc::new(PeerFeed::open(&spool, &route, "site.example").unwrap());
    let filer = Arc::new(Filer::new(Arc::new(config), spool.clone()));
    (FeedContext::new(spool, filer), peer)
}

fn offer(n: u64, arrived: u64) -> Arc<FeedOffer> {
    Arc::new(FeedOffer {
        key: ArticleKey(u128::from(n)),
        token: Token { method: MethodKind::Trash, class: 0, volume: 0, place: n },
        message_id: format!("<{n}@x>").into_bytes().into(),
        wire_bytes: 100,
        arrived: u32::try_from(arrived).unwrap(),
        mark: JournalMark { position: n, sequence: Some(n) },
    })
}

#[test]
fn peers_do_not_wait_for_a_hub_that_does_not_read_the_journal() {
    let (shared, peer) = feed("");
    let end = shared.spool.journal().mark(TailStart::Now).unwrap();
    let filled = || fill(&peer, &shared).unwrap();
    // The peer reads for itself, up to the end, and checks again.
    while filled() == FillOutcome::More {}
    assert_eq!(filled(), FillOutcome::Soon);
    assert!(matches!(peer.window.lock().source, OfferSource::Cursor(_) | OfferSource::Seek(_)));
    shared.hub.begin_at(end);
    assert_eq!(filled(), FillOutcome::Joined);
    assert!(matches!(peer.window.lock().source, OfferSource::Hub(_)));
    shared.hub.dismiss();
    assert!(matches!(peer.window.lock().source, OfferSource::Seek(mark) if mark == end));
    assert_eq!(filled(), FillOutcome::Soon);
}

#[test]
fn a_new_feed_does_not_reread_rows_that_arrived_while_it_started() {
    let (shared, peer) = feed("");
    let mut tail = shared.hub.begin(&shared.spool).unwrap();
    begin_deciding(&peer, &shared).unwrap();
    // Rows that are not for the peer.
    shared.spool.site("another.example").unwrap();
    let mut batch = spool::JournalBatch::default();
    while tail.poll_rows(&std::task::Context::from_waker(std::task::Waker::noop())).is_ready() {
        tail.next(&mut batch).unwrap();
        shared.hub.hand_out(&batch, tail.mark());
    }
    assert_ne!(shared.hub.frontier.mark(), peer.durable.lock().cursor.mark(), "the hub is ahead of it");
    let before = peer.durable.lock().cursor.mark();
    assert_eq!(fill(&peer, &shared).unwrap(), FillOutcome::Joined);
    assert_eq!(peer.durable.lock().cursor.mark(), before, "the journal was read for it");
}

#[test]
fn articles_that_are_too_old_are_skipped_and_counted() {
    const DAY_SECS: u64 = 86_400;
    let (shared, peer) = feed("backlog_max_days = 3");
    let now = unix_secs();
    {
        let queue = &mut peer.window.lock().queue;
        queue.push(offer(1, now - 4 * DAY_SECS));
        queue.push(offer(2, now - 3 * DAY_SECS - 60));
        queue.push(offer(3, now - 3 * DAY_SECS + 3_600));
        queue.push(offer(4, now));
    }
    let take = || Some(peer.take(&shared.hub.frontier)?.offer.key.0);
    assert_eq!([take(), take(), take()], [Some(3), Some(4), None]);
    assert_eq!(site_base::counters::read(&peer.counts.missed), 2);
    let missed: Vec<Box<[u8]>> = peer.missed.lock().iter().cloned().collect();
    assert_eq!(missed, [b"<1@x>"[..].into(), b"<2@x>"[..].into()]);
    // Deferred articles grow old as well.
    let (shared, peer) = feed("backlog_max_days = 1");
    assert!(peer.window.lock().queue.request(offer(5, now - 2 * DAY_SECS), 0));
    assert!(peer.take(&shared.hub.frontier).is_none());
    assert_eq!(site_base::counters::read(&peer.counts.missed), 1);
}

#[test]
fn a_full_window_is_filled_again_when_half_of_it_is_settled() {
    let (shared, peer) = feed("");
    let now = unix_secs();
    let most = peer.own_offers_max();
    assert!(most < WINDOW_MAX, "offers that are not shared");
    (0..most as u64).for_each(|n| peer.window.lock().queue.push(offer(n, now)));
    assert_eq!(fill(&peer, &shared).unwrap(), FillOutcome::Full);
    let settle = || peer.settle(peer.take(&shared.hub.frontier).unwrap().ticket);
    let woken = || {
        let notified = peer.attention.notified();
        let mut notified = std::pin::pin!(notified);
        notified.as_mut().enable()
    };
    settle();
    assert!(woken(), "the first offer has the feed look after its connections");
    (2..most / 2).for_each(|_| settle());
    assert!(!woken(), "not for each article");
    settle();
    assert!(woken());
    assert_ne!(fill(&peer, &shared).unwrap(), FillOutcome::Full);
}

#[test]
fn read_ahead_grows_with_connections_and_for_outlets_that_choose() {
    let (_shared, peer) = feed("");
    let most = peer.own_offers_max();
    peer.connections.store(3, Ordering::Relaxed);
    assert_eq!(peer.own_offers_max(), 3 * most);
    peer.connections.store(30, Ordering::Relaxed);
    assert_eq!(peer.own_offers_max(), WINDOW_MAX);
    assert_eq!(feed("order = \"newest\"").1.own_offers_max(), WINDOW_MAX);
    let (_shared, peer) = feed("");
    let mut window = peer.window.lock();
    (0..10).for_each(|n| window.queue.push(offer(n, 1)));
    assert_eq!((window.room(12), window.wakes_at), (Some(2), None));
    assert_eq!((window.room(10), window.wakes_at), (None, Some(5)));
    assert_eq!((window.room(8), window.wakes_at), (None, Some(4)), "with more than there may be");
}

#[test]
fn the_status_of_a_feed_takes_its_locks_one_after_another() {
    let (shared, peer) = feed("");
    peer.fail(FeedTrouble::Peer, "timed out".into());
    // Debug builds panic if one is taken inside another.
    let status = status::of(&peer, shared.hub.frontier.mark());
    assert_eq!((status.last_error.as_deref(), status.no_check), (Some("timed out"), false));
}
