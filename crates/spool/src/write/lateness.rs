//! How old the oldest bytes are that no sync has made durable, and what `durability = "interval(T)"` makes of
//! it.
//!
//! The promise is that a power cut loses at most what arrived within T. So the next sync begins early enough
//! to end within T of the oldest article it takes along, judging by how long the latest ones took; and once
//! that article is T old all the same, the writer waits. Checked for each part of a batch: the clock is read
//! only where there is a limit, and for the first write after a sync began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest time between a write and the sync by time that follows it.
const DELAY_MIN: Duration = Duration::from_millis(1);

/// Times are microseconds since `start`, at least 1; 0 means none.
#[derive(Debug)]
pub(crate) struct Ages {
    start: Instant,
    /// The first write that the sync under way, if there is one, does not make durable.
    oldest: AtomicU64,
    /// The first write that the sync under way makes durable.
    in_sync: AtomicU64,
    /// How long a sync is expected to take.
    sync_micros: AtomicU64,
}

/// When a sync began.
#[derive(Debug)]
pub(crate) struct Begun(u64);

impl Ages {
    /// Nothing was written.
    pub fn new() -> Self {
        let [oldest, in_sync, sync_micros] = [const { AtomicU64::new(0) }; 3];
        Self { start: Instant::now(), oldest, in_sync, sync_micros }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// Something was written; true if it is the first since a sync began.
    pub fn wrote(&self) -> bool {
        let first = self.oldest.load(Ordering::Relaxed) == 0;
        if first {
            self.oldest.store(self.now(), Ordering::Release);
        }
        first
    }

    /// How long after the first write the sync begins, for writes to be durable within the limit. A disk that
    /// needs longer than that is at work least often if everything that may be is there when it begins.
    pub fn delay(&self, limit: Duration) -> Duration {
        let early = match Duration::from_micros(self.sync_micros.load(Ordering::Relaxed)) {
            // Nothing is known of the disk.
            Duration::ZERO => limit / 2,
            expected if expected < limit => (expected + expected / 4).min(limit / 2),
            _ => Duration::ZERO,
        };
        (limit - early).max(DELAY_MIN)
    }

    /// Whether a sync is under way that makes the oldest write durable.
    pub fn is_being_synced(&self) -> bool {
        self.in_sync.load(Ordering::Acquire) != 0
    }

    /// Whether the oldest write that is not durable has reached the limit.
    pub fn is_late(&self, limit: Duration) -> bool {
        let first = [&self.in_sync, &self.oldest].map(|age| age.load(Ordering::Acquire));
        let first = first.into_iter().find(|age| *age != 0);
        first.is_some_and(|first| u128::from(self.now().saturating_sub(first)) >= limit.as_micros())
    }

    /// A sync begins, which makes durable what is written by now.
    pub fn begin(&self) -> Begun {
        let oldest = self.oldest.swap(0, Ordering::AcqRel);
        if self.in_sync.load(Ordering::Acquire) == 0 {
            self.in_sync.store(oldest, Ordering::Release);
        }
        Begun(self.now())
    }

    /// It is through: what was written before it began is durable. `worked`: there was something to sync.
    pub fn end(&self, begun: Begun, worked: bool) {
        self.in_sync.store(0, Ordering::Release);
        if worked {
            // A stall costs more than a sync too many: one long sync is expected to come again for a while.
            let expected = self.sync_micros.load(Ordering::Relaxed) / 8 * 7;
            self.sync_micros.store(expected.max(self.now() - begun.0), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_begins_early_enough_to_end_in_time() {
        let (limit, ages) = (Duration::from_millis(100), Ages::new());
        for (took_ms, delay_ms) in [(0, 50), (4, 95), (20, 75), (80, 50), (150, 100)] {
            ages.sync_micros.store(took_ms * 1000, Ordering::Relaxed);
            assert_eq!(ages.delay(limit), Duration::from_millis(delay_ms), "{took_ms}");
        }
    }

    #[test]
    fn what_a_sync_does_not_take_along_keeps_its_age() {
        let (limit, ages) = (Duration::ZERO, Ages::new());
        assert!(!ages.is_late(limit));
        assert!(ages.wrote() && !ages.wrote());
        assert!(ages.is_late(limit));
        let begun = ages.begin();
        assert!(ages.is_late(limit));
        assert!(ages.wrote());
        ages.end(begun, true);
        assert!(ages.is_late(limit));
        let begun = ages.begin();
        ages.end(begun, true);
        assert!(!ages.is_late(limit));
    }
}
