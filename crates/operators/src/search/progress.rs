//! Progress of the index, as recorded with each of its commits (`docs/formats/search.md`), and in answers.

use netnews::GroupMarks;
use std::cmp::Ordering;
use std::fmt;

/// Progress of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexProgress {
    /// Sequence number below which articles may be in the index.
    pub next: u64,
    /// Sequence number below which articles are older than the index; these are added by `filling`.
    pub begun: u64,
    /// Position at which `filling` continues; `None` if it is done.
    pub fill: Option<FillPosition>,
}

/// Position of `filling`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FillPosition {
    /// Group, or a name before the next one in order.
    pub group: String,
    /// First number that was not examined.
    pub number: u64,
}

/// How far the index has got with the articles that were here when it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchCoverage {
    /// It has all of them.
    Whole,
    /// It has this many in a hundred, less than 100.
    Percent(u8),
}

impl SearchCoverage {
    /// Returns how many in a hundred it has.
    pub fn percent(self) -> u8 {
        match self {
            Self::Whole => 100,
            Self::Percent(percent) => percent,
        }
    }

    /// Returns the coverage of these groups when `filling` has got to this position.
    pub(super) fn at<'g>(
        position: &FillPosition,
        groups: impl Iterator<Item = (&'g str, GroupMarks)>,
    ) -> Self {
        let (mut done, mut all) = (0, 0);
        for (name, marks) in groups {
            all += marks.count;
            done += match name.cmp(&position.group) {
                Ordering::Less => marks.count,
                Ordering::Equal => {
                    let numbers = (marks.high + 1).saturating_sub(marks.low);
                    let past = position.number.saturating_sub(marks.low).min(numbers);
                    let part = u128::from(past) * u128::from(marks.count) / u128::from(numbers.max(1));
                    u64::try_from(part).unwrap_or(marks.count)
                }
                Ordering::Greater => 0,
            };
        }
        let percent = u128::from(done) * 100 / u128::from(all.max(1));
        Self::Percent(u8::try_from(percent).unwrap_or(u8::MAX).min(99))
    }
}

impl fmt::Display for SearchCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the search index has all articles"),
            Self::Percent(percent) => write!(
                f,
                "the search index is still being built, with {percent} % of the articles so far: others are not \
                 found yet"
            ),
        }
    }
}

/// Version of the text.
const VERSION: &str = "1";

impl IndexProgress {
    /// Returns the progress of a new index; the next article has this sequence number.
    pub fn begin(next: u64) -> Self {
        Self { next, begun: next, fill: Some(FillPosition::default()) }
    }

    /// Returns the recorded text.
    pub fn text(&self) -> String {
        let Self { next, begun, fill } = self;
        match fill {
            Some(FillPosition { group, number }) => format!("{VERSION} {next} {begun} {number} {group}"),
            None => format!("{VERSION} {next} {begun}"),
        }
    }

    /// Parses the output of [`IndexProgress::text`]; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        if words.next()? != VERSION {
            return None;
        }
        let (next, begun) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let fill = match words.next() {
            Some(number) => {
                Some(FillPosition { number: number.parse().ok()?, group: words.next()?.to_owned() })
            }
            None => None,
        };
        Some(Self { next, begun, fill })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_follows_the_position() {
        let marks = |low, high, count| GroupMarks { low, high, count };
        let groups = [("a", marks(1, 10, 10)), ("b", marks(11, 20, 10)), ("c", marks(1, 0, 0))];
        let at = |group: &str, number| {
            let position = FillPosition { group: group.into(), number };
            SearchCoverage::at(&position, groups.iter().copied()).percent()
        };
        assert_eq!([at("", 0), at("a", 6), at("a\0", 0), at("b", 0)], [0, 25, 50, 50]);
        assert_eq!([at("b", 12), at("b", 16), at("b", 21), at("c", 9)], [55, 75, 99, 99]);
        let nothing = SearchCoverage::at(&FillPosition::default(), std::iter::empty());
        assert_eq!(nothing, SearchCoverage::Percent(0));
    }

    #[test]
    fn recorded_progress_is_read_back() {
        let begun = IndexProgress::begin(7);
        let half =
            IndexProgress { fill: Some(FillPosition { group: "a.b".into(), number: 9 }), ..begun.clone() };
        let done = IndexProgress { next: 70, fill: None, ..begun.clone() };
        for progress in [begun, half, done] {
            assert_eq!(IndexProgress::parse(&progress.text()), Some(progress));
        }
        for other in ["", "0 1 2", "1 x 2", "1 1 2 x g", "1 1 2 3"] {
            assert_eq!(IndexProgress::parse(other), None, "{other}");
        }
    }
}
