//! What the server counts since its start; shown by `status`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the whole server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
    pub try_later: AtomicU64,
    /// Connections of readers.
    pub readers_served: AtomicU64,
    /// Connections turned away: unknown address or a limit.
    pub turned_away: AtomicU64,
    /// One per peer, in the configuration's order.
    pub peers: Box<[PeerCounters]>,
}

/// Counts of one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerCounters {
    pub offered: AtomicU64,
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
}

impl Counters {
    pub fn new(peers: usize) -> Self {
        Self { peers: (0..peers).map(|_| PeerCounters::default()).collect(), ..Self::default() }
    }
}

/// Adds `n`; counters are read one by one and need no order among them.
pub(crate) fn add(counter: &AtomicU64, n: usize) {
    if n > 0 {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// What `counter` stands at.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
