//! Detects a busy incoming feed, which background work should leave the machine to.
//!
//! Used by background work: compressing overview, carrying out control messages.

use std::time::{Duration, Instant};

/// Growth of the journal from which a feed counts as busy: about 5,000 articles a second.
const BYTES_PER_SEC_MAX: u64 = 2 << 20;

/// Rate of incoming articles, measured by the growth of the journal.
#[derive(Debug)]
pub(crate) struct FeedRate {
    interval: Duration,
    position: u64,
    at: Instant,
    rages: bool,
}

impl FeedRate {
    /// `position` is that of the spool's ticket; the rate is measured over this interval.
    pub fn new(interval: Duration, position: u64, at: Instant) -> Self {
        Self { interval, position, at, rages: false }
    }

    /// Returns whether a feed was busy over the last interval.
    pub fn rages(&mut self, position: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        if passed >= self.interval {
            let grown = position.saturating_sub(self.position) as f64;
            self.rages = grown / passed.as_secs_f64() > BYTES_PER_SEC_MAX as f64;
            (self.position, self.at) = (position, now);
        }
        self.rages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feed_is_busy_by_growth_over_the_interval() {
        let start = Instant::now();
        let mut feed = FeedRate::new(Duration::from_secs(1), 1000, start);
        let after = |ms| start + Duration::from_millis(ms);
        assert!(!feed.rages(1000 + (64 << 20), after(500)), "not yet known");
        assert!(feed.rages(1000 + (64 << 20), after(1000)));
        assert!(feed.rages(1000 + (64 << 20), after(1900)), "until a second was quiet");
        assert!(!feed.rages(1000 + (65 << 20), after(2100)));
        assert!(!feed.rages(1000 + (66 << 20), after(3100)), "a busy site is no flood");
        assert!(!feed.rages(1000 + (66 << 20), after(60_000)));
        assert!(feed.rages(1000 + (66 << 20) + (90 << 20), after(90_000)));
    }
}
