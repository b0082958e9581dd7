//! Keeps peers that get the same articles in step, so that each article is read once for all.
//!
//! The articles read last are kept for other peers, within bounds ([`super::articles`]). If processors are
//! short, peers whose tasks share a busy thread could fall behind by more than that, and all articles would
//! be read again for them. A connection that is ahead therefore pauses, so that slower ones can still send
//! the kept articles, provided that they could continue at once. A connection that waits for its peer, or is
//! already too far behind, delays no other.

use site_base::lock::Leaf;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Positions of the connections that have more to send than one turn allows.
#[derive(Debug, Default)]
pub(crate) struct ReadyPositions {
    /// Positions in the journal, by connection number.
    ready: Leaf<BTreeMap<u64, u64>>,
    next: AtomicU64,
}

impl ReadyPositions {
    /// Registers a connection, until the value is dropped.
    pub fn place(&self) -> FeedPosition<'_> {
        FeedPosition { all: self, number: self.next.fetch_add(1, Ordering::Relaxed), is_ready: false }
    }
}

/// Position of one connection.
#[derive(Debug)]
pub(crate) struct FeedPosition<'a> {
    all: &'a ReadyPositions,
    number: u64,
    is_ready: bool,
}

impl FeedPosition<'_> {
    /// Records that the connection has more to send than its turn allows, and has reached `position`. Returns
    /// true if others should catch up first: they are in `older`, the older half of the kept articles, and
    /// this one is not.
    pub fn is_ahead(&mut self, position: u64, older: Range<u64>) -> bool {
        self.is_ready = true;
        let mut ready = self.all.ready.lock();
        ready.insert(self.number, position);
        position >= older.end && ready.values().any(|other| older.contains(other))
    }

    /// Records that the connection waits for its peer, or has nothing to send.
    pub fn waits(&mut self) {
        if std::mem::take(&mut self.is_ready) {
            self.all.ready.lock().remove(&self.number);
        }
    }
}

impl Drop for FeedPosition<'_> {
    fn drop(&mut self) {
        self.waits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_ahead_waits_for_ready_ones_about_to_miss_kept_articles() {
        let all = ReadyPositions::default();
        let (mut first, mut second) = (all.place(), all.place());
        let older = 100..200;
        assert!(!first.is_ahead(300, older.clone()), "alone");
        assert!(!second.is_ahead(150, older.clone()), "it is behind itself");
        assert!(first.is_ahead(300, older.clone()));
        assert!(!first.is_ahead(199, older.clone()), "both are behind");
        assert!(
            !second.is_ahead(99, older.clone()) && !first.is_ahead(300, older.clone()),
            "too late for it"
        );
        assert!(!second.is_ahead(200, older.clone()) && !first.is_ahead(300, older.clone()), "close enough");
        assert!(!second.is_ahead(150, older.clone()) && first.is_ahead(300, older.clone()));
        second.waits();
        assert!(!first.is_ahead(300, older.clone()), "it waits for its peer");
        assert!(!second.is_ahead(150, older.clone()) && first.is_ahead(300, older.clone()));
        drop(second);
        assert!(!first.is_ahead(300, older), "it has ended");
    }
}
