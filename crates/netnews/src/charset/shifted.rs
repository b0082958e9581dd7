//! Charsets of seven bits in which an escape says what the octets after it mean.
//!
//! Each pair of octets is one of the EUC charset that has the same characters, with the upper bits set, so
//! that the tables of encoding_rs serve. Reading is lenient: escapes may follow each other, a set may end
//! without a character, and each line begins in ASCII. Called by `charset`. Sources: RFC 1468, 1554, 2237
//! (Japanese), 1557 (Korean), 1922 (Chinese), 1843 (HZ); Microsoft's code pages 50220 to 50222.

use encoding_rs::{EUC_JP, EUC_KR, Encoding, GBK};
use memchr::memchr_iter;

const ESC: u8 = 0x1b;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;

/// A charset with shifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShiftedCharset {
    /// ISO-2022-JP and its variants.
    Japanese,
    /// ISO-2022-KR.
    Korean,
    /// ISO-2022-CN.
    Chinese,
    /// HZ-GB-2312.
    Hz,
}

/// A set of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterSet {
    Ascii,
    /// JIS X 0201, left half.
    Roman,
    /// JIS X 0201, right half: half-width katakana.
    Kana,
    /// Two octets each, of an EUC charset.
    Pairs(&'static Encoding),
    /// Two octets each, of JIS X 0212, which EUC-JP has after an octet of its own.
    Jis0212,
    /// Two octets each, without a table here.
    Unknown,
}

/// Returns whether there are escapes to JIS X 0208, as in Japanese articles that declare no charset.
pub(super) fn has_japanese_escapes(octets: &[u8]) -> bool {
    memchr_iter(ESC, octets).any(|at| matches!(octets.get(at + 1..at + 3), Some(b"$B" | b"$@")))
}

impl ShiftedCharset {
    /// Returns the charset of this name, in lower case and without hyphens.
    pub fn named(name: &str) -> Option<Self> {
        let is = |start: &str| name.starts_with(start);
        if is("iso2022jp") || is("csiso2022jp") || name == "jis" || name == "jis7" {
            return Some(Self::Japanese);
        }
        if is("iso2022kr") || is("csiso2022kr") {
            return Some(Self::Korean);
        }
        if is("iso2022cn") || is("csiso2022cn") {
            return Some(Self::Chinese);
        }
        let page =
            ["xwindows", "windows", "xcp", "cp", "x"].iter().find_map(|before| name.strip_prefix(before));
        match page.unwrap_or(name) {
            "50220" | "50221" | "50222" | "iso2022jp" => Some(Self::Japanese),
            "50225" => Some(Self::Korean),
            "50227" => Some(Self::Chinese),
            "hz" | "hzgb2312" | "hzgb" | "52936" => Some(Self::Hz),
            _ => None,
        }
    }

    pub fn decode(self, octets: &[u8]) -> String {
        let mut text = ShiftedText::new(self);
        let mut rest = octets;
        while let Some((first, after)) = rest.split_first() {
            rest = match self {
                Self::Hz => text.hz(*first, after),
                _ => text.iso_2022(*first, after),
            };
        }
        text.flush();
        text.out
    }

    /// Returns the set that SO selects if nothing else was designated.
    fn shifted_out(self) -> CharacterSet {
        match self {
            Self::Japanese => CharacterSet::Kana,
            Self::Korean => CharacterSet::Pairs(EUC_KR),
            Self::Chinese | Self::Hz => CharacterSet::Pairs(GBK),
        }
    }
}

/// Text that is being decoded.
struct ShiftedText {
    charset: ShiftedCharset,
    /// The sets of octets, and of octets after SO.
    sets: [CharacterSet; 2],
    is_shifted_out: bool,
    out: String,
    /// Octets of an EUC charset that are not decoded yet, as those after them may be of the same.
    pending: Vec<u8>,
    encoding: &'static Encoding,
}

impl ShiftedText {
    fn new(charset: ShiftedCharset) -> Self {
        let sets = [CharacterSet::Ascii, charset.shifted_out()];
        Self { charset, sets, is_shifted_out: false, out: String::new(), pending: Vec::new(), encoding: GBK }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.out.push_str(&self.encoding.decode_without_bom_handling(&self.pending).0);
            self.pending.clear();
        }
    }

    fn push(&mut self, c: char) {
        self.flush();
        self.out.push(c);
    }

    fn add(&mut self, encoding: &'static Encoding, octets: &[u8]) {
        if encoding != self.encoding {
            self.flush();
            self.encoding = encoding;
        }
        self.pending.extend_from_slice(octets);
    }

    /// Begins a line, which is in ASCII.
    fn end_line(&mut self) {
        self.push('\n');
        self.sets[0] = CharacterSet::Ascii;
        self.is_shifted_out = false;
    }

    /// Adds what begins with this octet of ISO 2022; returns the octets after it.
    fn iso_2022<'a>(&mut self, first: u8, after: &'a [u8]) -> &'a [u8] {
        match first {
            ESC => match self.escape(after) {
                Some(rest) => return rest,
                None => self.push('\u{1b}'),
            },
            SHIFT_OUT | SHIFT_IN => self.is_shifted_out = first == SHIFT_OUT,
            b'\n' => self.end_line(),
            0..=0x20 | 0x7f => self.push(char::from(first)),
            0x80.. => return self.upper(first, after),
            _ => return self.character(self.sets[usize::from(self.is_shifted_out)], first, after),
        }
        after
    }

    /// Adds the character that begins with this octet of a set.
    fn character<'a>(&mut self, set: CharacterSet, first: u8, after: &'a [u8]) -> &'a [u8] {
        let single = match (set, first) {
            (CharacterSet::Roman, b'\\') => Some('\u{a5}'),
            (CharacterSet::Roman, b'~') => Some('\u{203e}'),
            (CharacterSet::Ascii | CharacterSet::Roman, _) => Some(char::from(first)),
            (CharacterSet::Kana, _) => Some(kana(first | 0x80)),
            (CharacterSet::Pairs(_) | CharacterSet::Jis0212 | CharacterSet::Unknown, _) => None,
        };
        if let Some(c) = single {
            self.push(c);
            return after;
        }
        let Some((second @ 0x21..=0x7e, rest)) = after.split_first() else {
            self.push('\u{fffd}');
            return after;
        };
        match set {
            CharacterSet::Pairs(encoding) => self.add(encoding, &[first | 0x80, second | 0x80]),
            CharacterSet::Jis0212 => self.add(EUC_JP, &[0x8f, first | 0x80, second | 0x80]),
            _ => self.push('\u{fffd}'),
        }
        rest
    }

    /// Adds what begins with an octet that the charset does not have.
    fn upper<'a>(&mut self, first: u8, after: &'a [u8]) -> &'a [u8] {
        let encoding = match self.charset {
            ShiftedCharset::Japanese => {
                self.push(kana(first));
                return after;
            }
            ShiftedCharset::Korean => EUC_KR,
            ShiftedCharset::Chinese | ShiftedCharset::Hz => GBK,
        };
        match after.split_first() {
            Some((second @ 0x80.., rest)) => {
                self.add(encoding, &[first, *second]);
                rest
            }
            _ => {
                self.push('\u{fffd}');
                after
            }
        }
    }

    /// Obeys the escape sequence with these octets after ESC, and returns those after it; `None` if it is
    /// unknown.
    fn escape<'a>(&mut self, after: &'a [u8]) -> Option<&'a [u8]> {
        let (at, set, rest) = match after {
            [b'$', b'(', set, rest @ ..] => (0, pairs(*set), rest),
            [b'$', b')' | b'*' | b'+', set, rest @ ..] => (1, pairs(*set), rest),
            [b'$', set @ (b'@' | b'A' | b'B'), rest @ ..] => (0, pairs(*set), rest),
            [b'(', set, rest @ ..] => (0, single(*set), rest),
            [b')', set, rest @ ..] => (1, single(*set), rest),
            // Announces the revision of the set that the next escape selects.
            [b'&', b'@', rest @ ..] => return Some(rest),
            // A third set, and one character of it.
            [b'.', _, rest @ ..] => return Some(rest),
            [b'N', octet @ 0x20..=0x7f, rest @ ..] if self.charset == ShiftedCharset::Japanese => {
                self.push(char::from(octet | 0x80));
                return Some(rest);
            }
            [b'N', 0x21..=0x7e, 0x21..=0x7e, rest @ ..] => {
                self.push('\u{fffd}');
                return Some(rest);
            }
            _ => return None,
        };
        // Later sets of ISO-2022-CN are designated, and used by single shifts alone.
        if !matches!(after, [b'$', b'*' | b'+', ..])
            && let Some(slot) = self.sets.get_mut(at)
        {
            *slot = set;
        }
        Some(rest)
    }

    /// Adds what begins with this octet of HZ; returns the octets after it.
    fn hz<'a>(&mut self, first: u8, after: &'a [u8]) -> &'a [u8] {
        let is_text = !self.is_shifted_out;
        match (first, after) {
            (b'~', [b'{', rest @ ..]) if is_text => {
                self.is_shifted_out = true;
                return rest;
            }
            (b'~', [b'}', rest @ ..]) => {
                self.is_shifted_out = false;
                return rest;
            }
            (b'~', [b'~', rest @ ..]) if is_text => {
                self.push('~');
                return rest;
            }
            (b'~', [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..]) if is_text => return rest,
            (b'\n', _) => self.end_line(),
            (0..=0x20 | 0x7f, _) => self.push(char::from(first)),
            (0x80.., _) => return self.upper(first, after),
            _ if is_text => self.push(char::from(first)),
            _ => return self.character(self.sets[1], first, after),
        }
        after
    }
}

/// Returns the set of single octets that is selected by this octet.
fn single(set: u8) -> CharacterSet {
    match set {
        b'I' => CharacterSet::Kana,
        // H is Swedish, which some programs meant for this.
        b'J' | b'H' => CharacterSet::Roman,
        _ => CharacterSet::Ascii,
    }
}

/// Returns the set of pairs that is selected by this octet.
fn pairs(set: u8) -> CharacterSet {
    match set {
        // The first plane of JIS X 0213 has nearly all of JIS X 0208.
        b'@' | b'B' | b'O' | b'Q' => CharacterSet::Pairs(EUC_JP),
        b'A' | b'E' => CharacterSet::Pairs(GBK),
        b'C' => CharacterSet::Pairs(EUC_KR),
        b'D' => CharacterSet::Jis0212,
        _ => CharacterSet::Unknown,
    }
}

/// Returns a half-width katakana of JIS X 0201 with eight bits.
fn kana(octet: u8) -> char {
    match octet {
        0xa1..=0xdf => char::from_u32(0xff61 + u32::from(octet - 0xa1)).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    }
}
