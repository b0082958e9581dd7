//! The window of a group's numbers that a session shows, and the numbers shown for them.
//!
//! Nearly all sessions see all numbers of a group unchanged. For clients that support none above
//! 2,147,483,647 (`numbers = "31-bit"` in their `[[access]]`) a group whose high mark has passed it shows its
//! numbers less a base, and only those above the base. The base depends on the high mark alone, so it is the
//! same in all such sessions and after a restart, and it never falls. A session that has selected a group
//! keeps that window until it selects one again, so numbers never change without a GROUP. Source: RFC 3977
//! section 6, the decision on it.

use super::numbers::CLIENTS_READ_MAX;
use netnews::GroupMarks;
use netnews::nntp::command::{ARTICLE_NUMBER_MAX, NumberRange};

/// The base is a multiple of this: at most half of the range shown, so that a window that moves keeps its
/// younger half.
const STEP: u64 = 1 << 30;

/// The numbers above `base`, up to `top`, shown less `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberWindow {
    base: u64,
    top: u64,
}

impl NumberWindow {
    /// The window of all numbers, unchanged.
    pub const ALL: Self = Self { base: 0, top: ARTICLE_NUMBER_MAX };

    /// Returns the window for clients with 31 bits of a group with this high mark.
    pub fn narrow(high: u64) -> Self {
        let base = Self::narrow_base(high);
        Self { base, top: base + CLIENTS_READ_MAX }
    }

    /// Returns the base of that window.
    pub fn narrow_base(high: u64) -> u64 {
        high.saturating_sub(CLIENTS_READ_MAX).div_ceil(STEP) * STEP
    }

    /// Returns the marks as shown, for marks of the articles above the base.
    pub fn shown_marks(self, marks: GroupMarks) -> GroupMarks {
        if self == Self::ALL {
            return marks;
        }
        // The low mark of an empty group is one above the high mark, which may be the last possible number.
        let low = self.shown(marks.low).min(CLIENTS_READ_MAX);
        GroupMarks { low, high: self.shown(marks.high), ..marks }
    }

    /// Returns true if numbers are shown unchanged.
    pub fn changes_nothing(self) -> bool {
        self.base == 0
    }

    /// Returns true if an article's number is shown at all.
    pub fn shows(self, number: u64) -> bool {
        self.base < number && number <= self.top
    }

    /// Returns the number as shown.
    pub fn shown(self, number: u64) -> u64 {
        number.saturating_sub(self.base)
    }

    /// Returns the real number of a shown one; 0, which no article has, if there is none.
    pub fn number(self, shown: u64) -> u64 {
        shown.checked_add(self.base).filter(|number| self.shows(*number)).unwrap_or(0)
    }

    /// Returns the real numbers of a shown range.
    pub fn range(self, shown: NumberRange) -> NumberRange {
        let low = shown.low.max(1).saturating_add(self.base);
        NumberRange { low, high: Some(shown.last().saturating_add(self.base).min(self.top)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_depends_on_the_high_mark() {
        for (high, base, shown) in [
            (0, 0, 0),
            (1, 0, 1),
            (2_147_483_647, 0, 2_147_483_647),
            (2_147_483_648, 1 << 30, 1 << 30),
            (3_221_225_471, 1 << 30, 2_147_483_647),
            (3_221_225_472, 2 << 30, 1 << 30),
            (5_000_000_000, 3 << 30, 1_778_774_528),
            (ARTICLE_NUMBER_MAX, ARTICLE_NUMBER_MAX - 2_147_483_647, 2_147_483_647),
        ] {
            let window = NumberWindow::narrow(high);
            assert_eq!((window.base, window.shown(high)), (base, shown), "{high}");
        }
        let mut last = NumberWindow::narrow(0);
        for high in (0..12 * STEP).step_by(999_983) {
            let window = NumberWindow::narrow(high);
            assert!(window.base >= last.base && window.shown(high) <= CLIENTS_READ_MAX, "{high}");
            // A client sees the high mark fall when the base grows, unless it was away for more than a step
            // of articles.
            if window.base > last.base {
                assert!(window.shown(high) < last.shown(high - 999_983), "{high}");
            }
            // Shown numbers map back to the same numbers; nothing of the last step of numbers is left out.
            for number in [window.base + 1, high.saturating_sub(STEP - 1).max(1), high.max(1)] {
                assert!(window.shows(number), "{number} at {high}");
                assert_eq!(window.number(window.shown(number)), number);
            }
            last = window;
        }
    }

    #[test]
    fn numbers_outside_of_the_window_are_no_articles() {
        let window = NumberWindow::narrow(2_147_483_648);
        assert_eq!(window.number(0), 0);
        assert_eq!(window.number(1), STEP + 1);
        assert_eq!(window.number(2_147_483_647), STEP + 2_147_483_647);
        assert_eq!(window.number(2_147_483_648), 0);
        assert_eq!(window.number(u64::MAX), 0);
        assert!(!window.shows(STEP) && !window.shows(STEP + 2_147_483_648));
        assert_eq!(NumberWindow::ALL.number(0), 0);
        assert_eq!(NumberWindow::ALL.number(ARTICLE_NUMBER_MAX), ARTICLE_NUMBER_MAX);
    }

    #[test]
    fn ranges_are_cut_to_the_window() {
        let window = NumberWindow::narrow(2_147_483_648);
        let range = |low, high| window.range(NumberRange { low, high });
        let top = STEP + 2_147_483_647;
        assert_eq!(range(0, None), NumberRange { low: STEP + 1, high: Some(top) });
        assert_eq!(range(5, Some(9)), NumberRange { low: STEP + 5, high: Some(STEP + 9) });
        assert_eq!(range(5, Some(1 << 40)), NumberRange { low: STEP + 5, high: Some(top) });
        for (low, high) in [(5, Some(3)), (0, Some(0)), (2_147_483_648, None), (ARTICLE_NUMBER_MAX, None)] {
            assert!(range(low, high).is_empty(), "{low}");
        }
        let all = NumberWindow::ALL.range(NumberRange { low: 7, high: None });
        assert_eq!(all, NumberRange { low: 7, high: Some(ARTICLE_NUMBER_MAX) });
    }
}
