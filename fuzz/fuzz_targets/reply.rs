//! What a server sends its client: however it is cut into pieces, the same first lines and the same blocks
//! result; nothing is lost, nothing is invented, and a block taken line by line is the block taken in
//! chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::nntp::wire::unstuff;
use nntp_io::reply::{BlockChunk, BlockCursor, BlockLine, FirstLine, first_line, has_block};

const LINE_BYTES_MAX: usize = 1024;

/// The answers in a stream that arrives `piece` bytes at a time: first lines with their blocks in wire
/// format, and where the last whole one ends.
fn answers(stream: &[u8], piece: usize) -> (Vec<(u16, Vec<u8>)>, usize) {
    let (mut found, mut at, mut whole, mut arrived) = (Vec::new(), 0, 0, 0);
    let mut block: Option<BlockCursor> = None;
    loop {
        let unread = &stream[at..arrived];
        let more = match &mut block {
            Some(open) => match open.chunk(unread) {
                BlockChunk::Bytes(len) => {
                    assert!(len > 0 && len <= unread.len());
                    let (_, text): &mut (u16, Vec<u8>) = found.last_mut().unwrap();
                    text.extend_from_slice(&unread[..len]);
                    at += len;
                    false
                }
                BlockChunk::End(len) => {
                    at += len;
                    whole = at;
                    block = None;
                    false
                }
                BlockChunk::More => true,
            },
            None => match first_line(unread, LINE_BYTES_MAX) {
                FirstLine::Line { code, line, next } => {
                    assert!((100..600).contains(&code) && line.len() < next);
                    found.push((code, Vec::new()));
                    at += next;
                    block = has_block(code, false).then(BlockCursor::default);
                    if block.is_none() {
                        whole = at;
                    }
                    false
                }
                FirstLine::More => true,
                FirstLine::TooLong | FirstLine::NoCode(_) => return (found, whole),
            },
        };
        if more {
            if arrived == stream.len() {
                if block.is_some() {
                    found.pop();
                }
                return (found, whole);
            }
            arrived = stream.len().min(arrived + piece);
        }
    }
}

/// A block taken line by line, without dot-stuffing; `None` if it has no end or a line is too long.
fn lines(wire: &[u8], piece: usize) -> Option<Vec<u8>> {
    let (mut block, mut out, mut at, mut arrived) = (BlockCursor::default(), Vec::new(), 0, 0);
    loop {
        match block.line(&wire[at..arrived], LINE_BYTES_MAX) {
            BlockLine::Line { start, end, next } => {
                out.extend_from_slice(&wire[at + start..at + end]);
                out.extend_from_slice(b"\r\n");
                at += next;
            }
            BlockLine::End(_) => return Some(out),
            BlockLine::TooLong => return None,
            BlockLine::More if arrived == wire.len() => return None,
            BlockLine::More => arrived = wire.len().min(arrived + piece),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, stream)) = input.split_first() else { return };
    let piece = usize::from(piece) + 1;
    let all = answers(stream, stream.len().max(1));
    assert_eq!(answers(stream, piece), all);
    for (_, text) in &all.0 {
        let wire = [text.as_slice(), b".\r\n"].concat();
        if let Some(read) = lines(&wire, piece) {
            let mut plain = Vec::new();
            unstuff_lines(text, &mut plain);
            assert_eq!(read, plain);
        }
    }
});

/// As `unstuff`, which also takes lines that end in a bare LF for lines.
fn unstuff_lines(text: &[u8], out: &mut Vec<u8>) {
    if !text.windows(2).any(|two| two[1] == b'\n' && two[0] != b'\r') && text.first() != Some(&b'\n') {
        return unstuff(text, out);
    }
    for line in text.split_inclusive(|&byte| byte == b'\n').fold(Vec::<Vec<u8>>::new(), joined) {
        out.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}

/// Lines that end in a bare LF belong to the line after them.
fn joined(mut lines: Vec<Vec<u8>>, part: &[u8]) -> Vec<Vec<u8>> {
    match lines.last_mut().filter(|last| !last.ends_with(b"\r\n")) {
        Some(last) => last.extend_from_slice(part),
        None => lines.push(part.to_vec()),
    }
    lines
}
