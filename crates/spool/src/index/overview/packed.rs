//! The packed block: the rows of a plain one with short entries and compressed text
//! (`docs/formats/overview.md`).
//!
//! Invariant: a packed block decodes to its original rows. Used by [`super::block`] for reading and by
//! [`crate::care::overview`] for writing.

use super::block::{BlockRows, HEADER_BYTES, RowEntry};
use spool_base::codec::{ByteReader, put_varint, unzigzag, zigzag};
use spool_base::ids::GroupId;
use spool_base::token::Token;
use spool_methods::packing::{put_frame, read_frame};

const MAGIC: &[u8; 4] = b"NOvP";
/// Compression level. Higher ones hardly shorten text of this length, and take several times as long.
const LEVEL: i32 = 3;
/// Minimum length of an entry in bytes.
const ENTRY_BYTES_MIN: usize = 5;
/// Longest text that decompression will produce.
const TEXT_BYTES_MAX: usize = 1 << 28;

/// Reports whether a block is packed, by its magic.
pub(super) fn is_packed(block: &[u8]) -> bool {
    block.starts_with(MAGIC)
}

/// Appends the packed form; rows must not be empty. Returns false, with garbage after the old end of `out`,
/// if compression fails.
pub(crate) fn encode(rows: &BlockRows, group: GroupId, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let first = rows.entries.first().map_or(0, |e| e.number);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&group.0.to_le_bytes());
    out.extend_from_slice(&(rows.entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&(rows.text.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    let mut coder = RowEntryCoder::new(first);
    rows.entries.iter().for_each(|e| coder.put(e, out));
    let frame_at = out.len();
    if rows.text.len() > TEXT_BYTES_MAX || !put_frame(&rows.text, LEVEL, out) {
        return false;
    }
    let entries = (frame_at - start - HEADER_BYTES) as u32;
    let (frame, frame_crc) = ((out.len() - frame_at) as u32, disk::crc::crc32c(&out[frame_at..]));
    for (at, value) in [(28, frame_crc), (32, entries), (36, frame)] {
        out[start + at..start + at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let crc = disk::crc::crc32c(&out[start + 8..frame_at]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Decodes a whole block; returns false if it is damaged or another group's.
pub(super) fn decode(rows: &mut BlockRows, group: GroupId, block: &[u8]) -> bool {
    let Some(frame) = decode_entries(rows, group, block) else { return false };
    let text_bytes = rows.entries.last().map_or(0, |e| e.end as usize);
    rows.text.resize(text_bytes, 0);
    frame.bytes.len() == frame.len && disk::crc::crc32c(frame.bytes) == frame.crc && {
        read_frame(frame.bytes, &mut rows.text)
    }
}

/// Compressed text after the entries.
pub(super) struct PackedFrame<'a> {
    bytes: &'a [u8],
    len: usize,
    crc: u32,
}

/// Decodes header and entries, leaving the text empty; `None` if they are damaged or another group's.
pub(super) fn decode_entries<'a>(
    rows: &mut BlockRows,
    group: GroupId,
    block: &'a [u8],
) -> Option<PackedFrame<'a>> {
    rows.entries.clear();
    rows.text.clear();
    let mut r = ByteReader(block);
    r.take(MAGIC.len())?;
    let crc = r.u32()?;
    let checked = r.0;
    let (owner, count, first) = (r.u32()?, r.u32()? as usize, r.u64()?);
    let (text_bytes, frame_crc) = (r.u32()? as usize, r.u32()?);
    let (entries_len, len) = (r.u32()? as usize, r.u32()? as usize);
    let head = checked.get(..entries_len.checked_add(HEADER_BYTES - 8)?)?;
    let sane = owner == group.0 && count <= entries_len / ENTRY_BYTES_MIN && text_bytes <= TEXT_BYTES_MAX;
    if !sane || disk::crc::crc32c(head) != crc {
        return None;
    }
    let mut entries = ByteReader(r.take(entries_len)?);
    rows.entries.reserve(count);
    let mut coder = RowEntryCoder::new(first);
    for i in 0..count {
        let entry = coder.get(&mut entries)?;
        let ascends = i == 0 || rows.entries.last().is_some_and(|e| e.number < entry.number);
        ascends.then(|| rows.entries.push(entry))?;
    }
    let ends = entries.is_empty() && rows.entries.last().is_some_and(|e| e.end as usize == text_bytes);
    ends.then_some(PackedFrame { bytes: r.0, len, crc: frame_crc })
}

/// Values that the next entry is relative to.
struct RowEntryCoder {
    number: u64,
    end: u32,
    arrived: u32,
    /// Method, class and volume of the token.
    kind: u32,
    place: u64,
}

impl RowEntryCoder {
    fn new(first: u64) -> Self {
        Self { number: first, end: 0, arrived: 0, kind: 0, place: 0 }
    }

    fn put(&mut self, e: &RowEntry, out: &mut Vec<u8>) {
        let [m, c, v, w, ..] = e.token.to_bytes();
        let kind = u32::from_le_bytes([m, c, v, w]);
        put_varint(e.number.wrapping_sub(self.number), out);
        put_varint(u64::from(e.end.wrapping_sub(self.end)), out);
        put_varint(zigzag(i64::from(e.arrived.wrapping_sub(self.arrived) as i32) as u64), out);
        put_varint(u64::from(kind ^ self.kind), out);
        put_varint(zigzag(e.token.place.wrapping_sub(self.place)), out);
        *self = Self { number: e.number, end: e.end, arrived: e.arrived, kind, place: e.token.place };
    }

    fn get(&mut self, r: &mut ByteReader<'_>) -> Option<RowEntry> {
        self.number = self.number.checked_add(r.varint()?)?;
        self.end = self.end.checked_add(u32::try_from(r.varint()?).ok()?)?;
        self.arrived = self.arrived.wrapping_add(unzigzag(r.varint()?) as u32);
        self.kind ^= u32::try_from(r.varint()?).ok()?;
        self.place = self.place.wrapping_add(unzigzag(r.varint()?));
        let mut token = [0; Token::BYTES];
        let (kind, place) = token.split_first_chunk_mut::<4>()?;
        *kind = self.kind.to_le_bytes();
        place.copy_from_slice(&self.place.to_le_bytes());
        let token = Token::from_bytes(&token)?;
        Some(RowEntry { number: self.number, end: self.end, token, arrived: self.arrived })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool_base::token::MethodKind;

    fn rows() -> BlockRows {
        let mut rows = BlockRows::default();
        for (i, number) in [1u64 << 40, (1 << 40) + 1, (1 << 40) + 70_000].into_iter().enumerate() {
            rows.text.extend_from_slice(format!("{number}\tRe: subject\tfrom\t\t\r\n").repeat(9).as_bytes());
            let token = Token {
                method: [MethodKind::Cnfs, MethodKind::Hashed, MethodKind::Cnfs][i],
                class: i as u8,
                volume: 300,
                place: [u64::MAX, 0, 1 << 60][i],
            };
            let arrived = [7, u32::MAX, 0][i];
            rows.entries.push(RowEntry { number, end: rows.text.len() as u32, token, arrived });
        }
        rows
    }

    fn packed(rows: &BlockRows) -> Vec<u8> {
        let mut disk = Vec::new();
        assert!(encode(rows, GroupId(3), &mut disk));
        disk
    }

    #[test]
    fn round_trips_and_is_shorter() {
        let rows = rows();
        let (mut disk, mut plain) = (b"before".to_vec(), Vec::new());
        assert!(encode(&rows, GroupId(3), &mut disk));
        rows.encode(GroupId(3), &mut plain);
        assert!(disk.len() < plain.len() / 2, "{} {}", disk.len(), plain.len());
        let mut back = BlockRows::default();
        assert!(back.decode(GroupId(3), &disk[6..]));
        assert_eq!((&back.entries, &back.text), (&rows.entries, &rows.text));
        assert!(back.decode_entries(GroupId(3), &disk[6..]) && back.text.is_empty());
        assert_eq!(back.entries, rows.entries);
        assert!(!back.decode(GroupId(4), &disk[6..]));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let disk = packed(&rows());
        for i in 0..disk.len() * 8 {
            let mut bad = disk.clone();
            bad[i / 8] ^= 1 << (i % 8);
            assert!(!BlockRows::default().decode(GroupId(3), &bad), "bit {i}");
        }
        (0..disk.len())
            .for_each(|cut| assert!(!BlockRows::default().decode(GroupId(3), &disk[..cut]), "{cut}"));
    }

    /// A block as a faulty writer might produce it: right checksums around invalid contents.
    #[test]
    fn invalid_contents_with_right_checksums_are_rejected() {
        let good = rows();
        for wrong in 0..3 {
            let mut rows = good.clone();
            match wrong {
                0 => rows.entries[1].number = rows.entries[0].number,
                1 => rows.entries[2].end -= 1,
                _ => rows.text.push(b'x'),
            }
            assert!(!BlockRows::default().decode(GroupId(3), &packed(&rows)), "{wrong}");
        }
    }
}
