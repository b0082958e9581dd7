//! Parsing of a server's output into first lines and blocks; pure, so that it can be fuzzed.
//!
//! Both parsers work on the part that has arrived and report when they need more. The same lines and blocks
//! result however a stream is cut into pieces. Called by [`Client`](crate::Client). Source: RFC 3977 sections
//! 3.1, 3.1.1 and 3.2.

use memchr::memmem;
use netnews::nntp::response::{code, parse_code};
use netnews::nntp::wire::{NextLine, next_line_within};
use std::sync::LazyLock;

/// End of a block, within it.
const END: &[u8] = b"\r\n.\r\n";
/// End of a block, at the start of a line.
const END_LINE: &[u8] = b".\r\n";

static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(END));

/// Beginning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstLine<'a> {
    /// A whole line that begins with a response code.
    Line {
        /// The code, 100 to 599.
        code: u16,
        /// The line without its line end.
        line: &'a [u8],
        /// The offset of the byte after the line.
        next: usize,
    },
    /// The whole line has not arrived.
    More,
    /// The line is longer than allowed.
    TooLong,
    /// A whole line that does not begin with a response code.
    NoCode(&'a [u8]),
}

/// Parses the first line of the answer at the start of `buffer`, of at most `line_bytes_max` bytes.
pub fn first_line(buffer: &[u8], line_bytes_max: usize) -> FirstLine<'_> {
    match next_line_within(buffer, 0, line_bytes_max) {
        NextLine::Line { line, next } => match parse_code(line) {
            Some(code) => FirstLine::Line { code, line, next },
            None => FirstLine::NoCode(line),
        },
        NextLine::More => FirstLine::More,
        NextLine::TooLong { .. } => FirstLine::TooLong,
    }
}

/// Returns whether a block follows the first line of an answer with this code (RFC 3977 section 3.2 and
/// appendix C). `listgroup` is true if the command was LISTGROUP, whose 211 has a block while GROUP's has
/// none.
pub fn has_block(answer_code: u16, listgroup: bool) -> bool {
    match answer_code {
        code::HELP_FOLLOWS
        | code::CAPABILITIES_FOLLOW
        | code::LIST_FOLLOWS
        | code::ARTICLE_FOLLOWS
        | code::HEAD_FOLLOWS
        | code::BODY_FOLLOWS
        | code::OVERVIEW_FOLLOWS
        | code::HDR_FOLLOWS
        | code::NEWNEWS_FOLLOWS
        | code::NEWGROUPS_FOLLOWS
        | code::GROUP_TITLES_FOLLOW => true,
        code::GROUP_SELECTED => listgroup,
        _ => false,
    }
}

/// Position in a block that is being consumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockCursor {
    /// True if the next octet does not start a line.
    inside_line: bool,
}

/// Next part of a block that is read in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockChunk {
    /// This many bytes belong to the block and are to be consumed.
    Bytes(usize),
    /// The block is over; this many bytes end it and are to be consumed.
    End(usize),
    /// More input is needed.
    More,
}

/// Next part of a block that is read line by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockLine {
    /// A line, from `start` to `end`, dot-unstuffed and without its CRLF.
    Line {
        /// Start of the line.
        start: usize,
        /// End of the line.
        end: usize,
        /// Number of bytes to be consumed.
        next: usize,
    },
    /// The block is over; this many bytes end it and are to be consumed.
    End(usize),
    /// More input is needed.
    More,
    /// The line is longer than allowed.
    TooLong,
}

impl BlockCursor {
    /// Returns the part of the block that has arrived in `buffer`, in wire format: dot-stuffed, with CRLF
    /// line ends. A possible start of the block's end is held back.
    pub fn chunk(&mut self, buffer: &[u8]) -> BlockChunk {
        if !self.inside_line {
            if buffer.starts_with(END_LINE) {
                return BlockChunk::End(END_LINE.len());
            }
            if END_LINE.starts_with(buffer) {
                return BlockChunk::More;
            }
        }
        if let Some(at) = FINDER.find(buffer) {
            self.inside_line = false;
            return BlockChunk::Bytes(at + 2);
        }
        let held_back =
            (1..END.len()).rev().find(|&len| buffer.ends_with(END.get(..len).unwrap_or_default()));
        match buffer.len() - held_back.unwrap_or(0) {
            0 => BlockChunk::More,
            len => {
                self.inside_line = true;
                BlockChunk::Bytes(len)
            }
        }
    }

    /// Returns the next line of the block in `buffer`, of at most `line_bytes_max` bytes.
    pub fn line(&mut self, buffer: &[u8], line_bytes_max: usize) -> BlockLine {
        if !self.inside_line && buffer.starts_with(END_LINE) {
            return BlockLine::End(END_LINE.len());
        }
        match memmem::find(buffer, b"\r\n") {
            Some(end) if end + 2 <= line_bytes_max => {
                let stuffed = !self.inside_line && buffer.first() == Some(&b'.');
                self.inside_line = false;
                BlockLine::Line { start: usize::from(stuffed), end, next: end + 2 }
            }
            Some(_) => BlockLine::TooLong,
            None if buffer.len() >= line_bytes_max => BlockLine::TooLong,
            None => BlockLine::More,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the block at the start of `stream`, which arrives in pieces of `piece` bytes, and the number
    /// of bytes consumed.
    fn chunks(stream: &[u8], piece: usize) -> (Vec<u8>, Option<usize>) {
        let (mut block, mut out, mut at, mut arrived) = (BlockCursor::default(), Vec::new(), 0, 0);
        loop {
            match block.chunk(&stream[at..arrived]) {
                BlockChunk::Bytes(len) => {
                    out.extend_from_slice(&stream[at..at + len]);
                    at += len;
                }
                BlockChunk::End(len) => return (out, Some(at + len)),
                BlockChunk::More if arrived == stream.len() => return (out, None),
                BlockChunk::More => arrived = stream.len().min(arrived + piece),
            }
        }
    }

    fn lines(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<usize>) {
        let (mut block, mut out, mut at, mut arrived) = (BlockCursor::default(), Vec::new(), 0, 0);
        loop {
            match block.line(&stream[at..arrived], 100) {
                BlockLine::Line { start, end, next } => {
                    out.push(stream[at + start..at + end].to_vec());
                    at += next;
                }
                BlockLine::End(len) => return (out, Some(at + len)),
                BlockLine::TooLong => return (out, None),
                BlockLine::More if arrived == stream.len() => return (out, None),
                BlockLine::More => arrived = stream.len().min(arrived + piece),
            }
        }
    }

    #[test]
    fn blocks_are_read_in_any_pieces() {
        for (stream, text) in [
            (&b".\r\nrest"[..], &b""[..]),
            (b"a\r\n.\r\nrest", b"a\r\n"),
            (b"\r\n.\r\nrest", b"\r\n"),
            (b"..\r\n...\r\n\r\n\r\n.\r\nrest", b"..\r\n...\r\n\r\n\r\n"),
            (b".\rx\r\n.\n.\r\n.\r\nrest", b".\rx\r\n.\n.\r\n"),
        ] {
            for piece in 1..=stream.len() {
                let end = stream.len() - 4;
                assert_eq!(chunks(stream, piece), (text.to_vec(), Some(end)), "{stream:?} {piece}");
            }
        }
        assert_eq!(chunks(b"a\r\n.\r", 2), (b"a".to_vec(), None));
    }

    #[test]
    fn lines_are_unstuffed() {
        let stream = b"..\r\n\r\n.x\r\na.\r\n.\r\nrest";
        let expected = [&b"."[..], b"", b"x", b"a."].map(<[u8]>::to_vec).to_vec();
        for piece in 1..=stream.len() {
            assert_eq!(lines(stream, piece), (expected.clone(), Some(stream.len() - 4)));
        }
        let endless = vec![b'x'; 1000];
        assert_eq!(lines(&endless, 7), (Vec::new(), None));
        assert_eq!(BlockCursor::default().line(&endless, 1000), BlockLine::TooLong);
        assert_eq!(BlockCursor::default().line(&endless, 1001), BlockLine::More);
    }

    #[test]
    fn first_lines() {
        let line = |buffer| first_line(buffer, 20);
        assert_eq!(line(b"200 hello\r\nx"), FirstLine::Line { code: 200, line: b"200 hello", next: 11 });
        assert_eq!(line(b"335\r\n"), FirstLine::Line { code: 335, line: b"335", next: 5 });
        assert_eq!(line(b"200 hel"), FirstLine::More);
        assert_eq!(line(b"hello\r\n"), FirstLine::NoCode(b"hello"));
        assert_eq!(line(&[b'2'; 30]), FirstLine::TooLong);
        assert!(
            has_block(220, false) && has_block(211, true) && !has_block(211, false) && !has_block(223, true)
        );
    }

    proptest! {
        #[test]
        fn the_end_of_a_block_does_not_depend_on_pieces(stream in "[.\r\nx]{0,40}", piece in 1usize..7) {
            let stream = stream.as_bytes();
            let whole = chunks(stream, stream.len().max(1));
            let pieces = chunks(stream, piece);
            prop_assert_eq!(&pieces.1, &whole.1);
            if whole.1.is_some() {
                prop_assert_eq!(pieces.0, whole.0);
            }
        }
    }
}
