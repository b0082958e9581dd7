//! Overview rows of a group, a bounded number of them.

use super::{Group, Reading, failed};
use crate::memory::Reservation;
use axum::response::Response;
use memchr::memchr_iter;
use newspages::threads::{REFERENCES_MAX, Row};
use std::ops::RangeInclusive;
use upstreams::{Marks, NewsSource};

/// Bytes of rows that are read at once.
const ROW_BYTES_MAX: usize = 256 << 10;
/// Bytes of rows of one page.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// How often a range is made wider, where many numbers have no article.
const WIDER_MAX: u32 = 12;
/// Copies of a row's text: as it is read, taken apart, and as markup.
const COPIES: usize = 3;
/// Bytes of memory for a Message-ID, which may be one of References, and its container in the threads.
const ID_BYTES: usize = 192;
/// Message-IDs of a row that count: its References, and its own.
const ROW_IDS_MAX: usize = REFERENCES_MAX + 1;

/// Rows as they are read, ascending, and the memory for what is made of them.
pub(super) struct RowText {
    text: Vec<u8>,
    memory: Reservation,
}

impl RowText {
    /// Size of the text, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The last `count` rows; to be called on a thread that renders.
    pub fn last(&self, count: usize) -> Vec<Row> {
        let rows = self.text.split_inclusive(|b| *b == b'\n');
        rows.skip(self.count().saturating_sub(count)).filter_map(Row::parse).collect()
    }

    /// All rows; to be called on a thread that renders.
    pub fn all(&self) -> Vec<Row> {
        self.last(usize::MAX)
    }

    /// The memory, for what was made.
    pub fn into_memory(self) -> Reservation {
        self.memory
    }

    fn count(&self) -> usize {
        memchr_iter(b'\n', &self.text).count()
    }

    /// Memory for these rows and for as many more as are read at once.
    fn needed(&self) -> usize {
        let ids_of = |row: &[u8]| memchr_iter(b'<', row).count().min(ROW_IDS_MAX);
        let ids: usize = self.text.split_inclusive(|b| *b == b'\n').map(ids_of).sum();
        ROW_BYTES_MAX + COPIES * self.text.len() + ID_BYTES * ids
    }
}

impl Reading<'_> {
    /// The rows of a number and of those around it, ascending: its own is always there. Those before it may
    /// take half of the bytes of a page.
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

    /// Rows with numbers below `before`, ascending, of which the last `count` are wanted; fewer if there are
    /// no more, or if they are too large.
    pub(super) async fn rows_before(
        &self,
        group: &Group,
        marks: &Marks,
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
            // What is read in vain is given back first.
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

    /// The rows of a range of numbers, ascending, and whether these are all. If they are larger than this,
    /// those of the upper half or of the upper quarter of the numbers, and so on; at least that of the last.
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
        Ok(RowText { text: Vec::new(), memory })
    }

    /// Appends the rows of a range of numbers until there are so many bytes of them, and returns whether that
    /// was all.
    async fn append_rows(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
        bytes_max: usize,
        rows: &mut RowText,
    ) -> Result<bool, Response> {
        let (mut from, to) = range.into_inner();
        let mut piece = Vec::new();
        while from <= to {
            if rows.text.len() >= bytes_max {
                return Ok(false);
            }
            let source = &self.news.source;
            piece.clear();
            let next = source.over(group, from..=to, ROW_BYTES_MAX, &mut piece).await.map_err(failed)?;
            rows.text.extend_from_slice(&piece);
            let needed = rows.needed();
            rows.memory.resize(needed).await.map_err(failed)?;
            match next.filter(|next| *next > from) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(true)
    }
}
