//! Framing: ends of command lines and multi-line blocks, dot-stuffing.
//!
//! Both finders are resumable: they report where to resume when more bytes have arrived, so that no byte is
//! examined twice. A command line may end in a bare LF; an article block ends at CRLF `.` CRLF only, so that
//! nothing in an article can be mistaken for its end. Called by sessions, feeds, rnews. Sources: RFC 3977
//! sections 3.1 and 3.1.1.

use memchr::{memchr, memchr_iter, memmem};
use std::sync::LazyLock;

/// Maximum length of a command line, CRLF included (RFC 3977 section 3.1).
pub const LINE_BYTES_MAX: usize = 512;

/// Result of `next_line`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextLine<'a> {
    /// A whole line.
    Line {
        /// The line without its CRLF or LF.
        line: &'a [u8],
        /// The offset of the byte after the line.
        next: usize,
    },
    /// No line end so far, within the limit.
    More,
    /// The line is longer than the limit.
    TooLong {
        /// Offset after its line end, or `None` if that has not arrived.
        next: Option<usize>,
    },
}

/// Returns the line of `buf` that starts at `from`, of at most `LINE_BYTES_MAX` bytes.
pub fn next_line(buf: &[u8], from: usize) -> NextLine<'_> {
    next_line_within(buf, from, LINE_BYTES_MAX)
}

/// Returns the line of `buf` that starts at `from`, of at most `line_bytes_max` bytes, its line end included.
pub fn next_line_within(buf: &[u8], from: usize, line_bytes_max: usize) -> NextLine<'_> {
    let rest = buf.get(from..).unwrap_or_default();
    let Some(lf) = memchr(b'\n', rest) else {
        return if rest.len() >= line_bytes_max { NextLine::TooLong { next: None } } else { NextLine::More };
    };
    let next = from + lf + 1;
    if lf + 1 > line_bytes_max {
        return NextLine::TooLong { next: Some(next) };
    }
    let line = rest.get(..lf).unwrap_or_default();
    NextLine::Line { line: line.strip_suffix(b"\r").unwrap_or(line), next }
}

/// Result of `find_end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd {
    /// The block is whole.
    Found {
        /// Length of the block without the final `.` CRLF: every line of it ends in CRLF.
        article_len: usize,
        /// The offset of the byte after the final `.` CRLF.
        next: usize,
    },
    /// The end has not arrived.
    More {
        /// Value of `from` for the next call, when more has arrived.
        resume_from: usize,
    },
}

static END: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\r\n.\r\n"));

/// Finds the end of the multi-line block that starts at `buf[0]`. `from` is 0 at first and then what the last
/// call returned as `resume_from`.
pub fn find_end(buf: &[u8], from: usize) -> BlockEnd {
    if from == 0 && buf.starts_with(b".\r\n") {
        return BlockEnd::Found { article_len: 0, next: 3 };
    }
    if let Some(at) = END.find(buf.get(from..).unwrap_or_default()) {
        let article_len = from + at + 2;
        return BlockEnd::Found { article_len, next: article_len + 3 };
    }
    // The last four bytes may be the beginning of the five searched for.
    BlockEnd::More { resume_from: buf.len().saturating_sub(4).max(from) }
}

/// Appends `text`, whose lines end in LF or CRLF, in wire format: CRLF lines, a dot before every leading dot,
/// without the final `.` CRLF. A last line without line end gets one.
pub fn dot_stuff(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + text.len() / 16 + 2);
    let mut start = 0;
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let (line, next) = match memchr(b'\n', rest) {
            Some(lf) => (rest.get(..lf).unwrap_or_default(), start + lf + 1),
            None => (rest, text.len()),
        };
        if line.first() == Some(&b'.') {
            out.push(b'.');
        }
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.extend_from_slice(b"\r\n");
        start = next;
    }
}

/// Appends `wire` (without the final `.` CRLF) with the leading dot removed from every line that begins with
/// one; lines keep their CRLF.
pub fn unstuff(wire: &[u8], out: &mut Vec<u8>) {
    out.reserve(wire.len());
    let mut start = usize::from(wire.first() == Some(&b'.'));
    for lf in memchr_iter(b'\n', wire) {
        if wire.get(lf + 1) == Some(&b'.') {
            out.extend_from_slice(wire.get(start..=lf).unwrap_or_default());
            start = lf + 2;
        }
    }
    out.extend_from_slice(wire.get(start..).unwrap_or_default());
}

/// Appends `wire` as lines that end in LF: the reverse of [`dot_stuff`].
pub fn to_text(wire: &[u8], out: &mut Vec<u8>) {
    out.reserve(wire.len());
    for line in wire.split_inclusive(|b| *b == b'\n') {
        let line = line.strip_prefix(b".").unwrap_or(line);
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
