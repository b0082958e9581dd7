//! Inputs of a routing decision, the facts of an article and the peers, and the steps that explain it.
//!
//! Read by all of `routing`; made by `ingest` and `feeds`.

use netnews::{Article, Known, newsgroups};
use site_config::{Config, Peer, PeerSend};
use spool::ArticleKind;

/// Most groups of an article examined.
pub(super) const NAMES_MAX: usize = 250;

/// Facts of an article needed for the decision.
#[derive(Debug, Clone, Copy)]
pub struct RoutingFacts<'a> {
    /// Message-ID of the article; empty if it has none.
    pub message_id: &'a [u8],
    /// Value of its Newsgroups header.
    pub newsgroups: &'a [u8],
    /// Value of its Path header, with or without our own names in front.
    pub path: &'a [u8],
    /// Value of its Distribution header; empty without one.
    pub distribution: &'a [u8],
    /// Origin as in the journal: `peer NAME`, `injected`, `rnews` or `import`.
    pub origin: &'a str,
    /// Kind of article, as in the journal.
    pub kind: ArticleKind,
    /// Length of the article as sent to peers.
    pub wire_bytes: u64,
    /// The article in wire format, with or without our own names in its Path.
    pub wire: &'a [u8],
    /// Offset of the body in `wire`.
    pub body_offset: usize,
}

impl<'a> RoutingFacts<'a> {
    /// Returns the facts of a stored article.
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

    /// Returns the groups of its Newsgroups header that are examined.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'a [u8]> {
        newsgroups::split(self.newsgroups).take(NAMES_MAX)
    }
}

/// A peer to which articles are sent.
#[derive(Debug, Clone)]
pub struct PeerRoute {
    /// Number of the peer in journal rows.
    pub number: u32,
    /// Name of the peer in the configuration.
    pub name: String,
    /// Settings for sending to it.
    pub send: PeerSend,
}

impl PeerRoute {
    /// Returns the peers of a configuration to which articles are sent, with the numbers returned by
    /// `number`.
    pub fn all<E>(config: &Config, number: impl Fn(&str) -> Result<u32, E>) -> Result<Vec<Self>, E> {
        let route = |peer: &Peer| {
            let send = peer.send.clone()?;
            Some(number(&peer.name).map(|number| Self { number, name: peer.name.clone(), send }))
        };
        config.peers.iter().filter_map(route).collect()
    }

    /// Returns those of the peers that have a number by `number`.
    pub fn known(config: &Config, number: impl Fn(&str) -> Option<u32>) -> Vec<Self> {
        let route = |peer: &Peer| {
            let send = peer.send.clone()?;
            Some(Self { number: number(&peer.name)?, name: peer.name.clone(), send })
        };
        config.peers.iter().filter_map(route).collect()
    }
}

/// One step of a decision, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingStep {
    /// Configuration key it follows.
    pub what: &'static str,
    /// Whether the article passed the test.
    pub passed: bool,
    /// Explanation for the operator.
    pub text: String,
}
