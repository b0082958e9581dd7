//! INN's timecaf files: many articles stored one after the other, with a table of contents.
//!
//! Bytes in, values out. Supports only files of 64-bit little-endian machines. Called by `import::source`.
//! Sources: storage.conf(5), files made by INN 2.7; described in `docs/formats/inn.md`.

/// Size of the file's header, in bytes.
pub const HEADER_BYTES: usize = 96;
/// Size of an entry of the table of contents, in bytes.
pub const ENTRY_BYTES: usize = 24;
/// Most articles in one file.
const SLOTS_MAX: u64 = 1 << 20;

/// Header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CafHeader {
    /// Offset of the table of contents.
    pub contents_at: u64,
    /// Entries in use.
    pub entries: u64,
}

/// Location of an article in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CafEntry {
    /// Byte offset in the file.
    pub at: u64,
    /// Length of the article in bytes.
    pub bytes: u32,
    /// Arrival in Unix seconds.
    pub arrived: u32,
}

impl CafHeader {
    /// Parses the first [`HEADER_BYTES`] of a file; returns `None` if it is not a timecaf file.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(b"CRMT") || bytes.len() < HEADER_BYTES {
            return None;
        }
        let number =
            |at: usize| -> Option<u64> { Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)) };
        let (low, slots, high, free_table) = (number(8)?, number(16)?, number(24)?, number(56)?);
        let entries = high.checked_add(1)?.checked_sub(low)?;
        if entries > slots || slots > SLOTS_MAX || free_table > 1 << 40 {
            return None;
        }
        Some(Self { contents_at: HEADER_BYTES as u64 + free_table, entries })
    }
}

impl CafEntry {
    /// Parses an entry; returns `None` if its article is missing.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let number =
            |at: usize| -> Option<u64> { Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)) };
        let entry = Self {
            at: number(0)?,
            bytes: u32::try_from(number(8)?).ok()?,
            arrived: u32::try_from(number(16)?).ok()?,
        };
        (entry.bytes > 0).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_inn_are_parsed_and_damage_is_none() {
        let mut header = vec![0; HEADER_BYTES];
        header[..4].copy_from_slice(b"CRMT");
        for (at, number) in [(8, 1u64), (16, 262_144), (24, 401), (56, 1_704_352)] {
            header[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        assert_eq!(CafHeader::parse(&header), Some(CafHeader { contents_at: 0x1a_0200, entries: 401 }));
        assert_eq!(CafHeader::parse(&header[..90]), None);
        header[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(CafHeader::parse(&header), None);
        let entry: Vec<u8> =
            [7_996_416u64, 1_637, 1_795_237_386].iter().flat_map(|n| n.to_le_bytes()).collect();
        let read = CafEntry { at: 7_996_416, bytes: 1_637, arrived: 1_795_237_386 };
        assert_eq!(CafEntry::parse(&entry), Some(read));
        assert_eq!((CafEntry::parse(&[0; 24]), CafEntry::parse(&entry[..20])), (None, None));
    }
}
