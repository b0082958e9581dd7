//! Commands and lists that are passed on: their answers as they came, but for what no reader is to be sent.
//!
//! A NUL or a CR that stands alone becomes a blank, and each line ends in CRLF and is dot-stuffed, so that no
//! reader takes a part of the answer for its end. An answer that is too long, or has a line that is, is
//! refused. Source: RFC 3977 section 3.1.1.

use super::line::UpstreamConnection;
use super::pool::UpstreamQuestion;
use super::trouble::UpstreamError;

/// The most bytes of an answer.
const PASSED_BYTES_MAX: usize = 16 << 20;
/// The most bytes of a line of its block. Of the text after the code there are no more than `nntp-io` reads
/// of a first line.
const PASSED_LINE_BYTES_MAX: usize = 64 << 10;

/// A command that is passed on as it is: its answer with all of its lines.
pub(super) struct AskPassed {
    /// Group of this server that the reader has selected.
    pub group: Option<Box<[u8]>>,
    pub command: Box<[u8]>,
    /// The code of the answer after which a block follows.
    pub block_code: Option<u16>,
}

impl UpstreamQuestion for AskPassed {
    type Answer = Vec<u8>;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<Vec<u8>, UpstreamError> {
        let selecting = match &self.group {
            Some(group) => line.select(group)?,
            None => false,
        };
        line.submit(&self.command)?;
        if let Some(group) = self.group.as_ref().filter(|_| selecting) {
            line.selected(group).await?;
        }
        let mut status = line.answer().await?;
        if self.block_code == Some(status.code) && !status.has_block {
            line.expect_block();
            status.has_block = true;
        }
        let mut answer = format!("{:03} ", status.code).into_bytes();
        answer.extend(cleaned(&status.text));
        answer.extend_from_slice(b"\r\n");
        if status.has_block {
            let mut block = Vec::new();
            while let Some(piece) = line.chunk().await? {
                block.extend_from_slice(piece);
                if block.len() > PASSED_BYTES_MAX {
                    return Err(too_long("an answer without end"));
                }
            }
            if !append_block(&block, &mut answer) {
                return Err(too_long("a line without end in an answer"));
            }
            answer.extend_from_slice(b".\r\n");
        }
        // The command may have changed the selected group.
        line.forget_selected();
        Ok(answer)
    }
}

fn too_long(what: &str) -> UpstreamError {
    UpstreamError::Wrong(format!("{what} to a command that was passed on"))
}

/// A line without what cannot be sent in one.
fn cleaned(line: &[u8]) -> impl Iterator<Item = u8> {
    line.iter().map(|byte| if matches!(byte, b'\0' | b'\r' | b'\n') { b' ' } else { *byte })
}

/// Appends a block that came in wire format; false: one of its lines is too long.
fn append_block(block: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut rest, mut is_stuffed) = (block, true);
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end).unwrap_or_default();
        rest = after.get(1..).unwrap_or_default();
        let ended = line.strip_suffix(b"\r");
        let line = ended.unwrap_or(line);
        if line.len() > PASSED_LINE_BYTES_MAX {
            return false;
        }
        // After a line that has ended without CR a dot is not stuffed.
        if !is_stuffed && line.starts_with(b".") {
            out.push(b'.');
        }
        is_stuffed = ended.is_some();
        out.extend(cleaned(line));
        out.extend_from_slice(b"\r\n");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_passed_on_without_what_no_reader_is_to_be_sent() {
        let passed = |block: &[u8]| {
            let mut out = Vec::new();
            append_block(block, &mut out).then(|| String::from_utf8_lossy(&out).into_owned())
        };
        for (block, expected) in [
            (&b"hello\r\n..dot\r\n"[..], "hello\r\n..dot\r\n"),
            (b"a\rb\0c\r\r\n", "a b c \r\n"),
            (b"one\n.\n..two\r\n..three\r\n", "one\r\n..\r\n...two\r\n..three\r\n"),
            (b"no end", "no end\r\n"),
            (b"", ""),
        ] {
            assert_eq!(passed(block).as_deref(), Some(expected), "{block:?}");
        }
        assert!(passed(&vec![b'x'; PASSED_LINE_BYTES_MAX]).is_some());
        assert!(passed(&vec![b'x'; PASSED_LINE_BYTES_MAX + 1]).is_none());
        assert!(cleaned(b"odd\rtext\0").eq(*b"odd text "));
    }
}
