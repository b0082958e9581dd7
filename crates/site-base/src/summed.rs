//! Small files whose last line is a hash of everything before it, so that any damage is noticed.
//!
//! The line is `sum HASH`, LF: the first 8 octets of a SHA-256 hash, in hexadecimal. Used for files of state
//! that are replaced as a whole; damaged ones are handled by `disk::read_or_set_aside`.

use ring::digest::{Context, SHA256};

/// Octets of the SHA-256 hash that are written, in hexadecimal.
const SUM_BYTES: usize = 8;
/// Beginning of the last line.
const FIRST_WORD: &str = "sum ";
/// Length of the last line.
const LINE_BYTES: usize = FIRST_WORD.len() + 2 * SUM_BYTES + 1;

/// Returns the lines, each with its line end, followed by the line with their hash.
pub fn with_sum(mut lines: String) -> String {
    let line = sum_line(&[lines.as_bytes()]);
    lines.push_str(&line);
    lines
}

/// Returns the last line of a file that consists of these parts.
pub(crate) fn sum_line(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    format!("{FIRST_WORD}{}\n", disk::hex::start_of(context.finish(), SUM_BYTES))
}

/// Returns the bytes before the hash; `None` if the hash is wrong or missing.
pub(crate) fn without_sum(bytes: &[u8]) -> Option<&[u8]> {
    let (rest, last) = bytes.split_at_checked(bytes.len().checked_sub(LINE_BYTES)?)?;
    (last == sum_line(&[rest]).as_bytes()).then_some(rest)
}

/// Like [`without_sum`], for text.
pub fn text_without_sum(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(without_sum(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_damaged_byte_is_noticed() {
        let whole = with_sum("one\ntwo\n".to_owned()).into_bytes();
        assert_eq!(text_without_sum(&whole), Some("one\ntwo\n"));
        assert_eq!(sum_line(&[b"one\n", b"two\n"]), sum_line(&[b"one\ntwo\n"]));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(without_sum(&flipped), None, "bit {bit} of {at}");
            }
            assert_eq!(without_sum(&whole[..at]), None, "cut at {at}");
        }
        assert_eq!(without_sum(&vec![0; whole.len()]), None);
    }
}
