//! What the server counts since its start; shown by `status`.

use crate::lock::Leaf;
use hashbrown::HashMap;
use spool::Latency;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the whole server.
#[derive(Debug, Default)]
pub struct Counters {
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
    pub try_later: AtomicU64,
    /// Connections of readers.
    pub readers_served: AtomicU64,
    /// Connections refused: unknown address or a limit.
    pub refused: AtomicU64,
    pub latencies: Latencies,
    /// Why articles were rejected, since somebody last took this.
    reasons: Leaf<HashMap<&'static str, u64>>,
    /// How often readers selected a group, likewise.
    selections: Leaf<HashMap<Box<str>, u64>>,
    /// By the peers' names.
    peers: Leaf<HashMap<Box<str>, Arc<PeerCounters>>>,
}

/// How long things took.
#[derive(Debug, Default)]
pub struct Latencies {
    /// From an article's arrival, whole, until it is filed or rejected; without waiting for the disk.
    pub filing: Latency,
    /// ARTICLE, from the command until the answer is with the socket or gathered for it.
    pub article: Latency,
    /// OVER and XOVER, likewise.
    pub over: Latency,
    /// From an accepted connection until the greeting can be said: judging the client, and TLS if it comes
    /// first.
    pub connecting: Latency,
}

/// Counts of one peer.
#[derive(Debug, Default)]
pub struct PeerCounters {
    pub offered: AtomicU64,
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
}

/// Groups of which selections are counted at once.
const SELECTIONS_MAX: usize = 20_000;

impl Counters {
    /// Counts articles that were rejected, by reason.
    pub fn reject(&self, reasons: impl Iterator<Item = &'static str>) {
        let mut counts = self.reasons.lock();
        reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    }

    /// Counts that a reader selected a group.
    pub fn select(&self, group: &[u8]) {
        let Ok(group) = std::str::from_utf8(group) else { return };
        let mut counts = self.selections.lock();
        if counts.len() < SELECTIONS_MAX || counts.contains_key(group) {
            *counts.entry_ref(group).or_default() += 1;
        }
    }

    /// Why articles were rejected since this was last taken.
    pub fn take_reasons(&self) -> HashMap<&'static str, u64> {
        std::mem::take(&mut *self.reasons.lock())
    }

    /// How often readers selected groups since this was last taken.
    pub fn take_selections(&self) -> HashMap<Box<str>, u64> {
        std::mem::take(&mut *self.selections.lock())
    }

    /// The counts of the peer of this name.
    pub fn of_peer(&self, name: &str) -> Arc<PeerCounters> {
        self.peers.lock().entry_ref(name).or_default().clone()
    }

    /// Forgets the counts of all peers but those that `is_kept` names.
    pub fn keep_peers(&self, is_kept: impl Fn(&str) -> bool) {
        self.peers.lock().retain(|name, _| is_kept(name));
    }
}

/// Adds `n`; counters are read one by one and need no order among them.
pub fn add(counter: &AtomicU64, n: usize) {
    if n > 0 {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// What `counter` stands at.
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
