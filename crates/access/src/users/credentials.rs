//! Stored credentials: an Argon2id hash to check a password with, and SCRAM keys to log in without sending
//! it.
//!
//! Neither reveals the password. Making and checking them takes tens of milliseconds and 19 MiB and belongs
//! on a blocking thread. Called by `file`, `gate` and `cli`. Sources: RFC 9106, RFC 5802 section 3, RFC 5803
//! (the text of SCRAM keys), RFC 7677.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;

/// Bytes of SHA-256's output.
pub const HASH_LEN: usize = 32;
/// Length of both salts in bytes.
const SALT_BYTES: usize = 16;
/// PBKDF2 rounds for new SCRAM keys; the client does them at every login. RFC 7677 asks for at least 4,096.
pub(crate) const SCRAM_ITERATIONS: u32 = 50_000;
/// Numbers of rounds that are accepted from a file.
const SCRAM_ITERATIONS_RANGE: std::ops::RangeInclusive<u32> = 4_096..=10_000_000;
/// Maximum memory of a hash from a file, in KiB.
const ARGON2_MEMORY_KIB_MAX: u32 = 1 << 20;
/// Maximum number of passes over memory, and of lanes, of a hash from a file.
const ARGON2_PASSES_MAX: u32 = 64;

/// An Argon2 hash in its usual text form, known to be checkable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Argon2Hash(Box<str>);

/// Keys of SCRAM-SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// Rounds of the derivation from the password.
    pub iterations: u32,
    /// Salt of the derivation.
    pub salt: Box<[u8]>,
    /// Hash of the key with which clients prove the password (StoredKey of RFC 5802).
    pub stored_key: [u8; HASH_LEN],
    /// Key with which the server proves that it knows the user (ServerKey of RFC 5802).
    pub server_key: [u8; HASH_LEN],
}

/// The credentials made from one password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CredentialText", into = "CredentialText")]
pub struct StoredCredentials {
    /// Checks passwords that are sent.
    pub argon2: Argon2Hash,
    /// Checks proofs of SCRAM.
    pub scram: ScramKeys,
}

/// Credentials as text, as the users file has them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialText {
    argon2: String,
    scram: String,
}

impl From<StoredCredentials> for CredentialText {
    fn from(StoredCredentials { argon2, scram }: StoredCredentials) -> Self {
        Self { argon2: argon2.as_str().to_owned(), scram: scram.to_string() }
    }
}

/// The error if a text is not that of credentials.
#[derive(Debug)]
struct NotCredentials;

impl fmt::Display for NotCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these are not credentials")
    }
}

impl TryFrom<CredentialText> for StoredCredentials {
    type Error = NotCredentials;

    fn try_from(CredentialText { argon2, scram }: CredentialText) -> Result<Self, NotCredentials> {
        let argon2 = Argon2Hash::parse(&argon2).ok_or(NotCredentials)?;
        Ok(Self { argon2, scram: ScramKeys::parse(&scram).ok_or(NotCredentials)? })
    }
}

/// The error if the system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl StoredCredentials {
    /// Makes credentials for a new password, prepared.
    pub fn new(password: &[u8]) -> Result<Self, NoRandomness> {
        let salt: [u8; SALT_BYTES] = random()?;
        let scram_salt: [u8; SALT_BYTES] = random()?;
        let hash = hasher().hash_password_with_salt(password, &salt).map_err(|_| NoRandomness)?;
        Ok(Self {
            argon2: Argon2Hash(hash.to_string().into()),
            scram: ScramKeys::derived(password, &scram_salt, SCRAM_ITERATIONS),
        })
    }
}

/// Returns unpredictable octets.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut octets = [0; N];
    SystemRandom::new().fill(&mut octets).map_err(|_| NoRandomness)?;
    Ok(octets)
}

fn hasher() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
}

/// Takes as long as checking a password, and returns false.
pub fn decoy_check(password: &[u8]) -> bool {
    let mut out = [0; HASH_LEN];
    let _wrong_anyway = hasher().hash_password_into(password, &[0; SALT_BYTES], &mut out);
    false
}

impl Argon2Hash {
    /// Parses the text; `None` if it is no Argon2 hash, or one that asks for too much.
    pub fn parse(text: &str) -> Option<Self> {
        let hash = PasswordHash::new(text).ok()?;
        Algorithm::try_from(hash.algorithm.as_str()).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let modest = params.m_cost() <= ARGON2_MEMORY_KIB_MAX
            && params.t_cost() <= ARGON2_PASSES_MAX
            && params.p_cost() <= ARGON2_PASSES_MAX;
        (modest && hash.hash.is_some() && hash.salt.is_some()).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if this is the hash of `password` (prepared). Slow.
    pub fn verifies(&self, password: &[u8]) -> bool {
        let parsed = PasswordHash::new(&self.0);
        parsed.is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
    }
}

impl ScramKeys {
    /// Derives the keys from a password, prepared. Slow.
    pub fn derived(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut salted = [0; HASH_LEN];
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password, &mut salted);
        let client_key = hmac_sha256(&salted, b"Client Key");
        Self {
            iterations,
            salt: salt.into(),
            stored_key: sha256(&client_key),
            server_key: hmac_sha256(&salted, b"Server Key"),
        }
    }

    /// Returns keys that no proof matches, always the same for a name as long as `secret` stays the same.
    pub fn decoy(secret: &[u8], name: &str) -> Self {
        let salt = hmac_sha256(secret, name.as_bytes());
        Self {
            iterations: SCRAM_ITERATIONS,
            salt: salt.get(..SALT_BYTES).unwrap_or(&salt).into(),
            stored_key: hmac_sha256(secret, &salt),
            server_key: hmac_sha256(&salt, secret),
        }
    }

    /// Parses `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`; `None` if the text is not of this form.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once('$')?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| BASE64_STANDARD.decode(text).ok()?.try_into().ok();
        let iterations = iterations.parse().ok().filter(|n| SCRAM_ITERATIONS_RANGE.contains(n))?;
        let salt = BASE64_STANDARD.decode(salt).ok().filter(|salt| (8..=64).contains(&salt.len()))?;
        (scheme == "SCRAM-SHA-256").then_some(())?;
        Some(Self { iterations, salt: salt.into(), stored_key: key(stored)?, server_key: key(server)? })
    }
}

impl fmt::Display for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base64 = |octets: &[u8]| BASE64_STANDARD.encode(octets);
        let (salt, stored, server) = (base64(&self.salt), base64(&self.stored_key), base64(&self.server_key));
        write!(f, "SCRAM-SHA-256${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeys").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// Returns the HMAC-SHA-256 of a text.
pub fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; HASH_LEN] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().try_into().unwrap_or_default()
}

/// Returns the SHA-256 hash of a text.
pub fn sha256(text: &[u8]) -> [u8; HASH_LEN] {
    digest::digest(&digest::SHA256, text).as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_and_others_are_not() {
        let made = StoredCredentials::new(b"flintstone").unwrap();
        assert!(made.argon2.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{made:?}");
        let read = Argon2Hash::parse(made.argon2.as_str()).unwrap();
        assert!(read.verifies(b"flintstone"));
        assert!(!read.verifies(b"Flintstone"));
        assert!(!decoy_check(b"flintstone"));
        let again = StoredCredentials::new(b"flintstone").unwrap();
        assert_ne!(again, made, "salts differ");
        let keys = ScramKeys::parse(&made.scram.to_string()).unwrap();
        assert_eq!(keys, ScramKeys::derived(b"flintstone", &made.scram.salt, SCRAM_ITERATIONS));
    }

    #[test]
    fn invalid_and_excessive_hashes_are_rejected() {
        for bad in [
            "",
            "flintstone",
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ",
            "$argon2id$v=19$m=4294967295,t=2,p=1$c2FsdHNhbHRzYWx0$c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHQ",
            "$5$rounds=5000$abcdefgh$abcdefgh",
        ] {
            assert_eq!(Argon2Hash::parse(bad), None, "{bad}");
        }
        for bad in [
            "",
            "SCRAM-SHA-1$4096:c2FsdHNhbHQ=$AAAA:AAAA",
            "SCRAM-SHA-256$1:c2FsdHNhbHQ=$AAAA:AAAA",
            "SCRAM-SHA-256$4096:c2FsdHNhbHQ=$AAAA:AAAA",
        ] {
            assert_eq!(ScramKeys::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn decoy_keys_look_real_and_stay_the_same() {
        let decoy = ScramKeys::decoy(b"secret", "nobody");
        assert_eq!(decoy, ScramKeys::decoy(b"secret", "nobody"));
        assert_ne!(decoy.salt, ScramKeys::decoy(b"secret", "somebody").salt);
        assert_eq!((decoy.salt.len(), decoy.iterations), (SALT_BYTES, SCRAM_ITERATIONS));
    }
}
