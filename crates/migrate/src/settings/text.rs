//! Lines of the old configuration, with their positions.
//!
//! Called by the readers of all files. Sources: newsfeeds(5) and cycbuff.conf(5) for continued lines.

use netnews::printable::replaced;
use std::fmt;

/// Longest file that is read, in bytes.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Position in the old configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub file: &'static str,
    /// Line number, from 1.
    pub line: u32,
    /// Last of its lines.
    pub last: u32,
}

impl SourcePosition {
    /// Returns the position of a single line.
    pub fn at(file: &'static str, line: u32) -> Self {
        Self { file, line, last: line }
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last > self.line {
            true => write!(f, "{} {}-{}", self.file, self.line, self.last),
            false => write!(f, "{} {}", self.file, self.line),
        }
    }
}

/// A line with content, or several joined lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfLine {
    pub place: SourcePosition,
    pub text: String,
}

/// Returns the lines that are neither blank nor a comment, without joining any.
pub(super) fn lines(file: &'static str, text: &str) -> Vec<ConfLine> {
    let line = |at: usize, text: &str| {
        let text = text.trim();
        let is_empty = text.is_empty() || text.starts_with('#');
        (!is_empty).then(|| ConfLine { place: SourcePosition::at(file, number(at)), text: text.to_owned() })
    };
    text.lines().enumerate().filter_map(|(at, text)| line(at, text)).collect()
}

/// Returns such lines, joining those that end in a backslash with the next.
pub(super) fn continued(file: &'static str, text: &str) -> Vec<ConfLine> {
    let mut whole: Vec<ConfLine> = Vec::new();
    let mut open = false;
    for (at, text) in text.lines().enumerate() {
        let (text, goes_on) = match text.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (text.trim_end(), false),
        };
        match whole.last_mut().filter(|_| open) {
            Some(line) => {
                line.text.push_str(text.trim_start());
                line.place.last = number(at);
            }
            None => {
                whole.push(ConfLine { place: SourcePosition::at(file, number(at)), text: text.to_owned() })
            }
        }
        open = goes_on;
    }
    for line in &mut whole {
        line.text = line.text.trim().to_owned();
    }
    whole.retain(|line| !line.text.is_empty() && !line.text.starts_with('#'));
    whole
}

fn number(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}

/// Returns the pieces between commas, trimmed; empty ones are left out.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|piece| !piece.is_empty())
}

/// Reason, in words, why something is not converted; it becomes a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotConverted(String);

impl fmt::Display for NotConverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for NotConverted {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for NotConverted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<NotConverted> for String {
    fn from(why: NotConverted) -> Self {
        why.0
    }
}

impl AsRef<str> for NotConverted {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Parses a boolean as written in INN.
pub(super) fn is_true(text: &str) -> bool {
    ["true", "yes", "on"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns a text in a form allowed in a comment: one line, no control characters, not too long.
pub(super) fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let plain: String = text.chars().take(CHARS_MAX).collect();
    let mut plain = replaced(&plain, ' ').into_owned();
    if text.chars().count() > CHARS_MAX {
        plain.push_str("...");
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let text = "# a\n\n one \ntwo\\\n   :three\\\n\t:four\nfive\\";
        let own = |list: &[ConfLine]| -> Vec<(u32, u32, String)> {
            list.iter().map(|line| (line.place.line, line.place.last, line.text.clone())).collect()
        };
        assert_eq!(
            own(&continued("newsfeeds", text)),
            [(3, 3, "one".into()), (4, 6, "two:three:four".into()), (7, 7, "five".into())]
        );
        assert_eq!(own(&lines("moderators", "a\n#b\n c")), [(1, 1, "a".into()), (3, 3, "c".into())]);
        assert_eq!(SourcePosition { file: "newsfeeds", line: 4, last: 6 }.to_string(), "newsfeeds 4-6");
        assert_eq!(SourcePosition::at("inn.conf", 7).to_string(), "inn.conf 7");
        assert_eq!(quoted("a\x1b[31mb\n"), "a [31mb");
    }
}
