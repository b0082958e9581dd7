//! The simulator: results of each strategy for recorded requests of readers, at many sizes.
//!
//! The strategies are those of the store. [`RemovalUnit::Articles`] is the comparison of the paper, which
//! removes single articles. [`RemovalUnit::Files`] simulates the store with its own bookkeeping, where one
//! file has many small articles. Called by `newsreel cache simulate`. Source: section 4.1 of the NewsCache
//! paper.

#[cfg(any(test, feature = "testing"))]
pub mod made;
mod nnrpd;
mod replay;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::atomic::{AtomicUsize, Ordering};

use lock_order::Innermost;

use crate::strategy::StrategyKind;
pub use trace::{Trace, TraceArticle, TraceRequest};

/// Number of sizes that are simulated by default.
const SIZES: usize = 12;

/// Unit of removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemovalUnit {
    /// One article, as in the paper.
    Articles,
    /// One file, as in the store.
    #[default]
    Files,
}

/// Result of one strategy at one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulationPoint {
    /// The strategy.
    pub strategy: StrategyKind,
    /// The size of the cache.
    pub size_bytes: u64,
    /// Requests for articles.
    pub requests: u64,
    /// Requests that the cache answered.
    pub hits: u64,
    /// Bytes requested.
    pub asked_bytes: u64,
    /// Bytes that came from upstream.
    pub upstream_bytes: u64,
}

impl SimulationPoint {
    /// Returns the hits as a share of the requests.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.requests as f64).max(1.0)
    }

    /// Returns the bytes from upstream as a share of those requested.
    pub fn upstream_part(&self) -> f64 {
        self.upstream_bytes as f64 / (self.asked_bytes as f64).max(1.0)
    }
}

/// Returns sizes from a hundredth of all articles of a trace to all of them, in equal factors.
pub fn sizes_for(trace: &Trace) -> Vec<u64> {
    let all = trace.article_bytes().max(1) as f64;
    let size = |n: usize| all * 100_f64.powf(n as f64 / (SIZES - 1) as f64 - 1.0);
    (0..SIZES).map(|n| size(n).round() as u64).collect()
}

/// Replays a trace for all these strategies and sizes, on all processors. `progress` is called with the
/// number of finished ones. The points are in the order of the strategies, then of the sizes.
pub fn simulate(
    trace: &Trace,
    strategies: &[StrategyKind],
    sizes: &[u64],
    units: RemovalUnit,
    progress: impl Fn(u64) + Sync,
) -> Vec<SimulationPoint> {
    let pairs = strategies.iter().flat_map(|strategy| sizes.iter().map(move |size| (*strategy, *size)));
    let work: Vec<(StrategyKind, u64)> = pairs.collect();
    let points = Innermost::new(vec![None; work.len()]);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(work.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((strategy, size)) = work.get(at).copied() else { break };
                    let point = replay::replay(trace, strategy, size, units);
                    if let Some(place) = points.lock().get_mut(at) {
                        *place = Some(point);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
                }
            });
        }
    });
    points.into_inner().into_iter().flatten().collect()
}
