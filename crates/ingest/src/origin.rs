//! Origin of articles: what the sender may send, and what is put before the Path.
//!
//! Created once per connection. Called by `relay`, `inject` and the control socket; read by `ingest`.
//! Source: RFC 5537 section 3.2.1.

use super::opinions::Opinion;
use netnews::article::xref_places;
use netnews::path::{self, PathDiagnostic};
use site_base::counters::PeerCounters;
use site_config::{Distributions, NamePattern, Peer};
use std::sync::Arc;

/// Origin of articles.
#[derive(Debug)]
pub struct Origin {
    name: Box<str>,
    /// Counters of the peer.
    counters: Option<Arc<PeerCounters>>,
    accepts: AcceptedGroups,
    /// Groups that a poster may read; `None`: all.
    reads: Option<NamePattern>,
    /// `None`: all that the site accepts.
    distributions: Option<Distributions>,
    /// `None`: the Path is complete already.
    prefix: Option<PathPrefix>,
    /// Name used in storage rules.
    for_rules: Box<str>,
    /// Opinion that already applies to all its articles, and the filter it is from.
    opinion: Opinion,
    judged_by: Box<str>,
    /// Whether articles may arrive without their bodies.
    headers: bool,
    /// Whether the operator releases its articles, whatever filters decide.
    released: bool,
}

/// Groups in which articles may be filed.
#[derive(Debug)]
enum AcceptedGroups {
    All,
    Matching(NamePattern),
    /// Groups by the names used in the article.
    These(Vec<Box<[u8]>>),
}

/// Prefix for the Path of a relayed article.
#[derive(Debug)]
pub(crate) struct PathPrefix {
    /// Path identities expected of the sender.
    expected: Vec<Box<[u8]>>,
    /// Prefix if the leftmost path identity is an expected one: `identity!!`.
    matched: Vec<u8>,
    /// Prefix if it is not.
    other: Vec<u8>,
}

impl PathPrefix {
    /// Returns the prefix for articles from a peer called `name` at `address`, with these path identities.
    /// Its name may be one of them but need not be; so with no identities configured, one that differs from
    /// the name is not a mismatch, only not verified.
    fn of_peer(identity: &str, name: &str, identities: &[String], address: &str) -> Self {
        let (mut matched, mut other) = (Vec::new(), Vec::new());
        let address = address.as_bytes();
        let differs = if identities.is_empty() {
            PathDiagnostic::Seen(address)
        } else {
            PathDiagnostic::Mismatch(address)
        };
        path::prefix(identity.as_bytes(), PathDiagnostic::Match, &mut matched);
        path::prefix(identity.as_bytes(), differs, &mut other);
        let expected = identities.iter().map(String::as_str).chain([name]);
        Self { expected: expected.map(|name| name.as_bytes().into()).collect(), matched, other }
    }

    /// Returns the prefix for articles whose last hop is not known.
    fn plain(identity: &str) -> Self {
        let mut other = Vec::new();
        path::prefix(identity.as_bytes(), PathDiagnostic::None, &mut other);
        Self { expected: Vec::new(), matched: other.clone(), other }
    }

    /// Returns the prefix for `path`.
    pub fn before(&self, path: &[u8]) -> &[u8] {
        let leftmost = path.split(|b| *b == b'!').next().unwrap_or_default();
        let is_one = self.expected.iter().any(|expected| leftmost.eq_ignore_ascii_case(expected));
        if is_one && leftmost.len() < path.len() { &self.matched } else { &self.other }
    }
}

impl AcceptedGroups {
    fn only(groups: &NamePattern) -> Self {
        if groups.as_str() == "*" { Self::All } else { Self::Matching(groups.clone()) }
    }
}

impl Origin {
    /// Returns the origin for a peer: our names in Path, its section of the configuration, its counters and
    /// its address.
    pub fn peer(identity: &str, peer: &Peer, counters: Arc<PeerCounters>, address: &str) -> Self {
        Self {
            counters: Some(counters),
            accepts: AcceptedGroups::only(&peer.accept),
            distributions: Some(peer.distributions.clone()),
            prefix: Some(PathPrefix::of_peer(identity, &peer.name, &peer.path_identities, address)),
            for_rules: format!("peer {}", peer.name).into(),
            ..Self::unlimited(&peer.name)
        }
    }

    /// Returns the origin for a batch submitted on this machine.
    pub fn batch(identity: &str) -> Self {
        let prefix = Some(PathPrefix::plain(identity));
        let for_rules = "rnews".into();
        Self { prefix, for_rules, ..Self::unlimited("batch") }
    }

    /// Returns the origin, restricted to articles of these groups.
    pub fn accepting(self, groups: &NamePattern) -> Self {
        Self { accepts: AcceptedGroups::only(groups), ..self }
    }

    /// Returns the origin for a server called `name` at `host`, from which articles of some groups are
    /// fetched.
    pub fn pulled(identity: &str, name: &str, host: &str, groups: &NamePattern) -> Self {
        let accepts = AcceptedGroups::only(groups);
        let prefix = Some(PathPrefix::of_peer(identity, host, &[], host));
        let for_rules = format!("pull {name}").into();
        Self { accepts, prefix, for_rules, ..Self::unlimited(name) }
    }

    /// Returns the origin for a reader who posts and may read these groups (`None`: all of them); the
    /// injecting agent has completed the article, including its Path, and allows it in `groups`.
    pub fn injected(address: &str, reads: Option<&NamePattern>, groups: Vec<Box<[u8]>>) -> Self {
        let accepts = AcceptedGroups::These(groups);
        Self { accepts, reads: reads.cloned(), for_rules: "injected".into(), ..Self::unlimited(address) }
    }

    /// Returns the origin for another server's spool on this machine: its articles were relayed already,
    /// and may have our own name in their Path.
    pub fn import() -> Self {
        Self::unlimited("import")
    }

    /// Returns the origin for articles that a filter set aside and the operator releases: they were
    /// received as `for_rules` states, their Path is complete, and they may be filed in `groups` (`None`:
    /// in all that they name).
    pub fn released(for_rules: &str, groups: Option<Vec<Box<[u8]>>>) -> Self {
        Self {
            accepts: groups.map_or(AcceptedGroups::All, AcceptedGroups::These),
            for_rules: for_rules.into(),
            headers: true,
            released: true,
            ..Self::unlimited("release")
        }
    }

    fn unlimited(name: &str) -> Self {
        Self {
            name: name.into(),
            counters: None,
            accepts: AcceptedGroups::All,
            reads: None,
            distributions: None,
            prefix: None,
            for_rules: name.into(),
            opinion: Opinion::Pass,
            judged_by: Box::default(),
            headers: false,
            released: false,
        }
    }

    /// Allows articles without their bodies.
    pub fn bring_headers(&mut self) {
        self.headers = true;
    }

    /// Returns whether articles may arrive without their bodies.
    pub fn brings_headers(&self) -> bool {
        self.headers
    }

    /// Returns the origin, with an opinion of the filter `by` that applies to all its articles.
    pub fn judged(self, opinion: Opinion, by: &str) -> Self {
        Self { opinion, judged_by: by.into(), ..self }
    }

    /// Returns the opinion that already applies to all its articles.
    pub(super) fn opinion(&self) -> &Opinion {
        &self.opinion
    }

    /// Returns the filter this opinion is from.
    pub(super) fn judged_by(&self) -> &str {
        &self.judged_by
    }

    /// Returns whether the operator releases its articles, whatever filters decide.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// Returns the name for the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name for storage rules: `peer NAME`, `pull NAME`, `injected`, `rnews` or `import`.
    pub fn for_rules(&self) -> &str {
        &self.for_rules
    }

    /// Returns the peer's counters.
    pub fn counters(&self) -> Option<&PeerCounters> {
        self.counters.as_deref()
    }

    /// Returns whether the sender may send to the group of this name.
    pub fn accepts(&self, group: &[u8]) -> bool {
        match &self.accepts {
            AcceptedGroups::All => true,
            AcceptedGroups::Matching(groups) => groups.matches(group),
            AcceptedGroups::These(names) => names.iter().any(|name| **name == *group),
        }
    }

    /// Returns the groups that the sender may read; `None`: all.
    pub fn reads(&self) -> Option<&NamePattern> {
        self.reads.as_ref()
    }

    /// Returns the distributions that the sender may send; `None`: all that the site accepts.
    pub fn distributions(&self) -> Option<&Distributions> {
        self.distributions.as_ref()
    }

    /// Returns whether our path identity in an article's Path means that the article has been here.
    pub fn checks_path(&self) -> bool {
        self.prefix.is_some()
    }

    /// Returns the prefix for `path`.
    pub fn before_path(&self, path: &[u8]) -> &[u8] {
        self.prefix.as_ref().map_or(&[], |prefix| prefix.before(path))
    }
}

/// Returns whether a reader of these groups may know of an article with these header lines, which begin
/// with its Xref.
pub(super) fn may_read(reads: Option<&NamePattern>, head: &[u8]) -> bool {
    reads.is_none_or(|reads| xref_places(head).any(|(group, _)| reads.matches(group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_verified_sender_gets_a_double_bang() {
        let peer = Peer {
            name: "Peer.example".into(),
            path_identities: Vec::new(),
            user: None,
            addresses: Vec::new(),
            certificate: Vec::new(),
            tls: site_config::PeerTls::Allow,
            accept: NamePattern::parse("*").unwrap(),
            distributions: Distributions::parse("*").unwrap(),
            max_connections: 1,
            streaming: true,
            xbatch: false,
            headers_only: false,
            send: None,
        };
        let origin = Origin::peer("me.example", &peer, Arc::default(), "192.0.2.1");
        for (path, before) in [
            (&b"peer.example!x!tail"[..], &b"me.example!!"[..]),
            (b"peer.example.net!x!tail", b"me.example!.SEEN.192.0.2.1!"),
            (b"x!peer.example!tail", b"me.example!.SEEN.192.0.2.1!"),
            (b"peer.example", b"me.example!.SEEN.192.0.2.1!"),
            (b"", b"me.example!.SEEN.192.0.2.1!"),
        ] {
            assert_eq!(origin.before_path(path), before);
        }
        let known = Peer { path_identities: vec!["feed.example".into()], ..peer.clone() };
        let known = Origin::peer("me.example", &known, Arc::default(), "192.0.2.1");
        for (path, before) in [
            (&b"Feed.example!x!tail"[..], &b"me.example!!"[..]),
            (b"peer.example!x!tail", b"me.example!!"),
            (b"other.example!feed.example!tail", b"me.example!.MISMATCH.192.0.2.1!"),
            (b"feed.example", b"me.example!.MISMATCH.192.0.2.1!"),
        ] {
            assert_eq!(known.before_path(path), before);
        }
        let two = Origin::peer("me.example!cluster.example", &peer, Arc::default(), "192.0.2.1");
        assert_eq!(two.before_path(b"peer.example!x!tail"), b"me.example!cluster.example!!");
        assert_eq!(two.before_path(b"x!tail"), b"me.example!cluster.example!.SEEN.192.0.2.1!");
        assert_eq!(Origin::batch("me.example").before_path(b"x!tail"), b"me.example!");
        assert_eq!(
            Origin::injected("192.0.2.1", Some(&NamePattern::parse("*").unwrap()), Vec::new())
                .before_path(b"x!tail"),
            b""
        );
    }
}
