//! The 32-byte record of the history log as four words; layout in `docs/formats/history.md`.
//!
//! Invariant: [`decode`] accepts a record only at the number for which it was written, and never all zeroes.

use spool_base::key::ArticleKey;
use spool_base::token::Token;
use std::io;

/// A record in memory order: four little-endian words, already as native numbers.
pub(super) type RecordWords = [u64; RECORD_WORDS];
/// Words in a record.
pub(super) const RECORD_WORDS: usize = 4;
/// Bytes in a record.
pub(super) const RECORD_BYTES: u64 = 32;

/// First token byte of an entry without a token; no storage method has this number.
const REMEMBERED: u8 = 0xFF;
/// Bit of the second token byte of such an entry that had a token: its article was withdrawn, or has expired.
const HAD_ARTICLE: u8 = 1;
/// Bit of the second token byte of such an entry that has its time of arrival after these bytes: the usual
/// field is not earlier than that of the record before.
const ARRIVED_EARLIER: u8 = 2;
/// Number of low bits of a key that a record does not keep.
const KEY_BITS_LEFT_OUT: u32 = 32;

/// One entry of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryRecord {
    /// The upper 96 bits of the key, in place; the lower 32 are zero.
    pub key_bits: u128,
    /// Token of the article, which may no longer exist; `None` if the Message-ID is only remembered.
    pub token: Option<Token>,
    /// Whether the entry had a token before.
    pub had_article: bool,
    /// Time of arrival, in Unix seconds.
    pub arrived: u32,
}

/// Returns the part of a key that a record keeps.
pub(super) fn key_bits(key: &ArticleKey) -> u128 {
    key.0 >> KEY_BITS_LEFT_OUT << KEY_BITS_LEFT_OUT
}

/// Encodes the record with number `number`; without a token, of a Message-ID that never had an article.
pub(super) fn encode(key: &ArticleKey, token: Option<Token>, arrived: u32, number: u64) -> RecordWords {
    match token {
        Some(token) => encode_token(key, token.to_bytes(), arrived, number),
        None => encode_remembered(key, arrived, arrived, false, number),
    }
}

/// Encodes the record of a Message-ID without an article, which may have arrived before `last`, the arrival
/// of the record before.
pub(super) fn encode_remembered(
    key: &ArticleKey,
    arrived: u32,
    last: u32,
    had_article: bool,
    number: u64,
) -> RecordWords {
    let is_earlier = arrived < last;
    let flags = if had_article { HAD_ARTICLE } else { 0 } | if is_earlier { ARRIVED_EARLIER } else { 0 };
    let [a0, a1, a2, a3] = if is_earlier { arrived.to_le_bytes() } else { [0; 4] };
    let token = [REMEMBERED, flags, 0, 0, a0, a1, a2, a3, 0, 0, 0, 0];
    encode_token(key, token, arrived.max(last), number)
}

fn encode_token(key: &ArticleKey, token: [u8; Token::BYTES], arrived: u32, number: u64) -> RecordWords {
    let key = key.0.to_be_bytes();
    let [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11, ..] = key;
    let [t0, t1, t2, t3, rest @ ..] = token;
    let mut words = [
        u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]),
        u64::from_le_bytes([k8, k9, k10, k11, t0, t1, t2, t3]),
        u64::from_le_bytes(rest),
        u64::from(arrived),
    ];
    words[3] |= u64::from(check(&words, number)) << 32;
    words
}

/// Returns the key bits of a record that need not be whole.
pub(super) fn raw_key_bits(words: &RecordWords) -> u128 {
    let high = u128::from(words[0].swap_bytes()) << 64;
    high | u128::from(words[1].swap_bytes() >> 32) << KEY_BITS_LEFT_OUT
}

/// Returns the arrival time of a record that need not be whole, or for one that is remembered a later one.
pub(super) fn raw_arrived(words: &RecordWords) -> u32 {
    words[3] as u32
}

/// Decodes a record; `None` if it is torn, unwritten, damaged or belongs to another number.
pub(super) fn decode(words: &RecordWords, number: u64) -> Option<HistoryRecord> {
    if words[3] >> 32 != u64::from(check(words, number)) {
        return None;
    }
    let [.., t0, t1, t2, t3] = words[1].to_le_bytes();
    let [r0, r1, r2, r3, r4, r5, r6, r7] = words[2].to_le_bytes();
    let token = [t0, t1, t2, t3, r0, r1, r2, r3, r4, r5, r6, r7];
    let token = if t0 == REMEMBERED { None } else { Some(Token::from_bytes(&token)?) };
    let flags = if token.is_none() { t1 } else { 0 };
    let arrived = match flags & ARRIVED_EARLIER {
        0 => words[3] as u32,
        _ => u32::from_le_bytes([r0, r1, r2, r3]),
    };
    let had_article = flags & HAD_ARTICLE != 0;
    Some(HistoryRecord { key_bits: raw_key_bits(words), token, had_article, arrived })
}

/// Returns the CRC-32C of everything but the check, and of the number; never 0.
fn check(words: &RecordWords, number: u64) -> u32 {
    let mut bytes = [0; 36];
    let (parts, _) = bytes.as_chunks_mut::<4>();
    for (i, part) in parts.iter_mut().enumerate() {
        // The eighth half word is the check itself: the number follows the seventh.
        let half = match i {
            0..7 => words[i / 2] >> (i % 2 * 32),
            _ => number >> ((i - 7) * 32),
        };
        *part = (half as u32).to_le_bytes();
    }
    disk::crc::crc32c(&bytes).max(1)
}

/// Range of existing records: from `first_record` up to, but without, `next_record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordRange {
    /// Number of the oldest living record.
    pub first_record: u64,
    /// Number of the record that will be written next.
    pub next_record: u64,
}

pub(super) fn invalid_data(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool_base::token::MethodKind;

    const TOKEN: Token =
        Token { method: MethodKind::Cnfs, class: 3, volume: 0x1234, place: 0x0123_4567_89AB_CDEF };
    const KEY: ArticleKey = ArticleKey(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);

    #[test]
    fn a_record_is_laid_out_as_documented() {
        let bytes: Vec<u8> =
            encode(&KEY, Some(TOKEN), 0xA1B2_C3D4, 5).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes[..12], KEY.0.to_be_bytes()[..12]);
        assert_eq!(bytes[12..24], TOKEN.to_bytes());
        assert_eq!(bytes[24..28], 0xA1B2_C3D4_u32.to_le_bytes());
        let mut checked = bytes[..28].to_vec();
        checked.extend_from_slice(&5_u64.to_le_bytes());
        assert_eq!(bytes[28..], disk::crc::crc32c(&checked).to_le_bytes());
        let remembered: Vec<u8> = encode(&KEY, None, 1, 5).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(remembered[12..24], [0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_record_round_trips_at_its_own_number_only() {
        for token in [Some(TOKEN), None] {
            let words = encode(&KEY, token, 77, 1 << 33);
            let whole = HistoryRecord { key_bits: key_bits(&KEY), token, had_article: false, arrived: 77 };
            assert_eq!(decode(&words, 1 << 33), Some(whole));
            let earlier = encode_remembered(&KEY, 77, 99, false, 1 << 33);
            assert_eq!(decode(&earlier, 1 << 33), Some(HistoryRecord { token: None, ..whole }));
            assert_eq!(raw_arrived(&earlier), 99);
            let withdrawn = decode(&encode_remembered(&KEY, 77, 99, true, 1 << 33), 1 << 33);
            assert_eq!(withdrawn, Some(HistoryRecord { token: None, had_article: true, ..whole }));
            assert_eq!(decode(&words, 0), None);
            assert_eq!(decode(&words, (1 << 33) + 1), None);
        }
    }

    #[test]
    fn torn_and_unwritten_records_are_rejected() {
        let old = encode(&KEY, Some(TOKEN), 77, 9);
        let new = encode(&KEY, None, 77, 9);
        for mask in 1..15_u32 {
            let torn: RecordWords = std::array::from_fn(|i| if mask >> i & 1 == 1 { new[i] } else { old[i] });
            if torn != old && torn != new {
                assert_eq!(decode(&torn, 9), None, "mask {mask:04b}");
                assert_eq!(raw_key_bits(&torn), key_bits(&KEY));
            }
        }
        assert_eq!(decode(&[0; RECORD_WORDS], 0), None);
        for bit in 0..256 {
            let mut flipped = old;
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(decode(&flipped, 9), None, "bit {bit}");
        }
    }
}
