//! Overview rows: one line per article with what a newsreader needs to display a group.
//!
//! A row is `number TAB fields TAB Xref: value CRLF`; the fields are built once, when the article is filed,
//! so that a row is assembled by copying. Values never contain TAB, CR, LF or NUL. A site may keep further
//! headers ([`further`]). Called by ingest (fields) and the spool (rows). Source: RFC 3977 sections 8.3 and
//! 8.4.

mod further;

pub use further::{append_headers, append_headers_of_row, arrange, further, is_further};

use crate::article::{Article, BodilessArticle, Known};
use crate::decimal::append_decimal;
use memchr::{memchr, memchr_iter, memchr3};

/// Lines of LIST OVERVIEW.FMT for the rows made here. `:bytes` and `:lines` have the names that RFC 3977
/// section 8.4.2 allows for compatibility: slrn fetches every header if it does not find these.
pub const OVERVIEW_FMT: &[&str] =
    &["Subject:", "From:", "Date:", "Message-ID:", "References:", "Bytes:", "Lines:", "Xref:full"];

/// Field indexes of a row, for `field`.
pub mod index {
    /// The article number.
    pub const NUMBER: usize = 0;
    /// Subject.
    pub const SUBJECT: usize = 1;
    /// From.
    pub const FROM: usize = 2;
    /// Date.
    pub const DATE: usize = 3;
    /// Message-ID.
    pub const MESSAGE_ID: usize = 4;
    /// References.
    pub const REFERENCES: usize = 5;
    /// `:bytes`.
    pub const BYTES: usize = 6;
    /// `:lines`.
    pub const LINES: usize = 7;
    /// `Xref: value`, with its name.
    pub const XREF: usize = 8;
}

/// Content of an overview row: header contents as they are in the article (they may be folded) and two
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverviewFields<'a> {
    /// Subject.
    pub subject: &'a [u8],
    /// From.
    pub from: &'a [u8],
    /// Date.
    pub date: &'a [u8],
    /// Message-ID alone.
    pub message_id: &'a [u8],
    /// References, empty if there is none.
    pub references: &'a [u8],
    /// `:bytes`, octets of the article without dot-stuffing.
    pub bytes: u64,
    /// `:lines`, lines of the body.
    pub lines: u64,
}

impl<'a> OverviewFields<'a> {
    /// Returns the fields of an article with this Message-ID; for an article without its body, those of the
    /// whole one.
    pub fn of(article: &Article<'a>, message_id: &'a [u8]) -> Self {
        let content = |known| article.content(known).unwrap_or_default();
        let (bytes, lines) = match article.bodiless() {
            Some(BodilessArticle { bytes, lines, .. }) => (bytes, lines),
            None => (article.bytes(), article.lines()),
        };
        Self {
            subject: content(Known::Subject),
            from: content(Known::From),
            date: content(Known::Date),
            message_id,
            references: content(Known::References),
            bytes,
            lines,
        }
    }
}

/// Appends `subject TAB from TAB date TAB message-id TAB references TAB bytes TAB lines`.
pub fn append_fields(fields: &OverviewFields<'_>, out: &mut Vec<u8>) {
    for value in [fields.subject, fields.from, fields.date, fields.message_id, fields.references] {
        append_value(value, out);
        out.push(b'\t');
    }
    append_decimal(fields.bytes, out);
    out.push(b'\t');
    append_decimal(fields.lines, out);
}

/// Appends a header value as overview and HDR show it: CRLF pairs removed, then every TAB, CR, LF and NUL
/// replaced by a space (RFC 3977 sections 8.3.2 and 8.5.2).
pub fn append_value(value: &[u8], out: &mut Vec<u8>) {
    if memchr3(b'\t', b'\r', b'\n', value).is_none() && memchr(0, value).is_none() {
        out.extend_from_slice(value);
        return;
    }
    let mut bytes = value.iter().copied().peekable();
    while let Some(b) = bytes.next() {
        match b {
            b'\r' if bytes.next_if_eq(&b'\n').is_some() => {}
            b'\t' | b'\r' | b'\n' | 0 => out.push(b' '),
            other => out.push(other),
        }
    }
}

/// Appends a whole row: `number TAB fields TAB Xref: value CRLF`, with further headers before the CRLF if
/// `fields_text` has any; without the Xref part if `xref_value` is empty.
pub fn append_row(number: u64, fields_text: &[u8], xref_value: &[u8], out: &mut Vec<u8>) {
    out.reserve(fields_text.len() + xref_value.len() + 32);
    append_decimal(number, out);
    let (fields, further) = further::split(fields_text);
    out.push(b'\t');
    out.extend_from_slice(fields);
    if !xref_value.is_empty() {
        out.extend_from_slice(b"\tXref: ");
        append_value(xref_value, out);
    }
    if !further.is_empty() {
        out.extend_from_slice(if xref_value.is_empty() { b"\t\t" } else { b"\t" });
        out.extend_from_slice(further);
    }
    out.extend_from_slice(b"\r\n");
}

/// Returns the field at `index` (see [`index`]) of a row, with or without its CRLF; `None` if the row has
/// fewer.
pub fn field(row: &[u8], index: usize) -> Option<&[u8]> {
    let row = row.strip_suffix(b"\r\n").unwrap_or(row);
    let mut tabs = memchr_iter(b'\t', row);
    let start = match index.checked_sub(1) {
        None => 0,
        Some(before) => tabs.nth(before)? + 1,
    };
    let end = tabs.next().unwrap_or(row.len());
    row.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(fields: &OverviewFields<'_>, xref: &[u8]) -> Vec<u8> {
        let (mut text, mut out) = (Vec::new(), Vec::new());
        append_fields(fields, &mut text);
        append_row(3000234, &text, xref, &mut out);
        out
    }

    #[test]
    fn the_row_of_the_rfc() {
        let fields = OverviewFields {
            subject: b"I am just a test article",
            from: b"\"Demo User\" <nobody@example.com>",
            date: b"6 Oct 1998 04:38:40 -0500",
            message_id: b"<45223423@example.com>",
            references: b"<45454@example.net>",
            bytes: 1234,
            lines: 17,
        };
        let expected: &[u8] = b"3000234\tI am just a test article\t\"Demo User\" <nobody@example.com>\t\
6 Oct 1998 04:38:40 -0500\t<45223423@example.com>\t<45454@example.net>\t1234\t17\tXref: news.example.com \
misc.test:3000363\r\n";
        assert_eq!(row(&fields, b"news.example.com misc.test:3000363"), expected);
        assert_eq!(field(expected, index::XREF).unwrap(), b"Xref: news.example.com misc.test:3000363");
    }

    #[test]
    fn folds_and_controls() {
        let mut out = Vec::new();
        append_value(b"one\r\n\ttwo\r\n  three\tfour\0five\rsix\nseven", &mut out);
        assert_eq!(out, b"one two  three four five six seven");
    }

    #[test]
    fn without_xref_there_is_no_ninth_field() {
        let row = row(&OverviewFields::default(), b"");
        assert_eq!(row, b"3000234\t\t\t\t\t\t0\t0\r\n");
        assert_eq!(field(&row, index::LINES), Some(&b"0"[..]));
        assert_eq!(field(&row, index::XREF), None);
        assert_eq!(field(b"", 0), Some(&b""[..]));
        assert_eq!(field(b"", 1), None);
    }

    proptest! {
        #[test]
        fn row_has_nine_fields_for_any_values(
            values in prop::array::uniform5(prop::collection::vec(any::<u8>(), 0..60)),
            bytes: u64, lines: u64,
        ) {
            let [subject, from, date, message_id, references] = &values;
            let fields = OverviewFields { subject, from, date, message_id, references, bytes, lines };
            let row = row(&fields, b"h g:1");
            prop_assert_eq!(memchr_iter(b'\t', &row).count(), 8);
            prop_assert_eq!(memchr_iter(b'\n', &row).count(), 1);
            prop_assert_eq!(memchr_iter(b'\r', &row).count(), 1);
            prop_assert_eq!(memchr(0, &row), None);
            let lines_field = field(&row, index::LINES).and_then(crate::decimal::parse_decimal);
            prop_assert_eq!(lines_field, Some(lines));
            let bytes_field = field(&row, index::BYTES).and_then(crate::decimal::parse_decimal);
            prop_assert_eq!(bytes_field, Some(bytes));
        }
    }
}
