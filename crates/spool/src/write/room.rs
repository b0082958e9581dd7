//! Giving up articles to free space: when a class begins and when it stops (C News' expireiflow), and which
//! of its articles are removed.
//!
//! Giving up begins when less than `free_min` is left on the class's file system, and stops at a tenth more,
//! so that it does not begin again at once. The oldest are removed first, among those older than the minimum
//! that their rules promise. Pure; driven by a pass of expiry ([`crate::care::expire`]).

use spool_base::config::FreeMin;
use std::collections::BTreeMap;

/// Fraction of `free_min` that is freed in addition.
const MORE_PART: u64 = 10;
/// Length in seconds of a span whose arrivals are summed.
const SPAN_SECS: u64 = 600;

/// Space on a file system as seen by a class, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    pub free: u64,
    pub free_min: u64,
}

impl FreeSpace {
    /// Computes the space from a file system's values.
    pub fn new(free_min: FreeMin, free: u64, total: u64) -> Self {
        let part = |percent| u128::from(total) * u128::from(percent) / 100;
        let free_min = match free_min {
            FreeMin::Bytes(bytes) => bytes,
            FreeMin::Percent(percent) => u64::try_from(part(percent)).unwrap_or(u64::MAX),
        };
        Self { free, free_min }
    }

    /// Reports whether giving up must begin.
    pub fn is_short(&self) -> bool {
        self.free < self.free_min
    }

    /// Returns the bytes to be freed; 0: enough. `goes_on`: giving up has begun and not stopped yet.
    pub fn wanted(&self, goes_on: bool) -> u64 {
        let stop = self.free_min.saturating_add(self.free_min / MORE_PART);
        if self.is_short() || goes_on { stop.saturating_sub(self.free) } else { 0 }
    }
}

/// Bytes of the articles that may be given up, by their arrival.
#[derive(Debug, Default)]
pub(crate) struct GiveUpCandidates {
    spans: BTreeMap<u64, u64>,
}

impl GiveUpCandidates {
    /// Adds an article with this arrival (Unix seconds).
    pub fn add(&mut self, arrived: u64, bytes: u64) {
        *self.spans.entry(arrived / SPAN_SECS).or_default() += bytes;
    }

    /// Returns which articles are given up to free this many bytes, if they have as many.
    pub fn give_up(&self, wanted: u64) -> GiveUpSelection {
        let (mut sum, mut end) = (0u64, 0);
        for (span, bytes) in &self.spans {
            (end, sum) = ((span + 1) * SPAN_SECS, sum.saturating_add(*bytes));
            if sum >= wanted {
                let before = sum - bytes;
                return GiveUpSelection {
                    all_before: span * SPAN_SECS,
                    some_before: end,
                    left: wanted - before,
                };
            }
        }
        GiveUpSelection { all_before: end, some_before: end, left: 0 }
    }
}

/// Selection among the articles that may be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GiveUpSelection {
    /// Arrival before which all are given up (Unix seconds).
    all_before: u64,
    /// Arrival before which some of the others are given up: until `left` bytes are freed.
    some_before: u64,
    left: u64,
}

impl GiveUpSelection {
    /// Reports whether an article with this arrival is given up.
    pub fn takes(&self, arrived: u64) -> bool {
        arrived < self.all_before || arrived < self.some_before && self.left > 0
    }

    /// Records that an article was given up.
    pub fn took(&mut self, arrived: u64, bytes: u64) {
        if arrived >= self.all_before {
            self.left = self.left.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimRandom;

    #[test]
    fn giving_up_begins_below_the_minimum_and_stops_a_tenth_above() {
        let wanted = |free, goes_on| FreeSpace::new(FreeMin::Bytes(1000), free, 0).wanted(goes_on);
        assert_eq!((wanted(1000, false), wanted(999, false), wanted(0, false)), (0, 101, 1100));
        assert_eq!((wanted(1000, true), wanted(1099, true), wanted(1100, true)), (100, 1, 0));
        let room = FreeSpace::new(FreeMin::Percent(5), 40, 1000);
        assert_eq!((room.free_min, room.is_short(), room.wanted(false)), (50, true, 15));
        assert!(!FreeSpace::new(FreeMin::Bytes(u64::MAX), u64::MAX, 9).is_short());
        assert_eq!(FreeSpace::new(FreeMin::Percent(99), 0, u64::MAX).wanted(true), u64::MAX);
    }

    #[test]
    fn the_oldest_articles_are_given_up_and_no_more_than_wanted() {
        let mut random = SimRandom::new(11);
        for round in 0..200 {
            let count = random.below(300);
            let articles: Vec<(u64, u64)> =
                (0..count).map(|_| (random.below(50_000), 1 + random.below(900))).collect();
            let mut candidates = GiveUpCandidates::default();
            articles.iter().for_each(|(arrived, bytes)| candidates.add(*arrived, *bytes));
            let all: u64 = articles.iter().map(|a| a.1).sum();
            let wanted = random.below(all + all / 4 + 1);
            let mut give_up = candidates.give_up(wanted);
            let mut gone = Vec::new();
            for (arrived, bytes) in &articles {
                if give_up.takes(*arrived) {
                    give_up.took(*arrived, *bytes);
                    gone.push((*arrived, *bytes));
                }
            }
            let freed: u64 = gone.iter().map(|a| a.1).sum();
            // One article more than needed, at most.
            assert!(freed >= wanted.min(all) && freed < wanted + 900 || wanted == 0 && freed == 0, "{round}");
            let newest_gone = gone.iter().map(|a| a.0 / SPAN_SECS).max();
            let older = articles.iter().filter(|a| newest_gone.is_some_and(|span| a.0 / SPAN_SECS < span));
            assert!(older.clone().all(|a| gone.contains(a)), "{round}: an older one stayed");
        }
        assert!(!GiveUpCandidates::default().give_up(9).takes(0));
    }
}
