//! Lines of data encoded as text, in yEnc or uuencode: how files begin and end, and how their lines look.
//!
//! The one place that knows it, for storage rules, feeds and filters (`binary`, `types`), for the pages,
//! which decode, and for the search, which leaves data out. Decodes nothing itself. Sources: yEnc draft 1.3
//! sections 2 and 3; POSIX uuencode.

use memchr::{memchr, memmem};

/// Octets of a full line of uuencoded data.
const UU_LINE_OCTETS: usize = 45;
/// Length of such a line, without its end.
const UU_LINE_BYTES: usize = 61;
/// Longest line that begins a file, in bytes.
const BEGIN_BYTES_MAX: usize = 1024;
/// Names of these encodings in Content-Transfer-Encoding, in lower case.
const UU_NAMES: [&[u8]; 4] = [b"x-uuencode", b"uuencode", b"x-uue", b"uue"];
const YENC_NAMES: [&[u8]; 2] = [b"x-yencode", b"x-yenc"];

/// Encodings of binary data in text that are not MIME's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddedEncoding {
    /// `=ybegin ... =yend`.
    Yenc,
    /// `begin 644 NAME ... end`.
    Uuencode,
}

impl EmbeddedEncoding {
    /// The one that a Content-Transfer-Encoding names, if any.
    pub fn named(value: &[u8]) -> Option<Self> {
        let is_in = |names: &[&[u8]]| names.iter().any(|name| name.eq_ignore_ascii_case(value));
        match () {
            () if is_in(&UU_NAMES) => Some(Self::Uuencode),
            () if is_in(&YENC_NAMES) => Some(Self::Yenc),
            () => None,
        }
    }
}

/// A line that begins a file in yEnc, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YencBegin<'a> {
    /// The file's name.
    pub name: &'a [u8],
    /// Which part it is, and of how many (0: not said).
    pub part: Option<(u32, u32)>,
}

/// The line `=ybegin` at the start of a text.
pub fn yenc_begin(line: &[u8]) -> Option<YencBegin<'_>> {
    let rest = line.strip_prefix(b"=ybegin ").filter(|rest| rest.len() <= BEGIN_BYTES_MAX)?;
    yenc_number(rest, b"line=")?;
    yenc_number(rest, b"size=")?;
    // The name is last, and may have blanks. Some programs have the line of the part directly behind it.
    let name = memmem::find(rest, b" name=").and_then(|at| rest.get(at + 6..)).unwrap_or_default();
    let name = memmem::find(name, b"=ypart begin=").and_then(|at| name.get(..at)).unwrap_or(name);
    let total = || yenc_number(rest, b"total=").unwrap_or(0) as u32;
    let part = yenc_number(rest, b"part=").map(|part| (part as u32, total()));
    Some(YencBegin { name: name.trim_ascii(), part })
}

/// Whether a line is one inside or at the end of a file in yEnc, whose beginning may have been lost.
pub fn is_yenc_mark(line: &[u8]) -> bool {
    is_yenc_part(line) || is_yenc_end(line) && yenc_number(line, b"size=").is_some()
}

/// Whether a line says which octets of a file in yEnc follow.
pub fn is_yenc_part(line: &[u8]) -> bool {
    line.starts_with(b"=ypart ") && yenc_number(line, b"begin=").is_some()
}

/// Whether a line ends a file in yEnc.
pub fn is_yenc_end(line: &[u8]) -> bool {
    line.starts_with(b"=yend")
}

/// The number after a word of a line of yEnc, before its name.
pub fn yenc_number(line: &[u8], word: &[u8]) -> Option<u64> {
    let before_name = memmem::find(line, b" name=").and_then(|at| line.get(..at)).unwrap_or(line);
    let words = before_name.trim_ascii().split(|b| *b == b' ');
    let digits = words.filter_map(|found| found.strip_prefix(word)).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The name of the uuencoded file at the start of a text.
pub fn uu_begin(text: &[u8]) -> Option<&[u8]> {
    let first = first_line(text);
    let rest = first.strip_prefix(b"begin ").filter(|rest| rest.len() <= BEGIN_BYTES_MAX)?;
    let (mode, name) = rest.split_at_checked(memchr(b' ', rest)?)?;
    let is_mode = (3..=4).contains(&mode.len()) && mode.iter().all(|b| (b'0'..=b'7').contains(b));
    let name = name.trim_ascii();
    let rest = text.get(first.len()..)?;
    // A text that talks of uuencode has other lines.
    let is_begun = is_mode && !name.is_empty() && (is_uu_end(first_line(rest)) || continues_uuencode(rest));
    is_begun.then_some(name)
}

/// Whether a line ends a uuencoded file.
pub fn is_uu_end(line: &[u8]) -> bool {
    line.trim_ascii() == b"end"
}

/// Whether a text begins with a line of uuencoded data. The last one, of no octets, is empty if its blank got
/// lost.
pub fn continues_uuencode(text: &[u8]) -> bool {
    let first = first_line(text);
    let is_followed_by_end = || text.get(first.len()..).is_some_and(|rest| is_uu_end(first_line(rest)));
    uu_line(first).is_some() || first.trim_ascii().is_empty() && is_followed_by_end()
}

/// The content of a line of uuencoded data: how many octets it has, and their characters.
pub fn uu_line(line: &[u8]) -> Option<(usize, &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (first, rest) = line.split_first()?;
    let bytes = usize::from(first.checked_sub(b' ').filter(|value| *value <= 64)? & 63);
    let needed = bytes.div_ceil(3) * 4;
    // Blanks at the end of a line get lost, all of them or none; the last group may lack what it does not
    // need; a checksum may follow.
    let is_stripped = !rest.ends_with(b" ");
    let fits = rest.len() <= needed + 2 && (rest.len() + 4 > needed || is_stripped);
    (fits && rest.iter().all(|b| (b' '..=b'`').contains(b))).then_some((bytes, rest))
}

/// Whether a line, without its end, is a full one of uuencoded data. One whose last blanks got lost looks
/// like a line in capitals, so it is only if it follows such a line (`continues`).
pub fn is_uu_data(line: &[u8], continues: bool) -> bool {
    line.first() == Some(&b'M')
        && (continues || line.len() == UU_LINE_BYTES)
        && uu_line(line).is_some_and(|(octets, _)| octets == UU_LINE_OCTETS)
}

/// The first line of a text, with its end.
fn first_line(text: &[u8]) -> &[u8] {
    memchr(b'\n', text).and_then(|end| text.get(..=end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_data_differ_from_lines_of_text() {
        let full = format!("M{}", "#8V%T".repeat(12));
        assert!(is_uu_data(full.as_bytes(), false) && uu_line(full.as_bytes()).is_some());
        for (line, after_data) in
            [("M", true), ("M#8V%T", true), ("MAKE MONEY FAST", true), ("Make it", false)]
        {
            assert_eq!(
                (is_uu_data(line.as_bytes(), false), is_uu_data(line.as_bytes(), true)),
                (false, after_data)
            );
        }
        for (line, is_mark) in [
            ("=ypart begin=1 end=9", true),
            ("=yend size=9 part=2", true),
            ("=ypart is a word", false),
            ("=yend is a word", false),
        ] {
            assert_eq!(is_yenc_mark(line.as_bytes()), is_mark, "{line}");
        }
        assert_eq!(EmbeddedEncoding::named(b"X-UUEncode"), Some(EmbeddedEncoding::Uuencode));
        assert_eq!(
            (EmbeddedEncoding::named(b"x-yenc"), EmbeddedEncoding::named(b"base64")),
            (Some(EmbeddedEncoding::Yenc), None)
        );
    }
}
