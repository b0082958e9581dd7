//! Latency histograms that many threads fill concurrently, without a lock.
//!
//! An observation costs two additions to memory that other threads rarely touch. Filled by `write::syncer`,
//! and by the server for its own operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_order::thread_number;

/// Upper bounds of the buckets, in microseconds; one more bucket follows the last bound.
const BOUNDS_MICROS: [u64; 22] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Number of stripes; with more threads than this, some share one.
const STRIPES: usize = 8;

/// Histogram of durations.
#[derive(Debug, Default)]
pub struct LatencyHistogram([Stripe; STRIPES]);

/// Counts of some of the threads; each stripe has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    buckets: [AtomicU64; BOUNDS_MICROS.len() + 1],
    sum_nanos: AtomicU64,
}

/// Counts of a [`LatencyHistogram`] at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyCounts {
    /// Upper bound of each bucket in seconds, the last one infinity, and the number of observations above the
    /// previous bound and up to this one.
    pub buckets: Vec<(f64, u64)>,
    /// Number of all observations.
    pub count: u64,
    /// Sum of all durations in seconds.
    pub sum_secs: f64,
}

impl LatencyHistogram {
    /// Records one duration.
    pub fn observe(&self, took: Duration) {
        self.observe_many(took, 1);
    }

    /// Records the same duration for `many` observations.
    pub fn observe_many(&self, took: Duration, many: usize) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| bound * 1_000 < nanos);
        let Some(stripe) = self.0.get(thread_number() % STRIPES) else { return };
        if let Some(bucket) = stripe.buckets.get(bucket) {
            bucket.fetch_add(many as u64, Ordering::Relaxed);
            stripe.sum_nanos.fetch_add(nanos.saturating_mul(many as u64), Ordering::Relaxed);
        }
    }

    /// Returns the counts so far.
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
        let latency = LatencyHistogram::default();
        for (micros, many) in [(0, 1), (10, 1), (11, 2), (1_000_000, 1), (10_000_001, 3)] {
            latency.observe_many(Duration::from_micros(micros), many);
        }
        // Any thread may count.
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
