//! The block: overview rows of one group, in number order (`docs/formats/overview.md`).
//!
//! On disk: header (40 bytes), entries (24 bytes per row), row text; or the same compressed
//! ([`super::packed`]). In memory an open block holds the same entries and text. Row text is in wire form:
//! number, fields, Xref, CRLF.

use super::packed;
use spool_base::codec::ByteReader;
use spool_base::ids::GroupId;
use spool_base::token::Token;

const MAGIC: &[u8; 4] = b"NOvB";
/// Length of a block's header on disk.
pub(crate) const HEADER_BYTES: usize = 40;
/// Length of one entry in bytes.
pub(crate) const ENTRY_BYTES: usize = 24;
/// Steps in which the memory for an open block's text grows: a busy site has many thousand open blocks, and
/// doubling would leave as much memory unused as it frees. Without the middle step a feed of 100,000 articles
/// touches 8 % more pages.
const TEXT_ROOM_BYTES: [usize; 3] = [1 << 10, 4 << 10, 16 << 10];
/// Number of entries that go with each step.
const ENTRIES_ROOM: [usize; 3] = [4, 12, 48];

/// Entry of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowEntry {
    pub number: u64,
    /// End of the row's text in the block's text.
    pub end: u32,
    pub token: Token,
    /// Time of arrival, in Unix seconds.
    pub arrived: u32,
}

/// Decoded rows with their entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockRows {
    pub entries: Vec<RowEntry>,
    pub text: Vec<u8>,
}

impl BlockRows {
    /// Returns the text of the `i`th row.
    pub fn row(&self, i: usize) -> Option<&[u8]> {
        let start = match i {
            0 => 0,
            _ => self.entries.get(i - 1)?.end as usize,
        };
        self.text.get(start..self.entries.get(i)?.end as usize)
    }

    /// Appends all rows of `other`, whose numbers are higher.
    pub fn append(&mut self, other: &Self) {
        let end = self.text.len() as u32;
        self.text.extend_from_slice(&other.text);
        self.entries.extend(other.entries.iter().map(|e| RowEntry { end: end + e.end, ..*e }));
    }

    /// Reserves memory for one more row of `row_bytes`.
    pub fn make_room(&mut self, row_bytes: usize) {
        let text = self.text.len() + row_bytes;
        if text > self.text.capacity() {
            let room = TEXT_ROOM_BYTES.into_iter().find(|room| *room >= text).unwrap_or(text);
            self.text.reserve_exact(room - self.text.len());
        }
        let entries = self.entries.len() + 1;
        if entries > self.entries.capacity() {
            let room = ENTRIES_ROOM.into_iter().find(|room| *room >= entries).unwrap_or(entries * 2);
            self.entries.reserve_exact(room - self.entries.len());
        }
    }

    /// Reports whether more memory is spare than a small block has.
    pub fn has_spare(&self) -> bool {
        self.text.capacity() - self.text.len() >= TEXT_ROOM_BYTES[0]
    }

    /// Frees unused memory.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// Returns the index of the row with this number.
    pub fn find(&self, number: u64) -> Option<usize> {
        position(&self.entries, number)
    }

    /// Appends the on-disk form; rows must not be empty.
    pub fn encode(&self, group: GroupId, out: &mut Vec<u8>) {
        let start = out.len();
        let first = self.entries.first().map_or(0, |e| e.number);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&group.0.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        out.extend_from_slice(&disk::crc::crc32c(&self.text).to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        for e in &self.entries {
            out.extend_from_slice(&((e.number - first) as u32).to_le_bytes());
            out.extend_from_slice(&e.end.to_le_bytes());
            out.extend_from_slice(&e.token.to_bytes());
            out.extend_from_slice(&e.arrived.to_le_bytes());
        }
        let crc = disk::crc::crc32c(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&self.text);
    }

    /// Decodes the on-disk form, plain or packed, into `self`; returns false if it is damaged or another
    /// group's.
    pub fn decode(&mut self, group: GroupId, block: &[u8]) -> bool {
        if packed::is_packed(block) {
            return packed::decode(self, group, block);
        }
        self.decode_plain_entries(group, block)
            .and_then(|(text_len, crc)| {
                let text = block.get(head_bytes(self.entries.len())..)?;
                self.text.extend_from_slice(text);
                (text.len() == text_len as usize && disk::crc::crc32c(text) == crc).then_some(())
            })
            .is_some()
    }

    /// Decodes header and entries only, leaving the text empty; returns false if they are damaged or another
    /// group's.
    pub fn decode_entries(&mut self, group: GroupId, block: &[u8]) -> bool {
        if packed::is_packed(block) {
            return packed::decode_entries(self, group, block).is_some();
        }
        self.decode_plain_entries(group, block).is_some()
    }

    /// Decodes header and entries of a plain block; returns the text's length and checksum.
    fn decode_plain_entries(&mut self, group: GroupId, block: &[u8]) -> Option<(u32, u32)> {
        self.entries.clear();
        self.text.clear();
        let mut r = ByteReader(block);
        let magic: [u8; 4] = r.array()?;
        let crc = r.u32()?;
        let checked = r.0;
        let owner = r.u32()?;
        let count = r.u32()? as usize;
        let head = checked.get(..head_bytes(count).checked_sub(8)?)?;
        if &magic != MAGIC || owner != group.0 || disk::crc::crc32c(head) != crc {
            return None;
        }
        let first = r.u64()?;
        let text = (r.u32()?, r.u32()?);
        r.take(8)?;
        self.entries.reserve(count);
        for _ in 0..count {
            let number = first.checked_add(u64::from(r.u32()?))?;
            let end = r.u32()?;
            let token = Token::from_bytes(&r.array()?)?;
            let arrived = r.u32()?;
            self.entries.push(RowEntry { number, end, token, arrived });
        }
        let ordered = self.entries.windows(2).all(|w| w[0].number < w[1].number && w[0].end <= w[1].end);
        let within = self.entries.last().is_some_and(|e| e.end == text.0);
        (ordered && within).then_some(text)
    }
}

/// Returns the index of a number's entry. Numbers are rarely missing, so the index without gaps is tried
/// first.
pub(crate) fn position(entries: &[RowEntry], number: u64) -> Option<usize> {
    let behind = usize::try_from(number.checked_sub(entries.first()?.number)?).unwrap_or(usize::MAX);
    match entries.get(behind) {
        Some(e) if e.number == number => Some(behind),
        // Each missing number moves the entry one place towards the front.
        Some(_) => entries.get(..behind)?.binary_search_by_key(&number, |e| e.number).ok(),
        None => entries.binary_search_by_key(&number, |e| e.number).ok(),
    }
}

/// Returns the entries of the numbers `from..=end`, and the length of the text before theirs.
pub(crate) fn between(entries: &[RowEntry], from: u64, end: u64) -> (&[RowEntry], usize) {
    let (before, rest) = entries.split_at(entries.partition_point(|e| e.number < from));
    let (wanted, _) = rest.split_at(rest.partition_point(|e| e.number <= end));
    (wanted, before.last().map_or(0, |e| e.end as usize))
}

/// Returns the length of header and entries of a block of `count` rows.
pub(crate) fn head_bytes(count: usize) -> usize {
    HEADER_BYTES.saturating_add(count.saturating_mul(ENTRY_BYTES))
}

/// Reports whether another number fits into a block that starts at `first`: an entry's delta has 32 bits.
pub(crate) fn fits(first: u64, number: u64) -> bool {
    number.checked_sub(first).is_some_and(|d| d <= u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool_base::token::MethodKind;

    fn rows() -> BlockRows {
        let mut rows = BlockRows::default();
        for number in [5u64, 6, 9] {
            rows.text.extend_from_slice(format!("{number}\tsubject {number}\r\n").as_bytes());
            let token = Token { method: MethodKind::Cnfs, class: 0, volume: 1, place: number * 512 };
            rows.entries.push(RowEntry { number, end: rows.text.len() as u32, token, arrived: 7 });
        }
        rows
    }

    #[test]
    fn round_trips() {
        let rows = rows();
        let mut disk = Vec::new();
        rows.encode(GroupId(3), &mut disk);
        let mut back = BlockRows::default();
        assert!(back.decode(GroupId(3), &disk));
        assert_eq!(back.entries, rows.entries);
        assert_eq!(back.row(back.find(6).unwrap()).unwrap(), b"6\tsubject 6\r\n");
        assert_eq!(back.find(7), None);
        assert!(!back.decode(GroupId(4), &disk));
    }

    #[test]
    fn every_number_is_found_despite_gaps() {
        let token = Token { method: MethodKind::Cnfs, class: 0, volume: 1, place: 0 };
        for lacking in 0..1 << 6 {
            let living = (0..6).filter(|i| lacking & 1 << i == 0).map(|i| 10 + i);
            let entries: Vec<_> =
                living.map(|number| RowEntry { number, end: 0, token, arrived: 7 }).collect();
            for number in 8..18 {
                let expected = entries.iter().position(|e| e.number == number);
                assert_eq!(position(&entries, number), expected, "{number} of {lacking:b}");
            }
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let mut disk = Vec::new();
        rows().encode(GroupId(3), &mut disk);
        for i in 0..disk.len() * 8 {
            let mut bad = disk.clone();
            bad[i / 8] ^= 1 << (i % 8);
            assert!(!BlockRows::default().decode(GroupId(3), &bad), "bit {i}");
        }
        assert!(!BlockRows::default().decode(GroupId(3), &disk[..disk.len() - 1]));
    }
}
