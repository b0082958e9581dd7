//! Public keys with their user IDs.

use super::signature::{Signature, SignatureKind};
use super::{PUBLIC_KEY, Packet, SIGNATURE, SUBKEY, USER_ATTRIBUTE, USER_ID, mpi, packets, u32_of};

/// Maximum number of a key's users, and of its self-signatures, that are read.
const USERS_MAX: usize = 64;
/// Maximum length of a user ID, in bytes.
const USER_BYTES_MAX: usize = 512;

/// Object identifiers of the curves.
const ED25519_LEGACY: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

/// Key material for verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// Point of 32 bytes.
    Ed25519(Vec<u8>),
    /// Uncompressed point.
    P256(Vec<u8>),
    /// Uncompressed point.
    P384(Vec<u8>),
    /// Name of an algorithm that is not supported.
    Other(&'static str),
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Time of creation, in Unix seconds.
    pub created: u32,
    /// Key material for verification.
    pub material: KeyMaterial,
    /// Bytes hashed for the fingerprint with SHA-1, and at the beginning of self-signatures.
    pub hashed: Vec<u8>,
}

/// Signature that a key may have made of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfSignature {
    /// Signed user ID; empty if the signature is of the key alone.
    pub user: Vec<u8>,
    /// Bytes hashed after the key and before the signature's trailer.
    pub hashed: Vec<u8>,
    /// The signature.
    pub signature: Signature,
}

/// A key with its self-signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The key.
    pub key: PublicKey,
    /// Self-signatures, to be verified.
    pub signatures: Vec<SelfSignature>,
    /// Packets of the key, without subkeys and their packets.
    pub bytes: Vec<u8>,
}

/// Returns the keys in `bytes`, as exported or as a keyring holds them; those of other versions are left out.
pub fn certificates(bytes: &[u8]) -> Vec<Certificate> {
    let mut all: Vec<Certificate> = Vec::new();
    let mut user: Option<&[u8]> = Some(&[]);
    let mut is_ours = false;
    for packet in packets(bytes) {
        match packet.tag {
            PUBLIC_KEY => {
                let key = PublicKey::of(packet.body);
                (is_ours, user) = (key.is_some(), Some(b"".as_slice()));
                all.extend(key.map(|key| Certificate { key, signatures: Vec::new(), bytes: Vec::new() }));
            }
            USER_ID => user = Some(packet.body).filter(|user| user.len() <= USER_BYTES_MAX),
            SUBKEY | USER_ATTRIBUTE => user = None,
            _ => {}
        }
        let (Some(certificate), Some(user), true) = (all.last_mut(), user, is_ours) else { continue };
        if packet.tag == SIGNATURE && !certificate.sign(user, packet.body) {
            continue;
        }
        if matches!(packet.tag, PUBLIC_KEY | USER_ID | SIGNATURE) {
            certificate.bytes.extend_from_slice(&encoded(&packet));
        }
    }
    all
}

/// Returns the number of keys in `bytes` of versions before 4: their fingerprints can be forged, and their
/// programs sign with MD5 (RFC 9580 section 5.5.2.1).
pub fn outdated(bytes: &[u8]) -> usize {
    let is_old = |packet: &Packet<'_>| packet.tag == PUBLIC_KEY && matches!(packet.body.first(), Some(2 | 3));
    packets(bytes).filter(is_old).count()
}

impl Certificate {
    /// Adds a signature, if the key may have made it.
    fn sign(&mut self, user: &[u8], body: &[u8]) -> bool {
        let Some(signature) = Signature::of(body).filter(|_| self.signatures.len() < USERS_MAX) else {
            return false;
        };
        let of_key = matches!(signature.kind, SignatureKind::DirectKey | SignatureKind::KeyRevocation);
        let of_user = signature.kind == SignatureKind::Certification && !user.is_empty();
        if !of_key && !of_user {
            return false;
        }
        let mut hashed = Vec::new();
        if of_user {
            hashed.push(0xb4);
            hashed.extend_from_slice(&(user.len() as u32).to_be_bytes());
            hashed.extend_from_slice(user);
        }
        let user = if of_user { user.to_vec() } else { Vec::new() };
        self.signatures.push(SelfSignature { user, hashed, signature });
        true
    }
}

impl PublicKey {
    fn of(body: &[u8]) -> Option<Self> {
        let rest = body.strip_prefix(&[4])?;
        let (created, rest) = u32_of(rest)?;
        let (algorithm, rest) = rest.split_first()?;
        let mut hashed = vec![0x99];
        hashed.extend_from_slice(&u16::try_from(body.len()).ok()?.to_be_bytes());
        hashed.extend_from_slice(body);
        Some(Self { created, material: material(*algorithm, rest)?, hashed })
    }
}

fn material(algorithm: u8, bytes: &[u8]) -> Option<KeyMaterial> {
    Some(match algorithm {
        1 | 3 => {
            let (n, rest) = mpi(bytes)?;
            let (e, rest) = mpi(rest)?;
            rest.is_empty().then(|| KeyMaterial::Rsa(n.to_vec(), e.to_vec()))?
        }
        17 => KeyMaterial::Other("DSA is not supported"),
        19 | 22 => {
            let (len, rest) = bytes.split_first()?;
            let (curve, rest) = rest.split_at_checked(usize::from(*len))?;
            let (point, rest) = mpi(rest)?;
            let point = Some(point).filter(|_| rest.is_empty())?;
            match (algorithm, curve) {
                (22, ED25519_LEGACY) => {
                    KeyMaterial::Ed25519(point.strip_prefix(&[0x40]).filter(|p| p.len() == 32)?.to_vec())
                }
                (19, P256) => KeyMaterial::P256(point.to_vec()),
                (19, P384) => KeyMaterial::P384(point.to_vec()),
                _ => KeyMaterial::Other("an elliptic curve other than Ed25519, P-256 and P-384"),
            }
        }
        27 => KeyMaterial::Ed25519(Some(bytes).filter(|bytes| bytes.len() == 32)?.to_vec()),
        _ => KeyMaterial::Other("an unknown algorithm"),
    })
}

/// Encodes a packet in the new form, with a length of four bytes.
fn encoded(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = vec![0xc0 | packet.tag, 0xff];
    bytes.extend_from_slice(&(packet.body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(packet.body);
    bytes
}
