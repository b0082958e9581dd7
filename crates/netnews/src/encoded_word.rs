//! Encoded words in headers: `=?charset?Q?text?=` and `=?charset?B?text?=` (RFC 2047 section 2).
//!
//! Called where a header is checked for what a newsreader will show of it. Decoding is as lenient as
//! newsreaders are: padding may be missing, octets that are not base64 are ignored.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Maximum length of a word in octets; longer ones are not decoded. RFC 2047 allows 75, and no header line
/// exceeds this.
const WORD_BYTES_MAX: usize = 998;

/// Octets per encoded word when writing: the word has 72 octets then, of 75 allowed.
const WORD_OCTETS: usize = 45;

/// An encoded word, decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct EncodedWord<'a> {
    /// Name of the charset, without the language that RFC 2231 section 5 lets follow it.
    pub charset: &'a str,
    /// The octets in that charset.
    pub octets: Vec<u8>,
}

/// Returns the encoded words of a header, in order.
pub fn encoded_words(field: &str) -> impl Iterator<Item = EncodedWord<'_>> {
    pieces(field).into_iter().filter_map(|piece| match piece {
        HeaderPiece::Word(word) => Some(word),
        HeaderPiece::Text(_) => None,
    })
}

/// Piece of a header, as a newsreader shows it.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderPiece<'a> {
    /// Text that stands for itself.
    Text(&'a str),
    /// An encoded word.
    Word(EncodedWord<'a>),
}

/// Splits a header into pieces, in order. White space between two encoded words is dropped (RFC 2047 section
/// 6.2). The cost is linear: no byte is examined for more than one word that begins before it.
pub fn pieces(field: &str) -> Vec<HeaderPiece<'_>> {
    let (mut pieces, mut start, mut from, mut ends) = (Vec::new(), 0, 0, WordEnds { field, next: None });
    while let Some(at) = field.get(from..).and_then(|rest| rest.find("=?")).map(|at| from + at) {
        from = at + 2;
        let Some((word, end)) = ends.word_at(from) else { continue };
        let text = field.get(start..at).unwrap_or_default();
        let is_between = matches!(pieces.last(), Some(HeaderPiece::Word(_))) && text.trim_ascii().is_empty();
        if !text.is_empty() && !is_between {
            pieces.push(HeaderPiece::Text(text));
        }
        pieces.push(HeaderPiece::Word(word));
        (start, from) = (end, end);
    }
    pieces.extend(field.get(start..).filter(|text| !text.is_empty()).map(HeaderPiece::Text));
    pieces
}

/// Search for the ends of a header's encoded words.
struct WordEnds<'a> {
    field: &'a str,
    /// The first `?=` at or after the last position that was asked for.
    next: Option<usize>,
}

impl<'a> WordEnds<'a> {
    /// Returns the encoded word whose `=?` ends at `at`, and the position of its end.
    fn word_at(&mut self, at: usize) -> Option<(EncodedWord<'a>, usize)> {
        let (charset, rest) = self.field.get(at..)?.split_once('?')?;
        let is_base64 = match rest.as_bytes() {
            [b'Q' | b'q', b'?', ..] => false,
            [b'B' | b'b', b'?', ..] => true,
            _ => return None,
        };
        let encoded_at = at + charset.len() + 3;
        let end = self.end_from(encoded_at)?;
        if end + 2 - at > WORD_BYTES_MAX {
            return None;
        }
        let octets = decoded(self.field.get(encoded_at..end)?, is_base64)?;
        let charset = charset.split_once('*').map_or(charset, |(charset, _language)| charset);
        Some((EncodedWord { charset, octets }, end + 2))
    }

    fn end_from(&mut self, at: usize) -> Option<usize> {
        if self.next.is_none_or(|next| next < at) {
            let found = self.field.get(at..)?.find("?=").map(|found| at + found);
            self.next = Some(found.unwrap_or(usize::MAX));
        }
        self.next.filter(|next| *next < usize::MAX)
    }
}

/// Encodes text for a header: printable ASCII as it is, other text in encoded words of UTF-8, each in a line
/// of its own.
pub fn encode(text: &str) -> String {
    let is_plain = |b: u8| (0x20..0x7f).contains(&b);
    if text.bytes().all(is_plain) && !text.contains("=?") {
        return text.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(WORD_OCTETS));
        words.push(format!("=?utf-8?B?{}?=", base64::prelude::BASE64_STANDARD.encode(part)));
        rest = after;
    }
    words.join("\r\n ")
}

/// Returns the octets of an encoded text.
fn decoded(encoded: &str, is_base64: bool) -> Option<Vec<u8>> {
    if !is_base64 {
        return Some(unquoted(encoded.as_bytes()));
    }
    let kept: Vec<u8> =
        encoded.bytes().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')).collect();
    // A last group of one octet decodes to nothing.
    let whole = kept.len() - usize::from(kept.len() % 4 == 1);
    LENIENT.decode(kept.get(..whole)?).ok()
}

/// Decodes the Q encoding; an equals sign without two hexadecimal digits stands for itself.
fn unquoted(encoded: &[u8]) -> Vec<u8> {
    let digit =
        |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let (mut rest, mut octets) = (encoded, Vec::with_capacity(encoded.len()));
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        octets.push(match (first, digit(after.first()), digit(after.get(1))) {
            (b'=', Some(high), Some(low)) => {
                rest = after.get(2..).unwrap_or_default();
                high << 4 | low
            }
            (b'_', ..) => b' ',
            _ => first,
        });
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(field: &str) -> Vec<(&str, Vec<u8>)> {
        encoded_words(field).map(|word| (word.charset, word.octets)).collect()
    }

    #[test]
    fn both_encodings_are_decoded() {
        let field = "Re: =?utf-8?Q?Gr=C3=BC=c3=9fe_=3d=?= =?ISO-8859-1*en?b?RfyA?= x";
        let expected =
            [("utf-8", "Gr\u{fc}\u{df}e ==".as_bytes().to_vec()), ("ISO-8859-1", b"E\xfc\x80".to_vec())];
        assert_eq!(words(field), expected);
    }

    #[test]
    fn encoded_text_is_decoded_again() {
        assert_eq!(encode("plain text"), "plain text");
        let long = "Gr\u{fc}\u{df}e \u{20ac} ".repeat(20);
        for text in [long.as_str(), "\r\nX: y", "=?utf-8?Q?x?="] {
            let field = encode(text);
            assert!(field.split("\r\n ").all(|line| line.len() <= 75 && line.starts_with("=?")));
            let octets: Vec<u8> = encoded_words(&field).flat_map(|word| word.octets).collect();
            assert_eq!(String::from_utf8(octets).unwrap(), text);
        }
    }

    #[test]
    fn text_and_words_come_in_order() {
        let word =
            |octets: &[u8]| HeaderPiece::Word(EncodedWord { charset: "utf-8", octets: octets.to_vec() });
        assert_eq!(
            pieces("Re: =?utf-8?Q?a=20?=\r\n =?utf-8?B?Yg==?= c =?utf-8?Q?d?= =?x"),
            [
                HeaderPiece::Text("Re: "),
                word(b"a "),
                word(b"b"),
                HeaderPiece::Text(" c "),
                word(b"d"),
                HeaderPiece::Text(" =?x")
            ]
        );
        assert_eq!(pieces("=?=?utf-8?Q?d?="), [HeaderPiece::Text("=?"), word(b"d")]);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn base64_is_read_as_leniently_as_newsreaders_read_it() {
        for lenient in ["G1sySg==", "G1sySg", "G1s ySg=", "G1s\r\n\tySg==", "G1sySg==="] {
            assert_eq!(
                words(&format!("=?utf-8?B?{lenient}?=")),
                [("utf-8", b"\x1b[2J".to_vec())],
                "{lenient}"
            );
        }
        assert_eq!(words("=?utf-8?B?A?="), [("utf-8", Vec::new())]);
    }

    #[test]
    fn headers_of_one_repeated_token_take_linear_time() {
        for token in
            ["=?", "=?a", "=?a?q?", "=?a?q? ", "=?a?b?x ", "?", "?=", "=?a?q?x?=", "=?a?x?y?= ", "=?a? "]
        {
            let field = token.repeat((4 << 20) / token.len());
            let begun = std::time::Instant::now();
            assert!(!pieces(&field).is_empty());
            let took = begun.elapsed();
            // A hundred times the usual time; searching each word to its end would take a thousand times as
            // long.
            assert!(took.as_secs() < 5, "{token}: {took:?}");
        }
    }

    #[test]
    fn text_that_is_no_encoded_word_is_ignored() {
        for plain in ["", "=?", "=??=", "=?utf-8?", "=?utf-8?X?a?=", "=?utf-8?Q?a", "a = b?", "=?=?=?=?"] {
            assert_eq!(words(plain), [], "{plain}");
        }
    }
}
