//! Locations of articles by Message-ID: a table on disk of a fixed size, in buckets of a page.
//!
//! The entries are only hints: the record found there has its own Message-ID. Invalid entries are skipped,
//! and a full bucket loses its oldest entry, so that no order of writes is needed. A damaged page counts as
//! empty. Called by `cache`. Format: `docs/formats/cache.md`.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use disk::{Disk, DiskFile, OpenMode, ReadMode};
use lock_order::Innermost;

use crate::base::record::{hash, read_patiently, readable};
use disk::crc::crc32c;

const PAGE_BYTES: usize = 4096;
/// Size of the checksum and the index of the next entry.
const PAGE_HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 24;
const ENTRIES: usize = (PAGE_BYTES - PAGE_HEAD_BYTES) / ENTRY_BYTES;
/// Divisor of the cache's size that gives the maximum size of the table.
pub(crate) const PART: u64 = 64;
const LOCKS: usize = 64;

/// A page in memory.
pub(crate) type IdPage = [u8; PAGE_BYTES];

/// A page without entries.
pub(crate) const EMPTY: IdPage = [0; PAGE_BYTES];

/// Possible location of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArticlePointer {
    /// Key of the group.
    pub key: u64,
    pub number: u64,
}

/// Table of pointers by Message-ID.
#[derive(Debug)]
pub(crate) struct IdTable {
    file: Arc<dyn DiskFile>,
    pages: u64,
    locks: Vec<Innermost<()>>,
}

impl IdTable {
    /// Opens the table, which is emptied if the cache has another size. It takes room as it fills.
    pub fn open(disk: &dyn Disk, path: &Path, size_bytes: u64) -> io::Result<Self> {
        let pages = (size_bytes / PART / PAGE_BYTES as u64).max(1);
        let file = disk.open(path, OpenMode::Create)?;
        if file.len()? != pages * PAGE_BYTES as u64 {
            file.set_len(0)?;
            file.set_len(pages * PAGE_BYTES as u64)?;
        }
        Ok(Self { file, pages, locks: (0..LOCKS).map(|_| Innermost::new(())).collect() })
    }

    /// Returns the page of a Message-ID with this hash, and its fingerprint there.
    fn place(&self, hash: u128) -> (u64, u64) {
        ((hash >> 64) as u64 % self.pages, hash as u64)
    }

    fn lock(&self, page: u64) -> &Innermost<()> {
        &self.locks[page as usize % LOCKS]
    }

    fn read(&self, page: u64, patience: ReadMode, into: &mut IdPage) -> io::Result<()> {
        let read = read_patiently(&*self.file, into, page * PAGE_BYTES as u64, patience);
        let read = readable(read)?.unwrap_or_default();
        let crc = into.first_chunk::<4>().map(|crc| u32::from_le_bytes(*crc));
        if read != PAGE_BYTES || crc != into.get(4..).map(crc32c) {
            into.fill(0);
        }
        Ok(())
    }

    /// Returns possible locations of the article with this hash, the newest first. Reads the page into
    /// `page`.
    pub fn find<'p>(
        &self,
        hash: u128,
        patience: ReadMode,
        page: &'p mut IdPage,
    ) -> io::Result<impl Iterator<Item = ArticlePointer> + use<'p>> {
        let (at, fingerprint) = self.place(hash);
        {
            let _locked = self.lock(at).lock();
            self.read(at, patience, page)?;
        }
        let (page, next) = (&*page, next_of(page));
        let entries = (0..next).rev().chain((next..ENTRIES).rev());
        Ok(entries.filter_map(move |at| pointer(page, at, fingerprint)))
    }

    /// Adds a pointer, unless it exists.
    pub fn add(&self, id: &[u8], to: ArticlePointer) -> io::Result<()> {
        let (page, fingerprint) = self.place(hash(&[id]));
        let _locked = self.lock(page).lock();
        let mut bytes = EMPTY;
        self.read(page, ReadMode::Wait, &mut bytes)?;
        if (0..ENTRIES).any(|at| pointer(&bytes, at, fingerprint) == Some(to)) {
            return Ok(());
        }
        let next = next_of(&bytes);
        let start = PAGE_HEAD_BYTES + next * ENTRY_BYTES;
        let entry = [fingerprint.max(1), to.key, to.number].map(u64::to_le_bytes).concat();
        if let Some(place) = bytes.get_mut(start..start + ENTRY_BYTES) {
            place.copy_from_slice(&entry);
        }
        if let Some(place) = bytes.get_mut(4..8) {
            place.copy_from_slice(&((next as u32 + 1) % ENTRIES as u32).to_le_bytes());
        }
        let crc = crc32c(bytes.get(4..).unwrap_or_default());
        if let Some(place) = bytes.get_mut(..4) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        self.file.write_all_at(&[IoSlice::new(&bytes)], page * PAGE_BYTES as u64)
    }
}

/// Returns the index of the next entry.
fn next_of(page: &[u8]) -> usize {
    let next = page.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    next as usize % ENTRIES
}

/// Returns the entry at an index, if it has this fingerprint.
fn pointer(page: &[u8], at: usize, fingerprint: u64) -> Option<ArticlePointer> {
    let word = |n: usize| {
        let start = PAGE_HEAD_BYTES + at * ENTRY_BYTES + n * 8;
        Some(u64::from_le_bytes(page.get(start..start + 8)?.try_into().ok()?))
    };
    (word(0)? == fingerprint.max(1)).then_some(ArticlePointer { key: word(1)?, number: word(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    #[test]
    fn newest_pointers_come_first_and_replace_the_oldest() {
        let disk = SimDisk::new();
        let path = Path::new("/ids");
        let ids = IdTable::open(&disk, path, PART * PAGE_BYTES as u64).unwrap();
        let at = |number| ArticlePointer { key: 1, number };
        let find = |ids: &IdTable, id: &[u8]| -> Vec<ArticlePointer> {
            ids.find(hash(&[id]), ReadMode::CacheOnly, &mut { EMPTY }).unwrap().collect()
        };
        ids.add(b"<a@b>", at(1)).unwrap();
        ids.add(b"<a@b>", at(2)).unwrap();
        ids.add(b"<a@b>", at(1)).unwrap();
        assert_eq!(find(&ids, b"<a@b>"), [at(2), at(1)]);
        for n in 0..ENTRIES as u64 - 1 {
            ids.add(format!("<{n}@x>").as_bytes(), at(n)).unwrap();
        }
        assert_eq!(find(&ids, b"<a@b>"), [at(2)]);
        let again = IdTable::open(&disk, path, PART * PAGE_BYTES as u64).unwrap();
        assert_eq!(find(&again, b"<7@x>"), [at(7)]);
        let file = disk.open(path, OpenMode::Existing).unwrap();
        file.write_all_at(&[IoSlice::new(b"?")], 100).unwrap();
        assert_eq!(find(&again, b"<7@x>"), []);
        let larger = IdTable::open(&disk, path, 2 * PART * PAGE_BYTES as u64).unwrap();
        assert_eq!(find(&larger, b"<7@x>"), []);
    }
}
