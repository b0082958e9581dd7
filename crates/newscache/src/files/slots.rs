//! The file of groups: a place of 512 bytes for each, with its name, generation and water marks.
//!
//! A place is written at once, and has a checksum. A group whose place is damaged is unknown, and its files
//! are removed. Called by `cache` and `opening`. Format: `docs/formats/cache.md`.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use disk::{Disk, DiskFile, OpenMode};

use crate::base::record::readable;
use crate::books::bookkeeping::{DatedAnswer, GroupSlot};
use disk::crc::crc32c;
use netnews::GroupMarks;

const MAGIC: &[u8; 8] = b"NCgrp\0\0\x01";
pub(crate) const PLACE_BYTES: usize = 512;
/// Size of a place before the names.
const HEAD_BYTES: usize = 72;
/// Maximum length of origin and name together, in bytes; groups with longer ones are not cached.
pub(crate) const NAMES_BYTES_MAX: usize = PLACE_BYTES - HEAD_BYTES;
/// Size of a read, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Item of the file.
pub(crate) enum SlotsItem {
    /// Number of places, before any of them.
    Places(usize),
    /// A group, at this place.
    Slot(u32, GroupSlot),
}

/// The file of groups.
#[derive(Debug)]
pub(crate) struct SlotsFile(Arc<dyn DiskFile>);

impl SlotsFile {
    /// Opens the file; one of another format is emptied. Passes on the number of places, then the groups.
    pub fn open(disk: &dyn Disk, path: &Path, mut each: impl FnMut(SlotsItem)) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::Create)?;
        let mut head = vec![0; PLACE_BYTES];
        let read = readable(file.read_at(&mut head, 0))?.unwrap_or_default();
        if read < PLACE_BYTES || !head.starts_with(MAGIC) {
            head.fill(0);
            if let Some(magic) = head.get_mut(..MAGIC.len()) {
                magic.copy_from_slice(MAGIC);
            }
            file.set_len(0)?;
            file.write_all_at(&[IoSlice::new(&head)], 0)?;
            return Ok(Self(file));
        }
        let places = file.len()? / PLACE_BYTES as u64;
        each(SlotsItem::Places(usize::try_from(places).unwrap_or(usize::MAX)));
        let mut buffer = vec![0; READ_BYTES];
        let mut at = 0_u32;
        loop {
            let from = (u64::from(at) + 1) * PLACE_BYTES as u64;
            let read = match readable(file.read_at(&mut buffer, from))? {
                Some(read) => read,
                None => read_places(&*file, from, &mut buffer)?,
            };
            for place in buffer.get(..read).unwrap_or_default().chunks_exact(PLACE_BYTES) {
                if let Some(slot) = take(place) {
                    each(SlotsItem::Slot(at, slot));
                }
                at += 1;
            }
            if read < READ_BYTES {
                return Ok(Self(file));
            }
        }
    }

    /// Writes a group's place; returns true if there is room for its names.
    pub fn write(&self, at: u32, slot: &GroupSlot) -> io::Result<bool> {
        let Some(place) = put(slot) else { return Ok(false) };
        self.0.write_all_at(&[IoSlice::new(&place)], (u64::from(at) + 1) * PLACE_BYTES as u64)?;
        Ok(true)
    }

    /// Makes all places durable.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// Reads one place after the other; unreadable ones count as empty.
fn read_places(file: &dyn DiskFile, from: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    for place in into.chunks_exact_mut(PLACE_BYTES) {
        match readable(file.read_at(place, from + done as u64))? {
            Some(PLACE_BYTES) => {}
            Some(_) => break,
            None => place.fill(0),
        }
        done += PLACE_BYTES;
    }
    Ok(done)
}

fn put(slot: &GroupSlot) -> Option<Vec<u8>> {
    if slot.origin.len() + slot.name.len() > NAMES_BYTES_MAX {
        return None;
    }
    let mut place = vec![0; 4];
    place.extend_from_slice(&(slot.origin.len() as u16).to_le_bytes());
    place.extend_from_slice(&(slot.name.len() as u16).to_le_bytes());
    place.extend_from_slice(&u64::from(slot.marks().is_some()).to_le_bytes());
    let DatedAnswer { value: marks, at } =
        slot.marks().unwrap_or(DatedAnswer { value: GroupMarks::default(), at: 0 });
    let words = [slot.generation, slot.used(), marks.low, marks.high, marks.count, at, 0];
    place.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    place.extend_from_slice(slot.origin.as_bytes());
    place.extend_from_slice(&slot.name);
    place.resize(PLACE_BYTES, 0);
    let crc = crc32c(place.get(4..)?);
    place.get_mut(..4)?.copy_from_slice(&crc.to_le_bytes());
    Some(place)
}

/// Parses a group's place.
pub(crate) fn take(place: &[u8]) -> Option<GroupSlot> {
    let (crc, rest) = place.split_first_chunk::<4>()?;
    if place.len() != PLACE_BYTES || u32::from_le_bytes(*crc) != crc32c(rest) {
        return None;
    }
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(place.get(at..at + 2)?.try_into().ok()?)));
    let word = |n: usize| Some(u64::from_le_bytes(place.get(8 + n * 8..16 + n * 8)?.try_into().ok()?));
    let names = place.get(HEAD_BYTES..)?;
    let (origin, names) = names.split_at_checked(short(4)?)?;
    let name = names.get(..short(6)?)?;
    let origin = std::str::from_utf8(origin).ok()?;
    let marks = GroupMarks { low: word(3)?, high: word(4)?, count: word(5)? };
    let mut slot = GroupSlot::new(origin, name, word(1)?, word(2)?);
    slot.set_marks((word(0)? == 1).then_some(DatedAnswer { value: marks, at: word(6)? }));
    slot.is_written = true;
    Some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    #[test]
    fn groups_are_read_back_and_damaged_ones_are_not() {
        let disk = SimDisk::new();
        let path = Path::new("/groups");
        let all = || {
            let mut found = Vec::new();
            let file = SlotsFile::open(&disk, path, |found_at| {
                if let SlotsItem::Slot(at, slot) = found_at {
                    found.push((at, slot.name.to_vec(), slot.generation, slot.marks()));
                }
            });
            (file.unwrap(), found)
        };
        let (file, found) = all();
        assert!(found.is_empty());
        let mut slot = GroupSlot::new("isp", b"comp.lang.c", 77, 5);
        slot.set_marks(Some(DatedAnswer { value: GroupMarks { low: 1, high: 9, count: 8 }, at: 3 }));
        assert!(file.write(0, &slot).unwrap() && file.write(3, &GroupSlot::new("isp", b"x", 78, 5)).unwrap());
        assert!(!file.write(1, &GroupSlot::new("isp", &[b'a'; 500], 1, 1)).unwrap());
        let expected = [(0, b"comp.lang.c".to_vec(), 77, slot.marks()), (3, b"x".to_vec(), 78, None)];
        assert_eq!(all().1, expected);
        let raw = disk.open(path, OpenMode::Existing).unwrap();
        raw.write_all_at(&[IoSlice::new(b"?")], PLACE_BYTES as u64 + 80).unwrap();
        assert_eq!(all().1, expected[1..]);
        raw.write_all_at(&[IoSlice::new(b"?")], 0).unwrap();
        assert!(all().1.is_empty());
    }
}
