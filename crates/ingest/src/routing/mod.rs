//! Which article goes to which peer.
//!
//! Decided once, when an article is filed, and recorded in its journal row. The groups x peers part is
//! compiled into a bit matrix ([`matrix`], as the C News paper proposes), rebuilt when groups or peers
//! change; what is left of the peers passes a flat list of [`guards`] over the article's [`Facts`]. The same
//! tests, one by one and in words, are [`Routes::explain`]. Called by `ingest` for each article, by `feed`
//! for articles from before a peer was known, and by `newsreel why`. Sources: C News paper (future work), RFC
//! 5537 section 3.5, INN's newsfeeds(5).

mod guards;
mod hash;
mod matrix;
mod passed;
#[cfg(test)]
mod tests;

use arc_swap::ArcSwap;
use guards::{Guard, Guards};
use lock_order::Ordered;
use matrix::Matrix;
use netnews::{Article, Known, newsgroups};
use passed::Passed;
use site_base::lock::{Leaf, rank};
use site_config::{Config, Peer, PeerSend, Site};
use spool::{ArticleKind, GroupTable};
use std::sync::{Arc, Weak};

/// Newsgroups of an article that are looked at.
const NAMES_MAX: usize = 250;

/// What articles have as origin that came from another server's spool; they are not sent anywhere.
const IMPORTED: &str = "import";
/// What the origin of a peer's articles begins with.
const OF_PEER: &str = "peer ";

/// What the decision needs to know of an article.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub message_id: &'a [u8],
    /// Value of its Newsgroups header.
    pub newsgroups: &'a [u8],
    /// Value of its Path header, with or without our own names in front.
    pub path: &'a [u8],
    /// Value of its Distribution header; empty without one.
    pub distribution: &'a [u8],
    /// Where it came from, as the journal has it: `peer NAME`, `injected`, `rnews` or `import`.
    pub origin: &'a str,
    pub kind: ArticleKind,
    /// Its length as peers get it.
    pub wire_bytes: u64,
    /// The article in wire format, with or without our own names in its Path.
    pub wire: &'a [u8],
    /// Where its body begins there.
    pub body_offset: usize,
}

impl<'a> Facts<'a> {
    /// Those of an article that is stored.
    pub fn of(article: &Article<'a>, kind: ArticleKind, origin: &'a str, wire_bytes: u64) -> Self {
        let value = |known| article.header(known).unwrap_or_default();
        Self {
            message_id: article.message_id().map(|id| id.as_bytes()).unwrap_or_default(),
            newsgroups: value(Known::Newsgroups),
            path: value(Known::Path),
            distribution: value(Known::Distribution).trim_ascii(),
            origin,
            kind,
            wire_bytes,
            wire: article.wire(),
            body_offset: article.body_offset(),
        }
    }

    fn groups(&self) -> impl Iterator<Item = &'a [u8]> {
        newsgroups::split(self.newsgroups).take(NAMES_MAX)
    }
}

/// A peer that is sent articles.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its number in journal rows.
    pub number: u32,
    pub name: String,
    pub send: PeerSend,
}

impl Route {
    /// The peers of a configuration that are sent articles, by the numbers that `number` has for them.
    pub fn all<E>(config: &Config, number: impl Fn(&str) -> Result<u32, E>) -> Result<Vec<Self>, E> {
        let route = |peer: &Peer| {
            let send = peer.send.clone()?;
            Some(number(&peer.name).map(|number| Self { number, name: peer.name.clone(), send }))
        };
        config.peers.iter().filter_map(route).collect()
    }

    /// Those of them that `number` has a number for.
    pub fn known(config: &Config, number: impl Fn(&str) -> Option<u32>) -> Vec<Self> {
        let route = |peer: &Peer| {
            let send = peer.send.clone()?;
            Some(Self { number: number(&peer.name)?, name: peer.name.clone(), send })
        };
        config.peers.iter().filter_map(route).collect()
    }
}

/// One step of a decision, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The key it follows.
    pub what: &'static str,
    pub passed: bool,
    pub text: String,
}

/// All peers that are sent articles, compiled for one table of groups.
#[derive(Debug)]
pub struct Routes {
    table: Arc<GroupTable>,
    sites: Arc<Sites>,
    matrix: Matrix,
}

/// What does not depend on the groups.
#[derive(Debug, Default)]
struct Sites {
    /// Our own names in Path.
    own: Vec<Box<[u8]>>,
    routes: Vec<Route>,
    guards: Guards,
    /// The peers that take articles of which only the headers are here.
    take_headers: Vec<u64>,
    passed: Passed,
    words: usize,
}

impl Sites {
    fn of(site: &Site, routes: Vec<Route>) -> Self {
        let columns = routes.iter().map(|route| route.number as usize + 1).max().unwrap_or(0);
        let words = columns.div_ceil(64);
        let guards = Guards::of(routes.iter().map(|route| (route.number as usize, &route.send)), words);
        let mut take_headers = vec![0; words];
        let mut passed = Passed::new(words);
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

/// Memory for decisions.
#[derive(Debug, Default)]
pub struct Decision {
    takes: Vec<u64>,
    never: Vec<u64>,
    bytes: Vec<u8>,
}

impl Decision {
    /// The peers, as journal rows have them: a bit set by their numbers.
    pub fn sites(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the peer with this number is one of them.
    pub fn has(&self, number: u32) -> bool {
        self.bytes.get(number as usize / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    }
}

impl Routes {
    fn new(table: Arc<GroupTable>, sites: Arc<Sites>) -> Self {
        let matrix = Matrix::new(&table, &sites.routes, sites.words);
        Self { table, sites, matrix }
    }

    /// Decides which peers an article goes to.
    pub fn decide(&self, facts: &Facts<'_>, decision: &mut Decision) {
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

    /// Whether any peer is sent articles of one of the groups in a Newsgroups header, whatever else it asks.
    pub fn takes_any(&self, newsgroups: &[u8]) -> bool {
        let sites = &*self.sites;
        let (mut takes, mut never) = (vec![0; sites.words], vec![0; sites.words]);
        newsgroups::split(newsgroups).take(NAMES_MAX).any(|name| {
            self.matrix.merge(&self.table, &sites.routes, name, &mut takes, &mut never);
            takes.iter().any(|word| *word != 0)
        })
    }

    /// Each step of the decision whether an article goes to the peer of this name; `None`: it is sent
    /// nothing at all.
    pub fn explain(&self, facts: &Facts<'_>, peer: &str) -> Option<Vec<Step>> {
        let route = self.sites.routes.iter().find(|route| route.name == peer)?;
        let mut steps = vec![from(facts, route)];
        steps.extend(self.matrix.explain(&self.table, route, facts));
        steps.push(self.sites.passed.explain(facts, route));
        if facts.kind.has(ArticleKind::HEADERS) {
            let text = "only its headers are here".to_owned();
            steps.push(Step { what: "headers_only", passed: route.send.headers_only, text });
        }
        steps.extend(Guard::all(&route.send).iter().map(|guard| guard.explain(facts, &self.sites.own)));
        Some(steps)
    }

    /// The number of the peer of this name.
    pub fn number_of(&self, peer: &str) -> Option<u32> {
        self.sites.routes.iter().find(|route| route.name == peer).map(|route| route.number)
    }
}

/// The step on where the article came from.
fn from(facts: &Facts<'_>, route: &Route) -> Step {
    let is_own =
        facts.origin.strip_prefix(OF_PEER).is_some_and(|from| from.eq_ignore_ascii_case(&route.name));
    let (passed, text) = match facts.origin {
        IMPORTED => (false, "was imported from another server's spool".to_owned()),
        _ if is_own => (false, "came from this peer".to_owned()),
        "" => (true, "came from a source that is no longer recorded".to_owned()),
        "injected" => (true, "was posted here".to_owned()),
        origin => (true, format!("came from {origin}")),
    };
    Step { what: "origin", passed, text }
}

/// The decisions that hold now.
#[derive(Debug)]
pub struct Router {
    routes: ArcSwap<Routes>,
    /// Held while the matrix is rebuilt.
    building: Ordered<(), { rank::ROUTING }>,
    /// Peers of earlier configurations, as long as an article is decided by them.
    earlier: Leaf<Vec<Weak<Sites>>>,
}

impl Router {
    /// Without peers.
    pub fn new(table: Arc<GroupTable>) -> Self {
        let routes = Routes::new(table, Arc::default());
        Self { routes: ArcSwap::from_pointee(routes), building: Ordered::default(), earlier: Leaf::default() }
    }

    /// Decides by these peers from now on. Articles whose decision has begun keep theirs: see
    /// [`Router::is_settled`].
    pub fn replace(&self, site: &Site, routes: Vec<Route>, table: Arc<GroupTable>) {
        let _building = self.building.lock();
        let new = Routes::new(table, Arc::new(Sites::of(site, routes)));
        let old = self.routes.swap(Arc::new(new));
        self.earlier.lock().push(Arc::downgrade(&old.sites));
    }

    /// Whether no article is on its way any more that was decided by earlier peers.
    pub fn is_settled(&self) -> bool {
        let mut earlier = self.earlier.lock();
        earlier.retain(|sites| sites.strong_count() > 0);
        earlier.is_empty()
    }

    /// The decisions for these groups.
    pub fn routes(&self, table: &Arc<GroupTable>) -> Arc<Routes> {
        let routes = self.routes.load_full();
        if Arc::ptr_eq(&routes.table, table) {
            return routes;
        }
        let _building = self.building.lock();
        let routes = self.routes.load_full();
        if Arc::ptr_eq(&routes.table, table) {
            return routes;
        }
        let routes = Arc::new(Routes::new(table.clone(), routes.sites.clone()));
        self.routes.store(routes.clone());
        routes
    }
}

/// Sets a bit.
fn set(words: &mut [u64], bit: usize) {
    if let Some(word) = words.get_mut(bit / 64) {
        *word |= 1 << (bit % 64);
    }
}
