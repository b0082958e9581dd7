//! Counters of the server since its start, shown by `status`.

use crate::lock::Leaf;
use hashbrown::HashMap;
use spool::LatencyHistogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the whole server.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Articles accepted.
    pub accepted: AtomicU64,
    /// Articles rejected.
    pub rejected: AtomicU64,
    /// Articles that the sender was asked to send again later.
    pub try_later: AtomicU64,
    /// Connections of readers.
    pub readers_served: AtomicU64,
    /// Connections refused: unknown address or a limit.
    pub refused: AtomicU64,
    /// Overview rows read for pages of groups and threads.
    pub page_rows: AtomicU64,
    /// Durations of the main operations.
    pub latencies: Latencies,
    /// Reasons for rejections since they were last taken.
    reasons: Leaf<HashMap<&'static str, u64>>,
    /// Selections of groups by readers since they were last taken.
    selections: Leaf<HashMap<Box<str>, u64>>,
    /// Counters of peers, by name.
    peers: Leaf<HashMap<Box<str>, Arc<PeerCounters>>>,
}

/// Durations of the main operations.
#[derive(Debug, Default)]
pub struct Latencies {
    /// From the arrival of a whole article until it is filed or rejected, without waiting for the disk.
    pub filing: LatencyHistogram,
    /// ARTICLE, from the command until the answer is in the socket or in the output buffer.
    pub article: LatencyHistogram,
    /// OVER and XOVER, likewise.
    pub over: LatencyHistogram,
    /// From an accepted connection until the greeting can be sent: checking the client, and TLS if it comes
    /// first.
    pub connecting: LatencyHistogram,
}

/// Counts of one peer.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Articles that it offered or sent.
    pub offered: AtomicU64,
    /// Articles accepted from it.
    pub accepted: AtomicU64,
    /// Articles from it that were rejected.
    pub rejected: AtomicU64,
}

/// Groups whose selections are counted at once.
const SELECTIONS_MAX: usize = 20_000;

impl ServerCounters {
    /// Counts rejected articles, by reason.
    pub fn reject(&self, reasons: impl Iterator<Item = &'static str>) {
        let mut counts = self.reasons.lock();
        reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    }

    /// Counts the selection of a group by a reader.
    pub fn select(&self, group: &[u8]) {
        let Ok(group) = std::str::from_utf8(group) else { return };
        let mut counts = self.selections.lock();
        if counts.len() < SELECTIONS_MAX || counts.contains_key(group) {
            *counts.entry_ref(group).or_default() += 1;
        }
    }

    /// Returns the reasons for rejections since the last call.
    pub fn take_reasons(&self) -> HashMap<&'static str, u64> {
        std::mem::take(&mut *self.reasons.lock())
    }

    /// Returns the selections of groups by readers since the last call.
    pub fn take_selections(&self) -> HashMap<Box<str>, u64> {
        std::mem::take(&mut *self.selections.lock())
    }

    /// Returns the counters of the peer of this name.
    pub fn of_peer(&self, name: &str) -> Arc<PeerCounters> {
        self.peers.lock().entry_ref(name).or_default().clone()
    }

    /// Drops the counters of all peers except those for which `is_kept` returns true.
    pub fn keep_peers(&self, is_kept: impl Fn(&str) -> bool) {
        self.peers.lock().retain(|name, _| is_kept(name));
    }
}

/// Adds `n`. Counters are read one by one and need no order among them.
pub fn add(counter: &AtomicU64, n: usize) {
    if n > 0 {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Reads a counter.
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
