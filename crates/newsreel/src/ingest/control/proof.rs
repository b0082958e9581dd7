//! Who has signed an article.

use super::keyring::{Key, Keyring};
use super::verify::{Weak, verifies};
use crate::base::clock::unix_now;
use netnews::control::pgp_sig::SignedArticle;
use netnews::openpgp::{Hash, Kind};
use netnews::{Article, Known};
use std::cell::OnceCell;

/// How far ahead of the clock a signature may be.
const AHEAD_SECS_MAX: i64 = 86_400;

/// Who has signed an article; found out when somebody asks.
pub(crate) struct Proof<'a> {
    article: &'a Article<'a>,
    keyring: &'a Keyring,
    signer: OnceCell<Result<Key, String>>,
}

impl<'a> Proof<'a> {
    pub fn of(article: &'a Article<'a>, keyring: &'a Keyring) -> Self {
        Self { article, keyring, signer: OnceCell::new() }
    }

    /// Whether one of these has signed it.
    pub fn is_by(&self, names: &[String]) -> bool {
        let signer = self.signer.get_or_init(|| signer(self.article, self.keyring, unix_now()));
        signer.as_ref().is_ok_and(|key| names.iter().any(|name| key.is_called(name)))
    }

    /// Whether it may be signed; nothing is verified.
    pub fn may_be(article: &Article<'_>) -> bool {
        article.count(Known::XPgpSig) > 0
    }

    /// What is to be said of the signature, if somebody asked and it did not help.
    pub fn remark(&self) -> String {
        match self.signer.get() {
            None => String::new(),
            Some(Ok(key)) => format!("; it is signed by {}", key.users.first().unwrap_or(&key.fingerprint)),
            Some(Err(why)) => format!("; its signature does not count: {why}"),
        }
    }
}

/// The trusted key that has signed the article, or why there is none.
fn signer(article: &Article<'_>, keyring: &Keyring, now: i64) -> Result<Key, String> {
    let signed = SignedArticle::of(article).map_err(|bad| bad.to_string())?;
    let signature = &signed.signature;
    if matches!(signature.hash, Hash::Sha1 | Hash::Other(_)) {
        return Err("its hash function is weak or unknown".into());
    }
    let mut bytes = match signature.kind {
        Kind::Binary => signed.message,
        Kind::Text => with_crlf(&signed.message),
        _ => return Err("it is not a signature of a text".into()),
    };
    let created = i64::from(signature.created);
    if created > now + AHEAD_SECS_MAX {
        return Err("it was made more than a day ahead".into());
    }
    if signature.lives > 0 && created + i64::from(signature.lives) <= now {
        return Err("it has expired".into());
    }
    let keys = keyring.keys().map_err(|error| error.to_string())?;
    let mut by_it = keys.iter().filter(|key| signature.is_by(key.fingerprint_bytes()));
    let key = by_it.find(|key| key.is_trusted).ok_or("no trusted key has made it")?;
    if let Some(why) = key.unusable {
        return Err(format!("its key cannot be used: {why}"));
    }
    if key.expires.is_some_and(|at| at <= now) {
        return Err("its key has expired".into());
    }
    bytes.extend_from_slice(&signature.trailer);
    match verifies(&key.public, signature, &bytes, Weak::Refused) {
        true => Ok(key.clone()),
        false => Err("it is not of this text".into()),
    }
}

/// With CRLF in place of LF.
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
