//! Article numbers by date: a binary search over overview rows.
//!
//! The time of an article is that of `netnews::date::of_article`, everywhere on the pages: what lists and
//! mailboxes show is what they are selected by. Numbers are in the order of arrival, times nearly so. Each
//! step takes the middle one of a few, so that single articles with a wrong date do no harm. Called by
//! `rows`, `threads`, `traffic`, `mailboxes`, `search` and `api`.

use netnews::date;
use netnews::decimal::parse_decimal;
use netnews::overview_row::{self, index};
use netnews::{GroupMarks, MessageId};
use site_base::clock::unix_now;
use std::ops::RangeInclusive;
use upstreams::{Answer, NewsSource};

/// Numbers whose rows are read for one date, and how many more if none of them has an article.
const SAMPLE_NUMBERS: u64 = 8;
const SAMPLE_GROWTH: u64 = 32;
/// Bytes of rows read for one date.
const SAMPLE_BYTES_MAX: usize = 2 << 10;
/// The year in which Usenet began.
const FIRST_YEAR: i32 = 1979;
/// Numbers among which each date is looked at, and the bytes of their rows.
const WINDOW_NUMBERS: u64 = 64;
const WINDOW_BYTES_MAX: usize = 256 << 10;
/// Numbers before and after those of a time, among which other articles of that time are searched for.
const AROUND_NUMBERS: u64 = 10_000;

/// Returns the first number of a group whose article has the time `secs` (Unix seconds) or a later one; the
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
    let dated: Vec<(u64, Option<i64>)> =
        rows.split_inclusive(|b| *b == b'\n').filter_map(|row| dated(source, row)).collect();
    let earlier = dated.iter().filter(|(_, date)| date.is_some_and(|date| date < secs)).count();
    let after = dated.last().map_or(low, |(number, _)| number.saturating_add(1));
    Ok(dated.get(earlier).map_or(after, |(number, _)| *number))
}

/// Returns number and time of the article of an overview row.
pub(super) fn dated<S: NewsSource>(source: &S, row: &[u8]) -> Option<(u64, Option<i64>)> {
    let number = overview_row::field(row, index::NUMBER).and_then(parse_decimal)?;
    let id = overview_row::field(row, index::MESSAGE_ID).unwrap_or_default();
    Some((number, time_of(source, id, overview_row::field(row, index::DATE).unwrap_or_default())))
}

/// Returns the time of the article with this Message-ID and Date, in Unix seconds.
pub(super) fn time_of<S: NewsSource>(source: &S, id: &[u8], written: &[u8]) -> Option<i64> {
    let arrived = MessageId::parse(id).and_then(|id| source.arrived(id));
    date::of_article(date::parse(written), arrived, unix_now())
}

/// The time from which on, and the time before which, articles are selected.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeSpan {
    pub begin: Option<i64>,
    pub end: Option<i64>,
}

/// Articles of a group that are selected by their time.
#[derive(Debug, Clone)]
pub(super) struct TimedNumbers {
    span: TimeSpan,
    /// Numbers between which the articles of that time are, but for those that came late.
    inner: RangeInclusive<u64>,
    /// Numbers among which all of them are searched for.
    pub outer: RangeInclusive<u64>,
}

impl TimedNumbers {
    /// Finds the numbers of a group's articles of a time.
    pub async fn find<S: NewsSource>(
        source: &S,
        group: &S::Group,
        marks: &GroupMarks,
        span: TimeSpan,
    ) -> Answer<Self> {
        let (mut low, mut high) = (marks.low, marks.high);
        let (mut lowest, mut highest) = (low, high);
        if let Some(begin) = span.begin {
            low = first_since(source, group, marks, begin).await?;
            lowest = low.saturating_sub(AROUND_NUMBERS).max(marks.low);
        }
        if let Some(end) = span.end {
            high = first_since(source, group, marks, end).await?.saturating_sub(1);
            highest = high.saturating_add(AROUND_NUMBERS).min(marks.high);
        }
        Ok(Self { span, inner: low..=high, outer: lowest..=highest })
    }

    /// Returns whether an article is selected. One whose time is unknown is, if those around it are.
    pub fn has(&self, number: u64, time: Option<i64>) -> bool {
        let TimeSpan { begin, end } = self.span;
        match time {
            Some(time) => begin.is_none_or(|begin| begin <= time) && end.is_none_or(|end| time < end),
            None => self.inner.contains(&number),
        }
    }
}

/// Returns the date of the articles with this number and the next ones up to `last`, in Unix seconds; `None`
/// if there are none with a date.
async fn date_near<S: NewsSource>(
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
    let mut dates: Vec<i64> = rows.filter_map(|row| dated(source, row)?.1).collect();
    dates.sort_unstable();
    Ok(dates.get(dates.len() / 2).copied())
}

/// Returns the year of a group's first articles, the earliest that is possible; `None` if no date can be
/// read.
pub(super) async fn first_year<S: NewsSource>(
    source: &S,
    group: &S::Group,
    marks: &GroupMarks,
) -> Answer<Option<i32>> {
    let mut rows = Vec::new();
    let last = marks.low.saturating_add(SAMPLE_NUMBERS).min(marks.high);
    source.over(group, marks.low..=last, SAMPLE_BYTES_MAX, &mut rows).await?;
    let dates = rows.split_inclusive(|b| *b == b'\n').filter_map(|row| dated(source, row)?.1);
    Ok(dates.map(year_of).filter(|year| *year >= FIRST_YEAR).min())
}

/// Returns the year of a time, in UTC.
pub(super) fn year_of(secs: i64) -> i32 {
    let digits = date::format_nntp(secs);
    digits.iter().take(4).fold(0, |year, digit| 10 * year + i32::from(digit.wrapping_sub(b'0')))
}

/// The text is no year, month or day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoDate;

/// A year, month or day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CalendarSpan {
    pub year: i32,
    month: Option<u32>,
    day: Option<u32>,
}

impl CalendarSpan {
    /// Parses what a query asks for; `None` if it asks for no date.
    pub fn asked(text: &str) -> Result<Option<Self>, NoDate> {
        match text.trim() {
            "" => Ok(None),
            text => Self::parse(text).map(Some).ok_or(NoDate),
        }
    }

    /// Parses `2026`, `2026-01` or `2026-01-31`.
    fn parse(text: &str) -> Option<Self> {
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
        assert_eq!((CalendarSpan::asked(" "), CalendarSpan::asked("x")), (Ok(None), Err(NoDate)));
        assert_eq!((year_of(0), year_of(1_767_225_600)), (1970, 2026));
    }
}
