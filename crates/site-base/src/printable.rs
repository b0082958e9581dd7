//! Text from others, made safe for a terminal or a log: nothing in it moves the cursor or reorders the
//! output.
//!
//! Message-IDs, headers and user names can come from anyone. Called by `cli` for everything that commands
//! print, and by `log`.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether a terminal would obey `c` instead of showing it: controls (C0, DEL, C1, including line
/// feeds and tabs), line separators, and overrides of the direction of text (Unicode TR 36 section 2.6).
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `text` with such characters written as `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false, |c, out| out.extend(c.escape_unicode()))
}

/// Like [`line`], for text of several lines, with tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'), |c, out| out.extend(c.escape_unicode()))
}

/// Returns JSON with such characters written as `\u001b`, which has the same meaning; line feeds stay.
pub fn json(text: &str) -> Cow<'_, str> {
    replaced(
        text,
        |c| c == '\n',
        |c, out| {
            // All of them fit into 16 bits; writing to a string does not fail.
            let _infallible = write!(out, "\\u{:04x}", u32::from(c));
        },
    )
}

fn replaced(text: &str, keeps: fn(char) -> bool, escape: fn(char, &mut String)) -> Cow<'_, str> {
    let escapes = |c: char| is_unprintable(c) && !keeps(c);
    if !text.contains(escapes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if escapes(c) { escape(c, &mut out) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(line("a\x1b[2Jb\x7f\u{9b}c\u{202e}d\n"), "a\\u{1b}[2Jb\\u{7f}\\u{9b}c\\u{202e}d\\u{a}");
        assert_eq!(lines("a\tb\nc\r"), "a\tb\nc\\u{d}");
        assert!(matches!(line("Grüße \u{5d0}\u{200f} <a@b>"), Cow::Borrowed(_)));
    }

    #[test]
    fn escaped_json_keeps_its_meaning() {
        let text = "a\u{9b}\u{7f}\u{2066}\x1b";
        let json = json(&serde_json::to_string_pretty(&[text]).unwrap()).into_owned();
        assert!(json.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
    }
}
