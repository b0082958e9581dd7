//! The characters that text from others must not contain where it is logged, printed, mailed or answered:
//! nothing in it may move a cursor, reorder the text around it or hide.
//!
//! Called by everything that repeats text of articles and of other servers; `site_base::printable` escapes by
//! the same rule. Source: Unicode TR 36 section 2.6 and 3.

use std::borrow::Cow;

/// Returns whether a terminal would obey `c`, or show nothing for it: controls (C0, DEL, C1, including line
/// feeds and tabs), line separators, controls of the direction of text, and other invisible format
/// characters. Marks of direction and joiners (U+200C to U+200F), which ordinary text needs, are printable.
pub fn is_unprintable(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{180e}' | '\u{200b}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

/// Returns `text` with `with` in the place of each such character.
pub fn replaced(text: &str, with: char) -> Cow<'_, str> {
    match text.contains(is_unprintable) {
        true => Cow::Owned(text.chars().map(|c| if is_unprintable(c) { with } else { c }).collect()),
        false => Cow::Borrowed(text),
    }
}

/// Returns `text` without such characters.
pub fn stripped(text: &str) -> Cow<'_, str> {
    match text.contains(is_unprintable) {
        true => Cow::Owned(text.chars().filter(|c| !is_unprintable(*c)).collect()),
        false => Cow::Borrowed(text),
    }
}

/// Returns `text` as one line: what such characters separate is trimmed and joined by blanks.
pub fn one_line(text: &str) -> String {
    let parts = text.split(is_unprintable).map(str::trim).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_format_characters_are_replaced_and_letters_are_not() {
        let evil = "a\x1b[2J\r\n\t\u{7f}\u{9b}\u{2028}\u{202e}\u{2066}\u{200b}\u{feff}\u{fff9}\u{e0041}b";
        assert_eq!(replaced(evil, '_'), "a_[2J____________b");
        assert_eq!(stripped(evil), "a[2Jb");
        assert_eq!(one_line(" a\t\r\n b\u{202e} c d "), "a b c d");
        for text in [
            "plain ~",
            "Gr\u{fc}\u{df}e \u{5d0}\u{200f}",
            "\u{645}\u{200c}\u{6cc}",
            "\u{1f468}\u{200d}\u{1f4bb}",
        ] {
            assert!(matches!(replaced(text, ' '), Cow::Borrowed(_)), "{text:?}");
        }
    }
}
