//! The site's secret for what it signs or hides in articles posted here.
//!
//! One file of 32 random octets; what is used is derived from them for each purpose, so that none tells anything of the
//! others. Called by `inject` and `newsreel cancel-key`. Format: `docs/formats/secret.md`. Source: RFC 8315 section 4.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Octets of the secret.
const SECRET_BYTES: usize = 32;
/// Octets of a hash that stands for an address or a user.
const TRACE_BYTES: usize = 12;

/// What is derived from the secret.
#[derive(Debug)]
pub(crate) struct Secret {
    users: Key,
    operator: Key,
    traces: Key,
}

impl Secret {
    /// Name of the file below `site.data`.
    pub const FILE_NAME: &str = "posting-secret";

    /// Reads the secret of the site in `data`, made now if there is none.
    pub fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(Self::FILE_NAME);
        let told = |error: io::Error| {
            io::Error::new(error.kind(), format!("the secret for posting, {}: {error}", path.display()))
        };
        match fs::read_to_string(&path) {
            Ok(text) => {
                let damaged = "not 64 hexadecimal digits; put the right file back, or remove it to have a new one made (cancels \
                               of articles posted before will then not be obeyed)";
                parse(&text).map(|octets| Self::of(&octets)).ok_or_else(|| told(io::Error::other(damaged)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut octets = [0; SECRET_BYTES];
                SystemRandom::new()
                    .fill(&mut octets)
                    .map_err(|_| told(io::Error::other("no random numbers")))?;
                make(data, &path, &octets).map_err(told)?;
                Ok(Self::of(&octets))
            }
            Err(error) => Err(told(error)),
        }
    }

    fn of(octets: &[u8; SECRET_BYTES]) -> Self {
        let root = Key::new(HMAC_SHA256, octets);
        let derived = |purpose: &str| Key::new(HMAC_SHA256, hmac::sign(&root, purpose.as_bytes()).as_ref());
        Self {
            users: derived("cancel users"),
            operator: derived("cancel operator"),
            traces: derived("traces"),
        }
    }

    /// The Cancel-Key of a user for an article.
    pub fn user_key(&self, user: &str, message_id: &str) -> String {
        crate::cancel_lock::key(&self.users, user, message_id)
    }

    /// The operator's Cancel-Key for an article.
    pub fn operator_key(&self, message_id: &str) -> String {
        crate::cancel_lock::key(&self.operator, "", message_id)
    }

    /// A word that stands for `text` and does not tell it: letters, digits, `-` and `_`.
    pub fn hashed(&self, text: &str) -> String {
        let tag = hmac::sign(&self.traces, text.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref().get(..TRACE_BYTES).unwrap_or_default())
    }
}

/// Writes the file under another name first, so that it is whole or not there.
fn make(data: &Path, path: &Path, octets: &[u8]) -> io::Result<()> {
    fs::create_dir_all(data)?;
    let fresh = data.join(format!("{}.{}", Secret::FILE_NAME, std::process::id()));
    let text: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    fs::File::open(data)?.sync_all()
}

fn parse(text: &str) -> Option<[u8; SECRET_BYTES]> {
    let digits = text.trim_end().as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    let mut octets = [0; SECRET_BYTES];
    for (octet, pair) in octets.iter_mut().zip(digits.chunks(2)) {
        *octet = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn made_once_readable_by_its_owner_alone() {
        let dir = tempfile::TempDir::new().unwrap();
        let one = Secret::open(dir.path()).unwrap();
        let two = Secret::open(dir.path()).unwrap();
        assert_eq!(one.user_key("u", "<a@b>"), two.user_key("u", "<a@b>"));
        assert_ne!(one.user_key("", "<a@b>"), one.operator_key("<a@b>"));
        assert_ne!(one.user_key("u", "<a@b>"), one.user_key("v", "<a@b>"));
        assert_eq!(one.hashed("192.0.2.1").len(), 16);
        assert_ne!(one.hashed("192.0.2.1"), one.hashed("192.0.2.2"));
        let file = dir.path().join(Secret::FILE_NAME);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "abc\n").unwrap();
        let error = Secret::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not 64 hexadecimal digits"), "{error}");
    }
}
