//! Members of zip files, in which archives of Usenet keep their mboxes.
//!
//! The central directory is read whole, then each member as a stream: stored or deflated ones, ZIP64 too. A
//! file is not trusted: members that together claim more than the file has are refused, as are members that
//! expand more than batches may, and none yields more than it declares. Called by `folders` and
//! `cli::import`. Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use site_base::unpacking::unpacked_bytes_max;

/// Magic of a local header; a zip file begins with that of its first member.
const LOCAL_MAGIC: &[u8; 4] = b"PK\x03\x04";
const CENTRAL_MAGIC: &[u8; 4] = b"PK\x01\x02";
const END_MAGIC: &[u8; 4] = b"PK\x05\x06";
const END_64_MAGIC: &[u8; 4] = b"PK\x06\x06";
const LOCATOR_64_MAGIC: &[u8; 4] = b"PK\x06\x07";

const LOCAL_BYTES: u64 = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;
/// Longest comment after the end record, in bytes.
const COMMENT_BYTES_MAX: u64 = 65_535;
/// Largest central directory read.
const DIRECTORY_BYTES_MAX: u64 = 64 << 20;
/// Most members in one file.
const MEMBERS_MAX: usize = 100_000;

/// Extra field for values that do not fit in 32 bits.
const EXTRA_64: u16 = 1;
const FLAG_ENCRYPTED: u16 = 1;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// A file in a zip file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZipMember {
    pub name: String,
    /// Uncompressed size, as declared.
    pub bytes: u64,
    pub packed_bytes: u64,
    /// Offset of its local header.
    at: u64,
    crc: u32,
    method: u16,
    is_encrypted: bool,
}

/// Returns whether a file is a zip file.
pub(crate) fn is_zip(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    File::open(path)?.take(LOCAL_MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == LOCAL_MAGIC)
}

/// Returns the files in a zip file, without directories, in order.
pub(crate) fn members(path: &Path) -> io::Result<Vec<ZipMember>> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let (at, bytes) = directory(&mut file, file_bytes)?;
    if bytes > DIRECTORY_BYTES_MAX || at.checked_add(bytes).is_none_or(|end| end > file_bytes) {
        return Err(damaged("its directory is not within the file, or too large"));
    }
    let text = read_at(&mut file, at, bytes)?;
    let (mut rest, mut members) = (text.as_slice(), Vec::new());
    let mut packed_bytes = 0_u64;
    while rest.starts_with(CENTRAL_MAGIC) {
        let (member, left) = central(rest).ok_or_else(|| damaged("its directory is cut off"))?;
        rest = left;
        packed_bytes = packed_bytes.saturating_add(member.packed_bytes);
        if members.len() >= MEMBERS_MAX || packed_bytes > file_bytes {
            return Err(damaged("its members claim more than it has"));
        }
        if !member.name.ends_with('/') {
            members.push(member);
        }
    }
    Ok(members)
}

/// Returns the offset and the length of the central directory.
fn directory(file: &mut File, file_bytes: u64) -> io::Result<(u64, u64)> {
    let tail_at = file_bytes.saturating_sub(END_BYTES as u64 + COMMENT_BYTES_MAX);
    let tail = read_at(file, tail_at, file_bytes - tail_at)?;
    let at = memchr::memmem::rfind(&tail, END_MAGIC).ok_or_else(|| damaged("it is cut off"))?;
    let end = tail.get(at..).unwrap_or_default();
    let (bytes, start) = (u32_at(end, 12), u32_at(end, 16));
    let (Some(bytes), Some(start)) = (bytes, start) else { return Err(damaged("it is cut off")) };
    let locator = at.checked_sub(LOCATOR_64_BYTES).and_then(|at| tail.get(at..));
    let locator = locator.filter(|locator| locator.starts_with(LOCATOR_64_MAGIC));
    let Some(at) = locator.and_then(|locator| u64_at(locator, 8)) else {
        return Ok((u64::from(start), u64::from(bytes)));
    };
    let end = read_at(file, at, END_64_BYTES as u64)?;
    let found = (u64_at(&end, 48), u64_at(&end, 40));
    let (Some(start), Some(bytes)) = found else { return Err(damaged("it is cut off")) };
    if !end.starts_with(END_64_MAGIC) {
        return Err(damaged("the end of its directory is not where it says"));
    }
    Ok((start, bytes))
}

/// Parses a member of the central directory; returns it and the following bytes.
fn central(bytes: &[u8]) -> Option<(ZipMember, &[u8])> {
    let (head, rest) = bytes.split_at_checked(CENTRAL_BYTES)?;
    let (name, rest) = rest.split_at_checked(usize::from(u16_at(head, 28)?))?;
    let (extra, rest) = rest.split_at_checked(usize::from(u16_at(head, 30)?))?;
    let (_, rest) = rest.split_at_checked(usize::from(u16_at(head, 32)?))?;
    let mut large = extra_64(extra);
    // The field has, in this order, the values that do not fit in the entry.
    let mut value = |at| match u32_at(head, at)? {
        u32::MAX => {
            let (value, left) = large.split_at_checked(8)?;
            large = left;
            u64_at(value, 0)
        }
        value => Some(u64::from(value)),
    };
    let (bytes, packed_bytes, at) = (value(24)?, value(20)?, value(42)?);
    let member = ZipMember {
        name: String::from_utf8_lossy(name).into_owned(),
        bytes,
        packed_bytes,
        at,
        crc: u32_at(head, 16)?,
        method: u16_at(head, 10)?,
        is_encrypted: u16_at(head, 8)? & FLAG_ENCRYPTED != 0,
    };
    Some((member, rest))
}

/// Returns the extra field of ZIP64; empty if there is none.
fn extra_64(mut extra: &[u8]) -> &[u8] {
    while let (Some(kind), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let Some((field, rest)) = extra.get(4..).and_then(|rest| rest.split_at_checked(usize::from(len)))
        else {
            break;
        };
        if kind == EXTRA_64 {
            return field;
        }
        extra = rest;
    }
    &[]
}

impl ZipMember {
    /// Opens the member's content for reading.
    pub fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        if self.is_encrypted {
            return Err(damaged("it is encrypted"));
        }
        if self.bytes > unpacked_bytes_max(self.packed_bytes) {
            return Err(damaged("more comes out of it than of any batch"));
        }
        let mut file = File::open(path)?;
        let head = read_at(&mut file, self.at, LOCAL_BYTES)?;
        let (Some(name), Some(extra)) = (u16_at(&head, 26), u16_at(&head, 28)) else {
            return Err(damaged("it is cut off"));
        };
        if !head.starts_with(LOCAL_MAGIC) {
            return Err(damaged("it is not where the directory says"));
        }
        file.seek(SeekFrom::Current(i64::from(name) + i64::from(extra)))?;
        let packed = file.take(self.packed_bytes);
        let content: Box<dyn Read + Send> = match self.method {
            STORED => Box::new(packed),
            DEFLATED => Box::new(DeflateDecoder::new(packed)),
            _ => return Err(damaged("it is compressed in a form that is not known here")),
        };
        Ok(Box::new(MemberReader { content, left: self.bytes, crc: Crc::new(), expected: self.crc }))
    }
}

/// Bytes of a member, with a checksum verified at their end.
struct MemberReader {
    content: Box<dyn Read + Send>,
    left: u64,
    crc: Crc,
    expected: u32,
}

impl Read for MemberReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let read = self.content.read(out)?;
        let Some(left) = self.left.checked_sub(read as u64) else {
            return Err(damaged("it is longer than the directory says"));
        };
        self.left = left;
        self.crc.update(out.get(..read).unwrap_or_default());
        if read == 0 && (left > 0 || self.crc.sum() != self.expected) {
            return Err(damaged("it is cut off, or its checksum is wrong"));
        }
        Ok(read)
    }
}

/// Reads bytes of a file, fewer at its end.
fn read_at(file: &mut File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
#[path = "zipped.rs"]
mod zipped;

#[cfg(test)]
mod tests {
    use super::zipped::zipped;
    use super::*;

    /// Reads all members of a file with these bytes; returns their names and contents.
    fn read(bytes: &[u8]) -> io::Result<Vec<(String, io::Result<Vec<u8>>)>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let content = |member: &ZipMember| {
            let mut content = Vec::new();
            member.open(file.path())?.read_to_end(&mut content).map(|_| content)
        };
        let all = members(file.path())?;
        Ok(all.iter().map(|member| (member.name.clone(), content(member))).collect())
    }

    #[test]
    fn stored_and_deflated_members_are_read() {
        let text = b"From x\n".repeat(1_000);
        let whole = zipped(&[("a/", b"", false), ("a/one.mbox", &text, true), ("two", b"stored", false)]);
        let contents = read(&whole).unwrap().into_iter().map(|(name, content)| (name, content.unwrap()));
        let expected = [("a/one.mbox".to_owned(), text), ("two".to_owned(), b"stored".to_vec())];
        assert_eq!(contents.collect::<Vec<_>>(), expected);
        assert!(read(&whole[..whole.len() - 30]).is_err());
    }

    #[test]
    fn damage_never_causes_a_panic_or_wrong_content() {
        let text = b"From x\n".repeat(20);
        let whole = zipped(&[("one", &text, true), ("two", b"stored", false)]);
        for at in 0..whole.len() {
            for bit in [0, 3, 7] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                for (_, content) in read(&bytes).unwrap_or_default() {
                    let is_right = |content: &Vec<u8>| *content == text || content == b"stored";
                    assert!(content.as_ref().map_or(true, is_right), "{at} {bit}: {content:?}");
                }
            }
        }
    }

    #[test]
    fn members_that_expand_too_much_or_overlap_are_refused() {
        let bytes = zipped(&[("bomb", &vec![0; 128 << 20], true)]);
        let content = read(&bytes).unwrap().remove(0).1;
        assert_eq!(content.unwrap_err().to_string(), "more comes out of it than of any batch");
        // A directory that names one member many times.
        let one = zipped(&[("one", &[7; 500], false)]);
        let at = memchr::memmem::find(&one, CENTRAL_MAGIC).unwrap();
        let end = memchr::memmem::find(&one, END_MAGIC).unwrap();
        let mut bytes = [&one[..at], &one[at..end].repeat(20), &one[end..]].concat();
        let directory = (20 * (end - at)) as u32;
        let sized = bytes.len() - 10;
        bytes[sized..sized + 4].copy_from_slice(&directory.to_le_bytes());
        assert_eq!(read(&bytes).unwrap_err().to_string(), "its members claim more than it has");
    }
}
