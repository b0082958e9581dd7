//! Detection of binary data encoded as text in a body: yEnc 1.3 or uuencode.
//!
//! Looks for the lines that such data begins with and, for uuencode, checks the form of what follows; decodes
//! nothing. Called by the storage rules. Sources: yEnc draft 1.3 sections 2 and 3; POSIX uuencode.

use memchr::memmem;

/// Minimum number of uuencoded lines after a `begin` line: full ones, of 45 octets each.
const UU_LINES_MIN: usize = 3;
/// Length of a full line of uuencoded data, without its end.
const UU_LINE_BYTES: usize = 61;

/// Encoding of binary data in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `=ybegin ... =yend`.
    Yenc,
    /// `begin 644 NAME ... end`.
    Uuencode,
}

/// Returns the encoding of binary data that `body` (wire format) holds, if any.
pub fn encoding(body: &[u8]) -> Option<Encoding> {
    if starts(body, b"=ybegin ").any(|line| memmem::find(line, b" line=").is_some()) {
        return Some(Encoding::Yenc);
    }
    // Later parts have no `begin` line; programs that post multi-part binaries use yEnc.
    starts(body, b"begin ").any(is_uuencoded).then_some(Encoding::Uuencode)
}

/// Returns the rest of `body` from each line that begins with `word`; for yEnc only that line matters.
fn starts<'a>(body: &'a [u8], word: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(body, word).filter_map(move |at| {
        let first = at == 0 || body.get(at - 1) == Some(&b'\n');
        let rest = body.get(at..).filter(|_| first)?;
        let end = if word.starts_with(b"=") {
            memchr::memchr(b'\n', rest).unwrap_or(rest.len())
        } else {
            rest.len()
        };
        rest.get(..end)
    })
}

/// Returns whether `text` begins with `begin MODE NAME` and full lines of uuencoded data.
fn is_uuencoded(text: &[u8]) -> bool {
    let mut lines = text.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = lines.next().unwrap_or_default().split(|b| *b == b' ');
    let mode = words.nth(1).unwrap_or_default();
    let octal = (3..=4).contains(&mode.len()) && mode.iter().all(|b| (b'0'..=b'7').contains(b));
    let full = |line: &[u8]| {
        line.len() == UU_LINE_BYTES
            && line.first() == Some(&b'M')
            && line.iter().all(|b| (b' '..=b'`').contains(b))
    };
    octal
        && words.next().is_some()
        && lines.take(UU_LINES_MIN).filter(|line| full(line)).count() == UU_LINES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yenc_and_uuencode_are_distinguished_from_text_about_them() {
        let uu = format!("M{}\r\n", "#".repeat(60)).repeat(4);
        for (body, expected) in [
            ("=ybegin line=128 size=9 name=a.b\r\nxyz\r\n=yend size=9\r\n".to_owned(), Some(Encoding::Yenc)),
            ("hello\r\n=ybegin part=1 total=2 line=128 size=9 name=a\r\n".to_owned(), Some(Encoding::Yenc)),
            ("the line \"=ybegin line=128\" begins it\r\n".to_owned(), None),
            ("=ybegin is a word\r\nthat has line=1 elsewhere\r\n".to_owned(), None),
            (format!("see:\r\nbegin 644 pic.gif\r\n{uu}`\r\nend\r\n"), Some(Encoding::Uuencode)),
            (format!("begin with something\r\n{uu}"), None),
            ("begin 644 pic.gif\r\nis how it begins\r\nreally\r\nyes\r\n".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(encoding(body.as_bytes()), expected, "{body}");
        }
    }
}
