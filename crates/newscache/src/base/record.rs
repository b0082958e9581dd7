//! Records, of which all files of the cache consist (`docs/formats/cache.md`).
//!
//! A record has a checksum over all its fields, so that a torn or damaged one, or remains of another file,
//! are never taken for a record. Parsing never panics. Called by everything that reads or writes files here.

use std::hash::Hasher;
use std::io;

use disk::crc::crc32c;
use disk::{DiskFile, ReadMode};
use memchr::memmem;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Beginning of a record.
pub(crate) const MAGIC: &[u8; 4] = b"NCr1";
/// Size of a record before its id and payload.
pub(crate) const HEADER_BYTES: usize = 40;
/// Alignment of records.
const ALIGN: usize = 8;
/// Maximum payload of a record; larger articles are split.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 32 << 20;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// First record of a file, with its owner. Payload: the origin, a NUL, the group's name.
    Head = 0,
    /// An article: its number, Message-ID and bytes.
    Article = 1,
    /// All overview rows of the numbers from `number` to `last`.
    Rows = 2,
    /// Existing numbers from `number` to `last`, as runs.
    Numbers = 3,
    /// The Message-ID of a number whose article is stored elsewhere.
    Link = 4,
    /// The article of this number no longer exists.
    Gone = 5,
    /// A piece of a large article, or of a list; `number` counts them.
    Piece = 6,
    /// The end of a file that is written once; `number` counts its pieces.
    End = 7,
}

impl RecordKind {
    fn of(octet: u8) -> Option<Self> {
        Some(match octet {
            0 => Self::Head,
            1 => Self::Article,
            2 => Self::Rows,
            3 => Self::Numbers,
            4 => Self::Link,
            5 => Self::Gone,
            6 => Self::Piece,
            7 => Self::End,
            _ => return None,
        })
    }
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheRecord<'a> {
    pub kind: RecordKind,
    pub number: u64,
    /// Last number of a range; for other kinds as their descriptions say.
    pub last: u64,
    /// A Message-ID, or nothing.
    pub id: &'a [u8],
    pub payload: &'a [u8],
}

impl CacheRecord<'_> {
    /// Returns its size in a file.
    pub fn bytes(&self) -> usize {
        padded(HEADER_BYTES + self.id.len() + self.payload.len())
    }

    /// Appends the record.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.id.len() as u16).to_le_bytes());
        out.extend_from_slice(&[self.kind as u8, 0]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(self.id);
        out.extend_from_slice(self.payload);
        let crc = crc32c(out.get(start + 8..).unwrap_or_default());
        if let Some(field) = out.get_mut(start + 4..start + 8) {
            field.copy_from_slice(&crc.to_le_bytes());
        }
        out.resize(start + padded(out.len() - start), 0);
    }
}

/// Parses the record at the beginning of these bytes; returns it with its size, or `None` if there is no
/// whole one.
pub(crate) fn parse(bytes: &[u8]) -> Option<(CacheRecord<'_>, usize)> {
    let (record, taken) = parse_checked(bytes)?;
    let covered = bytes.get(8..HEADER_BYTES + record.id.len() + record.payload.len())?;
    (crc32c(covered) == u32::from_le_bytes(array(bytes, 4)?)).then_some((record, taken))
}

/// Like [`parse`], for bytes whose checksum was verified right before.
pub(crate) fn parse_checked(bytes: &[u8]) -> Option<(CacheRecord<'_>, usize)> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (_, covered) = rest.split_first_chunk::<4>()?;
    let payload_bytes = u32::from_le_bytes(array(covered, 0)?) as usize;
    let id_bytes = usize::from(u16::from_le_bytes(array(covered, 4)?));
    if magic != MAGIC || payload_bytes > PAYLOAD_BYTES_MAX {
        return None;
    }
    let end = HEADER_BYTES - 8 + id_bytes + payload_bytes;
    let body = covered.get(HEADER_BYTES - 8..end)?;
    let record = CacheRecord {
        kind: RecordKind::of(*covered.get(6)?)?,
        number: u64::from_le_bytes(array(covered, 8)?),
        last: u64::from_le_bytes(array(covered, 16)?),
        id: body.get(..id_bytes)?,
        payload: body.get(id_bytes..)?,
    };
    let taken = padded(8 + end);
    (taken <= bytes.len()).then_some((record, taken))
}

/// End of the records in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordsEnd {
    /// Nothing follows the last one.
    Clean,
    /// The rest is not a record, as after a crash.
    Torn,
    /// Some are damaged: whole ones follow.
    Damaged,
}

/// Passes on each record of a file with its position; returns the end of the last one, and what follows it.
pub(crate) fn scan<'a>(bytes: &'a [u8], mut each: impl FnMut(CacheRecord<'a>, usize)) -> (usize, RecordsEnd) {
    let mut at = 0;
    while let Some((record, taken)) = bytes.get(at..).and_then(parse) {
        each(record, at);
        at += taken;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return (at, RecordsEnd::Clean);
    }
    let mut candidates = memmem::find_iter(rest, MAGIC).take(CANDIDATES_MAX);
    let is_damaged = candidates.any(|found| rest.get(found..).and_then(parse).is_some());
    (at, if is_damaged { RecordsEnd::Damaged } else { RecordsEnd::Torn })
}

/// Maximum number of positions that are searched for a whole record after a damaged one, to bound the cost of
/// crafted files.
const CANDIDATES_MAX: usize = 1000;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

/// Hashes a Message-ID or a name for look-ups. Collisions are harmless: the data found has its own name.
pub(crate) fn hash(parts: &[&[u8]]) -> u128 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    hasher.finish128().as_u128()
}

/// Returns half of [`hash`].
pub(crate) fn hash64(parts: &[&[u8]]) -> u64 {
    hash(parts) as u64
}

/// Appends an unsigned LEB128 varint.
pub(crate) fn put_varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Decodes a varint and removes it from the front.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(first & 0x7f).checked_shl(shift)?;
        if *first < 0x80 {
            return Some(n);
        }
    }
    None
}

/// Value of `EIO` on Linux (errno(3)).
const EIO: i32 = 5;

/// Returns `None` for an error that concerns one file: it does not exist or cannot be read, which is treated
/// like damage. Other errors are passed on.
pub(crate) fn readable<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.raw_os_error() == Some(EIO) || error.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Reads like [`DiskFile::read_at`]. Without patience `WouldBlock` if the disk must be waited for.
pub(crate) fn read_patiently(
    file: &dyn DiskFile,
    buffer: &mut [u8],
    offset: u64,
    patience: ReadMode,
) -> io::Result<usize> {
    match patience {
        ReadMode::Wait => file.read_at(buffer, offset),
        ReadMode::CacheOnly => file.read_at_cached(buffer, offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        CacheRecord { kind: RecordKind::Article, number: 7, last: 9, id: b"<a@b>", payload }.put(&mut out);
        out
    }

    #[test]
    fn only_written_records_are_parsed() {
        let bytes = sample(b"some bytes");
        let (record, taken) = parse(&bytes).unwrap();
        assert_eq!((record.number, record.last, record.id, taken), (7, 9, &b"<a@b>"[..], bytes.len()));
        assert_eq!((record.payload, record.bytes()), (&b"some bytes"[..], bytes.len()));
        let covered = HEADER_BYTES + 5 + 10;
        for bit in 0..covered * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped), None, "bit {bit}");
        }
        for end in 0..covered {
            assert_eq!(parse(&bytes[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn torn_end_is_distinguished_from_damage() {
        let all = [sample(b"one"), sample(b"two"), sample(b"three")].concat();
        let end = |bytes: &[u8]| {
            let mut count = 0;
            let (at, ending) = scan(bytes, |_, _| count += 1);
            (at, ending, count)
        };
        assert_eq!(end(&all), (all.len(), RecordsEnd::Clean, 3));
        let one = sample(b"one").len();
        assert_eq!(end(&all[..all.len() - 5]), (2 * one, RecordsEnd::Torn, 2));
        let mut damaged = all.clone();
        damaged[one + 20] ^= 1;
        assert_eq!(end(&damaged), (one, RecordsEnd::Damaged, 1));
    }

    #[test]
    fn varints_round_trip() {
        for n in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(n, &mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!((take_varint(&mut rest), rest.len()), (Some(n), 0));
        }
        assert_eq!(take_varint(&mut &[0xff_u8; 20][..]), None);
    }
}
