//! Opening of a cache: finding its files, and the order in which they were used.
//!
//! Only names and lengths are examined; contents are checked when a file is read. Files of unknown groups and
//! old generations, unfinished files and those with other names are removed. Called by `cache`.

use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use disk::{Disk, OpenMode, read_small};

use crate::base::packed::PackedUnit;
use crate::base::record::{self, RecordKind};
use crate::books::bookkeeping::{Bookkeeping, CacheFile};
use disk::crc::crc32c;

/// Length of a line in the file of uses.
const USE_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"NCuse\0\0\x01";
/// Maximum size of small files that are read.
const SMALL_BYTES_MAX: u64 = 256 << 20;
/// Size of the beginning of a large article's file that contains its head.
const HEAD_BYTES: usize = 2048;

/// Result of opening a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpeningReport {
    /// Number of groups with cached data.
    pub groups: u64,
    /// Number of files.
    pub files: u64,
    /// Size of the files.
    pub bytes: u64,
    /// Files that were unfinished, unknown or out of date, and were removed.
    pub removed: Vec<String>,
}

/// Time of the last use of a file, and number of uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SavedUse {
    used: u64,
    uses: u16,
    slot_key: u64,
}

/// Enters all files in the books, in the order in which they were used.
pub(crate) fn enter_files(
    disk: &dyn Disk,
    dir: &Path,
    books: &mut Bookkeeping,
    opened: &mut OpeningReport,
    now: u64,
) -> io::Result<()> {
    let uses = read_uses(disk, &dir.join("uses"))?;
    let mut found: Vec<PackedUnit> = Vec::with_capacity(uses.count());
    for part in ["groups", "large"] {
        for below in disk.list_dirs(&dir.join(part))? {
            let parent = dir.join(part).join(below);
            for name in disk.list(&parent)? {
                let path = parent.join(&name);
                match look(disk, dir, &path, &name, &uses, books, now)? {
                    Some(file) => found.push(file),
                    None => {
                        disk.remove(&path)?;
                        opened.removed.push(name);
                    }
                }
            }
        }
    }
    drop(uses);
    // The time of expiry is not known yet; the time of the last use stands for it.
    found.sort_unstable_by_key(|unit| (unit.expires, unit.blocks, unit.file(0, 0)));
    books.enter_all(found);
    Ok(())
}

/// Examines a file; returns its unit if it is valid.
fn look(
    disk: &dyn Disk,
    dir: &Path,
    path: &Path,
    name: &str,
    uses: &SavedUses,
    books: &mut Bookkeeping,
    now: u64,
) -> io::Result<Option<PackedUnit>> {
    let Some(file) = CacheFile::of_name(name).filter(|file| file.path(dir) == path) else { return Ok(None) };
    let Some(about) = disk.about(path)? else { return Ok(None) };
    let modified = about.modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let saved = uses.get(name_of(&file));
    let slot = match file {
        CacheFile::Segment { key, generation, .. } | CacheFile::Numbers { key, generation } => {
            let slot = books.slot_of_key(key);
            slot.filter(|slot| books.slots.get(*slot as usize).is_some_and(|s| s.generation == generation))
        }
        CacheFile::Large(_) => {
            let key = match saved {
                Some(saved) => Some(saved.slot_key),
                None => group_of_large(disk, path)?,
            };
            key.and_then(|key| books.slot_of_key(key))
        }
    };
    let Some(slot) = slot else { return Ok(None) };
    if let (CacheFile::Segment { seq, .. }, Some(slot)) = (file, books.slots.get_mut(slot as usize)) {
        slot.next_seq = slot.next_seq.max(seq + 1);
    }
    let known = saved.unwrap_or(SavedUse { used: modified, uses: 1, slot_key: 0 });
    let mut unit = PackedUnit::new(slot, file, about.bytes, known.used, known.used.min(now));
    unit.uses = u8::try_from(known.uses).unwrap_or(u8::MAX);
    Ok(Some(unit))
}

/// Returns the group that a large article belongs to.
fn group_of_large(disk: &dyn Disk, path: &Path) -> io::Result<Option<u64>> {
    let mut head = vec![0; HEAD_BYTES];
    let read = disk.open(path, OpenMode::ReadOnly).and_then(|file| file.read_at(&mut head, 0));
    let head = head.get(..record::readable(read)?.unwrap_or_default()).and_then(record::parse);
    Ok(head.filter(|(record, _)| record.kind == RecordKind::Head).map(|(record, _)| record.number))
}

/// Returns the name of a file in the file of uses.
fn name_of(file: &CacheFile) -> u128 {
    match file {
        CacheFile::Segment { key, generation, seq } => {
            (u128::from(*key) << 64) | (u128::from(*generation) << 32) ^ u128::from(*seq)
        }
        CacheFile::Numbers { key, generation } => !((u128::from(*key) << 64) | u128::from(*generation)),
        CacheFile::Large(hash) => *hash,
    }
}

/// Returns the content of the file of uses.
pub(crate) fn uses(books: &Bookkeeping) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for unit in books.units() {
        let key = books.slots.get(unit.slot as usize).map_or(0, |slot| slot.key);
        bytes.extend_from_slice(&name_of(&unit.file).to_le_bytes());
        bytes.extend_from_slice(&key.to_le_bytes());
        // 48 bits are enough for seconds.
        bytes.extend_from_slice(&((unit.used << 16) | u64::from(unit.uses)).to_le_bytes());
    }
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn read_uses(disk: &dyn Disk, path: &Path) -> io::Result<SavedUses> {
    let bytes = record::readable(read_small(disk, path, SMALL_BYTES_MAX))?.flatten().unwrap_or_default();
    Ok(SavedUses::take(bytes).unwrap_or_default())
}

/// File of uses, in memory: its lines in the order of the names.
#[derive(Debug, Default)]
pub(crate) struct SavedUses(Vec<u8>);

impl SavedUses {
    /// Parses the file's octets; returns `None` if it is damaged.
    pub fn take(mut bytes: Vec<u8>) -> Option<Self> {
        let (covered, crc) = bytes.split_last_chunk::<4>()?;
        if u32::from_le_bytes(*crc) != crc32c(covered) || !covered.starts_with(MAGIC) {
            return None;
        }
        bytes.truncate(covered.len());
        let (lines, rest) = bytes.get_mut(MAGIC.len()..)?.as_chunks_mut::<USE_BYTES>();
        lines.sort_unstable_by_key(name_in);
        let rest = rest.len();
        bytes.truncate(bytes.len() - rest);
        Some(Self(bytes))
    }

    fn lines(&self) -> &[[u8; USE_BYTES]] {
        self.0.get(MAGIC.len()..).unwrap_or_default().as_chunks().0
    }

    /// Returns the number of lines.
    pub fn count(&self) -> usize {
        self.lines().len()
    }

    fn get(&self, name: u128) -> Option<SavedUse> {
        let lines = self.lines();
        let line = lines.get(lines.binary_search_by_key(&name, name_in).ok()?)?;
        let (_, rest) = line.split_first_chunk::<16>()?;
        let (key, rest) = rest.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(rest.try_into().ok()?);
        Some(SavedUse { used: word >> 16, uses: word as u16, slot_key: u64::from_le_bytes(*key) })
    }
}

/// Returns the name in a line of the file of uses.
fn name_in(line: &[u8; USE_BYTES]) -> u128 {
    line.first_chunk().map_or(0, |name| u128::from_le_bytes(*name))
}

/// Returns the content of a text file; empty if there is none.
pub(crate) fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let bytes = record::readable(read_small(disk, path, SMALL_BYTES_MAX))?.flatten().unwrap_or_default();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}
