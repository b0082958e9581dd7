//! The sending half of relaying (RFC 5537 section 3.5): sends articles to peers as decided by `routing`.
//!
//! Each peer has a durable cursor in the journal, a bounded window of offers and up to `connections` tasks
//! that send them ([`sending`]), or one task with another outlet ([`outlets`]: batches, or lines for other
//! programs); [`peer`] manages them. The [`journal`] is read once for all peers that keep up, and articles
//! are read once for all that send them at about the same time, for which connections wait for each other a
//! little. Nothing is queued per article on disk, except for deferred articles. The states of an offer, and
//! the state after a crash, are in `docs/states.md`. Called by `operators` and by newsreel's `server`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod journal;
mod outlets;
mod peer;
mod rank;
mod sending;
mod share;
mod shared;
#[cfg(test)]
mod tests;

use ingest::Filer;
use ingest::routing::PeerRoute;
use journal::{backlog, hub};
use lock_order::Ordered;
pub use outlets::batch_dir::BatchDirFull;
pub use outlets::batches::{BatchCounts, BatchError};
use outlets::{batches, sendme};
use peer::feed::{CURSOR_PREFIX, PeerFeed};
pub use peer::order::{FeedStartPoint, OperatorOrder};
use peer::run;
pub use peer::set_aside::SetAsideArticle;
pub use peer::status::{FeedStatus, OutputStatus};
use shared::FeedContext;
use site_base::low_priority::LowPriorityThreads;
use site_config::{Config, PeerSend};
use site_log::SiteLog;
use spool::{ChangeMaker as _, Spool};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// Niceness of the threads of feeds relative to the server.
const NICE: i32 = 10;
/// Threads that may wait for the disk at once, beside one for each processor: this many feeds can read
/// articles not in memory, or save their position, while the others continue.
const BLOCKED_MAX: usize = 16;

/// A running feed.
struct RunningFeed {
    peer: Arc<PeerFeed>,
    task: JoinHandle<()>,
}

/// The feeds of all peers.
pub struct Feeds {
    shared: Arc<FeedContext>,
    running: Ordered<BTreeMap<String, RunningFeed>, { rank::RUNNING }>,
    hub: Ordered<Option<JoinHandle<()>>, { rank::TASKS }>,
    /// Task that answers ihave and sendme, and the channel that ends it.
    answering: Ordered<Option<(JoinHandle<()>, watch::Sender<bool>)>, { rank::TASKS }>,
    threads: LowPriorityThreads,
}

/// Preparation of a reload: numbers that may have to be written to the journal, and threads if any are
/// needed.
pub struct PreparedFeeds {
    routes: Vec<PeerRoute>,
    threads: Option<Handle>,
}

impl Feeds {
    /// Creates the state without any feed.
    pub fn new(spool: Arc<Spool>, filer: Arc<Filer>) -> Self {
        Self {
            shared: Arc::new(FeedContext::new(spool, filer)),
            running: Ordered::default(),
            hub: Ordered::default(),
            answering: Ordered::default(),
            threads: LowPriorityThreads::new("feeds", NICE, BLOCKED_MAX),
        }
    }

    /// Assigns a number to every peer of a configuration to which articles are sent, and starts threads for
    /// the first of them. Writes the journal.
    pub fn prepare(&self, config: &Config) -> io::Result<PreparedFeeds> {
        let routes =
            PeerRoute::all(config, |name| self.shared.filer.log().site(name)).map_err(io::Error::other)?;
        let threads = if routes.is_empty() { None } else { Some(self.threads.handle()?) };
        Ok(PreparedFeeds { routes, threads })
    }

    /// Starts, stops and changes feeds according to the configuration; unchanged ones are not interrupted.
    /// Needs the runtime; blocks while ending feeds finish their transfers.
    pub fn apply(&self, config: &Config, PreparedFeeds { routes, threads }: PreparedFeeds) {
        let mut running = self.running.lock();
        let stays = |name: &str, send: &PeerSend| {
            routes.iter().any(|route| route.name == name && route.send == *send)
        };
        let ended: Vec<String> = running
            .iter()
            .filter(|(name, running)| !stays(name, &running.peer.send))
            .map(|(name, _)| name.clone())
            .collect();
        let ended: Vec<RunningFeed> = ended.iter().filter_map(|name| running.remove(name)).collect();
        ended.iter().for_each(|ended| ended.peer.retire());
        for ended in ended {
            wait_for(ended);
        }
        self.forget(&routes);
        // The cursors of the new peers begin before anything is decided with them; and before that the hub,
        // which then has all later rows: no peer has to read the journal for articles that arrive in the
        // meantime.
        if let Some(threads) =
            threads.as_ref().filter(|_| routes.iter().any(|r| !running.contains_key(&r.name)))
        {
            let (hub, spool) = (&self.shared.hub, &self.shared.spool);
            self.hub
                .lock()
                .get_or_insert_with(|| threads.spawn(hub::run(hub.begin(spool), hub.clone(), spool.clone())));
        }
        let mut new = Vec::new();
        for route in &routes {
            if running.contains_key(&route.name) {
                continue;
            }
            match PeerFeed::open(&self.shared.spool, route, &config.site.path_identity) {
                Ok(peer) => new.push(Arc::new(peer)),
                Err(error) => warn!(peer = route.name, %error, "cannot feed this peer"),
            }
        }
        let table = self.shared.spool.group_table();
        self.shared.filer.router.replace(&config.site, routes, table);
        // Without threads there are no peers either.
        let Some(threads) = threads else { return self.speak(BTreeMap::new(), None) };
        for peer in new {
            // On failure, its task tries again.
            if let Err(error) = backlog::begin_deciding(&peer, &self.shared) {
                warn!(peer = peer.name, %error, "cannot read the journal");
            }
            let task = threads.spawn(run::run(peer.clone(), self.shared.clone()));
            running.insert(peer.name.clone(), RunningFeed { peer, task });
        }
        self.shared.share.among(running.len());
        let speakers = running.values().map(|running| &running.peer).filter(|peer| peer.send.ihave);
        let speakers = speakers.map(|peer| (peer.name.to_ascii_lowercase(), peer.clone())).collect();
        self.speak(speakers, Some(&threads));
    }

    /// Enables ihave and sendme for these peers, and no others.
    fn speak(&self, speakers: BTreeMap<String, Arc<PeerFeed>>, threads: Option<&Handle>) {
        let is_needed = !speakers.is_empty();
        // The previous map is dropped after the lock: a peer that ends releases its claim on the journal.
        let _ended = std::mem::replace(&mut *self.shared.speakers.lock(), speakers);
        let mut answering = self.answering.lock();
        if let Some(threads) = threads.filter(|_| is_needed && answering.is_none()) {
            match self.shared.spool.journal().cursor(sendme::CURSOR, spool::TailStart::Now) {
                Ok(cursor) => {
                    let (end, ended) = watch::channel(false);
                    let task = threads.spawn(sendme::run(self.shared.clone(), cursor, ended));
                    *answering = Some((task, end));
                }
                Err(error) => warn!(%error, "cannot answer ihave and sendme"),
            }
        }
        if !is_needed {
            stop_answering(&mut answering);
            if let Err(error) = self.shared.spool.journal().remove_cursor(sendme::CURSOR) {
                warn!(%error, "cannot remove the cursor of ihave and sendme");
            }
        }
    }

    /// Removes the cursors of peers to which nothing is sent any more: they hold journal files.
    fn forget(&self, routes: &[PeerRoute]) {
        for reader in self.shared.spool.journal().status() {
            let Some(name) = reader.name.strip_prefix(CURSOR_PREFIX).filter(|_| reader.durable) else {
                continue;
            };
            if routes.iter().any(|route| route.name == name) {
                continue;
            }
            match self.shared.spool.journal().remove_cursor(&reader.name) {
                Ok(_) => info!(peer = name, "feed ended: the peer is not sent articles any more"),
                Err(error) => warn!(peer = name, %error, "cannot remove the cursor of a feed"),
            }
        }
    }

    /// Carries out an order; returns `None` if there is no such feed.
    pub fn order(&self, peer: &str, order: OperatorOrder) -> Option<io::Result<()>> {
        let peer = self.running.lock().get(peer)?.peer.clone();
        Some(peer.order(&self.shared.spool, order))
    }

    /// Makes batches of all articles for a peer; returns their counts. Blocks.
    pub fn batch(&self, peer: &str) -> Result<BatchCounts, BatchError> {
        let running = self.running.lock().get(peer).map(|running| running.peer.clone());
        let peer = running.ok_or_else(|| BatchError::NoFeed(peer.to_owned()))?;
        batches::make_now(&peer, &self.shared)
    }

    /// Ends all feeds in order: unanswered commands are awaited, within bounds, and the cursors are saved.
    /// Blocks.
    pub fn stop(&self) {
        stop_answering(&mut self.answering.lock());
        let speakers = std::mem::take(&mut *self.shared.speakers.lock());
        drop(speakers);
        let running = std::mem::take(&mut *self.running.lock());
        running.values().for_each(|running| running.peer.retire());
        for running in running.into_values() {
            wait_for(running);
        }
        if let Some(hub) = self.hub.lock().take() {
            hub.abort();
        }
    }

    /// Returns whether another member of the cluster feeds a peer.
    pub fn is_elsewhere(&self, peer: &str) -> bool {
        self.running.lock().get(peer).is_some_and(|running| running.peer.is_elsewhere())
    }

    /// Returns the names of the peers that are fed.
    pub fn names(&self) -> Vec<String> {
        self.running.lock().keys().cloned().collect()
    }

    /// Returns the status of a peer's feed; `None` if there is none.
    pub fn status(&self, peer: &str) -> Option<FeedStatus> {
        let peer = self.running.lock().get(peer)?.peer.clone();
        Some(peer::status::of(&peer, self.shared.hub.frontier.mark()))
    }

    /// Returns the position in the journal before which everything of a peer's feed is settled; `None` if
    /// something from before it waits for another attempt, or there is no feed.
    pub fn settled(&self, peer: &str) -> Option<u64> {
        let peer = self.running.lock().get(peer)?.peer.clone();
        peer::status::settled(&peer, self.shared.hub.frontier.mark())
    }
}

/// Ends the task that answers ihave and sendme, if it runs.
fn stop_answering(answering: &mut Option<(JoinHandle<()>, watch::Sender<bool>)>) {
    if let Some((task, end)) = answering.take() {
        end.send_replace(true);
        let waiting = async {
            // Errors have been logged.
            let _ended = task.await;
        };
        tokio::task::block_in_place(|| Handle::current().block_on(waiting));
    }
}

/// Begins the feeds of all configured peers that never had one, so that they get articles filed without a
/// server from now on. Called before a filer is created for that. Writes the journal; blocks.
pub fn begin_without_server(spool: &Arc<Spool>, config: &Config) -> io::Result<()> {
    let log = SiteLog::new(spool.clone());
    let routes = PeerRoute::all(config, |name| log.site(name)).map_err(io::Error::other)?;
    routes.iter().try_for_each(|route| PeerFeed::open(spool, route, &config.site.path_identity).map(drop))
}

/// Makes batches for a peer while no server runs: see [`Feeds::batch`].
pub fn batch_without_server(
    spool: &Arc<Spool>,
    filer: &Arc<Filer>,
    config: &Config,
    peer: &str,
) -> Result<BatchCounts, BatchError> {
    let routes = PeerRoute::all(config, |name| filer.log().site(name));
    let routes = routes.map_err(|trouble| BatchError::Io(io::Error::other(trouble)))?;
    let Some(route) = routes.iter().find(|route| route.name == peer).cloned() else {
        return Err(BatchError::NoPeer(peer.to_owned()));
    };
    let shared = FeedContext::new(spool.clone(), filer.clone());
    let opened = PeerFeed::open(spool, &route, &config.site.path_identity).map_err(BatchError::Journal)?;
    filer.router.replace(&config.site, routes, spool.group_table());
    // Nothing is added in the meantime: a reader that reaches this mark has everything.
    shared.hub.begin_at(spool.journal().mark(spool::TailStart::Now).map_err(BatchError::Journal)?);
    batches::make_now(&Arc::new(opened), &shared)
}

/// Waits for a feed that was asked to end.
fn wait_for(ended: RunningFeed) {
    let waiting = async {
        if let Err(error) = ended.task.await {
            warn!(peer = ended.peer.name, %error, "feed failed");
        }
    };
    tokio::task::block_in_place(|| Handle::current().block_on(waiting));
}
