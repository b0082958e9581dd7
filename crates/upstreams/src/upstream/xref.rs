//! Xref as shown to readers here.
//!
//! An upstream lists an article's groups and numbers on that server. Only those of groups that it numbers
//! are valid here; the numbers of all others belong to another server, and would make newsreaders mark
//! wrong articles as read. Source: RFC 5536 section 3.2.14.

use netnews::article::{Headers, content};
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::newsgroups;
use std::sync::Arc;

/// Decides whose groups' numbers are valid here.
pub(super) type IsHere<'a> = &'a (dyn Fn(&[u8]) -> bool + Send + Sync);

/// Like [`IsHere`], to be stored.
pub(super) type NumbersHere = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Host used if an upstream names none.
const NOBODY: &[u8] = b"upstream.invalid";

/// Most bytes of an Xref location beside the group's name, and of the host if there is none.
const OWN_BYTES: usize = 40;

/// Head of an article, parsed once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct XrefHead<'a> {
    /// Header lines, each with its CRLF.
    pub head: &'a [u8],
    /// Offset of the body, or the article's end if there is none.
    pub body_at: usize,
    /// Value of the first Xref, with its folds; empty if there is none.
    pub xref: &'a [u8],
}

impl<'a> XrefHead<'a> {
    pub fn of(article: &'a [u8]) -> Self {
        let (mut at, mut end, mut xref, mut is_in_xref) = (0, article.len(), 0..0, false);
        for lf in memchr::memchr_iter(b'\n', article) {
            let line = at..lf + 1;
            at = line.end;
            let text = article.get(line.clone()).unwrap_or_default();
            if text == b"\r\n" && article.get(..line.start).is_some_and(|head| head.ends_with(b"\r\n")) {
                end = line.start;
                break;
            }
            if matches!(text.first(), Some(b' ' | b'\t')) {
                if is_in_xref {
                    xref.end = line.end;
                }
                continue;
            }
            let is_name = |name: &[u8]| name.eq_ignore_ascii_case(b"Xref:");
            is_in_xref = xref.is_empty() && text.get(..5).is_some_and(is_name);
            if is_in_xref {
                xref = line.start + 5..line.end;
            }
        }
        let head = article.get(..end).unwrap_or_default();
        let body_at = article.len().min(end + 2);
        let xref = head.get(xref).unwrap_or_default();
        Self { head, body_at, xref: content(xref.strip_suffix(b"\r\n").unwrap_or(xref)) }
    }
}

/// Returns the value with the locations valid here; `own` is one known to be valid, whatever the value
/// contains.
pub(super) fn fitted(value: &[u8], own: Option<(&[u8], u64)>, is_here: IsHere<'_>) -> Vec<u8> {
    let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let host = words.next().filter(|host| !host.contains(&b':')).unwrap_or(NOBODY);
    let mut out = Vec::with_capacity(value.len() + own.map_or(0, |(name, _)| name.len() + OWN_BYTES));
    out.extend_from_slice(host);
    let mut push = |group: &[u8], number: u64| {
        out.push(b' ');
        out.extend_from_slice(group);
        out.push(b':');
        append_decimal(number, &mut out);
    };
    let mut own = own;
    for word in words {
        let Some(colon) = memchr::memrchr(b':', word) else { continue };
        let (group, number) = word.split_at_checked(colon).unwrap_or_default();
        let Some(number) = number.get(1..).and_then(parse_decimal) else { continue };
        match own {
            Some((name, number)) if name == group => {
                push(name, number);
                own = None;
            }
            _ if newsgroups::valid_name(group) && is_here(group) => push(group, number),
            _ => {}
        }
    }
    if let Some((name, number)) = own {
        push(name, number);
    }
    out
}

/// Returns whether the value has only this location, in the form of [`fitted`].
pub(super) fn is_only(value: &[u8], group: &[u8], number: u64) -> bool {
    let Some(space) = memchr::memchr(b' ', value) else { return false };
    let (host, place) = value.split_at_checked(space).unwrap_or_default();
    let digits = place.get(1..).and_then(|place| place.strip_prefix(group)?.strip_prefix(b":"));
    let is_host = !host.is_empty() && !host.iter().any(|b| *b == b':' || b.is_ascii_whitespace());
    is_host && digits.is_some_and(|digits| parse_decimal(digits) == Some(number) && !digits.starts_with(b"0"))
}

/// Returns whether the Xref in these header lines has this location.
pub(super) fn has_place(head: &[u8], group: &[u8], number: u64) -> bool {
    let mut digits = Vec::new();
    append_decimal(number, &mut digits);
    netnews::article::xref_places(head).any(|place| place == (group, &digits[..]))
}

/// Returns an article with another value of Xref; without the header if it is empty.
pub(super) fn with_xref(article: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(article.len() + value.len() + 8);
    if !value.is_empty() {
        out.extend_from_slice(b"Xref: ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    let mut rest = article;
    for (name, lines) in Headers::of(article).fields().lines() {
        // The last line may have been cut off.
        let Some(after) = rest.get(lines.len()..).filter(|_| lines.ends_with(b"\r\n")) else { break };
        if !name.eq_ignore_ascii_case(b"Xref") {
            out.extend_from_slice(lines);
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_as_elsewhere() {
        let articles: [&[u8]; 10] = [
            b"From: a\r\nXref: h a.b:1\r\nTo: c\r\n\r\nXref: not:1\r\n",
            b"XREF:\r\n h a.b:1\r\n\tc.d:2\r\nTo: c\r\n d\r\n\r\nbody\r\n",
            b"Subject: s\r\n Xref: folded:1\r\nxref: h x:1\r\nXref: h y:2\r\n\r\n",
            b"Xref-Old: h a:1\r\nNXref: h a:1\r\nSubject: s\r\n\r\nbody\r\n",
            b"Subject: s\r\nXref: h a:1\r\n",
            b"Subject: s\r\nXref: h a:1",
            b"Subject: lf\n\r\nXref: h a:1\r\n\r\nbody\r\n",
            b"Xref: \r\n\r\n",
            b"\r\nbody\r\n",
            b"",
        ];
        for article in articles {
            let end = memchr::memmem::find(article, b"\r\n\r\n");
            let head = article.get(..end.map_or(article.len(), |end| end + 2)).unwrap_or_default();
            let found = XrefHead::of(article);
            assert_eq!((found.head, found.body_at), (head, end.map_or(article.len(), |end| end + 4)));
            if !head.starts_with(b"\r\n") && !head.starts_with(b"Subject: lf\n") {
                let xref = netnews::article::content_of(head, b"Xref").unwrap_or_default();
                assert_eq!(found.xref, xref, "{:?}", String::from_utf8_lossy(article));
            }
        }
    }

    #[test]
    fn only_locations_valid_here_are_shown() {
        let is_here = |group: &[u8]| group.starts_with(b"comp.");
        let value = |text: &str, own: Option<(&[u8], u64)>| {
            String::from_utf8(fitted(text.as_bytes(), own, &is_here)).unwrap()
        };
        for (text, expected) in [
            ("h comp.a:1 misc.b:2 comp.c:3", "h comp.a:1 comp.c:3"),
            ("h  comp.a:x comp.c:3 junk", "h comp.c:3"),
            ("", "upstream.invalid"),
        ] {
            assert_eq!(value(text, None), expected);
        }
        assert_eq!(value("h comp.c:3 misc.b:2", Some((b"misc.b", 7))), "h comp.c:3 misc.b:7");
        assert_eq!(value("comp.c:3", Some((b"misc.b", 7))), "upstream.invalid misc.b:7");
    }

    #[test]
    fn a_single_location_is_recognized_without_building_the_value() {
        for (value, is) in [
            ("h comp.c:3", true),
            ("h comp.c:3 comp.a:1", false),
            ("h comp.a:3", false),
            ("h comp.c:4", false),
            ("h  comp.c:3", false),
            ("h comp.c:03", false),
            ("h comp.c:3 ", false),
            ("h:1 comp.c:3", false),
            ("comp.c:3", false),
            (" comp.c:3", false),
            ("", false),
        ] {
            assert_eq!(is_only(value.as_bytes(), b"comp.c", 3), is, "{value:?}");
            let made = fitted(value.as_bytes(), Some((b"comp.c", 3)), &|_| false);
            assert!(!is || made == value.as_bytes(), "{value:?}");
        }
    }

    #[test]
    fn the_header_is_replaced() {
        let article = b"Path: x\r\nXref: h a:1\r\n b:2\r\nFrom: y\r\n\r\nXref: h a:1\r\n";
        assert_eq!(with_xref(article, b"h b:2"), b"Xref: h b:2\r\nPath: x\r\nFrom: y\r\n\r\nXref: h a:1\r\n");
        assert_eq!(with_xref(article, b""), b"Path: x\r\nFrom: y\r\n\r\nXref: h a:1\r\n");
        assert!(has_place(article, b"a", 1) && has_place(article, b"b", 2) && !has_place(article, b"a", 12));
    }
}
