//! The record: one stored article (`docs/formats/cnfs.md`).
//!
//! 64 bytes of header, then the Xref line, the article in wire format and the final `.` line; padded to whole
//! blocks. The checksum covers everything but the magic word, of which a cancel overwrites one byte
//! (CNFS-12).

use disk::DiskFile;
use spool_base::codec::ByteReader;
use spool_base::key::ArticleKey;
use std::io::{self, IoSlice};

/// Length of the header.
pub const HEADER_BYTES: usize = 64;
/// Maximum length of a record: of an article of 1 GiB, the most that a site may accept
/// (`site.article_bytes_max`), with its Xref line. A header that names a longer one is damaged.
pub const RECORD_BYTES_MAX: usize = (1 << 30) + (16 << 20);
/// Magic word of a record.
pub(crate) const MAGIC_LIVE: &[u8; 4] = b"NRec";
/// Magic word of a cancelled record. One byte differs, so that no crash can leave half of it, and by two
/// bits, so that no flipped bit cancels an article.
const MAGIC_CANCELLED: &[u8; 4] = b"NCec";
/// Offset in a record of the byte that a cancel writes.
const CANCELLED_AT: usize = 1;
/// End of a stored article.
pub const END: &[u8] = b".\r\n";
const VERSION: u8 = 1;
const VERSION_PACKED: u8 = 2;

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Length of the data after the header, without padding.
    pub data_bytes: u32,
    /// Length of Xref line, headers and blank line in the (unpacked) data.
    pub header_bytes: u32,
    /// Absolute position of the record in the volume.
    pub place: u64,
    /// Position in the order of all articles of the spool.
    pub sequence: u64,
    /// Keyed hash of the Message-ID.
    pub key: ArticleKey,
    /// Arrival time in Unix seconds.
    pub arrived: u32,
    /// Value of the Expires header in Unix seconds, 0 for none.
    pub expires: u32,
    /// Offset of the Message-ID in the data.
    pub message_id_at: u32,
    /// Length of the Message-ID.
    pub message_id_bytes: u16,
    /// Storage class.
    pub class: u8,
    /// Whether the data is compressed; offsets and `header_bytes` are those of the unpacked data.
    pub packed: bool,
}

impl RecordHeader {
    /// Appends the header with space for magic and checksum; [`seal`] fills them in.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut h = [0u8; HEADER_BYTES];
        h[8..12].copy_from_slice(&self.data_bytes.to_le_bytes());
        h[12..16].copy_from_slice(&self.header_bytes.to_le_bytes());
        h[16..24].copy_from_slice(&self.place.to_le_bytes());
        h[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        h[32..48].copy_from_slice(&self.key.0.to_le_bytes());
        h[48..52].copy_from_slice(&self.arrived.to_le_bytes());
        h[52..56].copy_from_slice(&self.expires.to_le_bytes());
        h[56..60].copy_from_slice(&self.message_id_at.to_le_bytes());
        h[60..62].copy_from_slice(&self.message_id_bytes.to_le_bytes());
        h[62] = self.class;
        h[63] = if self.packed { VERSION_PACKED } else { VERSION };
        out.extend_from_slice(&h);
    }

    /// Reads a header without verifying the checksum. Returns also whether the record lives.
    pub fn parse(bytes: &[u8]) -> Option<(Self, bool)> {
        let mut r = ByteReader(bytes.get(..HEADER_BYTES)?);
        let magic: [u8; 4] = r.array()?;
        r.u32()?;
        let mut header = Self {
            data_bytes: r.u32()?,
            header_bytes: r.u32()?,
            place: r.u64()?,
            sequence: r.u64()?,
            key: ArticleKey(r.u128()?),
            arrived: r.u32()?,
            expires: r.u32()?,
            message_id_at: r.u32()?,
            message_id_bytes: u16::from_le_bytes(r.array()?),
            class: r.u8()?,
            packed: false,
        };
        let version = r.u8()?;
        header.packed = version == VERSION_PACKED;
        let sane = (header.packed || version == VERSION && header.header_bytes <= header.data_bytes)
            && header.data_bytes >= END.len() as u32
            && header.record_bytes() <= RECORD_BYTES_MAX
            && u64::from(header.message_id_at) + u64::from(header.message_id_bytes)
                <= u64::from(header.header_bytes);
        (sane && (&magic == MAGIC_LIVE || &magic == MAGIC_CANCELLED))
            .then_some((header, &magic == MAGIC_LIVE))
    }

    /// Returns the Message-ID in the record's data.
    pub fn message_id<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let at = self.message_id_at as usize;
        data.get(at..at + usize::from(self.message_id_bytes)).unwrap_or_default()
    }

    /// Returns the length of header and data.
    pub fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.data_bytes as usize
    }
}

/// Marks the record that begins at `offset` of a file as cancelled.
pub fn cancel(file: &dyn DiskFile, offset: u64) -> io::Result<()> {
    let byte = &MAGIC_CANCELLED[CANCELLED_AT..=CANCELLED_AT];
    file.write_all_at(&[IoSlice::new(byte)], offset + CANCELLED_AT as u64)
}

/// Fills in magic and checksum of a whole record.
pub fn seal(record: &mut [u8]) {
    let crc = disk::crc::crc32c(&record[8..]);
    record[..4].copy_from_slice(MAGIC_LIVE);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Reports whether a damaged record differs by one bit from what was written: media cause that, torn writes
/// do not.
pub fn is_rotten(record: &[u8]) -> bool {
    match (record.get(4..8).and_then(|crc| crc.try_into().ok()), record.get(8..)) {
        (Some(crc), Some(rest)) => disk::crc::one_bit_explains(rest, u32::from_le_bytes(crc)),
        _ => false,
    }
}

/// Reports whether a record (header and data, no padding) is as it was written.
pub fn is_whole(record: &[u8]) -> bool {
    match (record.get(4..8), record.get(8..)) {
        (Some(crc), Some(rest)) => crc == disk::crc::crc32c(rest).to_le_bytes(),
        _ => false,
    }
}
