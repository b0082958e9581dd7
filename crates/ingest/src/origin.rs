//! Where an article comes from: what the sender may send, and what is put before its Path.
//!
//! Made once per connection. Called by `relay`, `inject`, the control socket; read by `ingest`. Source: RFC
//! 5537 section 3.2.1.

use super::filters::Opinion;
use netnews::article::xref_places;
use netnews::path::{self, Diagnostic};
use site_base::counters::PeerCounters;
use site_config::{Distributions, Groups, Peer};
use std::sync::Arc;

/// Where articles come from.
#[derive(Debug)]
pub struct Origin {
    name: Box<str>,
    /// A peer's counts.
    counters: Option<Arc<PeerCounters>>,
    accepts: Accepts,
    /// Groups that a poster may read; `None`: all.
    reads: Option<Groups>,
    /// `None`: all that the site accepts.
    distributions: Option<Distributions>,
    /// `None`: the Path is complete already.
    prefix: Option<PathPrefix>,
    /// As storage rules know it.
    for_rules: Box<str>,
    /// What has been said of all its articles already, and by which filter.
    opinion: Opinion,
    judged_by: Box<str>,
    /// Articles may come without their bodies.
    headers: bool,
    /// The operator lets its articles in, whatever filters say.
    released: bool,
}

/// The groups that articles may be filed in.
#[derive(Debug)]
enum Accepts {
    All,
    Matching(Groups),
    /// By the names that the article has for them.
    These(Vec<Box<[u8]>>),
}

/// What is put before the Path of a relayed article.
#[derive(Debug)]
pub(crate) struct PathPrefix {
    /// The path identities expected of the sender.
    expected: Vec<Box<[u8]>>,
    /// When the leftmost path identity is that one: `identity!!`.
    matched: Vec<u8>,
    /// When it is not.
    other: Vec<u8>,
}

impl PathPrefix {
    /// For articles from a peer called `name` at `address`, which has these path identities. Its name may,
    /// but need not be one; so without others an identity that is not its name is no mismatch, only not
    /// verified.
    fn of_peer(identity: &str, name: &str, identities: &[String], address: &str) -> Self {
        let (mut matched, mut other) = (Vec::new(), Vec::new());
        let address = address.as_bytes();
        let differs =
            if identities.is_empty() { Diagnostic::Seen(address) } else { Diagnostic::Mismatch(address) };
        path::prefix(identity.as_bytes(), Diagnostic::Match, &mut matched);
        path::prefix(identity.as_bytes(), differs, &mut other);
        let expected = identities.iter().map(String::as_str).chain([name]);
        Self { expected: expected.map(|name| name.as_bytes().into()).collect(), matched, other }
    }

    /// For articles whose last station is not known.
    fn plain(identity: &str) -> Self {
        let mut other = Vec::new();
        path::prefix(identity.as_bytes(), Diagnostic::None, &mut other);
        Self { expected: Vec::new(), matched: other.clone(), other }
    }

    /// What goes before `path`.
    pub fn before(&self, path: &[u8]) -> &[u8] {
        let leftmost = path.split(|b| *b == b'!').next().unwrap_or_default();
        let is_one = self.expected.iter().any(|expected| leftmost.eq_ignore_ascii_case(expected));
        if is_one && leftmost.len() < path.len() { &self.matched } else { &self.other }
    }
}

impl Accepts {
    fn only(groups: &Groups) -> Self {
        if groups.as_str() == "*" { Self::All } else { Self::Matching(groups.clone()) }
    }
}

impl Origin {
    /// A peer: our names in Path, its section of the configuration, its counts, where it connects from.
    pub fn peer(identity: &str, peer: &Peer, counters: Arc<PeerCounters>, address: &str) -> Self {
        Self {
            counters: Some(counters),
            accepts: Accepts::only(&peer.accept),
            distributions: Some(peer.distributions.clone()),
            prefix: Some(PathPrefix::of_peer(identity, &peer.name, &peer.path_identities, address)),
            for_rules: format!("peer {}", peer.name).into(),
            ..Self::unlimited(&peer.name)
        }
    }

    /// A batch handed in on this machine.
    pub fn batch(identity: &str) -> Self {
        let prefix = Some(PathPrefix::plain(identity));
        let for_rules = "rnews".into();
        Self { prefix, for_rules, ..Self::unlimited("batch") }
    }

    /// The same, of whose articles these groups are taken.
    pub fn accepting(self, groups: &Groups) -> Self {
        Self { accepts: Accepts::only(groups), ..self }
    }

    /// A server called `name` at `host`, from which articles of some groups are fetched.
    pub fn pulled(identity: &str, name: &str, host: &str, groups: &Groups) -> Self {
        let accepts = Accepts::only(groups);
        let prefix = Some(PathPrefix::of_peer(identity, host, &[], host));
        let for_rules = format!("pull {name}").into();
        Self { accepts, prefix, for_rules, ..Self::unlimited(name) }
    }

    /// A reader who posts and may read these groups (`None`: all of them); the injecting agent has completed
    /// the article, its Path too, and allows it in `groups`.
    pub fn injected(address: &str, reads: Option<&Groups>, groups: Vec<Box<[u8]>>) -> Self {
        let accepts = Accepts::These(groups);
        Self { accepts, reads: reads.cloned(), for_rules: "injected".into(), ..Self::unlimited(address) }
    }

    /// Another server's spool on this machine: what it holds was relayed already, and may well have our own
    /// name in its Path.
    pub fn import() -> Self {
        Self::unlimited("import")
    }

    /// What a filter had set aside and the operator lets in: it came as `for_rules` says, its Path is
    /// complete, and it may be filed in `groups` (`None`: in all that it names).
    pub fn released(for_rules: &str, groups: Option<Vec<Box<[u8]>>>) -> Self {
        Self {
            accepts: groups.map_or(Accepts::All, Accepts::These),
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
            accepts: Accepts::All,
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

    /// From now on articles may come without their bodies.
    pub fn bring_headers(&mut self) {
        self.headers = true;
    }

    /// Whether articles may come without their bodies.
    pub fn brings_headers(&self) -> bool {
        self.headers
    }

    /// The same, of whose articles the filter `by` has said this already.
    pub fn judged(self, opinion: Opinion, by: &str) -> Self {
        Self { opinion, judged_by: by.into(), ..self }
    }

    /// What has been said of all its articles already.
    pub(super) fn opinion(&self) -> &Opinion {
        &self.opinion
    }

    /// The filter that has said it.
    pub(super) fn judged_by(&self) -> &str {
        &self.judged_by
    }

    /// Whether the operator lets its articles in, whatever filters say.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// For the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As storage rules know it: `peer NAME`, `pull NAME`, `injected`, `rnews` or `import`.
    pub fn for_rules(&self) -> &str {
        &self.for_rules
    }

    /// The peer's counts.
    pub fn counters(&self) -> Option<&PeerCounters> {
        self.counters.as_deref()
    }

    /// Whether the sender may send to the group that an article names so.
    pub fn accepts(&self, group: &[u8]) -> bool {
        match &self.accepts {
            Accepts::All => true,
            Accepts::Matching(groups) => groups.matches(group),
            Accepts::These(names) => names.iter().any(|name| **name == *group),
        }
    }

    /// The groups that the sender may read; `None`: all.
    pub fn reads(&self) -> Option<&Groups> {
        self.reads.as_ref()
    }

    /// The distributions that the sender may send; `None`: all that the site accepts.
    pub fn distributions(&self) -> Option<&Distributions> {
        self.distributions.as_ref()
    }

    /// Whether an article with our path identity in its Path has been here.
    pub fn checks_path(&self) -> bool {
        self.prefix.is_some()
    }

    /// What goes before `path`.
    pub fn before_path(&self, path: &[u8]) -> &[u8] {
        self.prefix.as_ref().map_or(&[], |prefix| prefix.before(path))
    }
}

/// Whether who reads these groups may know of an article with these header lines, which begin with its Xref.
pub(super) fn may_read(reads: Option<&Groups>, head: &[u8]) -> bool {
    reads.is_none_or(|reads| xref_places(head).any(|(group, _)| reads.matches(group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verified_sender_gives_a_double_bang() {
        let peer = Peer {
            name: "Peer.example".into(),
            path_identities: Vec::new(),
            user: None,
            addresses: Vec::new(),
            certificate: Vec::new(),
            tls: site_config::PeerTls::Allow,
            accept: Groups::parse("*").unwrap(),
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
            Origin::injected("192.0.2.1", Some(&Groups::parse("*").unwrap()), Vec::new())
                .before_path(b"x!tail"),
            b""
        );
    }
}
