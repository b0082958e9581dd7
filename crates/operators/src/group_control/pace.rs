//! Limit on the share of the time spent on control messages.

use std::time::{Duration, Instant};

/// A share of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeShare {
    /// Work takes one of this many parts of the time.
    parts: u32,
    /// Work that may be done in excess, at once.
    burst: Duration,
}

impl TimeShare {
    /// Share while a feed comes in.
    pub const BESIDE_A_FEED: Self = Self { parts: 250, burst: Duration::from_millis(4) };
    /// Share at all other times.
    pub const ALONE: Self = Self { parts: 20, burst: Duration::from_millis(200) };
}

/// Limits work to a share of the time.
#[derive(Debug)]
pub(super) struct WorkPace {
    /// Time at which the work done so far would have been done at that rate; `None` for no limit.
    even_at: Option<Instant>,
}

impl WorkPace {
    pub fn new(now: Instant) -> Self {
        Self { even_at: Some(now) }
    }

    /// Returns a pace without limit.
    #[cfg(test)]
    pub fn of_all() -> Self {
        Self { even_at: None }
    }

    /// Accounts for work done.
    pub fn worked(&mut self, work: Duration, share: TimeShare) {
        if let Some(even_at) = &mut self.even_at {
            *even_at += work.saturating_mul(share.parts);
        }
    }

    /// Returns how long to rest before the next piece.
    pub fn rest(&mut self, now: Instant, share: TimeShare) -> Duration {
        let Some(even_at) = &mut self.even_at else { return Duration::ZERO };
        *even_at = (*even_at).max(now);
        (*even_at - now).saturating_sub(share.burst.saturating_mul(share.parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_takes_its_share_of_the_time_after_a_burst() {
        for share in [TimeShare::ALONE, TimeShare::BESIDE_A_FEED] {
            let begun = Instant::now();
            let (mut pace, mut now, piece) = (WorkPace::new(begun), begun, share.burst / 20);
            let mut worked = Duration::ZERO;
            for n in 0..1_000 {
                let rest = pace.rest(now, share);
                assert!(n > 20 || rest.is_zero(), "{n}: {rest:?}");
                now += rest + piece;
                worked += piece;
                pace.worked(piece, share);
            }
            let part = (worked - share.burst).as_secs_f64() / (now - begun).as_secs_f64();
            let parts = f64::from(share.parts);
            assert!((0.95 / parts..=1.05 / parts).contains(&part), "{part}");
            now += Duration::from_secs(3_600);
            assert!(pace.rest(now, share).is_zero(), "what is not used is not saved up");
            pace.worked(share.burst * 2, share);
            assert!(!pace.rest(now, share).is_zero());
        }
    }

    #[test]
    fn burst_is_compensated_when_a_feed_begins() {
        let now = Instant::now();
        let mut pace = WorkPace::new(now);
        pace.worked(TimeShare::ALONE.burst, TimeShare::ALONE);
        assert!(pace.rest(now, TimeShare::ALONE).is_zero());
        assert!(pace.rest(now, TimeShare::BESIDE_A_FEED) >= Duration::from_secs(1));
    }
}
