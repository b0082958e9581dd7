//! Article numbers by date: a binary search over overview rows.
//!
//! Numbers are in the order of arrival, dates nearly so. Each step takes the middle one of a few dates, so
//! that single articles with a wrong date do no harm. Called by `threads`, `traffic`, `mailboxes` and `api`.

use netnews::GroupMarks;
use netnews::date;
use netnews::decimal::parse_decimal;
use netnews::overview_row::{self, index};
use upstreams::{Answer, NewsSource};

/// Numbers whose rows are read for one date, and how many more if none of them has an article.
const SAMPLE_NUMBERS: u64 = 8;
const SAMPLE_GROWTH: u64 = 32;
/// Bytes of rows read for one date.
const SAMPLE_BYTES_MAX: usize = 2 << 10;
/// Numbers among which each date is looked at, and the bytes of their rows.
const WINDOW_NUMBERS: u64 = 64;
const WINDOW_BYTES_MAX: usize = 256 << 10;

/// Returns the first number of a group whose article was written at `secs` (Unix seconds) or later; the
/// number after the last one if there is none. In a group whose dates are out of order it is about there.
pub(super) async fn first_since<S: NewsSource>(
    source: &S,
    group: &S::Group,
    marks: &GroupMarks,
    secs: i64,
) -> Answer<u64> {
    let (lowest, highest) = (marks.low.max(1), marks.high);
    let (mut low, mut high) = (lowest, highest.saturating_add(1));
    while high.saturating_sub(low) > WINDOW_NUMBERS {
        let middle = low + (high - low) / 2;
        match date_near(source, group, middle, high - 1).await? {
            Some(found) if found < secs => low = middle + 1,
            _ => high = middle,
        }
    }
    // A step may have been wrong by a sample.
    let low = low.saturating_sub(2 * SAMPLE_NUMBERS).max(lowest);
    let last = high.saturating_add(2 * SAMPLE_NUMBERS).min(highest);
    let mut rows = Vec::new();
    if low <= last {
        source.over(group, low..=last, WINDOW_BYTES_MAX, &mut rows).await?;
    }
    let dated: Vec<(u64, Option<i64>)> = rows.split_inclusive(|b| *b == b'\n').filter_map(dated).collect();
    let earlier = dated.iter().filter(|(_, date)| date.is_some_and(|date| date < secs)).count();
    let after = dated.last().map_or(low, |(number, _)| number.saturating_add(1));
    Ok(dated.get(earlier).map_or(after, |(number, _)| *number))
}

/// Returns number and date of an overview row.
fn dated(row: &[u8]) -> Option<(u64, Option<i64>)> {
    let number = overview_row::field(row, index::NUMBER).and_then(parse_decimal)?;
    Some((number, overview_row::field(row, index::DATE).and_then(date::parse)))
}

/// Returns the date of the articles with this number and the next ones up to `last`, in Unix seconds; `None`
/// if there are none with a date.
pub(super) async fn date_near<S: NewsSource>(
    source: &S,
    group: &S::Group,
    number: u64,
    last: u64,
) -> Answer<Option<i64>> {
    let mut rows = Vec::new();
    let mut numbers = SAMPLE_NUMBERS;
    loop {
        let end = number.saturating_add(numbers).min(last);
        source.over(group, number..=end, SAMPLE_BYTES_MAX, &mut rows).await?;
        if !rows.is_empty() || end >= last {
            break;
        }
        numbers = numbers.saturating_mul(SAMPLE_GROWTH);
    }
    let rows = rows.split_inclusive(|b| *b == b'\n');
    let mut dates: Vec<i64> = rows.filter_map(dated).filter_map(|(_, date)| date).collect();
    dates.sort_unstable();
    Ok(dates.get(dates.len() / 2).copied())
}

/// Returns the year of a time, in UTC.
pub(super) fn year_of(secs: i64) -> i32 {
    let digits = date::format_nntp(secs);
    digits.iter().take(4).fold(0, |year, digit| 10 * year + i32::from(digit.wrapping_sub(b'0')))
}

/// A year, month or day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CalendarSpan {
    pub year: i32,
    month: Option<u32>,
    day: Option<u32>,
}

impl CalendarSpan {
    /// Parses `2026`, `2026-01` or `2026-01-31`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let number = |part: &str| {
            part.parse::<u32>().ok().filter(|_| part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit()))
        };
        let year = i32::try_from(number(parts.next()?)?).ok()?;
        let month = parts.next().map(number);
        let day = parts.next().map(number);
        if parts.next().is_some() || month == Some(None) || day == Some(None) {
            return None;
        }
        let span = Self { year, month: month.flatten(), day: day.flatten() };
        span.begin().map(|_| span)
    }

    /// Returns its beginning, in Unix seconds.
    pub fn begin(self) -> Option<i64> {
        beginning(self.year, self.month.unwrap_or(1), self.day.unwrap_or(1))
    }

    /// Returns the time at which it is over, in Unix seconds.
    pub fn end(self) -> Option<i64> {
        const DAY_SECS: i64 = 24 * 60 * 60;
        match (self.month, self.day) {
            (_, Some(_)) => self.begin().map(|begin| begin + DAY_SECS),
            (Some(month), None) if month < 12 => beginning(self.year, month + 1, 1),
            _ => beginning(self.year + 1, 1, 1),
        }
    }
}

fn beginning(year: i32, month: u32, day: u32) -> Option<i64> {
    let digits = format!("{year:04}{month:02}{day:02}");
    (year >= 1970 && digits.len() == 8).then(|| date::parse_nntp(digits.as_bytes(), b"000000", 0)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_months_and_days_have_an_end() {
        for (text, begin, end) in [
            ("1970", 0, 365 * 86_400),
            ("1970-01", 0, 31 * 86_400),
            ("1970-12", 334 * 86_400, 365 * 86_400),
            ("1970-01-02", 86_400, 2 * 86_400),
            (" 1970-1-2 ", 86_400, 2 * 86_400),
        ] {
            let span = CalendarSpan::parse(text).unwrap();
            assert_eq!((span.begin(), span.end()), (Some(begin), Some(end)), "{text}");
        }
        for text in
            ["", "x", "1969", "2026-13", "2026-00", "2026-02-31", "2026-1-1-1", "2026-", "+2026", "99999"]
        {
            assert_eq!(CalendarSpan::parse(text), None, "{text}");
        }
        assert_eq!((year_of(0), year_of(1_767_225_600)), (1970, 2026));
    }
}
