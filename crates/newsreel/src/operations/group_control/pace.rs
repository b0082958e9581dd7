//! How much of the time may be spent.

use std::time::{Duration, Instant};

/// Work that control messages may do at once.
pub(super) const BURST: Duration = Duration::from_millis(200);
/// Time in which a share of it may be done again.
const PARTS: u32 = 100;

/// Work is one of [`PARTS`] parts of the time, beyond what may be done at once.
#[derive(Debug)]
pub(super) struct Pace {
    /// When all that was done would have been done at that rate.
    even_at: Instant,
    burst: Duration,
}

impl Pace {
    /// `burst`: work that may be done at once.
    pub fn new(now: Instant, burst: Duration) -> Self {
        Self { even_at: now, burst }
    }

    /// So much work was done.
    pub fn worked(&mut self, work: Duration) {
        self.even_at += work.saturating_mul(PARTS);
    }

    /// How long to rest before the next piece.
    pub fn rest(&mut self, now: Instant) -> Duration {
        self.even_at = self.even_at.max(now);
        (self.even_at - now).saturating_sub(self.burst.saturating_mul(PARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_takes_a_hundredth_of_the_time_after_the_first_moment() {
        let begun = Instant::now();
        let (mut pace, mut now, piece) = (Pace::new(begun, BURST), begun, Duration::from_millis(10));
        let mut worked = Duration::ZERO;
        for n in 0..1_000 {
            let rest = pace.rest(now);
            assert!(n > 20 || rest.is_zero(), "{n}: {rest:?}");
            now += rest + piece;
            worked += piece;
            pace.worked(piece);
        }
        let share = (worked - BURST).as_secs_f64() / (now - begun).as_secs_f64();
        assert!((0.0095..=0.0102).contains(&share), "{share}");
        now += Duration::from_secs(3_600);
        assert!(pace.rest(now).is_zero(), "what is not used is not saved up");
        pace.worked(BURST * 2);
        assert!(!pace.rest(now).is_zero());
    }
}
