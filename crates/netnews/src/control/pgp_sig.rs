//! X-PGP-Sig: a signature of some headers and the body of an article, in pgpcontrol's form.
//!
//! The header holds a version, the names of the signed headers, and the lines of an armored signature. What
//! is signed is a line with those names, the headers, a blank line and the body, with LF and without blanks
//! at the ends of lines. Called by newsreel's `ingest::control`. Sources: pgpcontrol's FORMAT, INN's
//! `pgpverify`.

use crate::article::{Article, Known};
use crate::nntp::wire;
use crate::openpgp::{Signature, from_base64};

/// The most headers that a signature may name.
const HEADERS_MAX: usize = 64;

/// A signed article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedArticle {
    /// Not verified yet.
    pub signature: Signature,
    /// What it is of, with LF at the ends of lines.
    pub message: Vec<u8>,
}

/// Why the signature of an article does not count, whoever made it.
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
    /// That of an article, if all is signed that decides what the article asks for.
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

/// What is signed.
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

/// Without blanks at the ends of lines.
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
