//! Cleartext signatures.
//!
//! The text stands between two lines of armor; lines that begin with a dash are escaped. The signed text is
//! without these escapes, without blanks at the ends of lines, and without its last line end. Anything
//! ambiguous is rejected, since the text that is verified must be the text that is read. Source: RFC 4880
//! section 7; RFC 9580 section 7, by which the header Hash may be absent.

use super::{HashAlgorithm, Signature, SignatureKind, from_base64};
use std::fmt;

const BEGIN: &[u8] = b"-----BEGIN PGP SIGNED MESSAGE-----";
const BEGIN_SIGNATURE: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
const END_SIGNATURE: &[u8] = b"-----END PGP SIGNATURE-----";
/// Maximum length of the text with its armor, in bytes.
const BYTES_MAX: usize = 16 << 20;
/// Maximum number of lines of armor headers, and of lines of an armored signature.
const HEADERS_MAX: usize = 20;
const SIGNATURE_LINES_MAX: usize = 200;

/// A text and its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleartext {
    /// Signed text, with LF between lines; CRLF is hashed instead.
    pub text: Vec<u8>,
    /// The signature, not verified yet.
    pub signature: Signature,
}

/// Reasons why there is no signed text to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleartextError {
    /// Nothing is signed.
    Absent,
    /// There is more than one signed text.
    Several,
    /// The text is too long.
    TooLong,
    /// A header of the armor is not allowed.
    Header,
    /// A line begins with a dash that is not escaped.
    Dash,
    /// The text or its signature has no end.
    Endless,
    /// The signature cannot be read, or is not one of a text.
    Signature,
    /// The signature's hash function is not the one in the header Hash.
    OtherHash,
}

impl fmt::Display for CleartextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "it is not signed",
            Self::Several => "it has more than one signed text",
            Self::TooLong => "it is too long",
            Self::Header => "a header of its signed text may not be there",
            Self::Dash => "a line of its signed text begins with a dash that is not escaped",
            Self::Endless => "its signed text or its signature has no end",
            Self::Signature => "its signature cannot be read",
            Self::OtherHash => "its signature has another hash function than it says",
        })
    }
}

impl Cleartext {
    /// Reads the one signed text in `body`, whose lines end in LF or CRLF. Text before and after it is
    /// ignored.
    pub fn of(body: &[u8]) -> Result<Self, CleartextError> {
        if body.len() > BYTES_MAX {
            return Err(CleartextError::TooLong);
        }
        let mut lines = body.split(|b| *b == b'\n').map(without_blanks);
        lines.by_ref().find(|line| *line == BEGIN).ok_or(CleartextError::Absent)?;
        if lines.clone().any(|line| line == BEGIN) {
            return Err(CleartextError::Several);
        }
        let hashes = hashes(&mut lines)?;
        let text = text(&mut lines)?;
        let signature = signature(&mut lines)?;
        if !hashes.is_empty() && !hashes.iter().any(|name| is_named(signature.hash, name)) {
            return Err(CleartextError::OtherHash);
        }
        Ok(Self { text, signature })
    }
}

/// Returns whether `body` may have a signed text; quick, and never wrong when it returns false.
pub fn may_be_cleartext(body: &[u8]) -> bool {
    memchr::memmem::find(body, BEGIN).is_some()
}

/// Returns the names of hash functions in the headers, up to the blank line.
fn hashes<'a>(lines: &mut impl Iterator<Item = &'a [u8]>) -> Result<Vec<&'a [u8]>, CleartextError> {
    let mut names = Vec::new();
    for line in lines.take(HEADERS_MAX) {
        if line.is_empty() {
            return Ok(names);
        }
        let list = line.strip_prefix(b"Hash:").ok_or(CleartextError::Header)?;
        names.extend(list.split(|b| *b == b',').map(<[u8]>::trim_ascii));
    }
    Err(CleartextError::Header)
}

/// Returns the text, up to the signature.
fn text<'a>(lines: &mut impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, CleartextError> {
    let mut text = Vec::new();
    let mut is_first = true;
    for line in lines {
        if line == BEGIN_SIGNATURE {
            return Ok(text);
        }
        let line = match line {
            // A dash and a blank, whose blank has been removed as the end of the line.
            b"-" => &[],
            [b'-', b' ', rest @ ..] => rest,
            [b'-', ..] => return Err(CleartextError::Dash),
            line => line,
        };
        if !is_first {
            text.push(b'\n');
        }
        is_first = false;
        text.extend_from_slice(line);
    }
    Err(CleartextError::Endless)
}

/// Returns the armored signature, up to its end.
fn signature<'a>(lines: &mut impl Iterator<Item = &'a [u8]>) -> Result<Signature, CleartextError> {
    let blank = lines.take(HEADERS_MAX).find(|line| line.is_empty());
    blank.ok_or(CleartextError::Signature)?;
    let mut words = Vec::new();
    for line in lines.take(SIGNATURE_LINES_MAX) {
        if line == END_SIGNATURE {
            let bytes = from_base64(words.into_iter()).ok_or(CleartextError::Signature)?;
            let signature = Signature::read(&bytes).filter(|signature| signature.kind == SignatureKind::Text);
            return signature.ok_or(CleartextError::Signature);
        }
        words.push(std::str::from_utf8(line).map_err(|_| CleartextError::Signature)?);
    }
    Err(CleartextError::Endless)
}

/// Returns a line without its line end and the blanks before that, which are not signed.
fn without_blanks(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blanks = line.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
    line.get(..line.len() - blanks).unwrap_or(line)
}

fn is_named(hash: HashAlgorithm, name: &[u8]) -> bool {
    let own: &[u8] = match hash {
        HashAlgorithm::Sha1 => b"SHA1",
        HashAlgorithm::Sha256 => b"SHA256",
        HashAlgorithm::Sha384 => b"SHA384",
        HashAlgorithm::Sha512 => b"SHA512",
        HashAlgorithm::Other(_) => return false,
    };
    name.eq_ignore_ascii_case(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    /// Returns an invalid signature of a text with SHA-256, in armor.
    fn armored(kind: u8) -> String {
        let packet = [0xc2, 20, 4, kind, 1, 8, 0, 6, 5, 2, 1, 2, 3, 4, 0, 0, 7, 7, 0, 9, 1, 1];
        format!(
            "-----BEGIN PGP SIGNATURE-----\nVersion: x\n\n{}\n-----END PGP SIGNATURE-----\n",
            BASE64_STANDARD.encode(packet)
        )
    }

    fn message(head: &str, text: &str) -> String {
        format!("before\n-----BEGIN PGP SIGNED MESSAGE-----\n{head}\n{text}\n{}after\n", armored(1))
    }

    fn text_of(message: &str) -> Result<String, CleartextError> {
        Cleartext::of(message.as_bytes()).map(|signed| String::from_utf8(signed.text).unwrap())
    }

    #[test]
    fn signed_text_is_unescaped_and_trimmed() {
        for (text, expected) in [
            ("a\nb", "a\nb"),
            ("a \t\n\nb  ", "a\n\nb"),
            (
                "- -----BEGIN PGP SIGNATURE-----\n- - x\n- From y\n- ",
                "-----BEGIN PGP SIGNATURE-----\n- x\nFrom y\n",
            ),
            ("", ""),
            ("a\n", "a\n"),
            ("\n", "\n"),
        ] {
            for head in ["Hash: SHA256\n", "", "Hash: SHA1, SHA256\nHash: SHA512\n"] {
                let message = message(head, text);
                assert_eq!(text_of(&message).as_deref(), Ok(expected), "{text:?}");
                assert_eq!(text_of(&message.replace('\n', "\r\n")).as_deref(), Ok(expected), "{text:?}");
            }
        }
    }

    #[test]
    fn ambiguous_text_is_rejected() {
        let good = message("Hash: SHA256\n", "a\nb");
        for (bad, why) in [
            ("no armor".to_owned(), CleartextError::Absent),
            (good.repeat(2), CleartextError::Several),
            (message("Hash: SHA256\nComment: x\n", "a"), CleartextError::Header),
            (message("a\n", "b"), CleartextError::Header),
            (message(&"Hash: SHA256\n".repeat(30), "b"), CleartextError::Header),
            (message("Hash: SHA512\n", "a"), CleartextError::OtherHash),
            (message("", "a\n-b"), CleartextError::Dash),
            (message("", "a\n-----END PGP SIGNATURE-----\nb"), CleartextError::Dash),
            (good.replace("-----BEGIN PGP SIGNATURE", "- ----BEGIN PGP SIGNATURE"), CleartextError::Dash),
            (good.replace("-----END", "=====END"), CleartextError::Endless),
            (good.replace("Version: x\n\n", "Version: x\n"), CleartextError::Endless),
            (good.replace("-----END", "AAAA\n-----END"), CleartextError::Signature),
            (good.replace(&armored(1), &armored(0)), CleartextError::Signature),
            (good.replace(&armored(1), ""), CleartextError::Endless),
        ] {
            assert_eq!(text_of(&bad), Err(why), "{bad}");
        }
        assert_eq!(Cleartext::of(&vec![b'x'; BYTES_MAX + 1]), Err(CleartextError::TooLong));
        assert!(may_be_cleartext(good.as_bytes()) && !may_be_cleartext(b"BEGIN PGP"));
    }

    #[test]
    fn truncated_or_damaged_text_does_not_panic() {
        let good = message("Hash: SHA256\n", "a\n- -b").into_bytes();
        for len in 0..good.len() {
            let begun = Cleartext::of(&good[..len]);
            assert!(begun.is_err() || good.len() - len < 8, "{begun:?}");
            for bit in 0..8 {
                let mut changed = good.clone();
                changed[len] ^= 1 << bit;
                assert!(Cleartext::of(&changed).map_or(0, |signed| signed.text.len()) < good.len());
            }
        }
    }
}
