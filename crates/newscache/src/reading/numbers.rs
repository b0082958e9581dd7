//! Existing article numbers of a group, from upstream's answers to LISTGROUP. Called by the crate's users.

use std::io;
use std::ops::RangeInclusive;

use crate::books::bookkeeping::DatedAnswer;
use crate::index::loaded::KnownNumbers;
use crate::index::runs::NumberRuns;
use crate::reading::group::CacheGroup;

/// Maximum number of runs of numbers that are kept of a group.
const RUNS_MAX: usize = 1 << 18;

/// Changes found by LISTGROUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NumberChanges {
    /// Count of numbers that existed and no longer do.
    pub cancelled: u64,
    /// Count of numbers that were known not to exist, and do.
    pub reinstated: u64,
    /// True if the numbers are kept; there is a limit to their gaps.
    pub is_kept: bool,
}

/// Side of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourDirection {
    /// The number before.
    Previous,
    /// The number after.
    Next,
}

/// Neighbour of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// This number.
    Number(u64),
    /// There is none in the known range, which extends to the group's water mark.
    None,
    /// Upstream must be asked.
    Unknown,
}

impl CacheGroup {
    /// Records the numbers from LISTGROUP, ascending: all that exist in a range.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn set_numbers(
        &self,
        range: RangeInclusive<u64>,
        numbers: &[u64],
        at: u64,
    ) -> io::Result<NumberChanges> {
        let runs = NumberRuns::of(numbers);
        if range.is_empty() {
            return Ok(NumberChanges::default());
        }
        self.with(|loaded| {
            let is_new = loaded.numbers.as_ref().is_none_or(|known| {
                let inside = known.first <= *range.start() && *range.end() <= known.last;
                !inside || known.runs.pieces(&range).ne(runs.pieces(&range))
            });
            let (cancelled, reinstated) = loaded.set_numbers(&range, runs, at);
            let is_kept = loaded.numbers.as_ref().is_some_and(|known| known.runs.runs() <= RUNS_MAX);
            if !is_kept {
                loaded.numbers = None;
            } else if is_new {
                self.inner().save_numbers(self.cell(), loaded, at)?;
            }
            Ok(NumberChanges { cancelled: cancelled.len() as u64, reinstated, is_kept })
        })
    }

    /// Returns the range for which upstream was asked with LISTGROUP, and the time of the last question.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn known_numbers(&self) -> io::Result<Option<DatedAnswer<RangeInclusive<u64>>>> {
        self.with(|loaded| {
            let known = loaded.numbers.as_ref();
            Ok(known.map(|known| DatedAnswer { value: known.first..=known.last, at: known.at }))
        })
    }

    /// Appends the numbers in a range, at most `max`. Returns false, and appends nothing, if not all of the
    /// range is known.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn numbers(&self, range: RangeInclusive<u64>, max: usize, into: &mut Vec<u64>) -> io::Result<bool> {
        self.with(|loaded| {
            let Some(known) = loaded.numbers.as_ref().filter(|known| covers(known, &range)) else {
                return Ok(range.is_empty());
            };
            into.extend(known.runs.pieces(&range).flat_map(|(first, last)| first..=last).take(max));
            Ok(true)
        })
    }

    /// Returns whether upstream has an article with a number; `None` if it was not asked.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn exists(&self, number: u64) -> io::Result<Option<bool>> {
        self.with(|loaded| Ok(loaded.exists(number)))
    }

    /// Returns the number of articles in a range; `None` if not all of it is known.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn count(&self, range: RangeInclusive<u64>) -> io::Result<Option<u64>> {
        self.with(|loaded| {
            let known = loaded.numbers.as_ref().filter(|known| covers(known, &range));
            Ok(known.map(|known| known.runs.count(&range)))
        })
    }

    /// Returns the number before or after this one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn neighbour(&self, number: u64, side: NeighbourDirection) -> io::Result<Neighbour> {
        let marks = self.marks().map(|asked| asked.value);
        self.with(|loaded| {
            let Some(known) = &loaded.numbers else { return Ok(Neighbour::Unknown) };
            let (first, last) = (known.first, known.last);
            if number.saturating_add(1) < first || number > last.saturating_add(1) {
                return Ok(Neighbour::Unknown);
            }
            let found = match side {
                NeighbourDirection::Next => known.runs.next(number.saturating_add(1)),
                NeighbourDirection::Previous => {
                    number.checked_sub(1).and_then(|before| known.runs.previous(before))
                }
            };
            let reaches = marks.is_some_and(|marks| match side {
                NeighbourDirection::Next => last >= marks.high,
                NeighbourDirection::Previous => first <= marks.low,
            });
            Ok(match found {
                Some(number) => Neighbour::Number(number),
                None if reaches => Neighbour::None,
                None => Neighbour::Unknown,
            })
        })
    }
}

fn covers(known: &KnownNumbers, range: &RangeInclusive<u64>) -> bool {
    range.is_empty() || (known.first <= *range.start() && *range.end() <= known.last)
}
