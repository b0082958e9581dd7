//! Counts of recent occurrences, for as many keys as fit into a table of fixed size.
//!
//! Counts of the hour before are halved, and older ones fade. If a row of the table is full, the entry with
//! the lowest count is replaced.

/// Rows of the table: a power of two.
const ROWS: usize = 1 << 14;
/// Entries per row.
const ROW_ENTRIES: usize = 8;
/// Interval, in seconds, after which counts are halved.
const PERIOD_SECS: u64 = 3_600;

/// A counted key.
#[derive(Debug, Clone, Copy, Default)]
struct DecayingCount {
    key: u64,
    period: u32,
    count: u32,
}

impl DecayingCount {
    /// Returns its count at this time.
    fn at(&self, period: u32) -> u32 {
        self.count.checked_shr(period.saturating_sub(self.period)).unwrap_or(0)
    }
}

/// The table: 2 MiB.
#[derive(Debug)]
pub(super) struct DecayingCounts(Vec<[DecayingCount; ROW_ENTRIES]>);

impl Default for DecayingCounts {
    fn default() -> Self {
        Self(vec![Default::default(); ROWS])
    }
}

impl DecayingCounts {
    /// Counts an occurrence at this time, in Unix seconds; returns the recent count.
    pub fn add(&mut self, key: u64, now: u64) -> u32 {
        let period = u32::try_from(now / PERIOD_SECS).unwrap_or(u32::MAX);
        let Some(row) = self.0.get_mut(key as usize % ROWS) else { return 0 };
        let own = row.iter().position(|counted| counted.key == key);
        let at = own.or_else(|| (0..ROW_ENTRIES).min_by_key(|at| row.get(*at).map(|entry| entry.at(period))));
        let Some(entry) = at.and_then(|at| row.get_mut(at)) else { return 0 };
        let before = if entry.key == key { entry.at(period) } else { 0 };
        *entry = DecayingCount { key, period, count: before.saturating_add(1) };
        entry.count
    }
}

/// Returns a hash of some bytes: FNV-1a, mixed. Keys that collide are counted together.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    mixed(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| step(hash, *byte)))
}

/// Hashes one more byte.
fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

/// Spreads a hash over all bits (the finalizer of SplitMix64).
pub(super) fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_fade_and_frequent_keys_stay() {
        let mut counts = DecayingCounts::default();
        let mut add = |key, now| counts.add(key, now);
        assert_eq!((1..=10).map(|_| add(7, 0)).last(), Some(10));
        assert_eq!(add(7, 3_600), 6);
        assert_eq!(add(7, 3_600 * 3), 2);
        assert_eq!(add(7, u64::MAX), 1);
        // Others of the same row do not displace it.
        assert_eq!((1..=10).map(|_| add(9, 0)).last(), Some(10));
        (1..1_000).for_each(|n| assert_eq!(add(9 + n * ROWS as u64, 0), 1));
        assert_eq!(add(9, 0), 11);
    }
}
