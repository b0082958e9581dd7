//! Text from others, made safe for a terminal, a log or a mail: nothing in it moves the cursor, reorders the
//! output or hides.
//!
//! Message-IDs, headers and user names can come from anyone. Called by `cli` for everything that commands
//! print, by `log`, and wherever such text becomes a part of a message. The rule of which characters are
//! unprintable is that of `netnews::printable`.

use netnews::printable::is_unprintable;
use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` with unprintable characters written as `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false, |c, out| out.extend(c.escape_unicode()))
}

/// Like [`line`], for text of several lines, with tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'), |c, out| out.extend(c.escape_unicode()))
}

/// Returns JSON with unprintable characters written as `\u001b`, which has the same meaning; line feeds stay.
pub fn json(text: &str) -> Cow<'_, str> {
    replaced(
        text,
        |c| c == '\n',
        |c, out| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _infallible = write!(out, "\\u{unit:04x}");
            }
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
        let text = "a\u{9b}\u{7f}\u{2066}\u{200b}\u{e0041}\x1b";
        let json = json(&serde_json::to_string_pretty(&[text]).unwrap()).into_owned();
        assert!(json.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
    }
}
