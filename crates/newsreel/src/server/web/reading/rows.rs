//! Overview rows of a group, a bounded number of them.

use super::{Group, Reading, failed};
use crate::source::{Marks, NewsSource};
use axum::response::Response;
use newspages::threads::Row;
use std::ops::RangeInclusive;

/// Bytes of rows that are read at once.
const ROW_BYTES_MAX: usize = 256 << 10;
/// Bytes of rows of one page.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// How often a range is made wider, where many numbers have no article.
const WIDER_MAX: u32 = 12;

impl Reading<'_> {
    /// The rows of a range of numbers, ascending.
    pub(super) async fn rows(&self, group: &Group, range: RangeInclusive<u64>) -> Result<Vec<Row>, Response> {
        let (mut text, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0);
        let (mut from, to) = range.into_inner();
        while from <= to && bytes < PAGE_BYTES_MAX {
            text.clear();
            let next = self.source.over(group, from..=to, ROW_BYTES_MAX, &mut text).await.map_err(failed)?;
            bytes += text.len();
            rows.extend(text.split_inclusive(|b| *b == b'\n').filter_map(Row::parse));
            match next.filter(|next| *next > from) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(rows)
    }

    /// The last `count` rows with numbers below `before`, ascending; fewer if there are no more.
    pub(super) async fn rows_before(
        &self,
        group: &Group,
        marks: &Marks,
        before: u64,
        count: usize,
    ) -> Result<Vec<Row>, Response> {
        let (lowest, high) = (marks.low.max(1), before.saturating_sub(1).min(marks.high));
        let mut wide = count as u64;
        let mut rows = Vec::new();
        for _ in 0..WIDER_MAX {
            let low = (high + 1).saturating_sub(wide).max(lowest);
            if low > high {
                break;
            }
            rows = self.rows(group, low..=high).await?;
            if rows.len() >= count || low <= lowest {
                break;
            }
            wide = wide.saturating_mul(4);
        }
        let surplus = rows.len().saturating_sub(count);
        rows.drain(..surplus);
        Ok(rows)
    }
}
