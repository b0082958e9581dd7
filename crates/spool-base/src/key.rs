//! Keys: 128-bit keyed hashes that represent Message-IDs in history and in stored records.
//!
//! SipHash-1-3 with 128 bits of output and a secret per site (one per cluster): without the secret,
//! collisions cannot be constructed. The secret belongs to the spool: with another one, no stored key is
//! found.

use std::hash::Hasher;

use md5::{Digest, Md5};
use siphasher::sip128::{Hasher128, SipHasher13};

/// The hash of a Message-ID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArticleKey(pub u128);

/// Hasher of tables by [`ArticleKey`]: keys are hashes already, so their lower half is used as it is. Sharded
/// tables choose the shard by upper bits.
#[derive(Debug, Default, Clone)]
pub struct KeyBits(u64);

impl Hasher for KeyBits {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            self.0 ^= u64::from_le_bytes(word);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// Computes keys.
#[derive(Clone)]
pub struct KeyHasher {
    hasher: SipHasher13,
    secret: [u8; 16],
}

impl KeyHasher {
    /// Creates a hasher with the site's secret.
    pub fn new(secret: [u8; 16]) -> Self {
        Self { hasher: SipHasher13::new_with_key(&secret), secret }
    }

    /// Returns the key of a Message-ID, which includes its angle brackets.
    pub fn key(&self, message_id: &[u8]) -> ArticleKey {
        let mut hasher = self.hasher;
        hasher.write(message_id);
        ArticleKey(hasher.finish128().as_u128())
    }

    /// Returns the secret that the keys depend on.
    pub fn secret(&self) -> &[u8; 16] {
        &self.secret
    }
}

/// Leaves out the secret.
impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher")
    }
}

/// Computes INN's hash of a Message-ID, as in INN's history file: the MD5 with all from the first `@` on in
/// lower case, and all of it if the local part is `postmaster`.
pub fn inn_hash(message_id: &[u8]) -> [u8; 16] {
    let at = memchr::memchr(b'@', message_id).unwrap_or(message_id.len());
    let is_postmaster = message_id.get(1..at).is_some_and(|local| local.eq_ignore_ascii_case(b"postmaster"));
    let as_it_is = if is_postmaster { 0 } else { at };
    let (local, rest) = message_id.split_at_checked(as_it_is).unwrap_or((message_id, b""));
    Md5::new().chain_update(local).chain_update(rest.to_ascii_lowercase()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_inns_history() {
        // From a line that INN 2.7 wrote.
        let hash = inn_hash(b"<ff9f5ff97237f5b3.5.0@load.example.invalid>");
        assert_eq!(hash, 0xC906_AEE6_4C14_17F1_BBD1_FC07_9EDA_7985_u128.to_be_bytes());
        assert_eq!(inn_hash(b"<A@B.C>"), inn_hash(b"<A@b.c>"));
        assert_ne!(inn_hash(b"<A@B.C>"), inn_hash(b"<a@B.C>"));
        // The local part of a postmaster, and a longer one.
        let postmaster = inn_hash(b"<POSTmaster@Example.org>");
        assert_eq!(postmaster, 0xD8EB_2116_2272_0CA3_299C_E8EF_5430_CF10_u128.to_be_bytes());
        let longer = inn_hash(b"<POSTmasterX@Example.org>");
        assert_eq!(longer, 0xA05B_C982_99CD_831D_0F6E_6359_AFE3_5FA8_u128.to_be_bytes());
        // RFC 5536 allows one `@` only; of several, the first one counts.
        assert_eq!(inn_hash(b"<a@B@C.D>"), inn_hash(b"<a@b@c.d>"));
        assert_ne!(inn_hash(b"<>"), inn_hash(b""));
    }

    #[test]
    fn keys_depend_on_id_and_secret_only() {
        let hasher = KeyHasher::new([1; 16]);
        assert_eq!(hasher.key(b"<a@b>"), KeyHasher::new([1; 16]).key(b"<a@b>"));
        assert_ne!(hasher.key(b"<a@b>"), hasher.key(b"<A@b>"));
        assert_ne!(hasher.key(b"<a@b>"), KeyHasher::new([2; 16]).key(b"<a@b>"));
    }

    /// Spools on disk depend on these values.
    #[test]
    fn keys_never_change() {
        let key = KeyHasher::new(*b"0123456789abcdef").key(b"<1993@example.org>");
        assert_eq!(key, ArticleKey(0x10587bb8416f67e0a802a352b1dc7cee));
    }
}
