//! X-PGP-Sig: a signature of some headers and the body of an article, in pgpcontrol's form.
//!
//! The header holds a version, the names of the signed headers, and the lines of an armored signature. The
//! signed text is a line with those names, the headers, a blank line and the body, with LF and without blanks
//! at the ends of lines. Called by newsreel's `ingest::control` and, to sign, `inject`. Sources: pgpcontrol's
//! FORMAT, INN's `pgpverify`.

use crate::article::{Article, Known};
use crate::nntp::wire;
use crate::openpgp::{Signature, crc24, dearmored, from_base64};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Length of a line of Base64.
const LINE_CHARS: usize = 64;
/// Maximum number of headers that a signature may name.
const HEADERS_MAX: usize = 64;

/// A signed article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedArticle {
    /// The signature, not verified yet.
    pub signature: Signature,
    /// The signed text, with LF at the ends of lines.
    pub message: Vec<u8>,
}

/// Reasons why the signature of an article does not count, regardless of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadSignature {
    /// There is no X-PGP-Sig header, or more than one.
    Absent,
    /// The header is not in pgpcontrol's form.
    Malformed,
    /// A signed header is present more than once.
    Repeated,
    /// A header that matters is not signed.
    Unsigned(Known),
}

impl std::fmt::Display for BadSignature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("it has no X-PGP-Sig header"),
            Self::Malformed => f.write_str("its X-PGP-Sig header is malformed"),
            Self::Repeated => f.write_str("a signed header is present more than once"),
            Self::Unsigned(known) => write!(f, "its {} header is not signed", known.name()),
        }
    }
}

impl SignedArticle {
    /// Reads the signature of an article, if every header is signed that decides about its request.
    pub fn of(article: &Article<'_>) -> Result<Self, BadSignature> {
        if article.count(Known::XPgpSig) != 1 {
            return Err(BadSignature::Absent);
        }
        let value = article.header(Known::XPgpSig).ok_or(BadSignature::Absent)?;
        let value = std::str::from_utf8(value).map_err(|_| BadSignature::Malformed)?;
        let mut words = value.split_ascii_whitespace();
        let (Some(_version), Some(list)) = (words.next(), words.next()) else {
            return Err(BadSignature::Malformed);
        };
        let names: Vec<&str> = list.split(',').collect();
        if names.len() > HEADERS_MAX {
            return Err(BadSignature::Malformed);
        }
        let bytes = from_base64(words).ok_or(BadSignature::Malformed)?;
        let signature = Signature::read(&bytes).ok_or(BadSignature::Malformed)?;
        let must = [Known::MessageId, Known::From, Known::Date].into_iter();
        let may = [Known::Control, Known::Supersedes, Known::Sender, Known::CancelKey].into_iter();
        for known in must.chain(may.filter(|known| article.count(*known) > 0)) {
            if !names.contains(&known.name()) {
                return Err(BadSignature::Unsigned(known));
            }
        }
        Ok(Self { signature, message: message(article, list, &names)? })
    }
}

/// Headers that are signed if present: all that decide about the article's request, and all that readers see
/// of it.
const SIGNED: [Known; 11] = [
    Known::Subject,
    Known::Control,
    Known::Supersedes,
    Known::CancelKey,
    Known::Newsgroups,
    Known::FollowupTo,
    Known::MessageId,
    Known::Date,
    Known::From,
    Known::Sender,
    Known::Approved,
];

/// Article that is to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedArticle {
    list: String,
    /// Text to be signed, with LF at the ends of lines.
    pub message: Vec<u8>,
}

impl UnsignedArticle {
    /// Prepares an article for signing.
    pub fn of(article: &Article<'_>) -> Result<Self, BadSignature> {
        let names: Vec<&str> =
            SIGNED.iter().filter(|known| article.count(**known) > 0).map(|known| known.name()).collect();
        let list = names.join(",");
        let message = message(article, &list, &names)?;
        Ok(Self { list, message })
    }

    /// Returns the header line for an armored detached signature; `None` if `armored` is not one.
    pub fn header(&self, armored: &str) -> Option<String> {
        let bytes = dearmored(armored)?;
        Signature::read(&bytes)?;
        let mut header = format!("{}: newsreel {}", Known::XPgpSig.name(), self.list);
        for line in BASE64_STANDARD.encode(&bytes).as_bytes().chunks(LINE_CHARS) {
            header.push_str("\r\n\t");
            header.extend(line.iter().map(|b| char::from(*b)));
        }
        let [_, sum @ ..] = crc24(&bytes).to_be_bytes();
        Some(header + "\r\n\t=" + &BASE64_STANDARD.encode(sum) + "\r\n")
    }
}

/// Returns the text that is signed.
fn message(article: &Article<'_>, list: &str, names: &[&str]) -> Result<Vec<u8>, BadSignature> {
    let mut text = format!("X-Signed-Headers: {list}\n").into_bytes();
    for name in names {
        let mut fields = article.headers().filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        if let Some((_, value)) = fields.next() {
            text.extend(value.iter().filter(|b| **b != b'\r'));
        }
        text.push(b'\n');
        if fields.next().is_some() {
            return Err(BadSignature::Repeated);
        }
    }
    text.push(b'\n');
    let mut body = Vec::new();
    wire::unstuff(article.body(), &mut body);
    for line in body.split_inclusive(|b| *b == b'\n') {
        text.extend_from_slice(line.strip_suffix(b"\r\n").unwrap_or(line));
        if line.ends_with(b"\r\n") {
            text.push(b'\n');
        }
    }
    Ok(without_blanks(&text))
}

/// Returns the text without blanks at the ends of lines.
fn without_blanks(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|b| *b == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                let blanks = line.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
                out.extend_from_slice(line.get(..line.len() - blanks).unwrap_or(line));
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED_BY_SOMEBODY: &str = concat!(
        "-----BEGIN PGP SIGNATURE-----\n\n",
        "iHUEABYIAB0WIQRqBXytzFlmAxdcR77rUruSmtir6AUCawR6jgAKCRDrUruSmtir\n",
        "6GkCAQDfhKw3KEcVxQbBgFsqI+n4HrUtNQz1dEJ6bqdV6PrSBAD/cyOMpkVtUiLU\n",
        "Rt+iUOHZo0IvkXLC1BSeX9ZXIWTxEw8=\n",
        "=3s7D\n",
        "-----END PGP SIGNATURE-----\n"
    );

    #[test]
    fn text_to_be_signed_is_the_text_verified_later() {
        let wire = b"Path: p\r\nFrom: a@x\r\nSubject: a\r\n b\t\r\nDate: 1 Jan 2026 00:00:00 +0000\r\n\
            Newsgroups: g\r\nMessage-ID: <1@x>\r\nApproved: m@x\r\n\r\n..dot  \r\nlast\r\n";
        let unsigned = UnsignedArticle::of(&Article::parse(wire).unwrap()).unwrap();
        let text = "X-Signed-Headers: Subject,Newsgroups,Message-ID,Date,From,Approved\nSubject: a\n b\n\
            Newsgroups: g\nMessage-ID: <1@x>\nDate: 1 Jan 2026 00:00:00 +0000\nFrom: a@x\nApproved: m@x\n\n\
            .dot\nlast\n";
        assert_eq!(String::from_utf8(unsigned.message.clone()).unwrap(), text);
        assert_eq!(unsigned.header("no signature"), None);
        assert_eq!(unsigned.header(&SIGNED_BY_SOMEBODY.replace("iHUE", "mHUE")), None);
        let header = unsigned.header(SIGNED_BY_SOMEBODY).unwrap();
        assert!(header.lines().all(|line| line.len() < 110) && header.ends_with("\r\n"), "{header}");
        let signed = [b"Path: p\r\n", header.as_bytes(), &wire["Path: p\r\n".len()..]].concat();
        let signed = SignedArticle::of(&Article::parse(&signed).unwrap()).unwrap();
        assert_eq!(signed.message, unsigned.message);
    }
}
