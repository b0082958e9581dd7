//! OpenPGP as far as signatures of control messages and notices need it: public keys, their own signatures,
//! detached signatures, cleartext signatures, and the armor of all.
//!
//! Only forms are read here; hashing and verifying are the caller's. Unneeded parts are not read: encryption,
//! compression, subkeys, keys and signatures of versions other than 4 (and signatures of version 3, which
//! pgpcontrol's `signcontrol` makes). Lengths are checked first. Called by newsreel's `control`. Source: RFC
//! 4880 sections 4, 5.2, 5.5, 6, 7 and 12.2; RFC 9580 for Ed25519.

mod armor;
mod cleartext;
mod key;
mod signature;

pub use armor::{crc24, dearmored, from_base64};
pub use cleartext::{Cleartext, CleartextError, may_be_cleartext};
pub use key::{Certificate, KeyMaterial, PublicKey, SelfSignature, certificates, outdated};
pub use signature::{HashAlgorithm, Signature, SignatureKind, SignatureValue};

/// A public key.
const PUBLIC_KEY: u8 = 6;
/// A subkey, to which the following packets belong.
const SUBKEY: u8 = 14;
/// A user ID.
const USER_ID: u8 = 13;
/// A user attribute, such as a picture.
const USER_ATTRIBUTE: u8 = 17;
/// A signature.
const SIGNATURE: u8 = 2;

/// Maximum length of a packet in bytes.
const PACKET_BYTES_MAX: usize = 1 << 16;
/// Maximum length of a number in bits.
const NUMBER_BITS_MAX: usize = 16_384;

/// A packet: its tag and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet<'a> {
    tag: u8,
    body: &'a [u8],
}

/// Returns the packets of `bytes`, up to the first malformed one.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    std::iter::from_fn(move || {
        let (packet, rest) = packet(bytes)?;
        bytes = rest;
        Some(packet)
    })
}

fn packet(bytes: &[u8]) -> Option<(Packet<'_>, &[u8])> {
    let (first, rest) = bytes.split_first().filter(|(first, _)| *first & 0x80 != 0)?;
    let (tag, len, rest) = if first & 0x40 != 0 {
        let (len, rest) = new_length(rest)?;
        (first & 0x3f, len, rest)
    } else {
        let len_bytes = 1usize << (first & 3);
        // A packet without length extends to the end of its container: not used for keys and signatures.
        let (len, rest) = rest.split_at_checked(len_bytes).filter(|_| len_bytes <= 4)?;
        (first >> 2 & 0x0f, number_of(len), rest)
    };
    let (body, rest) = rest.split_at_checked(len).filter(|_| len <= PACKET_BYTES_MAX)?;
    Some((Packet { tag, body }, rest))
}

/// Decodes a length of the new form of packets and subpackets; `None` also for a partial length.
fn new_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    match first {
        0..=191 => Some((usize::from(*first), rest)),
        192..=223 => {
            let (second, rest) = rest.split_first()?;
            Some((((usize::from(*first) - 192) << 8) + usize::from(*second) + 192, rest))
        }
        224..=254 => None,
        255 => {
            let (len, rest) = rest.split_at_checked(4)?;
            Some((number_of(len), rest))
        }
    }
}

/// Decodes a big-endian number of up to 4 bytes.
fn number_of(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b))
}

fn u32_of(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*four), rest))
}

/// Splits off a number of any size; its length in bits must be that of the number.
fn mpi(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (bits, rest) = bytes.split_first_chunk::<2>()?;
    let bits = usize::from(u16::from_be_bytes(*bits));
    let (number, rest) = rest.split_at_checked(bits.div_ceil(8)).filter(|_| bits <= NUMBER_BITS_MAX)?;
    let first = number.first().map_or(0, |first| 8 - first.leading_zeros() as usize);
    let is_exact = bits == number.len().saturating_sub(1) * 8 + first && (first > 0 || number.is_empty());
    is_exact.then_some((number, rest))
}

#[cfg(test)]
mod tests;
