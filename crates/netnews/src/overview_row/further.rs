//! Further headers of overview rows: those that a site keeps in addition to the eight fields of all rows.
//!
//! A stored row has after Xref, in any order, `Name: value` for each further header of its article, and
//! `Name:` for each that the article lacks. A header not named in the row was not kept when the row was made,
//! so its value is unknown. [`arrange`] turns a stored row into the form that OVER sends. Source: RFC 3977
//! sections 8.3.2 and 8.4.2.

use super::{append_value, field, index};
use crate::article::content_of;
use memchr::{memchr, memchr_iter};

/// Delimiter before and after the further headers in the text of a row's fields; no value contains it.
const MARK: u8 = b'\n';

/// Returns whether rows can have a header of this name as a further one: it is a header's name, and not one
/// of those that all rows have or that LIST OVERVIEW.FMT names otherwise.
pub fn is_further(name: &[u8]) -> bool {
    const FIXED: [&[u8]; 8] =
        [b"Subject", b"From", b"Date", b"Message-ID", b"References", b"Bytes", b"Lines", b"Xref"];
    let is_name = !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b':');
    is_name && !FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(name))
}

/// Appends these headers, as they are in `head`, to the text written by [`super::append_fields`]; nothing if
/// `names` is empty.
pub fn append_headers<N: AsRef<[u8]>>(head: &[u8], names: &[N], out: &mut Vec<u8>) {
    let found = |name| (name, content_of(head, name).unwrap_or_default());
    append_found(names.iter().map(|name| found(name.as_ref())), out);
}

/// Appends these headers from the overview row of another server, as far as it has them. A field that is
/// empty there may stand for an absent or for an empty header.
pub fn append_headers_of_row<N: AsRef<[u8]>>(row: &[u8], names: &[N], out: &mut Vec<u8>) {
    let row = row.strip_suffix(b"\r\n").unwrap_or(row);
    let fields = || row.split(|b| *b == b'\t').skip(index::XREF);
    let value = |name| fields().filter_map(|field| value_of(field, name)).find(|value| !value.is_empty());
    append_found(names.iter().filter_map(|name| Some((name.as_ref(), value(name.as_ref())?))), out);
}

fn append_found<'a>(headers: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    let mut any = false;
    for (name, content) in headers {
        out.push(if any { b'\t' } else { MARK });
        any = true;
        out.extend_from_slice(name);
        out.push(b':');
        let content = content.trim_ascii();
        if !content.is_empty() {
            out.push(b' ');
            append_value(content, out);
        }
    }
    if any {
        out.push(MARK);
    }
}

/// Splits the text of a row's fields: the fields that all rows have, and the further headers.
pub(super) fn split(fields_text: &[u8]) -> (&[u8], &[u8]) {
    let Some(text) = fields_text.strip_suffix(&[MARK]) else { return (fields_text, &[]) };
    match memchr(MARK, text).and_then(|at| text.split_at_checked(at)) {
        Some((fields, further)) => (fields, further.get(1..).unwrap_or_default()),
        None => (text, &[]),
    }
}

/// Returns the value of a further header in a stored row: empty if the article does not have it, `None` if
/// the row does not name it.
pub fn further<'a>(row: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    after_xref(row)?.split(|b| *b == b'\t').find_map(|field| value_of(field, name))
}

/// Returns the part of a row after Xref.
fn after_xref(row: &[u8]) -> Option<&[u8]> {
    let row = row.strip_suffix(b"\r\n").unwrap_or(row);
    row.get(memchr_iter(b'\t', row).nth(index::XREF)? + 1..)
}

/// Returns the value of `field` if it is the header of this name.
fn value_of<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = field.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":").filter(|_| found.eq_ignore_ascii_case(name))?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

/// Appends a stored row as OVER sends it: after Xref comes a field for each of `names`, empty where the
/// article does not have the header or the row does not name it, without the empty ones at the end.
pub fn arrange<N: AsRef<[u8]>>(row: &[u8], names: &[N], out: &mut Vec<u8>) {
    let Some(stored) = after_xref(row) else {
        out.extend_from_slice(row);
        return;
    };
    let text = row.strip_suffix(b"\r\n").unwrap_or(row);
    let until = text.len() - stored.len() - 1;
    let bare = text.get(..until).unwrap_or_default();
    // Without an Xref its field is empty, and may be the last.
    let is_xref_empty = field(bare, index::XREF).is_some_and(<[u8]>::is_empty);
    let mut tabs = usize::from(is_xref_empty);
    out.extend_from_slice(bare.get(..bare.len() - tabs).unwrap_or_default());
    for name in names.iter().map(AsRef::as_ref) {
        tabs += 1;
        let found = stored.split(|b| *b == b'\t').find_map(|field| value_of(field, name));
        if let Some(value) = found.filter(|value| !value.is_empty()) {
            out.extend(std::iter::repeat_n(b'\t', std::mem::take(&mut tabs)));
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::{OverviewFields, append_fields, append_row};
    use super::*;
    use proptest::prelude::*;

    const HEAD: &[u8] = b"Path: a!b\r\nkeywords: one\r\n\ttwo\r\nKeywords: three\r\nSummary:\r\n\r\n";

    fn stored(head: &[u8], names: &[&str], xref: &[u8]) -> Vec<u8> {
        let (mut text, mut row) = (Vec::new(), Vec::new());
        append_fields(
            &OverviewFields { subject: b"s", message_id: b"<a@b>", ..OverviewFields::default() },
            &mut text,
        );
        append_headers(head, names, &mut text);
        append_row(7, &text, xref, &mut row);
        row
    }

    fn arranged(row: &[u8], names: &[&str]) -> String {
        let mut out = Vec::new();
        arrange(row, names, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn stored_row_names_known_headers() {
        let row = stored(HEAD, &["Keywords", "Summary", "Path"], b"h g:7");
        let expected = "7\ts\t\t\t<a@b>\t\t0\t0\tXref: h g:7\tKeywords: one two\tSummary:\tPath: a!b\r\n";
        assert_eq!(String::from_utf8(row.clone()).unwrap(), expected);
        assert_eq!(field(&row, index::XREF), Some(&b"Xref: h g:7"[..]));
        assert_eq!(further(&row, b"KEYWORDS"), Some(&b"one two"[..]));
        assert_eq!(further(&row, b"summary"), Some(&b""[..]), "it is known that there is none");
        assert_eq!(further(&row, b"Keyword"), None);
        assert_eq!(further(&stored(HEAD, &[], b"h g:7"), b"Keywords"), None);
    }

    #[test]
    fn sent_row_has_the_requested_fields_in_order() {
        let bare = "7\ts\t\t\t<a@b>\t\t0\t0\tXref: h g:7";
        let row = stored(HEAD, &["Keywords", "Summary", "Path"], b"h g:7");
        for (names, expected) in [
            (&["Path", "Keywords"][..], format!("{bare}\tPath: a!b\tKeywords: one two\r\n")),
            (&["Summary", "New", "KEYWORDS", "Later"], format!("{bare}\t\t\tKEYWORDS: one two\r\n")),
            (&["Summary", "New"], format!("{bare}\r\n")),
            (&[], format!("{bare}\r\n")),
        ] {
            assert_eq!(arranged(&row, names), expected, "{names:?}");
        }
        let old = stored(HEAD, &[], b"h g:7");
        assert_eq!(arranged(&old, &["Keywords"]).as_bytes(), old);
    }

    #[test]
    fn without_xref_its_field_is_empty() {
        let row = stored(HEAD, &["Path"], b"");
        assert_eq!((field(&row, index::XREF), further(&row, b"Path")), (Some(&b""[..]), Some(&b"a!b"[..])));
        assert_eq!(arranged(&row, &["Path"]), "7\ts\t\t\t<a@b>\t\t0\t0\t\tPath: a!b\r\n");
        assert_eq!(arranged(&row, &["Summary"]), "7\ts\t\t\t<a@b>\t\t0\t0\r\n");
    }

    #[test]
    fn fields_missing_in_another_servers_row_are_unknown() {
        let row = b"7\ts\tf\td\t<a@b>\t\t0\t0\tXref: h g:7\t\tkeywords: k\tSummary: \tOther: o\r\n";
        let mut text = b"fields".to_vec();
        append_headers_of_row(row, &["Keywords", "Summary", "Path"], &mut text);
        assert_eq!(text, b"fields\nKeywords: k\n");
        append_headers_of_row(row, &["Path"], &mut text);
        assert_eq!(split(&text), (&b"fields"[..], &b"Keywords: k"[..]));
    }

    #[test]
    fn standard_fields_are_not_further_headers() {
        for name in ["subject", "Message-ID", "XREF", "bytes", "Lines", "", "A B", "A:", ":bytes", "\u{e9}"] {
            assert!(!is_further(name.as_bytes()), "{name}");
        }
        assert!(is_further(b"Newsgroups") && is_further(b"X-Trace"));
    }

    proptest! {
        #[test]
        fn row_is_one_line_for_any_values(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 2),
            xref in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut head = Vec::new();
            for (name, value) in ["Keywords", "Summary"].iter().zip(&values) {
                let value: Vec<u8> = value.iter().copied().filter(|b| !b"\r\n".contains(b)).collect();
                head.extend_from_slice(&[name.as_bytes(), b": ", &value, b"\r\n"].concat());
            }
            let names = ["Keywords", "Summary"];
            let row = stored(&head, &names, &xref);
            prop_assert_eq!(memchr_iter(b'\n', &row).count(), 1);
            prop_assert_eq!(memchr_iter(b'\t', &row).count(), 10);
            let sent = arranged_bytes(&row, &names);
            prop_assert_eq!(memchr_iter(b'\n', &sent).count(), 1);
            prop_assert!(memchr_iter(b'\t', &sent).count() <= 10);
            for name in names {
                let kept = further(&row, name.as_bytes()).unwrap();
                let shown = further(&sent, name.as_bytes()).unwrap_or_default();
                prop_assert_eq!(kept, shown);
            }
        }
    }

    fn arranged_bytes(row: &[u8], names: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        arrange(row, names, &mut out);
        out
    }
}
