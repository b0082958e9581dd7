//! Decides when indexing gives way to a feed.
//!
//! Indexing takes time, memory bandwidth and disk that a busy feed needs, whatever its priority. So it waits
//! while much arrives, but with a bounded delay, and the journal's claim must never be the reason why the
//! index is built again (decision 52). Called by `keeping`.

use crate::load::FeedRate;
use std::time::{Duration, Instant};

/// Interval over which the rate is measured.
const LOOK: Duration = Duration::from_millis(200);
/// Articles per second from which a feed counts as busy.
const BUSY_PER_S: u64 = 2_000;
/// Delay after which indexing no longer gives way, until it has caught up.
const LATE_MAX: Duration = Duration::from_secs(300);
/// Fraction of the journal's claim (one part of this many) beyond which it does not give way either.
const CLAIM_PARTS: u64 = 2;

/// Rate of arriving articles, and the delay of the index.
#[derive(Debug)]
pub(super) struct IndexingPace {
    feed: FeedRate,
    is_busy: bool,
    behind: Option<Instant>,
}

impl IndexingPace {
    /// `sequence` is the number of the next article.
    pub fn new(now: Instant, sequence: u64) -> Self {
        Self { feed: FeedRate::new(LOOK, BUSY_PER_S, sequence, now), is_busy: false, behind: None }
    }

    /// Updates the rate; `sequence` is the number of the next article now.
    pub fn look(&mut self, now: Instant, sequence: u64) {
        self.is_busy = self.feed.is_busy(sequence, now);
    }

    /// Records whether rows of the journal wait for the index.
    pub fn waits(&mut self, now: Instant, rows_wait: bool) {
        self.behind = rows_wait.then(|| self.behind.unwrap_or(now));
    }

    /// Returns since when rows have waited.
    pub fn behind(&self) -> Option<Instant> {
        self.behind
    }

    /// Returns whether the waiting rows, of `waiting_bytes`, may wait longer.
    pub fn gives_way(&self, now: Instant, waiting_bytes: u64, claim_bytes: u64) -> bool {
        let late = self.behind.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.is_busy && late < LATE_MAX && waiting_bytes < claim_bytes / CLAIM_PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexing_waits_for_a_busy_feed_with_a_limit() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = IndexingPace::new(start, 1_000);
        pace.look(at(100), 1_399);
        assert!(!pace.gives_way(at(100), 0, 100), "too soon to say");
        pace.look(at(110), 1_400);
        assert!(pace.gives_way(at(110), 0, 100), "more can only make it busier");
        pace.look(at(150), 1_400);
        assert!(pace.gives_way(at(150), 0, 100), "until the next look");
        pace.look(at(200), 1_780);
        pace.waits(at(200), true);
        assert!(pace.gives_way(at(200), 49, 100));
        assert!(!pace.gives_way(at(200), 50, 100), "the journal's claim is half used");
        pace.waits(at(900), true);
        assert_eq!(pace.behind(), Some(at(200)), "since it began");
        assert!(pace.gives_way(at(300_199), 0, 100) && !pace.gives_way(at(300_200), 0, 100), "late");
        pace.waits(at(300_300), false);
        assert!(pace.behind().is_none() && pace.gives_way(at(300_300), 0, 100), "it has caught up");
        pace.look(at(1_200), 3_399);
        assert!(!pace.gives_way(at(1_200), 0, 100), "1,999 in a second");
    }
}
