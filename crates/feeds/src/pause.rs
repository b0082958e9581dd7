//! Pauses between attempts: doubled each time, up to a bound, give or take a quarter, so that attempts that
//! failed together are not retried together.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time in Unix milliseconds, as deferrals outlive the process.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Returns the pause before attempt `tries` + 1, in milliseconds; `tries` is at least 1.
pub(super) fn pause_ms(first: Duration, longest: Duration, tries: u32) -> u64 {
    pause_with(first, longest, tries, RandomState::new().hash_one(tries))
}

fn pause_with(first: Duration, longest: Duration, tries: u32, random: u64) -> u64 {
    let (first, longest) = (first.as_millis() as u64, longest.as_millis() as u64);
    let doubled = 1_u64.checked_shl(tries.saturating_sub(1)).and_then(|factor| first.checked_mul(factor));
    let full = doubled.unwrap_or(longest).min(longest).max(1);
    // Between three and five quarters.
    full - full / 4 + random % (full / 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_differ_by_a_quarter() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(600));
        for (tries, full) in
            [(1, 1_000), (2, 2_000), (5, 16_000), (10, 512_000), (11, 600_000), (200, 600_000)]
        {
            for random in [0, 1, u64::MAX / 3, u64::MAX] {
                let pause = pause_with(first, longest, tries, random);
                assert!((full * 3 / 4..=full * 5 / 4).contains(&pause), "{tries} {random}: {pause}");
            }
        }
        let pauses: std::collections::BTreeSet<u64> = (0..50).map(|_| pause_ms(first, longest, 5)).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
    }
}
