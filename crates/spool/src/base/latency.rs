//! How long something took: a histogram that many threads fill at once, without a lock.
//!
//! An observation costs two additions to memory that other threads mostly leave alone. Filled by
//! `write::syncer`, and by the server for what takes its time there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_order::thread_number;

/// Upper bounds of the buckets, in microseconds; beyond the last there is one more.
const BOUNDS_MICROS: [u64; 22] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// More threads than this share.
const STRIPES: usize = 8;

/// How long something took, how often.
#[derive(Debug, Default)]
pub struct Latency([Stripe; STRIPES]);

/// What some of the threads counted; no two of them in one line of the processor's cache.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    buckets: [AtomicU64; BOUNDS_MICROS.len() + 1],
    sum_nanos: AtomicU64,
}

/// What a [`Latency`] had counted.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyCounts {
    /// For each bucket its upper bound in seconds, the last of them infinity, and how many took that long and
    /// longer than the bound before.
    pub buckets: Vec<(f64, u64)>,
    /// All of them.
    pub count: u64,
    /// Seconds that they took together.
    pub sum_secs: f64,
}

impl Latency {
    /// Something took so long.
    pub fn observe(&self, took: Duration) {
        self.observe_many(took, 1);
    }

    /// So many took so long, each.
    pub fn observe_many(&self, took: Duration, many: usize) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| bound * 1_000 < nanos);
        let Some(stripe) = self.0.get(thread_number() % STRIPES) else { return };
        if let Some(bucket) = stripe.buckets.get(bucket) {
            bucket.fetch_add(many as u64, Ordering::Relaxed);
            stripe.sum_nanos.fetch_add(nanos.saturating_mul(many as u64), Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> LatencyCounts {
        let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let count_of = |bucket: usize| -> u64 {
            let counts = self.0.iter().filter_map(|stripe| stripe.buckets.get(bucket));
            counts.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let buckets: Vec<(f64, u64)> = (0..).zip(bounds).map(|(at, bound)| (bound, count_of(at))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let nanos = self.0.iter().map(|stripe| u128::from(stripe.sum_nanos.load(Ordering::Relaxed)));
        LatencyCounts { buckets, count, sum_secs: nanos.sum::<u128>() as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_falls_into_the_first_bucket_that_holds_it() {
        let latency = Latency::default();
        for (micros, many) in [(0, 1), (10, 1), (11, 2), (1_000_000, 1), (10_000_001, 3)] {
            latency.observe_many(Duration::from_micros(micros), many);
        }
        // Of whichever thread.
        let observe = || latency.observe(Duration::from_nanos(1_001));
        std::thread::scope(|scope| scope.spawn(observe).join().unwrap());
        let counts = latency.counts();
        let filled: Vec<_> = counts.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(1e-6, 1), (2e-6, 1), (1e-5, 1), (2.5e-5, 2), (1.0, 1), (f64::INFINITY, 3)]);
        assert_eq!(counts.count, 9);
        assert!((counts.sum_secs - 31.000_036).abs() < 1e-6, "{}", counts.sum_secs);
        assert!(counts.buckets.is_sorted_by(|a, b| a.0 < b.0));
    }
}
