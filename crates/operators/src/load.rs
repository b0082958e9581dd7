//! Background work leaves the machine to a feed: whether one is busy, and how long the work rests.
//!
//! Used by all background work of this crate: compressing overview, carrying out control messages, indexing,
//! reading for the mount.

use std::time::{Duration, Instant};

/// Growth of the journal from which a feed counts as busy: about 5,000 articles a second.
const JOURNAL_BYTES_PER_S: u64 = 2 << 20;

/// Rate of incoming articles, measured by a count that grows with them.
#[derive(Debug)]
pub(crate) struct FeedRate {
    interval: Duration,
    busy_per_s: u64,
    count: u64,
    at: Instant,
    is_busy: bool,
}

impl FeedRate {
    /// Measures a count, now `count`, over this interval. The feed is busy if it grows by so much a second.
    pub fn new(interval: Duration, busy_per_s: u64, count: u64, at: Instant) -> Self {
        Self { interval, busy_per_s, count, at, is_busy: false }
    }

    /// Measures the position of the spool's ticket over this interval.
    pub fn of_journal(interval: Duration, position: u64, at: Instant) -> Self {
        Self::new(interval, JOURNAL_BYTES_PER_S, position, at)
    }

    /// Returns whether a feed was busy over the last interval, or is already in this one.
    pub fn is_busy(&mut self, count: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        let grown = u128::from(count.saturating_sub(self.count)) * 1_000;
        let is_much = |span: Duration| grown >= u128::from(self.busy_per_s) * span.as_millis();
        if passed >= self.interval || is_much(self.interval) {
            self.is_busy = is_much(passed);
            (self.count, self.at) = (count, now);
        }
        self.is_busy
    }
}

/// A share of the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeShare {
    /// Work takes one of this many parts of the time.
    parts: u32,
    /// Work that may be done in excess, at once.
    burst: Duration,
}

impl TimeShare {
    /// Share of work that has time.
    pub const TENTH: Self = Self { parts: 10, burst: Duration::ZERO };
    /// Share of control messages while a feed comes in.
    pub const BESIDE_A_FEED: Self = Self { parts: 250, burst: Duration::from_millis(4) };
    /// Share of control messages at all other times.
    pub const ALONE: Self = Self { parts: 20, burst: Duration::from_millis(200) };
}

/// Limits work to a share of the time.
#[derive(Debug)]
pub(crate) struct WorkPace {
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
    fn feed_is_busy_by_growth_over_the_interval() {
        let start = Instant::now();
        let mut feed = FeedRate::of_journal(Duration::from_secs(1), 1000, start);
        let after = |ms| start + Duration::from_millis(ms);
        assert!(!feed.is_busy(1000 + (1 << 20), after(100)), "not yet known");
        assert!(feed.is_busy(1000 + (64 << 20), after(600)), "more can only make it busier");
        assert!(feed.is_busy(1000 + (64 << 20), after(1500)), "until a second was quiet");
        assert!(!feed.is_busy(1000 + (65 << 20), after(1700)));
        assert!(!feed.is_busy(1000 + (66 << 20), after(2700)), "a busy site is no flood");
        assert!(!feed.is_busy(1000 + (66 << 20), after(60_000)));
        assert!(feed.is_busy(1000 + (66 << 20) + (90 << 20), after(90_000)));
    }

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

    #[test]
    fn work_without_a_burst_rests_nine_times_as_long_as_it_took() {
        let (begun, took) = (Instant::now(), Duration::from_millis(20));
        let mut pace = WorkPace::new(begun);
        for n in 0..3 {
            let begun = begun + took * 10 * n;
            pace.worked(took, TimeShare::TENTH);
            assert_eq!(pace.rest(begun + took, TimeShare::TENTH), took * 9);
        }
    }
}
