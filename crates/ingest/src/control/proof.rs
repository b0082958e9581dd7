//! Verification of the signer of an article.

use super::keyring::{Keyring, SigningKey};
use super::verify::{WeakHashes, sha256, verifies};
use netnews::control::pgp_sig::{BadSignature, SignedArticle};
use netnews::openpgp::{HashAlgorithm, Signature, SignatureKind};
use netnews::{Article, Known};
use site_base::clock::unix_now;
use std::cell::OnceCell;
use std::io;

/// Largest distance of a signature ahead of the clock, in seconds.
const AHEAD_SECS_MAX: i64 = 86_400;

/// Reason why a signature does not count.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The article is not signed in pgpcontrol's form.
    #[error("{0}")]
    Form(BadSignature),
    /// The hash function of the signature is too weak.
    #[error("its hash function is weak or unknown")]
    WeakHash,
    /// The signature is not of a text.
    #[error("it is not a signature of a text")]
    NotOfText,
    /// The signature was made more than a day ahead of the clock.
    #[error("it was made more than a day ahead")]
    Ahead,
    /// The signature has expired.
    #[error("it has expired")]
    Expired,
    /// The keys cannot be read.
    #[error("{0}")]
    Keyring(io::Error),
    /// No trusted key made the signature.
    #[error("no trusted key has made it")]
    NoKey,
    /// Reason why its key cannot be used.
    #[error("its key cannot be used: {0}")]
    KeyUnusable(&'static str),
    /// The signing key has expired.
    #[error("its key has expired")]
    KeyExpired,
    /// The signature is of another text.
    #[error("it is not of this text")]
    OtherText,
}

/// The signer of an article, determined on first use.
pub struct SignatureProof<'a> {
    article: &'a Article<'a>,
    keyring: &'a Keyring,
    signer: OnceCell<Result<SigningKey, SignatureError>>,
}

impl<'a> SignatureProof<'a> {
    /// Returns the signer of `article`, if it is in `keyring`; nothing is verified yet.
    pub fn of(article: &'a Article<'a>, keyring: &'a Keyring) -> Self {
        Self { article, keyring, signer: OnceCell::new() }
    }

    /// Returns whether one of these signers has signed the article.
    pub fn is_by(&self, names: &[String]) -> bool {
        let signer = self.signer.get_or_init(|| signer(self.article, self.keyring, unix_now()));
        signer.as_ref().is_ok_and(|key| names.iter().any(|name| key.is_called(name)))
    }

    /// Returns whether the article has a signature header; nothing is verified.
    pub fn may_be(article: &Article<'_>) -> bool {
        article.count(Known::XPgpSig) > 0
    }

    /// Returns a remark on the signature, if it was checked and did not suffice.
    pub fn remark(&self) -> String {
        match self.signer.get() {
            None => String::new(),
            Some(Ok(key)) => format!("; it is signed by {}", key.users.first().unwrap_or(&key.fingerprint)),
            Some(Err(why)) => format!("; its signature does not count: {why}"),
        }
    }
}

/// Returns the trusted key that has signed the article, or why there is none.
fn signer(article: &Article<'_>, keyring: &Keyring, now: i64) -> Result<SigningKey, SignatureError> {
    let signed = SignedArticle::of(article).map_err(SignatureError::Form)?;
    verified(&signed.message, &signed.signature, keyring, now)
}

/// A text that a trusted key has signed.
#[derive(Debug)]
pub struct SignedText {
    /// Key that made the signature.
    pub key: SigningKey,
    /// Time of the signature, in Unix seconds.
    pub created: i64,
    /// SHA-256 of the text.
    pub digest: [u8; 32],
}

/// Returns the trusted signer of a text, whose lines end in LF, or why there is none.
pub fn signer_of(
    text: &[u8],
    signature: &Signature,
    keyring: &Keyring,
    now: i64,
) -> Result<SignedText, SignatureError> {
    let key = verified(text, signature, keyring, now)?;
    Ok(SignedText { key, created: i64::from(signature.created), digest: sha256(text) })
}

/// Returns the trusted key that made a signature of a text.
fn verified(
    text: &[u8],
    signature: &Signature,
    keyring: &Keyring,
    now: i64,
) -> Result<SigningKey, SignatureError> {
    if matches!(signature.hash, HashAlgorithm::Sha1 | HashAlgorithm::Other(_)) {
        return Err(SignatureError::WeakHash);
    }
    let mut bytes = match signature.kind {
        SignatureKind::Binary => text.to_vec(),
        SignatureKind::Text => with_crlf(text),
        _ => return Err(SignatureError::NotOfText),
    };
    let created = i64::from(signature.created);
    if created > now + AHEAD_SECS_MAX {
        return Err(SignatureError::Ahead);
    }
    if signature.lives > 0 && created + i64::from(signature.lives) <= now {
        return Err(SignatureError::Expired);
    }
    let keys = keyring.keys().map_err(SignatureError::Keyring)?;
    let mut by_it = keys.iter().filter(|key| signature.is_by(key.fingerprint_bytes()));
    let key = by_it.find(|key| key.is_trusted).ok_or(SignatureError::NoKey)?;
    if let Some(why) = key.unusable {
        return Err(SignatureError::KeyUnusable(why));
    }
    if key.expires.is_some_and(|at| at <= now) {
        return Err(SignatureError::KeyExpired);
    }
    bytes.extend_from_slice(&signature.trailer);
    match verifies(&key.public, signature, &bytes, WeakHashes::Refused) {
        true => Ok(key.clone()),
        false => Err(SignatureError::OtherText),
    }
}

/// Returns the text with CRLF in place of LF.
fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 32);
    for line in text.split_inclusive(|b| *b == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}
