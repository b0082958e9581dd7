//! Verification of OpenPGP signatures, with `ring`.
//!
//! RSA, Ed25519 and ECDSA on P-256 and P-384, over SHA-256, SHA-384 and SHA-512. Weaker hash functions
//! count only in self-signatures of old keys, which the operator who imports them has checked. DSA is not
//! supported. Reasons: `docs/decisions/0036`.

use netnews::openpgp::{HashAlgorithm, KeyMaterial, PublicKey, Signature, SignatureValue};
use ring::digest;
use ring::signature::{self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// Whether weak hash functions are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeakHashes {
    /// For messages.
    Refused,
    /// For a key's signatures of itself.
    Accepted,
}

/// Returns whether `key` made `signature` of these bytes, which end with its trailer.
pub(super) fn verifies(key: &PublicKey, signature: &Signature, bytes: &[u8], weak: WeakHashes) -> bool {
    let Some(hash) = algorithm(signature.hash, weak) else { return false };
    let digest = digest::digest(hash, bytes);
    // The first octets of the digest are in clear, so most forgeries cost no more than this check.
    if !digest.as_ref().starts_with(&signature.left) {
        return false;
    }
    match (&key.material, &signature.value) {
        (KeyMaterial::Rsa(n, e), SignatureValue::Rsa(number)) => {
            let (Some(parameters), Some(number)) = (rsa(signature.hash, n), padded(number, n.len())) else {
                return false;
            };
            RsaPublicKeyComponents { n, e }.verify(parameters, bytes, &number).is_ok()
        }
        (KeyMaterial::Ed25519(point), SignatureValue::Pair(r, s)) => {
            let Some(pair) = pair(r, s, 32) else { return false };
            UnparsedPublicKey::new(&ring_signature::ED25519, point).verify(digest.as_ref(), &pair).is_ok()
        }
        (KeyMaterial::P256(point), SignatureValue::Pair(r, s)) if signature.hash == HashAlgorithm::Sha256 => {
            let Some(pair) = pair(r, s, 32) else { return false };
            let key = UnparsedPublicKey::new(&ring_signature::ECDSA_P256_SHA256_FIXED, point);
            key.verify(bytes, &pair).is_ok()
        }
        (KeyMaterial::P384(point), SignatureValue::Pair(r, s)) if signature.hash == HashAlgorithm::Sha384 => {
            let Some(pair) = pair(r, s, 48) else { return false };
            let key = UnparsedPublicKey::new(&ring_signature::ECDSA_P384_SHA384_FIXED, point);
            key.verify(bytes, &pair).is_ok()
        }
        _ => false,
    }
}

/// Returns the fingerprint of a key, as bytes and in capital hexadecimal digits.
pub(super) fn fingerprint(key: &PublicKey) -> (Vec<u8>, String) {
    let bytes = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &key.hashed).as_ref().to_vec();
    let text = bytes.iter().map(|b| format!("{b:02X}")).collect();
    (bytes, text)
}

/// Returns the SHA-256 of bytes.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    sum
}

/// Returns why a key cannot verify signatures; `None` if it can.
pub(super) fn unusable(key: &PublicKey) -> Option<&'static str> {
    match &key.material {
        KeyMaterial::Other(name) => Some(name),
        KeyMaterial::Rsa(n, _) if n.len() < 128 => Some("RSA with less than 1024 bits"),
        KeyMaterial::Rsa(n, _) if n.len() > 1024 => Some("RSA with more than 8192 bits"),
        _ => None,
    }
}

fn algorithm(hash: HashAlgorithm, weak: WeakHashes) -> Option<&'static digest::Algorithm> {
    match hash {
        HashAlgorithm::Sha256 => Some(&digest::SHA256),
        HashAlgorithm::Sha384 => Some(&digest::SHA384),
        HashAlgorithm::Sha512 => Some(&digest::SHA512),
        HashAlgorithm::Sha1 if weak == WeakHashes::Accepted => Some(&digest::SHA1_FOR_LEGACY_USE_ONLY),
        HashAlgorithm::Sha1 | HashAlgorithm::Other(_) => None,
    }
}

fn rsa(hash: HashAlgorithm, modulus: &[u8]) -> Option<&'static RsaParameters> {
    let is_short = modulus.len() < 256;
    Some(match hash {
        HashAlgorithm::Sha1 => &ring_signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        HashAlgorithm::Sha256 if is_short => &ring_signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        HashAlgorithm::Sha512 if is_short => &ring_signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        HashAlgorithm::Sha256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
        HashAlgorithm::Sha384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
        HashAlgorithm::Sha512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
        HashAlgorithm::Other(_) => return None,
    })
}

/// Returns a number left-padded with zeros to `bytes` bytes.
fn padded(number: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let zeros = bytes.checked_sub(number.len())?;
    Some([&vec![0; zeros], number].concat())
}

fn pair(r: &[u8], s: &[u8], bytes: usize) -> Option<Vec<u8>> {
    Some([padded(r, bytes)?, padded(s, bytes)?].concat())
}
