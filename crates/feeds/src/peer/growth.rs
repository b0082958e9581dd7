//! Decides when a peer gets another connection.
//!
//! A connection is added while more articles wait than the peer has settled since the last check, and
//! further ones if the peer then settles more than before. If it does not, the peer, the line or this
//! machine is at its limit, and connections would only compete. The same applies to quick peers while
//! processors are short; a peer whose answers are slow costs this machine next to nothing.

use site_base::back_off::BackOff;
use std::time::{Duration, Instant};

/// Interval for checking whether connections keep up.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// Pauses after connections that did not help.
const PAUSES: BackOff = BackOff::new(INTERVAL, Duration::from_secs(60));
/// Articles a second over one connection above which another one would mainly take processor time.
const QUICK_PER_S: u64 = 500;
/// Required gain of another connection, in percent of the most that it could bring...
const GAIN_PERCENT: u64 = 33;
/// ... and in percent of the whole.
const GAIN_PERCENT_MIN: u64 = 4;

/// State of a feed's connections at a check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLoad {
    /// Connections.
    pub open: usize,
    /// Articles that could be offered and are not.
    pub waiting: usize,
    /// Articles taken or refused by the peer since the feed began.
    pub settled: u64,
}

/// State of adding connections.
#[derive(Debug)]
pub(crate) struct ConnectionGrowth {
    /// Time when another may be added.
    pub after: Instant,
    /// Start of the measurement of `settled`.
    since: Instant,
    settled: u64,
    /// Articles a second, before the last connection was added.
    rate: u64,
    /// Connections in a row that did not help.
    useless: u32,
}

impl ConnectionGrowth {
    pub fn new(now: Instant) -> Self {
        Self { after: now, since: now, settled: 0, rate: 0, useless: 0 }
    }

    /// Records that the first connection is opened.
    pub fn begin(&mut self, now: Instant, settled: u64) {
        *self = Self { after: now + INTERVAL, since: now, settled, ..Self::new(now) };
    }

    /// Allows no further one before `pause` is over.
    pub fn wait(&mut self, now: Instant, pause: Duration) {
        self.after = now + pause.max(INTERVAL);
    }

    /// Returns whether to add one to the open connections. `is_busy` returns whether processors are short.
    pub fn adds(&mut self, now: Instant, look: ConnectionLoad, is_busy: impl FnOnce() -> bool) -> bool {
        let ConnectionLoad { open, waiting, settled } = look;
        let elapsed_ms =
            u64::try_from(now.saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX);
        let rate = settled.saturating_sub(self.settled).saturating_mul(1_000) / elapsed_ms.max(1);
        (self.since, self.settled) = (now, settled);
        self.after = now + INTERVAL;
        let keeps_up = waiting as u64 <= rate.saturating_mul(INTERVAL.as_millis() as u64) / 1_000;
        let is_quick = rate / open.max(1) as u64 >= QUICK_PER_S;
        if keeps_up || is_quick && is_busy() {
            return false;
        }
        let gain = (GAIN_PERCENT / (open as u64).saturating_sub(1).max(1)).max(GAIN_PERCENT_MIN);
        let helps = open < 2 || rate * 100 >= self.rate.saturating_mul(100 + gain);
        if helps {
            (self.rate, self.useless) = (rate, 0);
        } else {
            self.useless = self.useless.saturating_add(1);
        }
        self.after = now + PAUSES.exact(self.useless.saturating_add(1));
        helps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(open: usize, settled: u64) -> ConnectionLoad {
        ConnectionLoad { open, waiting: 100_000, settled }
    }

    #[test]
    fn connections_are_added_while_they_help() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut growth = ConnectionGrowth::new(begun);
        growth.begin(begun, 0);
        assert_eq!(growth.after, at(500));
        let mut adds = |ms, open, settled| growth.adds(at(ms), look(open, settled), || false);
        assert!(adds(500, 1, 500), "1,000 a second by one");
        assert!(adds(1_000, 2, 1_400), "1,800 a second by two");
        assert!(!adds(1_500, 3, 2_300), "no more by three");
        assert!(!adds(2_500, 3, 4_200), "nor later");
        assert_eq!(growth.after, at(4_500));
        let mut adds = |ms, open, settled| growth.adds(at(ms), look(open, settled), || false);
        assert!(adds(4_500, 3, 9_000), "2,400 a second: it takes more again");
        for second in 10..90 {
            adds(second * 1_000, 4, 9_000);
        }
        assert_eq!(growth.after, at(89_000) + PAUSES.longest());
        growth.begin(at(90_000), 9_000);
        assert_eq!(growth.after, at(90_500));
    }

    #[test]
    fn a_peer_that_keeps_up_gets_no_further_connection() {
        let begun = Instant::now();
        let mut growth = ConnectionGrowth::new(begun);
        growth.begin(begun, 0);
        let mut adds = |n: u32, waiting, settled| {
            growth.adds(begun + INTERVAL * n, ConnectionLoad { open: 1, waiting, settled }, || false)
        };
        assert!(!adds(1, 0, 0), "nothing waits");
        assert!(!adds(2, 100, 100), "what waits is settled within the next interval");
        assert!(adds(3, 101, 200));
        assert!(adds(4, 1, 200), "nothing is settled, and something waits");
    }

    #[test]
    fn only_quick_peers_wait_for_processors() {
        let begun = Instant::now();
        for (settled, adds) in [(25, true), (249, true), (250, false)] {
            let mut growth = ConnectionGrowth::new(begun);
            growth.begin(begun, 0);
            assert_eq!(growth.adds(begun + INTERVAL, look(1, settled), || true), adds, "{settled}");
        }
    }
}
