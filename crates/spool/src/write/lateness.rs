//! Age of the oldest bytes that no sync has made durable, and its limit with `durability = "interval(T)"`.
//!
//! The promise is that a power cut loses at most what arrived within T. The next sync therefore begins early
//! enough to end within T of the oldest article it covers, judging by the duration of the latest ones; if
//! that article reaches age T nevertheless, the writer waits. Checked for each part of a batch: the clock is
//! read only if there is a limit, and for the first write after a sync began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest time between a write and the timed sync that follows it.
const DELAY_MIN: Duration = Duration::from_millis(1);

/// Ages of unsynced writes. Times are microseconds since `start`, at least 1; 0 means none.
#[derive(Debug)]
pub(crate) struct UnsyncedAge {
    start: Instant,
    /// Time of the first write that a current sync, if any, does not cover.
    oldest: AtomicU64,
    /// Time of the first write that the current sync makes durable.
    in_sync: AtomicU64,
    /// Expected duration of a sync.
    sync_micros: AtomicU64,
}

/// Start of a sync.
#[derive(Debug)]
pub(crate) struct SyncStart(u64);

impl UnsyncedAge {
    /// Creates the state in which nothing was written.
    pub fn new() -> Self {
        let [oldest, in_sync, sync_micros] = [const { AtomicU64::new(0) }; 3];
        Self { start: Instant::now(), oldest, in_sync, sync_micros }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// Records a write; returns true if it is the first since a sync began.
    pub fn wrote(&self) -> bool {
        let first = self.oldest.load(Ordering::Relaxed) == 0;
        if first {
            self.oldest.store(self.now(), Ordering::Release);
        }
        first
    }

    /// Returns the delay from the first write to the start of the sync, for writes to be durable within the
    /// limit. If a sync is expected to take longer than the limit, it begins only at the limit, so that it
    /// covers as many writes as possible.
    pub fn delay(&self, limit: Duration) -> Duration {
        let early = match Duration::from_micros(self.sync_micros.load(Ordering::Relaxed)) {
            // The duration of a sync is not known yet.
            Duration::ZERO => limit / 2,
            expected if expected < limit => (expected + expected / 4).min(limit / 2),
            _ => Duration::ZERO,
        };
        (limit - early).max(DELAY_MIN)
    }

    /// Reports whether a current sync makes the oldest write durable.
    pub fn is_being_synced(&self) -> bool {
        self.in_sync.load(Ordering::Acquire) != 0
    }

    /// Reports whether the oldest write that is not durable has reached the limit.
    pub fn is_late(&self, limit: Duration) -> bool {
        let first = [&self.in_sync, &self.oldest].map(|age| age.load(Ordering::Acquire));
        let first = first.into_iter().find(|age| *age != 0);
        first.is_some_and(|first| u128::from(self.now().saturating_sub(first)) >= limit.as_micros())
    }

    /// Begins a sync, which makes all earlier writes durable.
    pub fn begin(&self) -> SyncStart {
        let oldest = self.oldest.swap(0, Ordering::AcqRel);
        if self.in_sync.load(Ordering::Acquire) == 0 {
            self.in_sync.store(oldest, Ordering::Release);
        }
        SyncStart(self.now())
    }

    /// Ends a sync: writes before its start are durable. `worked`: there was something to sync.
    pub fn end(&self, begun: SyncStart, worked: bool) {
        self.in_sync.store(0, Ordering::Release);
        if worked {
            // A stall costs more than an extra sync: a long sync is expected to recur for a while.
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
        let (limit, ages) = (Duration::from_millis(100), UnsyncedAge::new());
        for (took_ms, delay_ms) in [(0, 50), (4, 95), (20, 75), (80, 50), (150, 100)] {
            ages.sync_micros.store(took_ms * 1000, Ordering::Relaxed);
            assert_eq!(ages.delay(limit), Duration::from_millis(delay_ms), "{took_ms}");
        }
    }

    #[test]
    fn a_write_that_a_sync_does_not_cover_keeps_its_age() {
        let (limit, ages) = (Duration::ZERO, UnsyncedAge::new());
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
