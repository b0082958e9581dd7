//! Files within text: yEnc and uuencode, in use since before MIME.
//!
//! Works on octets, before any charset. Called by `content`. Sources: the yEnc draft 1.3, POSIX uuencode.

use memchr::memchr;
pub use netnews::article::EmbeddedEncoding;
use netnews::article::encoded::{self, continues_uuencode, is_uu_end, is_yenc_end, uu_line, yenc_number};
use std::ops::Range;

use crate::{charset, work};

/// Maximum number of files that are searched for in one text.
const FILES_MAX: usize = 50;
/// Maximum number of octets by which a decoded file may exceed its text: restored trailing blanks.
pub const PADDED_BYTES_MAX: usize = 1 << 20;

/// A file within text.
#[derive(Debug, PartialEq, Eq)]
pub struct EmbeddedFile {
    /// Position, from its first line to the end of its last.
    pub range: Range<usize>,
    /// Encoding of the file.
    pub encoding: EmbeddedEncoding,
    /// Name as written in the text.
    pub name: String,
    /// Part number of a split file, and number of parts (0: unknown); `None` for a whole file.
    pub part: Option<(u32, u32)>,
}

/// A decoded file.
#[derive(Debug, PartialEq, Eq)]
pub struct DecodedFile {
    /// Octets of the file.
    pub octets: Vec<u8>,
    /// True if size, and for yEnc checksum, are as declared, as far as they are.
    pub is_whole: bool,
}

/// Returns the files within a text, in order.
pub fn find(text: &[u8]) -> Vec<EmbeddedFile> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty() && found.len() < FILES_MAX) {
        let line = line(rest);
        if !work::take(line.len()) {
            break;
        }
        let begun = yenc_begin(line).or_else(|| uu_begin(rest));
        match begun {
            Some((encoding, name, part)) => {
                let end = at + end_of(rest, encoding);
                found.push(EmbeddedFile { range: at..end, encoding, name, part });
                at = end;
            }
            None => at += line.len(),
        }
    }
    found
}

/// Returns the first line of a text, with its end.
fn line(text: &[u8]) -> &[u8] {
    memchr(b'\n', text).and_then(|lf| text.get(..=lf)).unwrap_or(text)
}

type BegunFile = (EmbeddedEncoding, String, Option<(u32, u32)>);

fn yenc_begin(line: &[u8]) -> Option<BegunFile> {
    let begin = encoded::yenc_begin(line)?;
    Some((EmbeddedEncoding::Yenc, name_of(begin.name), begin.part.filter(|part| *part != (1, 1))))
}

fn uu_begin(text: &[u8]) -> Option<BegunFile> {
    Some((EmbeddedEncoding::Uuencode, name_of(encoded::uu_begin(text)?), None))
}

fn name_of(name: &[u8]) -> String {
    charset::guess(name).replace('\n', "")
}

/// Returns the length of a file up to the end of its last line, or of the text.
fn end_of(text: &[u8], encoding: EmbeddedEncoding) -> usize {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line = line(rest);
        if !work::take(line.len()) {
            break;
        }
        let is_first = at == 0;
        at += line.len();
        let is_last = match encoding {
            EmbeddedEncoding::Yenc => is_yenc_end(line),
            EmbeddedEncoding::Uuencode => is_uu_end(line),
        };
        if is_last {
            return at;
        }
        if encoding == EmbeddedEncoding::Uuencode && !is_first && !continues_uuencode(rest) {
            return at - line.len();
        }
    }
    text.len()
}

/// Decodes a file, given the text of its range; at most `bytes_max` octets, and not many more than the text
/// has.
pub fn decode(text: &[u8], encoding: EmbeddedEncoding, bytes_max: usize) -> DecodedFile {
    work::take(text.len());
    let bytes_max = bytes_max.min(text.len() + PADDED_BYTES_MAX);
    match encoding {
        EmbeddedEncoding::Yenc => yenc(text, bytes_max),
        EmbeddedEncoding::Uuencode => uuencode(text, bytes_max),
    }
}

/// Returns the first file within a text, with its name.
pub fn first(text: &[u8], bytes_max: usize) -> Option<(String, DecodedFile)> {
    let EmbeddedFile { range, encoding, name, .. } = find(text).into_iter().next()?;
    Some((name, decode(text.get(range)?, encoding, bytes_max)))
}

/// Returns the checksum that yEnc uses.
fn crc32(octets: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(octets);
    crc.sum()
}

fn yenc(text: &[u8], bytes_max: usize) -> DecodedFile {
    let mut octets = Vec::with_capacity(text.len().min(bytes_max));
    let mut told: Option<(u64, Option<u32>)> = None;
    for line in text.split(|b| *b == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(rest) = line.strip_prefix(b"=yend ") {
            let crc = |word| hexadecimal(rest, word);
            told = yenc_number(rest, b"size=").map(|size| (size, crc(b"pcrc32=").or_else(|| crc(b"crc32="))));
            break;
        }
        if line.starts_with(b"=ypart ") || octets.len() >= bytes_max {
            continue;
        }
        let mut escaped = false;
        for b in line {
            match (escaped, b) {
                (false, b'=') => escaped = true,
                (true, b) => {
                    octets.push(b.wrapping_sub(106));
                    escaped = false;
                }
                (false, b) => octets.push(b.wrapping_sub(42)),
            }
        }
    }
    octets.truncate(bytes_max);
    let is_whole = told.is_some_and(|(size, crc)| {
        let sum = || crc32(&octets);
        size == octets.len() as u64 && crc.is_none_or(|crc| crc == sum())
    });
    DecodedFile { octets, is_whole }
}

fn hexadecimal(line: &[u8], word: &[u8]) -> Option<u32> {
    let digits = line.split(|b| *b == b' ').filter_map(|found| found.strip_prefix(word)).next()?;
    u32::from_str_radix(std::str::from_utf8(digits.trim_ascii()).ok()?, 16).ok()
}

fn uuencode(text: &[u8], bytes_max: usize) -> DecodedFile {
    let mut octets = Vec::with_capacity((text.len() / 4 * 3).min(bytes_max));
    let mut is_whole = false;
    for line in text.split_inclusive(|b| *b == b'\n').skip(1) {
        if is_uu_end(line) {
            is_whole = true;
            break;
        }
        let Some((bytes, characters)) = uu_line(line) else { continue };
        if octets.len() >= bytes_max {
            break;
        }
        let start = octets.len();
        let value = |at: usize| characters.get(at).map_or(0, |b| b.wrapping_sub(b' ') & 63);
        for group in 0..bytes.div_ceil(3) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|n| value(4 * group + n));
            octets.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
        }
        octets.truncate(start + bytes);
    }
    is_whole &= octets.len() <= bytes_max;
    octets.truncate(bytes_max);
    DecodedFile { octets, is_whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn yencoded(octets: &[u8], name: &str) -> Vec<u8> {
        let mut out = format!("=ybegin line=16 size={} name={name}\r\n", octets.len()).into_bytes();
        for line in octets.chunks(16) {
            for b in line {
                match b.wrapping_add(42) {
                    c @ (0 | b'\n' | b'\r' | b'=') => out.extend_from_slice(&[b'=', c.wrapping_add(64)]),
                    c => out.push(c),
                }
            }
            out.extend_from_slice(b"\r\n");
        }
        let crc = crc32(octets);
        out.extend_from_slice(format!("=yend size={} crc32={crc:08x}\r\n", octets.len()).as_bytes());
        out
    }

    fn uuencoded(octets: &[u8], name: &str) -> Vec<u8> {
        let mut out = format!("begin 644 {name}\n").into_bytes();
        let six = |bits: u8| if bits == 0 { b'`' } else { bits + b' ' };
        for line in octets.chunks(45) {
            out.push(six(line.len() as u8));
            for group in line.chunks(3) {
                let at = |n: usize| group.get(n).copied().unwrap_or(0);
                let [a, b, c] = [at(0), at(1), at(2)];
                out.extend([a >> 2, a << 4 & 63 | b >> 4, b << 2 & 63 | c >> 6, c & 63].map(six));
            }
            out.push(b'\n');
        }
        out.extend_from_slice(b"`\nend\n");
        out
    }

    #[test]
    fn files_are_found_between_text() {
        let (yenc, uu) = (yencoded(b"one two three", "a b.bin"), uuencoded(b"four", "../x.gif"));
        let text = [&b"Hello\r\nbegin at the beginning\r\n"[..], &yenc, b"and\n", &uu, b"bye\n"].concat();
        let found = find(&text);
        let names: Vec<&str> = found.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a b.bin", "../x.gif"]);
        assert_eq!(&text[found[1].range.end..], b"bye\n");
        let octets: Vec<DecodedFile> =
            found.iter().map(|file| decode(&text[file.range.clone()], file.encoding, 1000)).collect();
        assert_eq!(octets[0], DecodedFile { octets: b"one two three".to_vec(), is_whole: true });
        assert_eq!(octets[1], DecodedFile { octets: b"four".to_vec(), is_whole: true });
    }

    /// Encodes like `uuencoded` with blanks for zeros, and strips all blanks at the ends of lines.
    fn stripped(octets: &[u8], name: &str) -> Vec<u8> {
        let text = String::from_utf8(uuencoded(octets, name)).unwrap().replace('`', " ");
        text.lines().map(|line| format!("{}\r\n", line.trim_end())).collect::<String>().into_bytes()
    }

    #[test]
    fn blanks_lost_at_the_ends_of_uuencoded_lines_are_restored() {
        let octets = [&b"GIF89a"[..], &[0; 300], b"x", &[0; 44]].concat();
        for octets in [&octets[..], &[0; 90], b"ab\0", b""] {
            let text = [&b"see\r\n"[..], &stripped(octets, "x.gif"), b"bye\r\n"].concat();
            let found = find(&text);
            assert_eq!((found.len(), &text[found[0].range.end..]), (1, &b"bye\r\n"[..]));
            let decoded = decode(&text[found[0].range.clone()], EmbeddedEncoding::Uuencode, 1000);
            assert_eq!(decoded, DecodedFile { octets: octets.to_vec(), is_whole: true });
        }
        // A signature after a truncated file is not part of it.
        let cut = b"begin 644 x\n#9F]U\n-- \nJ.\n";
        assert_eq!(&cut[find(cut)[0].range.end..], b"-- \nJ.\n");
    }

    #[test]
    fn restored_blanks_are_bounded() {
        let text = format!("begin 644 x\n{}end\n", "M\n".repeat(100_000));
        let decoded = decode(text.as_bytes(), EmbeddedEncoding::Uuencode, usize::MAX);
        assert_eq!((decoded.octets.len(), decoded.is_whole), (text.len() + PADDED_BYTES_MAX, false));
    }

    #[test]
    fn name_ends_before_an_appended_part_line() {
        let text = b"=ybegin part=1 total=2 line=128 size=256 name=comb.bin=ypart begin=1 end=256\r\n\x8b\r\n=yend size=1\r\n";
        let found = find(text);
        assert_eq!((found[0].name.as_str(), found[0].part), ("comb.bin", Some((1, 2))));
        assert_eq!(
            decode(text, EmbeddedEncoding::Yenc, 99),
            DecodedFile { octets: b"a".to_vec(), is_whole: true }
        );
    }

    #[test]
    fn parts_and_damage_are_reported() {
        let part = b"=ybegin part=2 total=9 line=128 size=500 name=x\r\n=ypart begin=11 end=13\r\n\x8b\x8c\r\n=yend size=2 part=2 pcrc32=00000000\r\n";
        let found = find(part);
        assert_eq!(found[0].part, Some((2, 9)));
        assert_eq!(
            decode(part, EmbeddedEncoding::Yenc, 99),
            DecodedFile { octets: b"ab".to_vec(), is_whole: false }
        );
        for talk in [
            "begin 644 x\nis how it begins, is it not?\n",
            "begin 9 x\n",
            "=ybegin is a word\n",
            "=ybegin line=x size=3 name=y\n",
        ] {
            assert_eq!(find(talk.as_bytes()), [], "{talk}");
        }
        assert!(!decode(&uuencoded(b"four", "x")[..12], EmbeddedEncoding::Uuencode, 99).is_whole);
    }

    #[test]
    fn decoded_size_is_limited() {
        for (text, encoding) in [
            (yencoded(&[7; 5000], "x"), EmbeddedEncoding::Yenc),
            (uuencoded(&[7; 5000], "x"), EmbeddedEncoding::Uuencode),
        ] {
            let decoded = decode(&text, encoding, 100);
            assert_eq!(decoded, DecodedFile { octets: vec![7; 100], is_whole: false });
        }
    }

    proptest! {
        #[test]
        fn encoded_files_are_decoded_again(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            for text in [yencoded(&octets, "n"), uuencoded(&octets, "n"), stripped(&octets, "n")] {
                let found = find(&text);
                prop_assert_eq!((found.len(), found[0].range.clone()), (1, 0..text.len()));
                let decoded = decode(&text, found[0].encoding, 1000);
                prop_assert!(decoded.is_whole);
                prop_assert_eq!(&decoded.octets, &octets);
            }
        }

        #[test]
        fn any_text_is_searched_without_panic(pieces in prop::collection::vec(prop::sample::select(vec![
            &b"begin 644 x\n"[..], b"M", b"#0@(\n", b"=ybegin line=1 size=2 name=\n", b"=yend size=1\n", b"=", b"\n", b"end\n",
            b"\xff\x00", b"=ypart \n", b"`\n",
        ]), 0..40)) {
            let text = pieces.concat();
            let mut end = 0;
            for file in find(&text) {
                prop_assert!(file.range.start >= end && file.range.end <= text.len());
                end = file.range.end;
                prop_assert!(decode(&text[file.range.clone()], file.encoding, 50).octets.len() <= 50);
            }
        }
    }
}
