//! Decides which article goes to which peer.
//!
//! A decision is made once, when an article is filed, and recorded in its journal row. The part on groups x
//! peers is compiled into a bit matrix ([`matrix`], as the C News paper proposes), rebuilt when groups or
//! peers change; the remaining peers pass a flat list of [`guards`] over the article's [`RoutingFacts`].
//! [`RoutingTable::explain`] runs the same tests one by one and reports them in words. Called by `ingest` for
//! each article, by `feed` for articles from before a peer was known, and by `newsreel why`. Sources: C
//! News paper (future work), RFC 5537 section 3.5, INN's newsfeeds(5).

mod facts;
mod guards;
mod hash;
mod matrix;
mod passed;
#[cfg(test)]
mod tests;

pub use facts::{PeerRoute, RoutingFacts, RoutingStep};

use arc_swap::ArcSwap;
use facts::NAMES_MAX;
use guards::{Guards, RoutingGuard};
use lock_order::Ordered;
use matrix::{RoutingMatrix, set};
use netnews::newsgroups;
use passed::PathExclusions;
use site_base::lock::{Leaf, rank};
use site_config::Site;
use spool::{ArticleKind, GroupTable};
use std::sync::{Arc, Weak};

/// Origin of articles from another server's spool, which are not sent anywhere.
const IMPORTED: &str = "import";
/// Prefix of the origin of a peer's articles.
const OF_PEER: &str = "peer ";

/// All peers to which articles are sent, compiled for one table of groups.
#[derive(Debug)]
pub struct RoutingTable {
    table: Arc<GroupTable>,
    sites: Arc<RoutedSites>,
    matrix: RoutingMatrix,
}

/// The part that does not depend on the groups.
#[derive(Debug, Default)]
struct RoutedSites {
    /// Our own names in Path.
    own: Vec<Box<[u8]>>,
    routes: Vec<PeerRoute>,
    guards: Guards,
    /// Peers that take articles of which only the headers are present.
    take_headers: Vec<u64>,
    passed: PathExclusions,
    words: usize,
}

impl RoutedSites {
    fn of(site: &Site, routes: Vec<PeerRoute>) -> Self {
        let columns = routes.iter().map(|route| route.number as usize + 1).max().unwrap_or(0);
        let words = columns.div_ceil(64);
        let guards = Guards::of(routes.iter().map(|route| (route.number as usize, &route.send)), words);
        let mut take_headers = vec![0; words];
        let mut passed = PathExclusions::new(words);
        for route in &routes {
            let column = route.number as usize;
            if route.send.headers_only {
                set(&mut take_headers, column);
            }
            passed.add(route.name.as_bytes(), column);
            route.send.path_never.iter().for_each(|never| passed.add(never.as_bytes(), column));
        }
        let own = std::iter::once(&site.path_identity).chain(&site.path_also);
        let own = own.map(|name| name.as_bytes().into()).collect();
        Self { own, routes, guards, take_headers, passed, words }
    }
}

/// Buffers for decisions.
#[derive(Debug, Default)]
pub struct RoutingDecision {
    takes: Vec<u64>,
    never: Vec<u64>,
    bytes: Vec<u8>,
}

impl RoutingDecision {
    /// Returns the peers as in journal rows: a bit for each peer number.
    pub fn sites(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether the peer with this number is included.
    pub fn has(&self, number: u32) -> bool {
        self.bytes.get(number as usize / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    }
}

impl RoutingTable {
    fn new(table: Arc<GroupTable>, sites: Arc<RoutedSites>) -> Self {
        let matrix = RoutingMatrix::new(&table, &sites.routes, sites.words);
        Self { table, sites, matrix }
    }

    /// Decides which peers an article goes to.
    pub fn decide(&self, facts: &RoutingFacts<'_>, decision: &mut RoutingDecision) {
        let sites = &*self.sites;
        decision.bytes.clear();
        if sites.words == 0 || facts.origin == IMPORTED {
            return;
        }
        for row in [&mut decision.takes, &mut decision.never] {
            row.clear();
            row.resize(sites.words, 0);
        }
        for name in facts.groups() {
            self.matrix.merge(&self.table, &sites.routes, name, &mut decision.takes, &mut decision.never);
        }
        if decision.takes.iter().all(|word| *word == 0) {
            return;
        }
        sites.passed.exclude(facts.path, &mut decision.never);
        if let Some(peer) = facts.origin.strip_prefix(OF_PEER) {
            sites.passed.exclude_one(peer.as_bytes(), &mut decision.never);
        }
        let left = &mut decision.takes;
        left.iter_mut().zip(&decision.never).for_each(|(left, never)| *left &= !never);
        if facts.kind.has(ArticleKind::HEADERS) {
            left.iter_mut().zip(&sites.take_headers).for_each(|(left, take)| *left &= take);
        }
        sites.guards.keep(left, facts, &sites.own);
        left.iter().for_each(|word| decision.bytes.extend_from_slice(&word.to_le_bytes()));
    }

    /// Returns whether articles of one of the groups in a Newsgroups header are sent to any peer, apart
    /// from its other conditions.
    pub fn takes_any(&self, newsgroups: &[u8]) -> bool {
        let sites = &*self.sites;
        let (mut takes, mut never) = (vec![0; sites.words], vec![0; sites.words]);
        newsgroups::split(newsgroups).take(NAMES_MAX).any(|name| {
            self.matrix.merge(&self.table, &sites.routes, name, &mut takes, &mut never);
            takes.iter().any(|word| *word != 0)
        })
    }

    /// Returns the steps of the decision whether an article goes to the peer of this name; `None` if no
    /// articles are sent to it at all.
    pub fn explain(&self, facts: &RoutingFacts<'_>, peer: &str) -> Option<Vec<RoutingStep>> {
        let route = self.sites.routes.iter().find(|route| route.name == peer)?;
        let mut steps = vec![from(facts, route)];
        steps.extend(self.matrix.explain(&self.table, route, facts));
        steps.push(self.sites.passed.explain(facts, route));
        if facts.kind.has(ArticleKind::HEADERS) {
            let text = "only its headers are here".to_owned();
            steps.push(RoutingStep { what: "headers_only", passed: route.send.headers_only, text });
        }
        steps
            .extend(RoutingGuard::all(&route.send).iter().map(|guard| guard.explain(facts, &self.sites.own)));
        Some(steps)
    }

    /// Returns the number of the peer of this name.
    pub fn number_of(&self, peer: &str) -> Option<u32> {
        self.sites.routes.iter().find(|route| route.name == peer).map(|route| route.number)
    }
}

/// Returns the step on the origin of the article.
fn from(facts: &RoutingFacts<'_>, route: &PeerRoute) -> RoutingStep {
    let is_own =
        facts.origin.strip_prefix(OF_PEER).is_some_and(|from| from.eq_ignore_ascii_case(&route.name));
    let (passed, text) = match facts.origin {
        IMPORTED => (false, "was imported from another server's spool".to_owned()),
        _ if is_own => (false, "came from this peer".to_owned()),
        "" => (true, "came from a source that is no longer recorded".to_owned()),
        "injected" => (true, "was posted here".to_owned()),
        origin => (true, format!("came from {origin}")),
    };
    RoutingStep { what: "origin", passed, text }
}

/// The current routes.
#[derive(Debug)]
pub struct Router {
    routes: ArcSwap<RoutingTable>,
    /// Held while the matrix is rebuilt.
    building: Ordered<(), { rank::ROUTING }>,
    /// Peers of earlier configurations, as long as an article is decided with them.
    earlier: Leaf<Vec<Weak<RoutedSites>>>,
}

impl Router {
    /// Creates a router without peers.
    pub fn new(table: Arc<GroupTable>) -> Self {
        let routes = RoutingTable::new(table, Arc::default());
        Self { routes: ArcSwap::from_pointee(routes), building: Ordered::default(), earlier: Leaf::default() }
    }

    /// Replaces the peers for further decisions. Decisions already begun keep theirs: see
    /// [`Router::is_settled`].
    pub fn replace(&self, site: &Site, routes: Vec<PeerRoute>, table: Arc<GroupTable>) {
        let _building = self.building.lock();
        let new = RoutingTable::new(table, Arc::new(RoutedSites::of(site, routes)));
        let old = self.routes.swap(Arc::new(new));
        self.earlier.lock().push(Arc::downgrade(&old.sites));
    }

    /// Returns whether no article decided with earlier peers is still being filed.
    pub fn is_settled(&self) -> bool {
        let mut earlier = self.earlier.lock();
        earlier.retain(|sites| sites.strong_count() > 0);
        earlier.is_empty()
    }

    /// Returns the routes for these groups.
    pub fn routes(&self, table: &Arc<GroupTable>) -> Arc<RoutingTable> {
        let routes = self.routes.load_full();
        if Arc::ptr_eq(&routes.table, table) {
            return routes;
        }
        let _building = self.building.lock();
        let routes = self.routes.load_full();
        if Arc::ptr_eq(&routes.table, table) {
            return routes;
        }
        let routes = Arc::new(RoutingTable::new(table.clone(), routes.sites.clone()));
        self.routes.store(routes.clone());
        routes
    }
}
