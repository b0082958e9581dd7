//! Overview rows of an upstream, checked and converted to the form sent here.
//!
//! Rows are passed on while they arrive, a few at first and then more at once, and kept when the answer is
//! complete: rows of a refused answer are not kept (`group`). A row that lacks fields is left out, as if
//! its article did not exist. Sources: RFC 3977 section 8.3, RFC 2980 section 2.8.

use super::line::UpstreamConnection;
use super::pool::UpstreamQuestion;
use super::trouble::{UpstreamError, shown};
use super::xref::{IsHere, NumbersHere, fitted};
use netnews::MessageId;
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::nntp::response::code;
use netnews::overview_row::{append_fields, append_headers_of_row, append_row, field, index};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of rows passed on at once, initially and at most.
const FIRST_BYTES: usize = 1;
const LATER_BYTES_MAX: usize = 64 << 10;
/// Most numbers whose rows are requested at once, and most bytes of rows in one answer: several times their
/// usual size.
pub(super) const NUMBERS_MAX: u64 = 10_000;
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// XOVER or OVER: asks for the overview rows of a range.
pub(super) struct AskRows<F> {
    pub group: Box<[u8]>,
    pub ranges: Vec<RangeInclusive<u64>>,
    /// Decides whose groups' numbers are valid here.
    pub is_here: NumbersHere,
    /// Further headers kept of a row.
    pub headers: Arc<[String]>,
    /// Called with the rows of a part of the range, which are complete.
    pub take: F,
}

impl<F: FnMut(RangeInclusive<u64>, &[u8]) + Send> UpstreamQuestion for AskRows<F> {
    /// Whether there is such a group.
    type Answer = bool;

    const MAY_BREAK: bool = true;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<bool, UpstreamError> {
        if line.lacking.xover.load(Relaxed) {
            return self.ask_by("OVER", line).await;
        }
        match self.ask_by("XOVER", line).await {
            Err(UpstreamError::Refused(code::UNKNOWN_COMMAND, _)) => {
                let answer = self.ask_by("OVER", line).await?;
                line.lacking.xover.store(true, Relaxed);
                Ok(answer)
            }
            answer => answer,
        }
    }
}

impl<F: FnMut(RangeInclusive<u64>, &[u8]) + Send> AskRows<F> {
    async fn ask_by(&mut self, verb: &str, line: &mut UpstreamConnection) -> Result<bool, UpstreamError> {
        let selecting = line.select(&self.group)?;
        for range in &self.ranges {
            line.submit(format!("{verb} {}-{}", range.start(), range.end()))?;
        }
        let is_there = !selecting || line.selected(&self.group).await?.is_some();
        let mut refused = None;
        for range in self.ranges.clone() {
            let status = line.answer().await?;
            match status.code {
                _ if !is_there => {}
                code::OVERVIEW_FOLLOWS => self.block(line, range).await?,
                // No article in that range.
                code::NO_CURRENT_ARTICLE | code::NO_SUCH_NUMBER => (self.take)(range, &[]),
                // The other answers are still to be taken.
                _ => _ = refused.get_or_insert(status.refused()),
            }
        }
        refused.map_or(Ok(is_there), Err)
    }

    async fn block(
        &mut self,
        line: &mut UpstreamConnection,
        range: RangeInclusive<u64>,
    ) -> Result<(), UpstreamError> {
        let (range_first, last) = range.into_inner();
        let mut from = range_first;
        let (mut rows, mut enough, mut next, mut bytes) = (Vec::new(), FIRST_BYTES, from, 0);
        while let Some(text) = line.block_line().await? {
            bytes += text.len();
            let number = field(text, index::NUMBER).and_then(parse_decimal);
            let number = number.filter(|number| (next..=last).contains(number));
            let Some(number) = number.filter(|_| bytes <= ANSWER_BYTES_MAX) else {
                let (text, first) = (shown(text), range_first);
                return Err(UpstreamError::Wrong(format!("`{text}` in the overview of {first}-{last}")));
            };
            next = number + 1;
            append_fitted(text, &self.group, number, &*self.is_here, &self.headers, &mut rows);
            // Rows that reach to the end of the range are shown when nothing follows them.
            if rows.len() >= enough && number < last {
                (self.take)(from..=number, &rows);
                rows.clear();
                from = next;
                enough = (enough * 4).min(LATER_BYTES_MAX);
            }
        }
        (self.take)(from..=last, &rows);
        Ok(())
    }
}

/// Appends a row as shown here; appends nothing if it lacks fields.
pub(super) fn append_fitted(
    row: &[u8],
    group: &[u8],
    number: u64,
    is_here: IsHere<'_>,
    headers: &[String],
    out: &mut Vec<u8>,
) {
    let text = |index| field(row, index).unwrap_or_default();
    if field(row, index::LINES).is_none() || MessageId::parse(text(index::MESSAGE_ID)).is_none() {
        return;
    }
    let count = |index| parse_decimal(text(index).trim_ascii()).unwrap_or_default();
    let fields = netnews::overview_row::OverviewFields {
        subject: text(index::SUBJECT),
        from: text(index::FROM),
        date: text(index::DATE),
        message_id: text(index::MESSAGE_ID),
        references: text(index::REFERENCES),
        bytes: count(index::BYTES),
        lines: count(index::LINES),
    };
    let mut gathered = Vec::with_capacity(row.len());
    append_fields(&fields, &mut gathered);
    append_headers_of_row(row, headers, &mut gathered);
    let more = row.split(|&byte| byte == b'\t').skip(index::XREF);
    let xref = more.filter_map(|text| {
        let (name, value) = text.split_at_checked(5)?;
        name.eq_ignore_ascii_case(b"Xref:").then_some(value)
    });
    let value = fitted(xref.clone().next().unwrap_or_default(), Some((group, number)), is_here);
    append_row(number, &gathered, &value, out);
}

/// Returns the size in a row, if it has one.
pub(super) fn size_in(row: &[u8]) -> Option<u64> {
    field(row, index::BYTES).and_then(parse_decimal).filter(|bytes| *bytes > 0)
}

/// Returns a word followed by a blank and the number's digits.
pub(super) fn command(word: &str, number: u64) -> Vec<u8> {
    let mut text = word.as_bytes().to_vec();
    text.push(b' ');
    append_decimal(number, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_converted_to_our_form() {
        let is_here = |group: &[u8]| group == b"a.b";
        let row = |text: &str| {
            let mut out = Vec::new();
            append_fitted(text.as_bytes(), b"a.b", 7, &is_here, &["Other".to_owned()], &mut out);
            String::from_utf8(out).unwrap()
        };
        let fields = "7\tS\tF\tD\t<x@y>\t\t100\t2";
        assert_eq!(row(fields), "7\tS\tF\tD\t<x@y>\t\t100\t2\tXref: upstream.invalid a.b:7\r\n");
        assert_eq!(row(&format!("{fields}\tXref: h c.d:1 a.b:7")), format!("{fields}\tXref: h a.b:7\r\n"));
        assert_eq!(row(&format!("{fields}\tother\txref: h a.b:9")), format!("{fields}\tXref: h a.b:7\r\n"));
        assert_eq!(
            row("7\tS\tF\tD\t<x@y>\t\t\t\t"),
            "7\tS\tF\tD\t<x@y>\t\t0\t0\tXref: upstream.invalid a.b:7\r\n"
        );
        assert_eq!(
            row(&format!("{fields}\t\tOther: o\txref: h a.b:9\tMore: m")),
            format!("{fields}\tXref: h a.b:7\tOther: o\r\n")
        );
        for bad in ["7\tS\tF\tD\t<x@y>\t\t100", "7\tS\tF\tD\tx\t\t100\t2", "7"] {
            assert_eq!(row(bad), "");
        }
    }
}
