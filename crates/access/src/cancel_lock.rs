//! Cancel-Locks with real hash functions: making them, and checking whether a key opens one.
//!
//! The syntax is in `netnews::control::cancel_lock`; here are SHA-1 (checked only), SHA-256 and SHA-512.
//! Called by `ingest` when an article withdraws another, and by `inject` for articles posted here. Source:
//! RFC 8315.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use netnews::control::cancel_lock::{self, LockScheme};
use ring::{digest, hmac};

/// Returns true if one of the keys opens one of the locks, given as values of Cancel-Key and Cancel-Lock.
pub fn opens(locks: &[u8], keys: &[u8]) -> bool {
    cancel_lock::opens(locks, keys, append_hash)
}

fn append_hash(scheme: LockScheme, bytes: &[u8], out: &mut Vec<u8>) {
    let algorithm = match scheme {
        LockScheme::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        LockScheme::Sha256 => &digest::SHA256,
        LockScheme::Sha512 => &digest::SHA512,
    };
    let text = BASE64_STANDARD.encode(digest::digest(algorithm, bytes));
    out.extend_from_slice(text.as_bytes());
}

/// Returns `Base64(K)` of an article: K is the HMAC of user and Message-ID by a secret (RFC 8315 section 4).
/// Angle brackets in `user` are left out, so that no two pairs make the same text; user names have none.
pub fn key(secret: &hmac::Key, user: &str, message_id: &str) -> String {
    let user: String = user.chars().filter(|c| !matches!(c, '<' | '>')).collect();
    let data = [user.as_bytes(), message_id.as_bytes()].concat();
    BASE64_STANDARD.encode(hmac::sign(secret, &data))
}

/// Returns the element of Cancel-Lock that `key` opens.
pub fn lock_element(key: &str) -> String {
    let mut lock = Vec::new();
    append_hash(LockScheme::Sha256, key.as_bytes(), &mut lock);
    format!("{}:{}", LockScheme::Sha256.name(), String::from_utf8_lossy(&lock))
}

/// Returns the element of Cancel-Key that shows `key`.
pub fn key_element(key: &str) -> String {
    format!("{}:{key}", LockScheme::Sha256.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &[u8] = b"sha256:s/pmK/3grrz++29ce2/mQydzJuc7iqHn1nqcJiQTPMc=\r\n \
        sha256:NSBTz7BfcQFTCen+U4lQ0VS8VIlZao2b8mxD/xJaaeE=\r\n \
        sha256:RrKLp7YCQc9T8HmgSbxwIDlnCDWsgy1awqtiDuhedRo=\r\n sha1:bNXHc6ohSmeHaRHHW56BIWZJt+4=";

    fn secret(text: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())
    }

    /// RFC 8315 sections 5.1 and 5.2.
    #[test]
    fn keys_and_locks_of_the_rfc() {
        let without_user = key(&secret("ExampleSecret"), "", "<12345@mid.example>");
        assert_eq!(without_user, "qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMA=");
        assert_eq!(lock_element(&without_user), "sha256:s/pmK/3grrz++29ce2/mQydzJuc7iqHn1nqcJiQTPMc=");
        let of_user = key(&secret("AnotherSecret"), "JaneDoe", "<12345@mid.example>");
        assert_eq!(of_user, "yM0ep490Fzt83CLYYAytm3S2HasHhYG4LAeAlmuSEys=");
        assert_eq!(lock_element(&of_user), "sha256:NSBTz7BfcQFTCen+U4lQ0VS8VIlZao2b8mxD/xJaaeE=");
        assert_eq!(key(&secret("AnotherSecret"), "<Jane>Doe", "<12345@mid.example>"), of_user);
    }

    /// RFC 8315 sections 5.3 and 5.4: each key of the list opens one of the locks.
    #[test]
    fn every_key_of_the_rfc_opens_its_lock_and_no_other_does() {
        for key in [
            "sha256:qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMA=",
            "sha256:yM0ep490Fzt83CLYYAytm3S2HasHhYG4LAeAlmuSEys=",
            "(a comment) SHA256:sSkDke97Dh78/d+Diu1i3dQ2Fp/EMK3xE2GfEqZlvK8=",
            "md5:unknown ShA1:aaaBBBcccDDDeeeFFF",
        ] {
            assert!(opens(LOCKS, key.as_bytes()), "{key}");
        }
        for key in [
            "",
            "sha256:qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMB=",
            "sha512:qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMA=",
            "sha256:s/pmK/3grrz++29ce2/mQydzJuc7iqHn1nqcJiQTPMc=",
            "sha1:aaaBBBcccDDDeeeFFf",
        ] {
            assert!(!opens(LOCKS, key.as_bytes()), "{key}");
        }
        let mut long = Vec::new();
        append_hash(LockScheme::Sha512, b"key", &mut long);
        assert!(opens(&[b"sha512:", &long[..]].concat(), b"sha512:key"));
    }
}
