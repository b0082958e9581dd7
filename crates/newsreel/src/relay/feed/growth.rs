//! When a peer is worth one more connection.
//!
//! Where articles pile up a connection is added, and kept at if the peer then takes more than before. If it
//! does not, the peer, the line or this machine is at its limit, and connections would only compete.

use std::time::{Duration, Instant};

/// Between two connections that are opened since those there cannot keep up.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);
/// The longest pause after connections that did not help.
const LONGEST: Duration = Duration::from_secs(60);
/// What the peer must take more, in hundredths.
const GAIN_PERCENT: u64 = 10;

/// What came of adding connections.
#[derive(Debug)]
pub(super) struct Growth {
    /// When another may be added.
    pub after: Instant,
    /// Since when `accepted` is counted from.
    since: Instant,
    accepted: u64,
    /// Articles a second, before the last connection was added.
    rate: u64,
    pause: Duration,
}

impl Growth {
    pub fn new(now: Instant) -> Self {
        Self { after: now, since: now, accepted: 0, rate: 0, pause: INTERVAL }
    }

    /// The first connection is opened.
    pub fn begin(&mut self, now: Instant, accepted: u64) {
        *self = Self { after: now + INTERVAL, since: now, accepted, ..Self::new(now) };
    }

    /// No further one before `pause` is over.
    pub fn wait(&mut self, now: Instant, pause: Duration) {
        self.after = now + pause.max(INTERVAL);
    }

    /// Whether to add one to the `open` ones, now that articles pile up and `accepted` were taken in all.
    pub fn adds(&mut self, now: Instant, open: usize, accepted: u64) -> bool {
        let elapsed_ms =
            u64::try_from(now.saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX);
        let rate = accepted.saturating_sub(self.accepted).saturating_mul(1_000) / elapsed_ms.max(1);
        let helps = open < 2 || rate * 100 >= self.rate.saturating_mul(100 + GAIN_PERCENT);
        (self.since, self.accepted) = (now, accepted);
        if helps {
            (self.rate, self.pause) = (rate, INTERVAL);
        } else {
            self.pause = (self.pause * 2).min(LONGEST);
        }
        self.after = now + self.pause;
        helps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_added_as_long_as_they_help() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut growth = Growth::new(begun);
        growth.begin(begun, 0);
        assert_eq!(growth.after, at(500));
        assert!(growth.adds(at(500), 1, 500), "1,000 a second by one");
        assert!(growth.adds(at(1_000), 2, 1_400), "1,800 a second by two");
        assert!(!growth.adds(at(1_500), 3, 2_300), "no more by three");
        assert_eq!(growth.after, at(2_500));
        assert!(!growth.adds(at(2_500), 3, 4_200), "nor later");
        assert_eq!(growth.after, at(4_500));
        assert!(growth.adds(at(4_500), 3, 9_000), "2,400 a second: it takes more again");
        assert_eq!(growth.after, at(5_000));
        for second in 10..90 {
            growth.adds(at(second * 1_000), 4, 9_000);
        }
        assert_eq!(growth.after, at(89_000) + LONGEST);
        growth.begin(at(90_000), 9_000);
        assert_eq!(growth.after, at(90_500));
    }
}
