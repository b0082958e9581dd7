//! A cyclic buffer read independently of its spool: by a second machine, or from a copy, whether its server
//! writes to it or not (CNFS-06). Nothing is locked, mapped or changed.
//!
//! The articles are listed from the usage bitmap, but only trusted once read: the record must be the one that
//! was listed, whole, and its key that of its Message-ID. Anything else that lies there by then is
//! overwritten or damaged. The guarantees are described in `docs/formats/cnfs.md`, "Reading a buffer apart
//! from its server". Called by `newsreel import newsreel`.

use disk::{Disk, DiskFile, read_around};
use spool_base::error::{ReadError, SpoolError};
use spool_base::key::{ArticleKey, KeyHasher};
use spool_methods::cnfs::header::BufferHeader;
use spool_methods::cnfs::record::{HEADER_BYTES, RecordHeader, is_whole};
use spool_methods::cnfs::{FoundBuffer, Geometry};
use spool_methods::packing::ArticlePacker;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the usage bitmap read at a time.
const BITMAP_READ_BYTES: usize = 64 << 10;
/// Number of attempts to list a buffer that grows meanwhile.
const LISTINGS_MAX: u32 = 3;

/// A buffer of another server, or a copy of one.
#[derive(Debug)]
pub struct BufferApart {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    name: String,
    file: Arc<dyn DiskFile>,
    hasher: KeyHasher,
    packing: ArticlePacker,
}

/// A record that a buffer had when it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordApart {
    /// Number of bytes written to the buffer before it; unique among the records of a buffer.
    pub place: u64,
    /// Offset in the file; stays the same when the buffer grows.
    at: u64,
    /// Key of the Message-ID, by the secret of its own site.
    pub key: ArticleKey,
    /// Length after the record's header, in bytes.
    pub data_bytes: u32,
    /// Whether the data is compressed.
    pub is_packed: bool,
    /// Time of arrival, in Unix seconds.
    pub arrived: u32,
}

/// Result of reading a listed record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchedRecord {
    /// The record was read, and is what was filed.
    Whole,
    /// The record was overwritten or withdrawn since it was listed.
    Gone,
    /// The record should be there, but cannot be read.
    Damaged(String),
}

impl BufferApart {
    /// Opens a buffer for reading only. `dictionaries` is the directory of its server's dictionaries.
    ///
    /// # Errors
    /// A file that is not a buffer, or whose headers are both damaged; errors of the disk.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, dictionaries: Option<&Path>) -> Result<Self, SpoolError> {
        let (found, header, _) = look(&**disk, path)?;
        let secret = u128::from_str_radix(&header.secret, 16).map_err(|_| damaged(path))?;
        let packing = ArticlePacker::read_only(disk, dictionaries)
            .map_err(SpoolError::io("read dictionaries in", dictionaries.unwrap_or(path)))?;
        Ok(Self {
            disk: disk.clone(),
            path: path.into(),
            name: header.name,
            file: found.file,
            hasher: KeyHasher::new(secret.to_be_bytes()),
            packing,
        })
    }

    /// Returns the name in its header.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lists the current articles in the order in which they were stored, without those in `hidden`. The
    /// second value is the number of hidden ones, the third the number of bits that lead to no record.
    ///
    /// # Errors
    /// Any error of the disk; a buffer that keeps growing, or is no longer a buffer.
    pub fn list(&self, hidden: &HashSet<ArticleKey>) -> Result<(Vec<RecordApart>, u64, u64), SpoolError> {
        for _ in 0..LISTINGS_MAX {
            let (_, header, geometry) = look(&*self.disk, &self.path)?;
            let failed = || SpoolError::io("read buffer", &self.path);
            let (mut records, damaged) = self.marked(&geometry).map_err(failed())?;
            records.sort_unstable_by_key(|record| record.place);
            let (_, after, _) = look(&*self.disk, &self.path)?;
            if after.len != header.len {
                continue;
            }
            let head = self.head(&geometry, after.head, &records).map_err(failed())?;
            // Bits between the write position and the end of its step are still set, but nothing lives there.
            records.retain(|record| record.place >= geometry.tail_at(head));
            let all = records.len();
            records.retain(|record| !hidden.contains(&record.key));
            let left_out = (all - records.len()) as u64;
            return Ok((records, left_out, damaged));
        }
        Err(SpoolError::Unfit(format!("{} keeps growing while it is read", self.path.display())))
    }

    /// Returns the write position as far as it is known: the header has that of the last checkpoint, and the
    /// newest record ends before it; a record that is not whole might have a wrong place.
    fn head(&self, geometry: &Geometry, saved: u64, records: &[RecordApart]) -> io::Result<u64> {
        for record in records.iter().rev().take_while(|record| record.place >= saved) {
            if let Some((header, _)) = self.whole(record)? {
                return Ok(record.place + (header.record_bytes() as u64).next_multiple_of(geometry.block));
            }
        }
        Ok(saved)
    }

    /// Returns the records at set bits, and the number of bits without a record.
    fn marked(&self, geometry: &Geometry) -> io::Result<(Vec<RecordApart>, u64)> {
        let (mut records, mut damaged) = (Vec::new(), 0);
        let mut bits = vec![0; BITMAP_READ_BYTES];
        let bitmap_bytes = (geometry.area / geometry.block).div_ceil(8);
        for at in (0..bitmap_bytes).step_by(BITMAP_READ_BYTES) {
            let want = BITMAP_READ_BYTES.min((bitmap_bytes - at) as usize);
            let Some(part) = bits.get_mut(..want) else { break };
            let read = self.file.read_at(part, geometry.bitmap_at + at)?;
            for (byte, byte_at) in part.iter().take(read).zip(at..).filter(|(byte, _)| **byte != 0) {
                for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                    let offset = (byte_at * 8 + bit) * geometry.block;
                    match self.record_at(geometry, offset)? {
                        Some(record) => records.push(record),
                        None => damaged += u64::from(self.is_damaged(geometry, offset)?),
                    }
                }
            }
        }
        Ok((records, damaged))
    }

    /// Reports whether a record is missing at an offset. Bits of records about to be overwritten stay set
    /// while zeros are written ahead there; all others are cleared before anything is written.
    fn is_damaged(&self, geometry: &Geometry, offset: u64) -> io::Result<bool> {
        let mut raw = [0; HEADER_BYTES];
        read_around(&*self.file, &mut raw, geometry.area_start + offset)?;
        let (block, mut byte) = (offset / geometry.block, [0]);
        let read = self.file.read_at(&mut byte, geometry.bitmap_at + block / 8)?;
        Ok(read == 1 && byte[0] >> (block % 8) & 1 == 1 && raw.iter().any(|byte| *byte != 0))
    }

    /// Returns the record that begins at an offset of the area according to its header.
    fn record_at(&self, geometry: &Geometry, offset: u64) -> io::Result<Option<RecordApart>> {
        let at = geometry.area_start + offset;
        let mut raw = [0; HEADER_BYTES];
        let read = read_around(&*self.file, &mut raw, at)?;
        let header = raw.get(..read).and_then(RecordHeader::parse);
        let fits = |h: &RecordHeader| {
            geometry.offset(h.place) == Some(offset) && h.record_bytes() as u64 <= geometry.room(h.place)
        };
        Ok(header.filter(|(header, lives)| *lives && fits(header)).map(|(header, _)| RecordApart {
            place: header.place,
            at,
            key: header.key,
            data_bytes: header.data_bytes,
            is_packed: header.packed,
            arrived: header.arrived,
        }))
    }

    /// Reads a listed record into `out`: its Xref line, the article in wire format and the final `.` line.
    /// `out` stays empty unless the record is whole.
    ///
    /// # Errors
    /// Any error of the disk.
    pub fn read(&self, record: &RecordApart, out: &mut Vec<u8>) -> io::Result<FetchedRecord> {
        out.clear();
        let Some((header, mut raw)) = self.whole(record)? else {
            let damaged =
                || FetchedRecord::Damaged(format!("the record at place {:x} is damaged", record.place));
            return Ok(if self.should_be(record)? { damaged() } else { FetchedRecord::Gone });
        };
        let header = match header.packed {
            false => {
                raw.drain(..HEADER_BYTES);
                std::mem::swap(out, &mut raw);
                header
            }
            true => {
                let mut unpacked = Vec::new();
                match self.packing.unpack(&header, &mut raw, &mut unpacked) {
                    Err(ReadError::Failed(error)) => return Ok(FetchedRecord::Damaged(error.to_string())),
                    Err(ReadError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                    Ok(header) => {
                        unpacked.drain(..HEADER_BYTES);
                        *out = unpacked;
                        header
                    }
                }
            }
        };
        if self.hasher.key(header.message_id(out)) != record.key {
            out.clear();
            let what = format!("the record at place {:x} has the key of another Message-ID", record.place);
            return Ok(FetchedRecord::Damaged(what));
        }
        Ok(FetchedRecord::Whole)
    }

    /// Returns header and bytes of a record that is still the one listed, and whole.
    fn whole(&self, record: &RecordApart) -> io::Result<Option<(RecordHeader, Vec<u8>)>> {
        let mut raw = vec![0; HEADER_BYTES + record.data_bytes as usize];
        let read = read_around(&*self.file, &mut raw, record.at)?;
        raw.truncate(read);
        let same = |(header, lives): &(RecordHeader, bool)| {
            *lives
                && header.place == record.place
                && header.key == record.key
                && header.record_bytes() == raw.len()
        };
        let header = RecordHeader::parse(&raw).filter(same).filter(|_| is_whole(&raw));
        Ok(header.map(|(header, _)| (header, raw)))
    }

    /// Reports whether a missing record should exist.
    fn should_be(&self, record: &RecordApart) -> io::Result<bool> {
        // The bitmap has moved if the buffer has grown.
        let Ok((_, _, geometry)) = look(&*self.disk, &self.path) else { return Ok(false) };
        let Some(offset) = record.at.checked_sub(geometry.area_start) else { return Ok(false) };
        // Another record may begin at the same block by now.
        let another = self.record_at(&geometry, offset)?.is_some_and(|found| found.place != record.place);
        Ok(!another && self.is_damaged(&geometry, offset)?)
    }
}

/// Returns the file, its newer header, and its layout.
fn look(disk: &dyn Disk, path: &Path) -> Result<(FoundBuffer, BufferHeader, Geometry), SpoolError> {
    let found = FoundBuffer::look(disk, path)?;
    let found =
        found.ok_or_else(|| SpoolError::Unfit(format!("{} is no buffer: it is empty", path.display())))?;
    let header = found.header.clone().ok_or_else(|| damaged(path))?;
    let bytes = found.file.len().map_err(SpoolError::io("look at buffer", path))?;
    if bytes < header.len {
        let path = path.display();
        let text = format!("{path} is cut off: it has {bytes} bytes, but was made with {}", header.len);
        return Err(SpoolError::Unfit(text));
    }
    let geometry = found.geometry().ok_or_else(|| damaged(path))?;
    Ok((found, header, geometry))
}

fn damaged(path: &Path) -> SpoolError {
    let path = path.display();
    SpoolError::Unfit(format!("both headers of {path} are damaged; its own server repairs them"))
}
