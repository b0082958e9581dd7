//! Caps on the number of articles, or of their bytes, in a group; the newest stay.
//!
//! Newest means highest number. [`CapSearch`] finds the lowest number that may stay without sorting and in a
//! fixed amount of memory: it sums up by ranges of numbers, and narrows to the range in which the cap is
//! reached, so every article is examined a few times at most. Pure; driven by a pass of expiry
//! ([`crate::care::expire`]).

use crate::index::weights::GroupWeight;

/// Number of ranges for all searches of a pass together: 16 bytes each.
const RANGES: usize = 1 << 18;
/// Bounds on the number of ranges of one search.
const RANGES_MIN: usize = 16;
const RANGES_MAX: usize = 1 << 10;

/// Limits on the contents of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cap {
    pub articles: u64,
    pub bytes: u64,
}

impl Cap {
    /// No limits.
    pub const NONE: Self = Self { articles: u64::MAX, bytes: u64::MAX };

    /// Reports whether a weight is within the limits.
    pub fn holds(&self, weight: GroupWeight) -> bool {
        weight.articles <= self.articles && weight.bytes <= self.bytes
    }
}

/// Search for the lowest number of a group that may stay.
#[derive(Debug)]
pub(crate) struct CapSearch {
    cap: Cap,
    /// Range of candidate numbers.
    low: u64,
    high: u64,
    /// Weight of the numbers above the range.
    above: GroupWeight,
    ranges: Vec<GroupWeight>,
    /// Numbers in each range.
    width: u64,
}

impl CapSearch {
    /// Begins a search in a group with numbers from `low` to `high`; one of `searches` in a pass.
    pub fn new(cap: Cap, low: u64, high: u64, searches: usize) -> Self {
        let ranges = (RANGES / searches.max(1)).clamp(RANGES_MIN, RANGES_MAX);
        let ranges = vec![GroupWeight::default(); ranges];
        let mut new = Self { cap, low, high: high.max(low), above: GroupWeight::default(), ranges, width: 1 };
        new.begin();
        new
    }

    fn begin(&mut self) {
        self.ranges.fill(GroupWeight::default());
        self.width = ((self.high - self.low) / self.ranges.len() as u64) + 1;
    }

    /// Counts an article; each must be counted once before [`CapSearch::narrow`].
    pub fn add(&mut self, number: u64, bytes: u64) {
        if (self.low..=self.high).contains(&number)
            && let Some(range) = self.ranges.get_mut(((number - self.low) / self.width) as usize)
        {
            *range = range.and(GroupWeight { articles: 1, bytes });
        }
    }

    /// Returns the lowest number that may stay; `None`: all articles must be counted again.
    pub fn narrow(&mut self) -> Option<u64> {
        for (at, range) in self.ranges.iter().enumerate().rev() {
            let with = self.above.and(*range);
            if self.cap.holds(with) {
                self.above = with;
                continue;
            }
            self.low += at as u64 * self.width;
            self.high = self.high.min(self.low.saturating_add(self.width - 1));
            if self.low == self.high {
                return Some(self.low + 1);
            }
            self.begin();
            return None;
        }
        Some(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimRandom;

    /// Returns the numbers of the articles that fit, newest first.
    fn naive(articles: &[(u64, u64)], cap: Cap) -> Vec<u64> {
        let mut sorted = articles.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = GroupWeight::default();
        let fits = sorted.iter().take_while(|(_, bytes)| {
            sum = sum.and(GroupWeight { articles: 1, bytes: *bytes });
            cap.holds(sum)
        });
        fits.map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_newest_articles_stay_as_in_a_sorted_list() {
        let mut random = SimRandom::new(7);
        for round in 0..300u64 {
            let (count, spread) = (random.below(400), 1 + random.below(50));
            let mut number = random.below(1 << (round % 40));
            let articles: Vec<(u64, u64)> = (0..count)
                .map(|_| {
                    number += 1 + random.below(spread * spread);
                    (number, 1 + random.below(5000))
                })
                .collect();
            let cap = match round % 3 {
                0 => Cap { articles: random.below(300), ..Cap::NONE },
                1 => Cap { bytes: random.below(400_000), ..Cap::NONE },
                _ => Cap { articles: random.below(300), bytes: random.below(400_000) },
            };
            let (low, high) = (articles.first().map_or(1, |a| a.0), number);
            let mut search = CapSearch::new(cap, low, high, 1 << 20);
            let mut rounds = 0;
            let cut = loop {
                rounds += 1;
                assert!(rounds <= 16);
                // New articles in the meantime are above all others.
                articles.iter().chain(&[(high + 1, 7)]).for_each(|(n, bytes)| search.add(*n, *bytes));
                if let Some(cut) = search.narrow() {
                    break cut;
                }
            };
            let mut stay: Vec<u64> = articles.iter().map(|a| a.0).filter(|n| *n >= cut).collect();
            stay.reverse();
            assert_eq!(stay, naive(&articles, cap), "round {round}");
        }
    }

    #[test]
    fn the_search_ends_for_any_numbers() {
        for (low, high) in [(0, 0), (5, 3), (1, u64::MAX - 1), (u64::MAX - 9, u64::MAX - 1)] {
            let mut search = CapSearch::new(Cap { articles: 1, bytes: 10 }, low, high, 4);
            let cut = (0..20).find_map(|_| {
                [low, high, low, u64::MAX].into_iter().for_each(|n| search.add(n, 8));
                search.narrow()
            });
            assert!(cut.is_some(), "{low} {high}");
        }
    }
}
