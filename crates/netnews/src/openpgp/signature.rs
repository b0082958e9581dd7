//! Parsing of signatures.

use super::{SIGNATURE, mpi, new_length, packets, u32_of};

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-1. Weak: only in old keys' signatures of themselves.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// Unsupported or weak function.
    Other(u8),
}

/// Type of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureKind {
    /// Signature of bytes.
    Binary,
    /// Signature of a text, hashed with CRLF line ends.
    Text,
    /// Certification that a user and a key belong together.
    Certification,
    /// Statement about a key.
    DirectKey,
    /// Revocation of a key.
    KeyRevocation,
    /// Anything else.
    Other(u8),
}

/// Numbers of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureValue {
    /// RSA.
    Rsa(Vec<u8>),
    /// Two numbers: ECDSA, EdDSA.
    Pair(Vec<u8>, Vec<u8>),
}

/// A signature, perhaps of an unsupported algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Type of the signature.
    pub kind: SignatureKind,
    /// Hash function.
    pub hash: HashAlgorithm,
    /// Time of creation, in Unix seconds.
    pub created: u32,
    /// Seconds from creation to expiry; 0: never expires.
    pub lives: u32,
    /// Seconds from a key's creation to its expiry, in self-signatures; 0: never expires.
    pub key_lives: u32,
    /// True if the key may sign, in self-signatures.
    pub may_sign: bool,
    /// Last eight bytes of the signer's fingerprint, or all of it; empty if unknown.
    pub issuer: Vec<u8>,
    /// Bytes hashed after the signed ones.
    pub trailer: Vec<u8>,
    /// The first two bytes of the hash.
    pub left: [u8; 2],
    /// Numbers of the signature.
    pub value: SignatureValue,
}

impl Signature {
    /// Reads the one signature in `bytes`; `None` if there is anything else.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut all = packets(bytes);
        let only = all.next().filter(|packet| packet.tag == SIGNATURE)?;
        let is_all = only.body.as_ptr_range().end == bytes.as_ptr_range().end;
        Self::of(only.body).filter(|_| is_all)
    }

    /// Reads the signature in a packet.
    pub(super) fn of(body: &[u8]) -> Option<Self> {
        match body.first()? {
            3 => Self::version_3(body),
            4 => Self::version_4(body),
            _ => None,
        }
    }

    fn version_3(body: &[u8]) -> Option<Self> {
        let hashed = body.get(1..)?.strip_prefix(&[5])?;
        let (trailer, rest) = hashed.split_at_checked(5)?;
        let (kind, created) = trailer.split_first()?;
        let (issuer, rest) = rest.split_at_checked(8)?;
        let [algorithm, hash, left @ ..] = *rest.first_chunk::<4>()?;
        Some(Self {
            kind: kind_of(*kind),
            hash: hash_of(hash),
            created: u32_of(created)?.0,
            lives: 0,
            key_lives: 0,
            may_sign: true,
            issuer: issuer.to_vec(),
            trailer: trailer.to_vec(),
            left,
            value: value(algorithm, rest.get(4..)?)?,
        })
    }

    fn version_4(body: &[u8]) -> Option<Self> {
        let [_, kind, algorithm, hash, len @ ..] = *body.first_chunk::<6>()?;
        let hashed_bytes = usize::from(u16::from_be_bytes(len));
        let (hashed, rest) = body.get(6..)?.split_at_checked(hashed_bytes)?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (unhashed, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        let (left, numbers) = rest.split_first_chunk::<2>()?;
        let head = body.get(..6 + hashed_bytes)?;
        let mut trailer = head.to_vec();
        trailer.extend_from_slice(&[4, 0xff]);
        trailer.extend_from_slice(&u32::try_from(head.len()).ok()?.to_be_bytes());
        let mut signature = Self {
            kind: kind_of(kind),
            hash: hash_of(hash),
            created: 0,
            lives: 0,
            key_lives: 0,
            may_sign: true,
            issuer: Vec::new(),
            trailer,
            left: *left,
            value: value(algorithm, numbers)?,
        };
        signature.subpackets(hashed, true)?;
        signature.subpackets(unhashed, false)?;
        (signature.created != 0).then_some(signature)
    }

    /// Reads subpackets; of unhashed ones only the issuer, which is a hint.
    fn subpackets(&mut self, mut bytes: &[u8], is_hashed: bool) -> Option<()> {
        while !bytes.is_empty() {
            let (len, rest) = new_length(bytes)?;
            let (subpacket, rest) = rest.split_at_checked(len)?;
            bytes = rest;
            let (kind, content) = subpacket.split_first()?;
            let number = || u32_of(content).filter(|(_, rest)| rest.is_empty()).map(|(n, _)| n);
            match kind & 0x7f {
                16 if self.issuer.is_empty() => self.issuer = content.to_vec(),
                // A fingerprint is more specific than a key ID, and begins with its version.
                33 => self.issuer = content.get(1..)?.to_vec(),
                _ if !is_hashed => {}
                2 => self.created = number()?,
                3 => self.lives = number()?,
                9 => self.key_lives = number()?,
                27 => self.may_sign = content.first().is_some_and(|flags| flags & 2 != 0),
                // Known types without meaning for this program.
                4 | 5 | 7 | 11 | 16 | 20..=26 | 28..=32 | 34 => {}
                // Unknown critical types.
                _ if kind & 0x80 != 0 => return None,
                _ => {}
            }
        }
        Some(())
    }

    /// Returns whether the signature may be of the key with this fingerprint.
    pub fn is_by(&self, fingerprint: &[u8]) -> bool {
        !self.issuer.is_empty() && fingerprint.ends_with(&self.issuer)
    }
}

fn kind_of(byte: u8) -> SignatureKind {
    match byte {
        0x00 => SignatureKind::Binary,
        0x01 => SignatureKind::Text,
        0x10..=0x13 => SignatureKind::Certification,
        0x1f => SignatureKind::DirectKey,
        0x20 => SignatureKind::KeyRevocation,
        other => SignatureKind::Other(other),
    }
}

fn hash_of(byte: u8) -> HashAlgorithm {
    match byte {
        2 => HashAlgorithm::Sha1,
        8 => HashAlgorithm::Sha256,
        9 => HashAlgorithm::Sha384,
        10 => HashAlgorithm::Sha512,
        other => HashAlgorithm::Other(other),
    }
}

/// Decodes the numbers of a signature; nothing may follow them.
fn value(algorithm: u8, bytes: &[u8]) -> Option<SignatureValue> {
    let (value, rest) = match algorithm {
        1 | 3 => {
            let (number, rest) = mpi(bytes)?;
            (SignatureValue::Rsa(number.to_vec()), rest)
        }
        17 | 19 | 22 => {
            let (r, rest) = mpi(bytes)?;
            let (s, rest) = mpi(rest)?;
            (SignatureValue::Pair(r.to_vec(), s.to_vec()), rest)
        }
        27 => {
            let (pair, rest) = bytes.split_at_checked(64)?;
            let (r, s) = pair.split_at_checked(32)?;
            (SignatureValue::Pair(r.to_vec(), s.to_vec()), rest)
        }
        _ => return None,
    };
    rest.is_empty().then_some(value)
}
