//! Shown numbers of a group: all living ones but those of hidden articles (`docs/hiding.md`).
//!
//! Invariant: each hidden number is a living one.

use super::{GroupState, LiveSet};
use spool_base::digest::of_number;
use spool_base::key::ArticleKey;
use std::ops::RangeInclusive;

/// Numbers of hidden articles. Most groups never have any.
#[derive(Debug, Clone, Default)]
pub(crate) struct HiddenNumbers(Option<Box<LiveSet>>);

impl HiddenNumbers {
    pub fn contains(&self, number: u64) -> bool {
        self.0.as_ref().is_some_and(|numbers| numbers.contains(number))
    }

    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |numbers| numbers.count())
    }

    /// Returns how many hidden numbers are greater than `number`.
    pub fn count_above(&self, number: u64) -> u64 {
        self.0.as_ref().map_or(0, |numbers| numbers.count_behind(number))
    }

    fn any_in(&self, range: &RangeInclusive<u64>) -> bool {
        let first = self.0.as_ref().and_then(|numbers| numbers.at_or_after(*range.start()));
        first.is_some_and(|first| first <= *range.end())
    }

    fn insert(&mut self, number: u64) -> bool {
        self.0.get_or_insert_default().insert(number)
    }

    fn remove(&mut self, number: u64) -> bool {
        let Some(numbers) = &mut self.0 else { return false };
        let removed = numbers.remove(number);
        if numbers.count() == 0 {
            self.0 = None;
        }
        removed
    }
}

impl GroupState {
    /// Removes a number whose article has ended; returns false if it did not live.
    pub fn end(&mut self, number: u64) -> bool {
        if !self.live.remove(number) {
            return false;
        }
        self.hidden.remove(number);
        self.overview.died(number);
        true
    }

    /// Like [`GroupState::end`], for a number of this article.
    pub fn end_of(&mut self, number: u64, key: ArticleKey) -> bool {
        let ended = self.end(number);
        if ended {
            self.sum.take(of_number(key, number));
        }
        ended
    }

    /// Hides a number; returns false if it does not live or is already hidden.
    pub fn hide(&mut self, number: u64) -> bool {
        self.live.contains(number) && self.hidden.insert(number)
    }

    /// Shows a hidden number again.
    pub fn unhide(&mut self, number: u64) -> bool {
        self.hidden.remove(number)
    }

    /// Reports whether a number names an article that is shown.
    pub fn shows(&self, number: u64) -> bool {
        self.live.contains(number) && !self.hidden.contains(number)
    }

    /// Reports whether all living numbers of a range are shown.
    pub fn shows_all(&self, range: &RangeInclusive<u64>) -> bool {
        !self.hidden.any_in(range)
    }

    /// Returns the first shown number at or after `from`.
    pub fn shown_from(&self, from: u64) -> Option<u64> {
        let mut number = self.live.at_or_after(from)?;
        while self.hidden.contains(number) {
            number = self.live.at_or_after(number.checked_add(1)?)?;
        }
        Some(number)
    }

    /// Returns the last shown number at or before `to`.
    pub fn shown_to(&self, to: u64) -> Option<u64> {
        let mut number = self.live.at_or_before(to)?;
        while self.hidden.contains(number) {
            number = self.live.at_or_before(number.checked_sub(1)?)?;
        }
        Some(number)
    }

    /// Returns the shown numbers of a range, ascending.
    pub fn shown(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = u64> + '_ {
        self.live.range(range).filter(|number| !self.hidden.contains(*number))
    }
}
