//! A set of article numbers as runs of consecutive ones.
//!
//! Invariant: the runs are ascending and neither overlap nor touch. Called by `loaded`.

use std::ops::RangeInclusive;

use crate::base::record::{put_varint, take_varint};

/// Set of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NumberRuns(Vec<(u64, u64)>);

impl NumberRuns {
    /// Creates the set from an ascending list; numbers out of order are skipped.
    pub fn of(numbers: &[u64]) -> Self {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
                Some((_, last)) if *last >= *number => {}
                _ => runs.push((*number, *number)),
            }
        }
        Self(runs)
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.0.len()
    }

    /// Returns the index of the run that ends at or after a number.
    fn from(&self, number: u64) -> usize {
        self.0.partition_point(|(_, last)| *last < number)
    }

    pub fn contains(&self, number: u64) -> bool {
        self.0.get(self.from(number)).is_some_and(|(first, _)| *first <= number)
    }

    /// Returns the count of numbers in a range.
    pub fn count(&self, range: &RangeInclusive<u64>) -> u64 {
        self.pieces(range).map(|(first, last)| last - first + 1).sum()
    }

    /// Returns the parts of the runs that are in a range.
    pub fn pieces(&self, range: &RangeInclusive<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (start, end) = (*range.start(), *range.end());
        let rest = self.0.get(self.from(start)..).unwrap_or_default();
        let inside = rest.iter().take_while(move |(first, _)| *first <= end);
        inside.map(move |(first, last)| (*first.max(&start), *last.min(&end))).filter(|(a, b)| a <= b)
    }

    /// Returns the first number at or after this one.
    pub fn next(&self, number: u64) -> Option<u64> {
        self.0.get(self.from(number)).map(|(first, _)| *first.max(&number))
    }

    /// Returns the last number at or before this one.
    pub fn previous(&self, number: u64) -> Option<u64> {
        let at = self.0.partition_point(|(first, _)| *first <= number);
        self.0.get(at.checked_sub(1)?).map(|(_, last)| *last.min(&number))
    }

    /// Removes all numbers of a range.
    pub fn remove(&mut self, range: &RangeInclusive<u64>) {
        let (start, end) = (*range.start(), *range.end());
        if start > end {
            return;
        }
        let from = self.from(start);
        let to = self.0.partition_point(|(first, _)| *first <= end);
        if from >= to {
            return;
        }
        let before = self.0.get(from).filter(|run| run.0 < start).map(|run| (run.0, start - 1));
        let after = self.0.get(to - 1).filter(|run| run.1 > end).map(|run| (end + 1, run.1));
        self.0.splice(from..to, before.into_iter().chain(after));
    }

    /// Adds a range.
    pub fn insert(&mut self, range: &RangeInclusive<u64>) {
        let (mut start, mut end) = (*range.start(), *range.end());
        if start > end {
            return;
        }
        let from = self.from(start.saturating_sub(1));
        let to = self.0.partition_point(|(first, _)| *first <= end.saturating_add(1));
        if let Some(run) = self.0.get(from..to).and_then(|touched| touched.first()) {
            start = start.min(run.0);
        }
        if let Some(run) = self.0.get(from..to).and_then(|touched| touched.last()) {
            end = end.max(run.1);
        }
        self.0.splice(from..to.max(from), [(start, end)]);
    }

    /// Replaces the numbers in a range by those of another set.
    pub fn replace(&mut self, range: &RangeInclusive<u64>, with: &Self) {
        self.remove(range);
        for (first, last) in with.pieces(range).collect::<Vec<_>>() {
            self.insert(&(first..=last));
        }
    }

    /// Appends the encoded set: gaps and lengths as varints.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.0.len() as u64, out);
        let mut at = 0;
        for (first, last) in &self.0 {
            put_varint(first.wrapping_sub(at), out);
            put_varint(last - first, out);
            at = *last;
        }
    }

    /// Decodes the output of [`NumberRuns::put`].
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let count = usize::try_from(take_varint(bytes)?).ok().filter(|count| *count <= bytes.len() / 2)?;
        let mut runs: Vec<(u64, u64)> = Vec::with_capacity(count);
        let mut at = 0_u64;
        for _ in 0..count {
            let first = at.checked_add(take_varint(bytes)?)?;
            let last = first.checked_add(take_varint(bytes)?)?;
            // Runs that touch would be one run.
            if runs.last().is_some_and(|(_, before)| before.checked_add(1).is_none_or(|n| n >= first)) {
                return None;
            }
            runs.push((first, last));
            at = last;
        }
        Some(Self(runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn runs_are_like_a_set_of_numbers() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut runs, mut set) = (NumberRuns::default(), BTreeSet::new());
        for step in 0..3000 {
            let first = random(100);
            let range = first..=first + random(12);
            match random(3) {
                0 => {
                    runs.remove(&range);
                    set.retain(|n| !range.contains(n));
                }
                1 => {
                    runs.insert(&range);
                    set.extend(range.clone());
                }
                _ => {
                    let some: Vec<u64> = range.clone().filter(|_| random(2) == 0).collect();
                    runs.replace(&range, &NumberRuns::of(&some));
                    set.retain(|n| !range.contains(n));
                    set.extend(some);
                }
            }
            let all: Vec<u64> = set.iter().copied().collect();
            assert_eq!(runs, NumberRuns::of(&all), "step {step}");
            let n = random(115);
            assert_eq!(runs.contains(n), set.contains(&n));
            assert_eq!(runs.next(n), set.range(n..).next().copied());
            assert_eq!(runs.previous(n), set.range(..=n).next_back().copied());
            assert_eq!(runs.count(&range), set.range(range.clone()).count() as u64);
            let mut bytes = Vec::new();
            runs.put(&mut bytes);
            assert_eq!(NumberRuns::take(&mut bytes.as_slice()), Some(runs.clone()));
        }
    }

    #[test]
    fn runs_that_touch_or_overflow_are_rejected() {
        for bytes in [&[2_u8, 1, 0, 1, 0][..], &[9, 1], &[1, 255], &[]] {
            assert_eq!(NumberRuns::take(&mut &*bytes), None, "{bytes:?}");
        }
        let end = NumberRuns::of(&[u64::MAX - 1, u64::MAX]);
        assert_eq!(end.next(u64::MAX), Some(u64::MAX));
    }
}
