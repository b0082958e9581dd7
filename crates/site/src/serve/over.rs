//! OVER and XOVER: overview rows.
//!
//! A source returns rows in the form in which they are sent. Called by `ranges`. Source: RFC 3977 section
//! 8.3, RFC 2980 section 2.8.

use super::renumber::ShownNews;
use super::selection::RangeProgress;
use netnews::article::content_of;
use netnews::nntp::command::NumberRange;
use netnews::overview_row::{OverviewFields, append_fields, append_headers, append_row, arrange};
use netnews::{Article, Known};
use upstreams::{Answer, NewsSource};

/// Bytes of rows requested at once.
const ROWS_BYTES_AT_ONCE: usize = 128 << 10;

/// Appends the first rows of a range.
pub(super) async fn append_rows<S: NewsSource>(
    shown: &ShownNews<'_, S>,
    group: &S::Group,
    range: NumberRange,
    out: &mut Vec<u8>,
) -> Answer<RangeProgress> {
    let before = out.len();
    let next = shown.rows(group, range.low..=range.last(), ROWS_BYTES_AT_ONCE, out).await?;
    let added = out.len() - before;
    Ok(RangeProgress { any: added > 0, next, is_short: (1..ROWS_BYTES_AT_ONCE).contains(&added) })
}

/// Appends the row of an article found by Message-ID, made from the article; its number is 0 (RFC 3977
/// section 8.3.2). `head` are its header lines as shown.
pub(super) fn append_row_from(article: &Article<'_>, head: &[u8], headers: &[String], out: &mut Vec<u8>) {
    let xref = content_of(head, b"Xref").unwrap_or_default();
    let id = article.header(Known::MessageId).unwrap_or_default().trim_ascii();
    let (mut fields, mut row) = (Vec::new(), Vec::new());
    append_fields(&OverviewFields::of(article, id), &mut fields);
    append_headers(article.head(), headers, &mut fields);
    append_row(0, &fields, xref, &mut row);
    arrange(&row, headers, out);
}
