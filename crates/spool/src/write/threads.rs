//! Arrival of the newest article of each thread, in a fixed amount of memory.
//!
//! A table of arrivals in which each thread has [`PLACES`] slots. Two threads may share some of them, so the
//! result is never too early: at worst an article stays for as long as another thread lives, which with
//! [`SLOTS_PER_ENTRY`] happens to fewer than one in a thousand. Built from the lists of retained articles by
//! a pass of expiry that needs it; no article and no overview is read.

/// Number of slots of a thread in the table.
const PLACES: u64 = 4;
/// Slots per article; there are fewer threads than articles.
const SLOTS_PER_ENTRY: u64 = 16;
/// Maximum number of slots, of four bytes each: 64 MiB.
const SLOTS_MAX: u64 = 1 << 24;
/// Minimum number of slots.
const SLOTS_MIN: u64 = 1 << 10;

/// Table of arrivals.
#[derive(Debug)]
pub(crate) struct ThreadArrivals {
    slots: Vec<u32>,
}

impl ThreadArrivals {
    /// Creates a table for this many articles.
    pub fn new(entries: u64) -> Self {
        let slots = entries.saturating_mul(SLOTS_PER_ENTRY).clamp(SLOTS_MIN, SLOTS_MAX);
        Self { slots: vec![0; slots.next_power_of_two() as usize] }
    }

    fn places(&self, thread: u64) -> impl Iterator<Item = usize> + use<> {
        let (first, step, mask) = (thread, thread >> 32 | 1, self.slots.len() as u64 - 1);
        (0..PLACES).map(move |n| (first.wrapping_add(n.wrapping_mul(step)) & mask) as usize)
    }

    /// Adds an article: its thread ([`crate::index::kept::thread_of`]) and its arrival (Unix seconds).
    pub fn add(&mut self, thread: u64, arrived: u32) {
        for at in self.places(thread) {
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = arrived.max(*slot);
            }
        }
    }

    /// Returns the arrival of the newest article of a thread (Unix seconds), or a later time; 0 if it has
    /// none.
    pub fn newest(&self, thread: u64) -> u32 {
        self.places(thread).filter_map(|at| self.slots.get(at).copied()).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimRandom;
    use std::collections::HashMap;

    #[test]
    fn threads_are_never_reported_older_and_rarely_younger() {
        let mut random = SimRandom::new(3);
        for (articles, threads_max) in [(0u64, 1), (100, 10), (50_000, 50_000), (50_000, 9_000)] {
            let names: Vec<u64> = (0..threads_max).map(|_| random.below(u64::MAX)).collect();
            let mut exact: HashMap<u64, u32> = HashMap::new();
            let mut table = ThreadArrivals::new(articles);
            for _ in 0..articles {
                let thread = names[random.below(threads_max) as usize];
                let arrived = 1 + random.below(1 << 30) as u32;
                table.add(thread, arrived);
                let newest = exact.entry(thread).or_default();
                *newest = arrived.max(*newest);
            }
            let mut later = 0;
            for thread in &names {
                let (is, said) = (exact.get(thread).copied().unwrap_or(0), table.newest(*thread));
                assert!(said >= is);
                later += u64::from(said > is);
            }
            assert!(later * 1000 <= threads_max, "{later} of {threads_max}");
        }
    }
}
