//! Reading a bounded number of overview rows of a group.

use super::dates::dated;
use super::{Group, NewsPages, failed};
use crate::memory::MemoryReservation;
use axum::response::Response;
use memchr::memchr_iter;
use netnews::overview_row::{self, index};
use netnews::{GroupMarks, date};
use newspages::threads::{REFERENCES_MAX, ThreadRow};
use site_base::counters;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use upstreams::NewsSource;

/// Bytes of rows read at once.
const ROW_BYTES_MAX: usize = 256 << 10;
/// Maximum bytes of rows for one page.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Number of times a range is widened if many numbers have no article.
const WIDER_MAX: u32 = 12;
/// Copies of a row's text: as read, parsed, and as markup.
const COPIES: usize = 3;
/// Bytes of memory for a Message-ID, which may be one of References, and its container in the threads.
const ID_BYTES: usize = 192;
/// Bytes of memory for a time.
const TIME_BYTES: usize = 48;
/// Maximum number of Message-IDs counted for a row: its References, and its own.
const ROW_IDS_MAX: usize = REFERENCES_MAX + 1;

/// Rows as read, ascending, and the memory for their conversion.
pub(super) struct RowText {
    text: Vec<u8>,
    /// Message-IDs in the rows, those of each counted up to [`ROW_IDS_MAX`].
    ids: usize,
    /// Times of articles by number, where they are not the Date in the row: of few.
    times: HashMap<u64, Option<i64>>,
    memory: MemoryReservation,
}

impl RowText {
    /// Returns the size of the text, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the last `count` rows, parsed. To be called on a rendering thread.
    pub fn last(&self, count: usize) -> Vec<ThreadRow> {
        let rows = self.text.split_inclusive(|b| *b == b'\n');
        let rows = rows.skip(self.count().saturating_sub(count)).filter_map(ThreadRow::parse);
        let timed = |row: ThreadRow| match self.times.get(&row.number) {
            Some(time) => ThreadRow { date: *time, ..row },
            None => row,
        };
        rows.map(timed).collect()
    }

    /// Returns all rows, parsed. To be called on a rendering thread.
    pub fn all(&self) -> Vec<ThreadRow> {
        self.last(usize::MAX)
    }

    /// Returns the memory, for the page made from the rows.
    pub fn into_memory(self) -> MemoryReservation {
        self.memory
    }

    fn count(&self) -> usize {
        memchr_iter(b'\n', &self.text).count()
    }

    /// Returns the memory for these rows.
    fn needed(&self) -> usize {
        COPIES * self.text.len() + ID_BYTES * self.ids + TIME_BYTES * self.times.len()
    }

    /// Appends rows, with the times of their articles; returns their number.
    fn append(&mut self, rows: &[u8], time: impl Fn(&[u8]) -> Option<(u64, Option<i64>)>) -> usize {
        let ids_of = |row: &[u8]| memchr_iter(b'<', row).count().min(ROW_IDS_MAX);
        let mut count = 0;
        for row in rows.split_inclusive(|b| *b == b'\n') {
            self.ids += ids_of(row);
            let written = overview_row::field(row, index::DATE).and_then(date::parse);
            self.times.extend(time(row).filter(|(_, time)| *time != written));
            count += 1;
        }
        self.text.extend_from_slice(rows);
        count
    }
}

impl NewsPages<'_> {
    /// Returns the row of a number and the rows around it, ascending; its own row is always included. Rows
    /// before it may take half of the bytes of a page.
    pub(super) async fn rows_around(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
        number: u64,
    ) -> Result<RowText, Response> {
        let (low, high) = range.into_inner();
        let (mut rows, _) = self.last_rows(group, low..=number, PAGE_BYTES_MAX / 2).await?;
        self.append_rows(group, number.saturating_add(1)..=high, PAGE_BYTES_MAX, &mut rows).await?;
        Ok(rows)
    }

    /// Returns the rows of these numbers, which ascend; `None` if they are too large for a page.
    pub(super) async fn rows_of(&self, group: &Group, numbers: &[u64]) -> Result<Option<RowText>, Response> {
        let mut rows = self.no_rows().await?;
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            if !self.append_rows(group, *first..=*last, PAGE_BYTES_MAX, &mut rows).await? {
                return Ok(None);
            }
        }
        Ok(Some(rows))
    }

    /// Returns the first rows of a range of numbers, ascending, and the number at which the others begin.
    pub(super) async fn first_rows(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
    ) -> Result<(RowText, Option<u64>), Response> {
        let mut rows = self.no_rows().await?;
        let next = self.append_piece(group, range, &mut rows).await?;
        Ok((rows, next))
    }

    /// Returns rows with numbers below `before`, ascending, of which the last `count` are wanted; fewer if
    /// there are no more, or if they are too large.
    pub(super) async fn rows_before(
        &self,
        group: &Group,
        marks: &GroupMarks,
        before: u64,
        count: usize,
    ) -> Result<RowText, Response> {
        let (lowest, high) = (marks.low.max(1), before.saturating_sub(1).min(marks.high));
        let mut wide = count as u64;
        let mut rows = None;
        for _ in 0..WIDER_MAX {
            let low = (high + 1).saturating_sub(wide).max(lowest);
            if low > high {
                break;
            }
            // The rows of the previous attempt are dropped first.
            drop(rows.take());
            let (found, is_whole) = self.last_rows(group, low..=high, PAGE_BYTES_MAX).await?;
            let is_enough = !is_whole || found.count() >= count || low <= lowest;
            rows = Some(found);
            if is_enough {
                break;
            }
            wide = wide.saturating_mul(4);
        }
        match rows {
            Some(rows) => Ok(rows),
            None => self.no_rows().await,
        }
    }

    /// Returns the rows of a range of numbers, ascending, and whether they are complete. If they exceed
    /// `PAGE_BYTES_MAX`, returns those of the upper half or quarter of the numbers, and so on; at least the
    /// last one.
    async fn last_rows(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
        bytes_max: usize,
    ) -> Result<(RowText, bool), Response> {
        let (lowest, high) = range.into_inner();
        let mut low = lowest;
        loop {
            let mut rows = self.no_rows().await?;
            if self.append_rows(group, low..=high, bytes_max, &mut rows).await? || low >= high {
                return Ok((rows, low == lowest));
            }
            low = high - (high - low) / 2;
        }
    }

    async fn no_rows(&self) -> Result<RowText, Response> {
        let memory = self.news.memory.take(ROW_BYTES_MAX).await.map_err(failed)?;
        Ok(RowText { text: Vec::new(), ids: 0, times: HashMap::new(), memory })
    }

    /// Appends the rows of a range of numbers up to a number of bytes, and returns whether they are complete.
    async fn append_rows(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
        bytes_max: usize,
        rows: &mut RowText,
    ) -> Result<bool, Response> {
        let (mut from, to) = range.into_inner();
        while from <= to {
            if rows.text.len() >= bytes_max {
                return Ok(false);
            }
            match self.append_piece(group, from..=to, rows).await? {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(true)
    }

    /// Appends the first rows of a range of numbers, and returns the number at which the others begin.
    async fn append_piece(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
        rows: &mut RowText,
    ) -> Result<Option<u64>, Response> {
        let from = *range.start();
        let mut piece = Vec::new();
        // Only for the time of the read: several requests that kept it, and waited for more, would wait for
        // each other.
        rows.memory.resize(ROW_BYTES_MAX + rows.needed()).await.map_err(failed)?;
        let next = self.news.source.over(group, range, ROW_BYTES_MAX, &mut piece).await.map_err(failed)?;
        let count = rows.append(&piece, |row| dated(&self.news.source, row));
        counters::add(&self.shared.site.counters.page_rows, count);
        let needed = rows.needed();
        rows.memory.resize(needed).await.map_err(failed)?;
        Ok(next.filter(|next| *next > from))
    }
}
