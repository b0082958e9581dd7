//! Conversion of octets in some charset to text that can be shown.
//!
//! `netnews::charset` decodes; here the work is counted, and characters that would change the display of the
//! page are replaced. Called by everything that shows text. Source: RFC 2045 section 5.2.

pub use netnews::charset::{has_shifts, is_utf_8};

use crate::work;

/// Decodes octets that were declared to be in this charset.
pub fn decode(declared: Option<&str>, octets: &[u8]) -> String {
    work::take(octets.len());
    clean(&netnews::charset::decode(declared, octets))
}

/// Decodes octets without a declared charset.
pub fn guess(octets: &[u8]) -> String {
    decode(None, octets)
}

/// Returns text without characters that would change the display of the page around it: control characters
/// become pictures of themselves, overrides of the writing direction are replaced. CR is dropped; LF and TAB
/// stay.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.bytes().position(may_be_unclean)
        && work::take(at + 1)
    {
        let (good, after) = rest.split_at(at);
        out.push_str(good);
        let mut chars = after.chars();
        match chars.next() {
            Some('\r') | Some('\u{feff}' | '\u{fffe}' | '\u{ffff}') | None => {}
            Some(c @ '\0'..='\u{1f}') => {
                out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'))
            }
            Some('\u{7f}') => out.push('\u{2421}'),
            Some('\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push('\u{fffd}');
            }
            Some(other) => out.push(other),
        }
        rest = chars.as_str();
    }
    work::take(rest.len());
    out.push_str(rest);
    out
}

/// Returns whether a character that begins with this octet of UTF-8 may need replacement.
fn may_be_unclean(first: u8) -> bool {
    matches!(first, 0..=0x08 | 0x0b..=0x1f | 0x7f | 0xc2 | 0xe2 | 0xef)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn declared_charset_is_used_if_plausible() {
        for (declared, octets, expected) in [
            (None, &b"plain"[..], "plain"),
            (None, "Gr\u{fc}\u{df}e \u{20ac}".as_bytes(), "Gr\u{fc}\u{df}e \u{20ac}"),
            (None, b"Gr\xfc\xdfe \x80 \x93x\x94", "Gr\u{fc}\u{df}e \u{20ac} \u{201c}x\u{201d}"),
            (Some("us-ascii"), "\u{fc}".as_bytes(), "\u{fc}"),
            (Some("ISO-8859-1"), b"\xfc", "\u{fc}"),
            (Some("utf-8"), b"\xfc!", "\u{fc}!"),
            (Some(" KOI8-R "), b"\xf0\xd2", "\u{41f}\u{440}"),
            (Some("iso-8859-15"), b"\xa4", "\u{20ac}"),
            (Some("iso-2022-jp"), b"\x1b$B$\"\x1b(B.", "\u{3042}."),
            (Some("gb2312"), b"\xc4\xe3", "\u{4f60}"),
            (Some("x-unknown"), b"a\xe9", "a\u{e9}"),
            (Some("iso-2022-kr"), b"text", "text"),
            (Some("utf-16le"), b"<\0b\0", "<b"),
            (Some("\"><script>"), b"x", "x"),
        ] {
            assert_eq!(decode(declared, octets), expected, "{declared:?} {octets:?}");
        }
    }

    #[test]
    fn truncated_utf_8_is_recognized() {
        assert_eq!(guess("\u{e9}t\u{e9}".as_bytes().get(..4).unwrap()), "\u{e9}t");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(clean("a\x1b[2Jb\0c\x7f\r\n\td"), "a\u{241b}[2Jb\u{2400}c\u{2421}\n\td");
        assert_eq!(clean("gpj.\u{202e}exe\u{2066}\u{9b}"), "gpj.\u{fffd}exe\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn text_is_clean_and_bounded(label in "[ -~]{0,12}", octets in prop::collection::vec(any::<u8>(), 0..200)) {
            for text in [decode(Some(&label), &octets), decode(Some("iso-2022-jp"), &octets), guess(&octets)] {
                prop_assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
                prop_assert!(text.len() <= 3 * octets.len() + 3);
            }
        }
    }
}
