//! Content-Transfer-Encoding: decoding of bodies that were encoded for transport, and encoding them.
//!
//! Decoding is as lenient as newsreaders are: unencoded octets stand for themselves, and base64 ends where
//! text begins. Called by the pages, for the bodies of group control messages, and for mails. Source: RFC
//! 2045 section 6.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes `octets` by the value of a Content-Transfer-Encoding header; unknown encodings change nothing.
pub fn decoded<'a>(encoding: &[u8], octets: &'a [u8]) -> Cow<'a, [u8]> {
    let encoding = encoding.trim_ascii();
    if encoding.eq_ignore_ascii_case(b"quoted-printable") {
        Cow::Owned(quoted_printable(octets))
    } else if encoding.eq_ignore_ascii_case(b"base64") {
        Cow::Owned(base64(octets))
    } else {
        Cow::Borrowed(octets)
    }
}

/// Decodes quoted-printable; anything not encoded stands for itself.
pub fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let digit =
        |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|b| *b == b'\n') {
        let (content, end) = match line.strip_suffix(b"\n") {
            Some(content) => (content.strip_suffix(b"\r").unwrap_or(content), &b"\n"[..]),
            None => (line, &b""[..]),
        };
        let content = content.trim_ascii_end();
        let (mut rest, soft) = content.strip_suffix(b"=").map_or((content, false), |content| (content, true));
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match (first, digit(after.first()), digit(after.get(1))) {
                (b'=', Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = after.get(2..).unwrap_or_default();
                }
                _ => out.push(*first),
            }
        }
        if !soft {
            out.extend_from_slice(end);
        }
    }
    out
}

/// Longest line of quoted-printable, in bytes, without a final equals sign.
const QUOTED_LINE_BYTES_MAX: usize = 75;

/// Encodes a text, whose lines end in LF, as quoted-printable, whose lines end in CRLF.
pub fn quoted_printable_of(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    for line in text.strip_suffix(b"\n").unwrap_or(text).split(|b| *b == b'\n') {
        let mut column = 0;
        for (at, &b) in line.iter().enumerate() {
            // Blanks at the end of a line may be lost on the way.
            let is_blank_within = matches!(b, b' ' | b'\t') && at + 1 < line.len();
            let is_literal = is_blank_within || b.is_ascii_graphic() && b != b'=';
            let bytes = if is_literal { 1 } else { 3 };
            if column + bytes > QUOTED_LINE_BYTES_MAX {
                out.extend_from_slice(b"=\r\n");
                column = 0;
            }
            match is_literal {
                true => out.push(b),
                false => out.extend_from_slice(format!("={b:02X}").as_bytes()),
            }
            column += bytes;
        }
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Splits a body in base64 from plain text after it, which mailing lists and servers append: at the padding,
/// unless more base64 follows as where two texts were joined, or before the first line that is not base64.
/// A line may have one octet of 40 that does not belong there.
pub fn base64_and_rest(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut end, mut is_over) = (0, false);
    for line in text.split_inclusive(|b| *b == b'\n') {
        let code = line.trim_ascii();
        let padded = code
            .iter()
            .position(|b| *b == b'=')
            .map_or(0, |at| at + code.iter().skip(at).take_while(|b| **b == b'=').count());
        let is_long = code.len() >= SURE_LINE_BYTES || padded == code.len();
        match code {
            [] => is_over |= end > 0,
            _ if is_over && !(code.len() % 4 == 0 && is_long && are_base64(code)) => break,
            _ if are_base64(code) => is_over |= padded == code.len(),
            _ if padded >= 4 && padded % 4 == 0 && code.get(..padded).is_some_and(are_base64) => {
                let blanks = line.len() - line.trim_ascii_start().len();
                return text.split_at(end + blanks + padded);
            }
            _ => break,
        }
        end += line.len();
    }
    text.split_at(end)
}

/// Least length of a line that is base64 and not a word, even where base64 has ended.
const SURE_LINE_BYTES: usize = 20;

/// Returns whether all of a line is base64, but for one octet of 40.
fn are_base64(line: &[u8]) -> bool {
    let is_foreign = |b: &&u8| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
    line.iter().filter(is_foreign).count() * 40 <= line.len()
}

/// Decodes base64, up to text after it; padding in the middle, as where two texts were joined, is skipped.
pub fn base64(text: &[u8]) -> Vec<u8> {
    let (text, _rest) = base64_and_rest(text);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for piece in text.split(|b| *b == b'=') {
        let kept: Vec<u8> =
            piece.iter().copied().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')).collect();
        let whole = kept.len() - usize::from(kept.len() % 4 == 1);
        out.extend(kept.get(..whole).and_then(|kept| LENIENT.decode(kept).ok()).unwrap_or_default());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_decoded_and_others_change_nothing() {
        assert_eq!(&*decoded(b" Quoted-Printable\r\n", b"=C3=84pf=\r\nel =\r\n"), "\u{c4}pfel ".as_bytes());
        assert_eq!(&*decoded(b"BASE64", b"w4Rw\r\nZmVs\r\n"), "\u{c4}pfel".as_bytes());
        for encoding in [&b"8bit"[..], b"", b"x-uuencode"] {
            assert_eq!(&*decoded(encoding, b"=C3 w4Rw"), b"=C3 w4Rw");
        }
    }

    #[test]
    fn quoted_printable_is_read_back_and_has_short_lines() {
        assert_eq!(quoted_printable_of("\u{c4}=a \n\tb c\n".as_bytes()), b"=C3=84=3Da=20\r\n\tb c\r\n");
        assert_eq!(quoted_printable_of(b""), b"\r\n");
        let lines = ["x".repeat(75), "x".repeat(76), "\u{20ac} ".repeat(100), "=".repeat(80), String::new()];
        let text = lines.join("\n") + "\n";
        let encoded = quoted_printable_of(text.as_bytes());
        assert!(encoded.split(|b| *b == b'\n').all(|line| line.len() <= 77), "{}", encoded.escape_ascii());
        assert_eq!(quoted_printable(&encoded), text.as_bytes());
    }

    #[test]
    fn base64_ends_where_plain_text_begins() {
        let long = "QUJD".repeat(19);
        for (code, rest) in [
            ("w4RwZmVs\r\n", ""),
            ("w4RwZg==\r\n", "_______\r\nlist mailing list\r\n"),
            ("w4RwZg==\r\n\r\n", "Help\r\n"),
            ("w4RwZg==\n", "Unsubscribe\n"),
            // Without padding.
            ("w4RwZmVs\r\n", "-- \r\nlist@x.example\r\n"),
            ("w4RwZmVs\n", "https://x.example/list\n"),
            ("w4RwZmVs\n\n", "Abonnement\n"),
            ("w4RwZg==", "!\nmore\n"),
            // Joined texts, broken lines and noise.
            ("QQ==\nQg==\n", ""),
            ("QQ==QUJD\n", ""),
            (&format!("{long}\nQUJD\n{long}\nQUJD\n"), ""),
            (&format!("{long}\n{}!{}\n{long}", &long[..40], &long[40..]), ""),
            ("", "No base64 at all\n"),
            ("", ""),
        ] {
            let text = format!("{code}{rest}");
            let expected = (code.as_bytes(), rest.as_bytes());
            assert_eq!(base64_and_rest(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(base64(b"w4RwZg==\n_____\nfooter\n"), "\u{c4}pf".as_bytes());
    }
}
