//! Pauses between attempts that fail: doubled each time, up to a bound.
//!
//! Attempts are retried after such a pause give or take a quarter, so that those that failed together, at one
//! server, are not retried together. Where the pause is a rule for others, or is computed again at each look,
//! it is exact. Used by everything that tries again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The pauses after failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
}

impl BackOff {
    /// Pauses from `first` on, up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the longest pause.
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// Returns the pause after this many failures in a row, the first of which is 1, give or take a quarter.
    pub fn pause(self, failures: u32) -> Duration {
        self.varied(failures, RandomState::new().hash_one(failures))
    }

    /// Returns the pause after this many failures in a row, the first of which is 1.
    pub fn exact(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    fn varied(self, failures: u32, random: u64) -> Duration {
        let full = u64::try_from(self.exact(failures).as_millis()).unwrap_or(u64::MAX).max(1);
        // Between three and five quarters.
        Duration::from_millis((full - full / 4).saturating_add(random % (full / 2 + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_differ_by_a_quarter() {
        let back_off = BackOff::new(Duration::from_secs(1), Duration::from_secs(600));
        for (failures, full) in
            [(0, 1_000), (1, 1_000), (2, 2_000), (5, 16_000), (10, 512_000), (11, 600_000), (200, 600_000)]
        {
            assert_eq!(back_off.exact(failures), Duration::from_millis(full));
            for random in [0, 1, u64::MAX / 3, u64::MAX] {
                let pause = u64::try_from(back_off.varied(failures, random).as_millis()).unwrap();
                assert!((full * 3 / 4..=full * 5 / 4).contains(&pause), "{failures} {random}: {pause}");
            }
        }
        let pauses: std::collections::BTreeSet<_> = (0..50).map(|_| back_off.pause(5)).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
        assert_eq!(BackOff::new(Duration::MAX, Duration::MAX).exact(40), Duration::MAX);
    }
}
