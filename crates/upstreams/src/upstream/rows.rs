//! Overview rows of an upstream, checked and converted to the form sent here.
//!
//! Rows are passed on while they arrive, a few at first and then more at once, and kept when the answer is
//! complete: rows of a refused answer are not kept (`group`). A row that lacks fields, or has a TAB too many,
//! is made from the article's headers, as far as there are few of that kind. Sources: RFC 3977 section 8.3,
//! RFC 2980 section 2.8.

use super::line::UpstreamConnection;
use super::pool::UpstreamQuestion;
use super::questions::found;
use super::trouble::{UpstreamError, shown};
use super::xref::{IsHere, NumbersHere, fitted};
use netnews::MessageId;
use netnews::article::{HEADER_BYTES_MAX, content_of};
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::nntp::response::code;
use netnews::overview_row::{OverviewFields, append_fields, append_headers_of_row, append_row, field, index};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tracing::warn;

/// Bytes of rows passed on at once, initially and at most.
const FIRST_BYTES: usize = 1;
const LATER_BYTES_MAX: usize = 64 << 10;
/// Most numbers whose rows are requested at once, and most bytes of rows in one answer: several times their
/// usual size.
pub(super) const NUMBERS_MAX: u64 = 10_000;
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Most lines of an answer that are no rows, and most rows of one range that cannot be read.
const UNREADABLE_MAX: usize = 32;

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
        let (mut refused, mut held) = (None, Vec::new());
        for range in self.ranges.clone() {
            let status = line.answer().await?;
            match status.code {
                _ if !is_there => {}
                code::OVERVIEW_FOLLOWS => self.block(line, range, &mut held).await?,
                // No article in that range.
                code::NO_CURRENT_ARTICLE | code::NO_SUCH_NUMBER => self.pass_on(range, Vec::new(), &mut held),
                // The other answers are still to be taken.
                _ => _ = refused.get_or_insert(status.refused()),
            }
        }
        for part in held {
            self.mend(line, part).await?;
        }
        refused.map_or(Ok(is_there), Err)
    }

    /// Passes on the rows of a part of a range, after the parts that are held.
    fn pass_on(&mut self, range: RangeInclusive<u64>, rows: Vec<u8>, held: &mut Vec<HeldRows>) {
        if held.is_empty() {
            (self.take)(range, &rows);
        } else {
            held.push(HeldRows { range, rows, unreadable: Vec::new() });
        }
    }

    /// Takes the rows of a range. Rows are held from the first on that cannot be read: an article that is
    /// left out is taken for expired. Lines that are no rows are left out.
    async fn block(
        &mut self,
        line: &mut UpstreamConnection,
        range: RangeInclusive<u64>,
        held: &mut Vec<HeldRows>,
    ) -> Result<(), UpstreamError> {
        let (range_first, last) = range.into_inner();
        let mut from = range_first;
        let (mut rows, mut enough, mut next, mut bytes) = (Vec::new(), FIRST_BYTES, from, 0);
        let (mut unreadable, mut stray) = (Vec::new(), 0);
        while let Some(text) = line.block_line().await? {
            bytes += text.len();
            let number = field(text, index::NUMBER).and_then(parse_decimal);
            let is_stray = number.is_none_or(|number| number + 1 == next && number >= range_first);
            stray += usize::from(is_stray);
            let is_bounded = bytes <= ANSWER_BYTES_MAX && stray.max(unreadable.len()) <= UNREADABLE_MAX;
            let number = number.filter(|number| (next..=last).contains(number));
            let number = match number.filter(|_| is_bounded) {
                Some(number) => number,
                None if is_stray && is_bounded => {
                    // The rest of a row that was broken, or a row sent twice.
                    warn_of(&self.group, text);
                    continue;
                }
                None => {
                    let (text, first) = (shown(text), range_first);
                    return Err(UpstreamError::Wrong(format!("`{text}` in the overview of {first}-{last}")));
                }
            };
            next = number + 1;
            if !append_fitted(text, &self.group, number, &*self.is_here, &self.headers, &mut rows) {
                warn_of(&self.group, text);
                unreadable.push(number);
            }
            // Rows that reach to the end of the range are shown when nothing follows them.
            if rows.len() >= enough && number < last && unreadable.is_empty() && held.is_empty() {
                (self.take)(from..=number, &rows);
                rows.clear();
                from = next;
                enough = (enough * 4).min(LATER_BYTES_MAX);
            }
        }
        if unreadable.is_empty() {
            self.pass_on(from..=last, rows, held);
        } else {
            held.push(HeldRows { range: from..=last, rows, unreadable });
        }
        Ok(())
    }

    /// Passes on held rows, with those of articles whose rows cannot be read made from their headers.
    async fn mend(&mut self, line: &mut UpstreamConnection, part: HeldRows) -> Result<(), UpstreamError> {
        let HeldRows { range, rows, unreadable } = part;
        let mut rest = rows.split_inclusive(|byte| *byte == b'\n').peekable();
        let mut mended = Vec::with_capacity(rows.len());
        for number in unreadable {
            let is_before = |row: &&[u8]| {
                field(row, index::NUMBER).and_then(parse_decimal).is_some_and(|before| before < number)
            };
            while let Some(row) = rest.next_if(is_before) {
                mended.extend_from_slice(row);
            }
            self.append_row_of_head(line, number, &mut mended).await?;
        }
        rest.for_each(|row| mended.extend_from_slice(row));
        (self.take)(range, &mended);
        Ok(())
    }

    /// Appends the row of an article, made from its headers. The article's size stays unknown.
    async fn append_row_of_head(
        &mut self,
        line: &mut UpstreamConnection,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), UpstreamError> {
        let status = line.request(command("HEAD", number)).await?;
        if status.code != code::HEAD_FOLLOWS {
            // The article has expired, or cannot be had: no reason to lose the other rows.
            return Ok(());
        }
        let mut head = Vec::new();
        while let Some(text) = line.block_line().await? {
            if head.len() + text.len() <= HEADER_BYTES_MAX {
                head.extend_from_slice(text);
                head.extend_from_slice(b"\r\n");
            }
        }
        let of = |name: &[u8]| content_of(&head, name).unwrap_or_default();
        let id = of(b"Message-ID").trim_ascii();
        let (Ok((_, asked)), Some(id)) = (found(&status), MessageId::parse(id)) else {
            // Without a Message-ID it cannot be had either.
            return Ok(());
        };
        let id = id.as_bytes();
        if asked != id {
            return Err(UpstreamError::Wrong(format!("`{}` in answer to HEAD {number}", shown(id))));
        }
        let fields = OverviewFields {
            subject: of(b"Subject"),
            from: of(b"From"),
            date: of(b"Date"),
            message_id: id,
            references: of(b"References"),
            bytes: 0,
            lines: parse_decimal(of(b"Lines").trim_ascii()).unwrap_or_default(),
        };
        let mut text = Vec::with_capacity(head.len());
        append_fields(&fields, &mut text);
        append_row(number, &text, &fitted(of(b"Xref"), Some((&self.group, number)), &*self.is_here), out);
        Ok(())
    }
}

/// Rows of a part of a range that wait for others; `unreadable` are the numbers of articles whose rows could
/// not be read.
struct HeldRows {
    range: RangeInclusive<u64>,
    rows: Vec<u8>,
    unreadable: Vec<u64>,
}

fn warn_of(group: &[u8], text: &[u8]) {
    warn!(group = shown(group), line = shown(text), "wrong answer: no row of the overview");
}

/// Appends a row as shown here; returns false if it lacks fields.
pub(super) fn append_fitted(
    row: &[u8],
    group: &[u8],
    number: u64,
    is_here: IsHere<'_>,
    headers: &[String],
    out: &mut Vec<u8>,
) -> bool {
    let text = |index| field(row, index).unwrap_or_default();
    if field(row, index::LINES).is_none() || MessageId::parse(text(index::MESSAGE_ID)).is_none() {
        return false;
    }
    let count = |index| parse_decimal(text(index).trim_ascii()).unwrap_or_default();
    let fields = OverviewFields {
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
    true
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
