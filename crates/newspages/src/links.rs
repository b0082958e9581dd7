//! Links in a line of text: URLs of the web, `news:` URLs and Message-IDs of this site.
//!
//! Only `http`, `https` and `ftp` links leave the site, and only when followed. Called by `view`. Sources:
//! RFC 3986 appendix C, RFC 5538.

use std::ops::Range;

use netnews::MessageId;
use netnews::message_id::MESSAGE_ID_BYTES_MAX;

use crate::{urls, work};

/// Maximum number of links of one line.
const LINKS_MAX: usize = 50;
/// Maximum length of a URL that becomes a link, in bytes.
const URL_BYTES_MAX: usize = 2048;
/// Length of the longest scheme.
const SCHEME_BYTES_MAX: usize = 5;
/// Schemes that lead to other hosts.
const SCHEMES: &[&str] = &["http://", "https://", "ftp://"];

/// A piece of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkSpan<'a> {
    /// Text without a link.
    Text(&'a str),
    /// A link to another host.
    Outside(&'a str),
    /// A link within the site: its text, and its target.
    Inside(&'a str, String),
}

/// Splits a line into pieces that cover all of it.
pub fn spans(line: &str) -> Vec<LinkSpan<'_>> {
    let (mut spans, mut start, mut from, mut links) = (Vec::new(), 0, 0, 0);
    while links < LINKS_MAX
        && let Some(at) = line.get(from..).and_then(|rest| rest.find([':', '<'])).map(|at| from + at)
        && work::take(at + 1 - from)
    {
        let found = match line.as_bytes().get(at) {
            Some(b'<') => message_id(line, at),
            _ => url(line, at, start),
        };
        match found {
            Ok((range, span)) => {
                if range.start > start {
                    spans.extend(line.get(start..range.start).map(LinkSpan::Text));
                }
                (start, from, links) = (range.end, range.end, links + 1);
                spans.push(span);
            }
            Err(next) => from = next,
        }
    }
    work::take(line.len() - from);
    spans.extend(line.get(start..).filter(|rest| !rest.is_empty()).map(LinkSpan::Text));
    spans
}

fn may_be_in_url(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !b"<>\"`{}|\\^".contains(byte)
}

/// Reports whether a letter may be in a URL as people write them (RFC 3987): not one of the scripts that have
/// no blanks between words, as those of the sentence would follow it.
fn is_letter_in_url(c: char) -> bool {
    c < '\u{2e80}' && !c.is_ascii() && c.is_alphanumeric()
}

/// Returns the length, at most `bytes_max`, to which a line can be cut so that no link is cut: before the
/// word that would be cut or, within a word longer than any link, between characters.
pub fn whole_links(line: &str, bytes_max: usize) -> usize {
    let cut = line.floor_char_boundary(bytes_max);
    let is_word_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    if is_word_end(line.as_bytes().get(cut)) {
        return cut;
    }
    let begin = cut.saturating_sub(URL_BYTES_MAX);
    let last = line.as_bytes().get(begin..cut).unwrap_or_default();
    work::take(last.len());
    let end = match last.iter().rposition(u8::is_ascii_whitespace) {
        None if begin == 0 => return 0,
        None => last.iter().rposition(|byte| !may_be_in_url(byte)),
        blank => blank,
    };
    end.map_or(cut, |end| line.floor_char_boundary(begin + end))
}

/// A link and its position, or the position from which to search for the next one: no byte is examined twice.
type FoundLink<'a> = Result<(Range<usize>, LinkSpan<'a>), usize>;

/// Finds a Message-ID in angle brackets, as in "In article <...>".
fn message_id(line: &str, at: usize) -> FoundLink<'_> {
    let link = || {
        let rest = line.as_bytes().get(at + 1..)?;
        let rest = rest.get(..rest.len().min(MESSAGE_ID_BYTES_MAX)).unwrap_or_default();
        // No Message-ID contains a second `<`.
        let bytes = memchr::memchr2(b'<', b'>', rest)?;
        work::take(bytes);
        let text = line.get(at..)?.get(..bytes + 2)?;
        let id = MessageId::parse(text.as_bytes()).filter(MessageId::is_relayable)?;
        // `<jane@example.com>` after a name may as well be an address, and `mailto:` always is.
        let inner = text.get(1..=bytes)?;
        let (left, _) = inner.split_once('@')?;
        let is_id = left.bytes().any(|b| b.is_ascii_digit()) && !inner.contains([':', ',', '/']);
        is_id.then(|| (at..at + text.len(), LinkSpan::Inside(text, urls::article(id.as_str()))))
    };
    link().ok_or(at + 1)
}

/// Finds a URL whose scheme ends with the colon at `colon` and begins at `start` or later. Text that begins
/// like a URL and is none contains no other URLs.
fn url(line: &str, colon: usize, start: usize) -> FoundLink<'_> {
    let Some(begin) = scheme_before(line, colon).filter(|begin| *begin >= start) else {
        return Err(colon + 1);
    };
    let text = line.get(begin..).unwrap_or_default();
    let is_in = |c: &char| u8::try_from(*c).is_ok_and(|byte| may_be_in_url(&byte)) || is_letter_in_url(*c);
    let bytes = text.find(|c| !is_in(&c)).unwrap_or(text.len());
    work::take(bytes);
    let link = || {
        let text = trimmed(line.get(begin..begin + bytes).filter(|text| text.len() <= URL_BYTES_MAX)?);
        let range = begin..begin + text.len();
        if let Some(place) = urls::of_news(text) {
            return Some((range, LinkSpan::Inside(text, place)));
        }
        let scheme = SCHEMES.iter().find(|scheme| {
            text.get(..scheme.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(scheme))
        })?;
        let host = text.get(scheme.len()..)?.split(['/', '?', '#']).next()?;
        // `http://user@host` shows one host and leads to another.
        // A host with other letters may look like another one.
        let is_plain = !host.is_empty() && host.is_ascii() && !host.contains('@');
        is_plain.then_some((range, LinkSpan::Outside(text)))
    };
    link().ok_or((begin + bytes).max(colon + 1))
}

/// Returns the start of the scheme before a colon, if links have it.
fn scheme_before(line: &str, colon: usize) -> Option<usize> {
    let before = line.get(..colon)?;
    let letters = before.bytes().rev().take(SCHEME_BYTES_MAX + 1).take_while(u8::is_ascii_alphabetic).count();
    let (rest, scheme) = before.split_at_checked(colon - letters)?;
    let is_known = ["http", "https", "ftp", "news"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    // The scheme must not be the end of a word.
    (is_known && !rest.ends_with(|c: char| c.is_alphanumeric())).then_some(rest.len())
}

/// Returns a URL without the punctuation of the sentence around it.
fn trimmed(url: &str) -> &str {
    let count = |wanted: u8| url.bytes().filter(|b| *b == wanted).count();
    let mut round = count(b')').saturating_sub(count(b'('));
    let mut square = count(b']').saturating_sub(count(b'['));
    let mut end = url.len();
    for b in url.bytes().rev() {
        match b {
            b'.' | b',' | b';' | b':' | b'!' | b'?' | b'*' | b'_' | b'\'' => {}
            b')' if round > 0 => round -= 1,
            b']' if square > 0 => square -= 1,
            _ => break,
        }
        end -= 1;
    }
    url.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn links(line: &str) -> Vec<String> {
        let link = |span| match span {
            LinkSpan::Text(_) => None,
            LinkSpan::Outside(url) => Some(url.to_owned()),
            LinkSpan::Inside(text, place) => Some(format!("{text} -> {place}")),
        };
        spans(line).into_iter().filter_map(link).collect()
    }

    #[test]
    fn urls_are_found_in_sentences() {
        for (line, expected) in [
            (
                "see http://example.org/a_(b), and <https://example.net>.",
                vec!["http://example.org/a_(b)", "https://example.net"],
            ),
            ("(http://example.org/x.)", vec!["http://example.org/x"]),
            ("HTTP://EXAMPLE.ORG", vec!["HTTP://EXAMPLE.ORG"]),
            ("at 'http://a.example/Moore's_law'.", vec!["http://a.example/Moore's_law"]),
            (
                "http://a.example/\u{fc}ml/\u{e9}t\u{e9}, http://a.example/\u{3092}",
                vec!["http://a.example/\u{fc}ml/\u{e9}t\u{e9}", "http://a.example/"],
            ),
            ("http://\u{430}.example/", vec![]),
            ("ftp://ftp.example.org/pub/", vec!["ftp://ftp.example.org/pub/"]),
            (
                "news:a@b.c and news:comp.lang.c.",
                vec!["news:a@b.c -> /article/a%40b.c", "news:comp.lang.c -> /groups/comp.lang.c"],
            ),
            (
                "In article <1993Apr15.2@x.edu> jane@x.edu writes:",
                vec!["<1993Apr15.2@x.edu> -> /article/1993Apr15.2%40x.edu"],
            ),
            ("Jane <jane@x.edu> writes:", vec![]),
            ("[http://example.org/a[1]]:)]", vec!["http://example.org/a[1]"]),
            ("((http://example.org/(a)))...)", vec!["http://example.org/(a)"]),
            ("<<1@x.edu>", vec!["<1@x.edu> -> /article/1%40x.edu"]),
            ("10:30 a:b c::d http: http:// ://x", vec![]),
        ] {
            assert_eq!(links(line), expected, "{line}");
        }
    }

    #[test]
    fn a_line_is_cut_outside_of_links() {
        for (line, bytes_max, cut) in [
            ("see http://a/b c", 16, 16),
            ("see http://a/b c", 15, 14),
            ("see http://a/b c", 14, 14),
            ("see http://a/b c", 13, 3),
            ("see http://a/b c", 3, 3),
            ("http://a/b", 9, 0),
            ("\u{e9} \u{e9}\u{e9}", 5, 2),
        ] {
            assert_eq!(whole_links(line, bytes_max), cut, "{line} {bytes_max}");
        }
        let long = "\u{e9}".repeat(5_000);
        assert_eq!(whole_links(&long, 9_001), 8_998);
        let long = "a".repeat(5_000);
        assert_eq!(whole_links(&long, 4_999), 4_999);
        let word = format!("{}>http://example.org/", "a".repeat(5_000));
        assert_eq!(whole_links(&word, 5_010), 5_000);
        assert!(spans(&word[..whole_links(&word, 5_010)]).len() == 1);
    }

    #[test]
    fn nothing_else_becomes_a_link() {
        for line in [
            "javascript:alert(1)",
            "data:text/html,<script>alert(1)</script>",
            "vbscript:x",
            "file:///etc/passwd",
            "xhttp://example.org",
            "http://bank.example@evil.example/",
            "news://other.example/a@b",
            "mailto:<a1@b.c>x",
            "https://\u{202e}gro.elpmaxe",
        ] {
            let found = links(line);
            assert!(found.iter().all(|link| link.starts_with('<')), "{line}: {found:?}");
        }
        assert_eq!(links("http://a/\"onmouseover=\"alert(1)"), ["http://a/"]);
        assert_eq!(spans(&"http://a ".repeat(1_000)).len(), 2 * LINKS_MAX);
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_line(line in "(http://|news:|<|>|@|1|[ -~]|\\PC){0,60}") {
            let mut whole = String::new();
            for span in spans(&line) {
                let (LinkSpan::Text(text) | LinkSpan::Outside(text) | LinkSpan::Inside(text, _)) = span;
                whole.push_str(text);
                if let LinkSpan::Outside(url) = span {
                    prop_assert!(url.chars().all(|c| is_letter_in_url(c) || c.is_ascii_graphic() && !"\"<>".contains(c)));
                }
            }
            prop_assert_eq!(whole, line);
        }
    }
}
