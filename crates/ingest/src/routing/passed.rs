//! Peers that have an article already, since their identity is in its Path.
//!
//! The identities of all peers are one table, with the peers from which each keeps an article; the entries
//! of a Path are looked up there. Most entries of a Path belong to sites we do not feed: a filter by length
//! and first letter avoids looking those up.

use super::facts::{PeerRoute, RoutingFacts, RoutingStep};
use super::matrix::set;
use hashbrown::HashMap;
use memchr::memchr_iter;
use netnews::path;

/// Longest identity that can be found, in bytes.
const IDENTITY_BYTES_MAX: usize = 255;

/// Table of the identities that keep articles from peers.
#[derive(Debug)]
pub(super) struct PathExclusions {
    words: usize,
    /// Peers by identity in lower case.
    peers: HashMap<Box<[u8]>, Box<[u64]>>,
    /// Bits for lengths by first letter, both modulo 64.
    filter: [u64; 64],
}

impl Default for PathExclusions {
    fn default() -> Self {
        Self::new(0)
    }
}

impl PathExclusions {
    pub fn new(words: usize) -> Self {
        Self { words, peers: HashMap::new(), filter: [0; 64] }
    }

    /// Excludes the peer with this number from articles that have passed `identity`.
    pub fn add(&mut self, identity: &[u8], peer: usize) {
        if !(1..=IDENTITY_BYTES_MAX).contains(&identity.len()) {
            return;
        }
        let lower: Box<[u8]> = identity.to_ascii_lowercase().into();
        if let Some(slot) = lower.first().and_then(|first| self.filter.get_mut(*first as usize % 64)) {
            *slot |= 1 << (lower.len() % 64);
        }
        let row = self.peers.entry(lower).or_insert_with(|| vec![0; self.words].into());
        set(row, peer);
    }

    /// Adds the peers whose identity is in a Path.
    pub fn exclude(&self, path: &[u8], never: &mut [u64]) {
        let mut start = 0;
        for end in memchr_iter(b'!', path) {
            let entry = path.get(start..end).unwrap_or_default();
            start = end + 1;
            // A fold may occur anywhere between two identities.
            for identity in entry.split(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')) {
                self.exclude_one(identity, never);
            }
        }
    }

    /// Adds the peers from which `identity` keeps an article.
    pub fn exclude_one(&self, identity: &[u8], never: &mut [u64]) {
        let Some(first) = identity.first().map(u8::to_ascii_lowercase) else { return };
        let lengths = self.filter.get(first as usize % 64).copied().unwrap_or(0);
        let mut lower = [0; IDENTITY_BYTES_MAX];
        let Some(lower) =
            lower.get_mut(..identity.len()).filter(|_| lengths >> (identity.len() % 64) & 1 == 1)
        else {
            return;
        };
        lower.copy_from_slice(identity);
        lower.make_ascii_lowercase();
        if let Some(peers) = self.peers.get(&*lower) {
            never.iter_mut().zip(peers).for_each(|(all, own)| *all |= own);
        }
    }

    /// Returns the step on Path.
    pub fn explain(&self, facts: &RoutingFacts<'_>, route: &PeerRoute) -> RoutingStep {
        let mut identities = std::iter::once(&route.name).chain(&route.send.path_never);
        let found = identities.find(|identity| path::contains_identity(facts.path, identity.as_bytes()));
        let text = match found {
            Some(identity) => format!("Path has {identity}"),
            None if route.send.path_never.is_empty() => format!("Path does not have {}", route.name),
            None => format!("Path has neither {} nor any of path_never", route.name),
        };
        RoutingStep { what: "path", passed: found.is_none(), text }
    }
}
