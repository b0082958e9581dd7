//! An article as stored by another server or in a file: data of its head, and its wire format.
//!
//! Bytes in, values out. Called by `import::source` and `import::plan`.

use netnews::article::Headers;
use netnews::nntp::wire;

/// End of an article stored in wire format.
const END: &[u8] = b"\r\n.\r\n";

/// Reason why stored bytes are not an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredDamage {
    /// Wire format without its end.
    NoEnd,
    /// No bytes.
    Empty,
}

/// Returns whether bytes are in wire format: their first line ends in CRLF.
fn is_wire(stored: &[u8]) -> bool {
    memchr::memchr(b'\n', stored).is_some_and(|lf| lf > 0 && stored.get(lf - 1) == Some(&b'\r'))
}

/// Writes an article to `out` in wire format without the final `.` line, converting articles stored with
/// LF.
pub fn to_wire(stored: &[u8], out: &mut Vec<u8>) -> Result<(), StoredDamage> {
    out.clear();
    if stored.is_empty() {
        return Err(StoredDamage::Empty);
    }
    if is_wire(stored) {
        let body = stored.strip_suffix(END).ok_or(StoredDamage::NoEnd)?;
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    } else {
        wire::dot_stuff(stored, out);
    }
    Ok(())
}

/// Data from the head of an article.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArticleHead<'a> {
    /// Value of Message-ID; empty if absent, like the other values.
    pub message_id: &'a [u8],
    /// Groups and numbers, in the order of Xref.
    pub places: Vec<(&'a [u8], u64)>,
    /// Value of Newsgroups.
    pub newsgroups: &'a [u8],
    /// Value of From.
    pub from: &'a [u8],
    /// Value of Path.
    pub path: &'a [u8],
    /// Value of Expires.
    pub expires: &'a [u8],
    /// All header lines.
    pub lines: &'a [u8],
}

/// Returns the length in wire format of an article that begins with `stored`; `stored_bytes` is its stored
/// length, or 0 if `stored` is known to be complete.
pub(crate) fn wire_bytes(stored: &[u8], stored_bytes: u64) -> u64 {
    match (is_wire(stored), stored_bytes) {
        (true, 0) => stored.len() as u64,
        (true, bytes) => bytes,
        // A line end becomes two bytes.
        (false, bytes) => bytes.max(stored.len() as u64) + memchr::memchr_iter(b'\n', stored).count() as u64,
    }
}

/// Returns whether `begun` has the whole head.
pub fn is_whole(begun: &[u8]) -> bool {
    memchr::memmem::find(begun, b"\n\n").is_some() || memchr::memmem::find(begun, b"\n\r\n").is_some()
}

/// Parses the head of an article, in wire format or with LF.
pub fn read<'a>(begun: &'a [u8]) -> ArticleHead<'a> {
    let mut head = ArticleHead::default();
    let end = [&b"\n\n"[..], b"\n\r\n"].iter().filter_map(|blank| memchr::memmem::find(begun, blank)).min();
    let lines = end.and_then(|end| begun.get(..=end)).unwrap_or(begun);
    head.lines = lines;
    for (name, value) in Headers::of(lines) {
        let first = |field: &mut &'a [u8]| {
            if field.is_empty() {
                *field = value.trim_ascii();
            }
        };
        if name.eq_ignore_ascii_case(b"Xref") {
            let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            // The first word is the server's name.
            for (group, number) in words.skip(1).filter_map(place) {
                if head.places.iter().all(|(other, _)| *other != group) {
                    head.places.push((group, number));
                }
            }
        } else if name.eq_ignore_ascii_case(b"Message-ID") {
            head.message_id = value.trim_ascii();
        } else if name.eq_ignore_ascii_case(b"Newsgroups") {
            first(&mut head.newsgroups);
        } else if name.eq_ignore_ascii_case(b"From") {
            first(&mut head.from);
        } else if name.eq_ignore_ascii_case(b"Path") {
            first(&mut head.path);
        } else if name.eq_ignore_ascii_case(b"Expires") {
            first(&mut head.expires);
        }
    }
    head
}

fn place(word: &[u8]) -> Option<(&[u8], u64)> {
    let (name, number) = word.split_at(memchr::memrchr(b':', word)?);
    let digits = std::str::from_utf8(number.get(1..)?).ok()?;
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    netnews::newsgroups::valid_name(name).then_some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_and_native_form_become_the_same() {
        let mut out = Vec::new();
        to_wire(b"Path: a\r\n\r\n..x\r\n.\r\n", &mut out).unwrap();
        assert_eq!(out, b"Path: a\r\n\r\n..x\r\n");
        to_wire(b"Path: a\n\n.x\n", &mut out).unwrap();
        assert_eq!(out, b"Path: a\r\n\r\n..x\r\n");
        assert_eq!(to_wire(b"Path: a\r\n\r\nx\r\n", &mut out), Err(StoredDamage::NoEnd));
        assert_eq!(to_wire(b"", &mut out), Err(StoredDamage::Empty));
    }

    #[test]
    fn places_are_those_of_xref() {
        for end in ["\r\n", "\n"] {
            let text = [
                "Message-ID: <a@b>",
                "Xref: host a.b:12\tc:7",
                " d.e:0 bad f:x :4 g:1 c:9",
                "",
                "Xref: host z:1",
            ]
            .join(end);
            let head = read(text.as_bytes());
            assert_eq!(head.message_id, b"<a@b>");
            assert_eq!(head.places, [(&b"a.b"[..], 12), (b"c", 7), (b"g", 1)], "{end:?}");
            assert!(is_whole(text.as_bytes()));
        }
        assert!(!is_whole(b"Path: a\r\nX: y\r\n"));
    }
}
