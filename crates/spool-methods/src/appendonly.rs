//! `appendonly`: files of records that are created as needed and removed by one unlink when all their
//! articles are due (CNFS-F4; `docs/formats/appendonly.md`).
//!
//! A place is file number x 2^40 + offset, so the configured size may change at any time. Nothing is ever
//! displaced; with `files_max` the class reports that it is full. Invariant: a file is removed only after
//! rows recording the removal of every article in it are durable, and the write position is in a later file.

use super::cnfs::record::{self, RecordHeader};
use super::volume::{
    Inventory, LivingLookup, Retained, Stray, StrayKind, Volume, VolumeBase, VolumeKind, begin_record,
    fetch_record,
};
use crate::tree_header;
use disk::{Disk, DiskFile, OpenMode, ReadMode};
use spool_base::codec::{ByteReader, put_varint};
use spool_base::config::{ClassConfig, TreeConfig};
use spool_base::error::ReadError;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::ordered::{Ordered, rank};
use spool_base::token::MethodKind;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bits of a place for the offset in a file.
const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Unit in which records start.
const BLOCK_BYTES: u64 = 64;
/// Minimum length of a last file that is removed although the disk is not full, in bytes.
const SPENT_BYTES_MIN: u64 = 1 << 20;
/// Maximum number of files kept open.
const OPEN_FILES_MAX: usize = 256;

#[derive(Debug, Default)]
struct AppendFile {
    file: Option<Arc<dyn DiskFile>>,
    /// Articles that are neither cancelled nor expired.
    living: u64,
    dirty: bool,
}

/// The files of one class.
#[derive(Debug)]
pub struct AppendOnly {
    base: VolumeBase,
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    file_bytes: AtomicU64,
    files_max: AtomicU64,
    files: Ordered<BTreeMap<u64, AppendFile>, { rank::TABLES }>,
    /// A file was created or removed since the last sync.
    names_changed: AtomicBool,
    /// Data of an earlier process may not be synced.
    inherited: AtomicBool,
    /// Held during a sync: a sync with nothing to do must know that the one before has finished.
    syncing: Ordered<(), { rank::PLACE_SYNCING }>,
}

impl AppendOnly {
    /// Opens the files of a class as the volume `id`; `head` is the write position from the journal or a
    /// checkpoint.
    pub fn open(disk: &Arc<dyn Disk>, id: u16, class: &ClassConfig, head: Option<u64>) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for name in disk.list(&class.tree.path)? {
            if let Some(number) = number_of(&name) {
                files.insert(number, AppendFile::default());
            }
        }
        Ok(Self {
            base: VolumeBase::new(id, &class.name, MethodKind::AppendOnly, head.unwrap_or(0)),
            dir: class.tree.path.clone(),
            disk: disk.clone(),
            file_bytes: AtomicU64::new(within(class.tree.file_bytes)),
            files_max: AtomicU64::new(class.tree.files_max),
            files: Ordered::new(files),
            names_changed: AtomicBool::new(true),
            inherited: AtomicBool::new(true),
            syncing: Ordered::default(),
        })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:010}.app"))
    }

    fn file(&self, number: u64, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(&number).and_then(|s| s.file.clone()) {
            return Ok(file);
        }
        let file = self.disk.open(&self.path(number), how)?;
        if files.values().filter(|s| s.file.is_some()).count() < OPEN_FILES_MAX || how == OpenMode::Create {
            files.entry(number).or_default().file = Some(file.clone());
        }
        Ok(file)
    }

    /// Reads up to `buf.len()` bytes from a place on, not past the end of the file.
    fn read_at(&self, place: u64, patience: ReadMode, buf: &mut [u8]) -> io::Result<usize> {
        let (number, offset) = (place >> OFFSET_BITS, place & OFFSET_MASK);
        let file = match self.file(number, OpenMode::Existing) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            file => file?,
        };
        match patience {
            ReadMode::CacheOnly => file.read_at_cached(buf, offset),
            ReadMode::Wait => file.read_at(buf, offset),
        }
    }

    fn one_less(&self, place: u64) {
        if let Some(state) = self.files.lock().get_mut(&(place >> OFFSET_BITS)) {
            state.living = state.living.saturating_sub(1);
        }
    }
}

/// Limits a configured file length to the offsets that a place can express.
fn within(file_bytes: u64) -> u64 {
    file_bytes.clamp(1 << 12, OFFSET_MASK)
}

impl Volume for AppendOnly {
    fn base(&self) -> &VolumeBase {
        &self.base
    }

    fn kind(&self) -> VolumeKind<'_> {
        VolumeKind::Retained(self)
    }

    fn padded(&self, len: usize) -> u64 {
        (len as u64).next_multiple_of(BLOCK_BYTES)
    }

    fn joins(&self, place: u64) -> bool {
        place & OFFSET_MASK != 0
    }

    fn plan(&self, head: u64, len: usize) -> Option<u64> {
        let offset = head & OFFSET_MASK;
        if offset == 0 || offset + self.padded(len) <= self.file_bytes.load(Ordering::Relaxed) {
            // The very first record: even the first file may be one too many.
            return (offset > 0 || !self.is_full(head)).then_some(head);
        }
        self.next_file(head).filter(|_| !self.is_full(head))
    }

    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let (number, offset) = (place >> OFFSET_BITS, place & OFFSET_MASK);
        let file = self.file(number, OpenMode::Create)?;
        if offset == 0 {
            self.names_changed.store(true, Ordering::Release);
        }
        let written = file.write_all_at(&[IoSlice::new(bytes)], offset);
        // Set after the write: a sync in progress may have missed it.
        self.files.lock().entry(number).or_default().dirty = true;
        written
    }

    fn is_alive(&self, place: u64) -> bool {
        place < self.head() && self.files.lock().contains_key(&(place >> OFFSET_BITS))
    }

    fn mark_alive(&self, place: u64) {
        self.files.lock().entry(place >> OFFSET_BITS).or_default().living += 1;
    }

    fn cancel(&self, place: u64, _key: ArticleKey, _numbers: &[(GroupId, u64)]) -> io::Result<()> {
        self.one_less(place);
        let number = place >> OFFSET_BITS;
        let file = match self.file(number, OpenMode::Existing) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let mut raw = [0; record::HEADER_BYTES];
        let read = file.read_at(&mut raw, place & OFFSET_MASK);
        if !read.is_ok_and(|_| RecordHeader::parse(&raw).is_some_and(|(h, _)| h.place == place)) {
            return Ok(());
        }
        let written = record::cancel(&*file, place & OFFSET_MASK);
        self.files.lock().entry(number).or_default().dirty = true;
        written
    }

    fn fetch(
        &self,
        place: u64,
        patience: ReadMode,
        buf: &mut Vec<u8>,
    ) -> Result<Option<(RecordHeader, bool)>, ReadError> {
        let room = OFFSET_MASK + 1 - (place & OFFSET_MASK);
        fetch_record(place, room, buf, |place, buf| self.read_at(place, patience, buf))
    }

    fn begin_read(&self, place: u64) -> bool {
        begin_record(|buf| self.read_at(place, ReadMode::CacheOnly, buf))
    }

    fn place_text(&self, place: u64) -> String {
        format!("{:x}:{:x}", place & OFFSET_MASK, place >> OFFSET_BITS)
    }

    fn parse_place(&self, text: &str) -> Option<u64> {
        let (offset, number) = text.split_once(':')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (offset, number) = (hex(offset)?, hex(number)?);
        (offset <= OFFSET_MASK && number < 1 << (64 - OFFSET_BITS)).then_some(number << OFFSET_BITS | offset)
    }

    fn explain_place(&self, place: u64) -> String {
        format!("offset {} of {}", place & OFFSET_MASK, self.path(place >> OFFSET_BITS).display())
    }

    fn sync(&self) -> io::Result<()> {
        let _one_at_a_time = self.syncing.lock();
        if self.inherited.swap(false, Ordering::AcqRel) {
            let synced = self.disk.sync_tree(&self.dir);
            synced.inspect_err(|_| self.inherited.store(true, Ordering::Release))?;
        }
        let dirty: Vec<_> = {
            let mut files = self.files.lock();
            let dirty = files.iter_mut().filter(|(_, s)| s.dirty && s.file.is_some());
            dirty.filter_map(|(n, s)| Some((*n, s.file.clone()?, s.dirty = false))).collect()
        };
        for (number, file, ()) in dirty {
            let redo = |_: &io::Error| self.files.lock().entry(number).or_default().dirty = true;
            file.sync().inspect_err(redo)?;
        }
        if self.names_changed.swap(false, Ordering::AcqRel) {
            self.disk
                .sync_dir(&self.dir)
                .inspect_err(|_| self.names_changed.store(true, Ordering::Release))?;
        }
        Ok(())
    }
}

impl Retained for AppendOnly {
    fn configure(&self, tree: &TreeConfig) {
        self.file_bytes.store(within(tree.file_bytes), Ordering::Relaxed);
        self.files_max.store(tree.files_max, Ordering::Relaxed);
    }

    fn next_file(&self, head: u64) -> Option<u64> {
        Some(((head >> OFFSET_BITS) + 1) << OFFSET_BITS)
    }

    fn after_spent_file(&self, is_disk_full: bool) -> Option<u64> {
        let head = self.head();
        let used_bytes = head & OFFSET_MASK;
        let is_spent = self.files.lock().get(&(head >> OFFSET_BITS)).is_some_and(|file| file.living == 0);
        let is_worth_it = used_bytes >= SPENT_BYTES_MIN || is_disk_full && used_bytes > 0;
        self.next_file(head).filter(|_| is_spent && is_worth_it)
    }

    fn bytes_max(&self) -> Option<u64> {
        let (files, bytes) =
            (self.files_max.load(Ordering::Relaxed), self.file_bytes.load(Ordering::Relaxed));
        (files > 0).then(|| files.saturating_mul(bytes))
    }

    fn is_full(&self, head: u64) -> bool {
        let current = self.head() >> OFFSET_BITS;
        // Files planned in this part do not exist yet, nor does one that would begin at `head`. Later ones,
        // which a power cut may leave, will be overwritten.
        let begun = (head >> OFFSET_BITS) + u64::from(head & OFFSET_MASK > 0);
        let earlier = self.files.lock().range(..current).count() as u64;
        let files_max = self.files_max.load(Ordering::Relaxed);
        files_max > 0 && earlier + begun.saturating_sub(current) >= files_max
    }

    fn expire(&self, place: u64, _key: ArticleKey, _numbers: &[(GroupId, u64)]) -> io::Result<()> {
        self.one_less(place);
        Ok(())
    }

    fn sweep(&self) -> io::Result<()> {
        let current = self.head() >> OFFSET_BITS;
        let dead: Vec<u64> = {
            let files = self.files.lock();
            files.iter().filter(|(n, s)| **n < current && s.living == 0).map(|(n, _)| *n).collect()
        };
        for number in dead {
            match self.disk.remove(&self.path(number)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => self.files.lock().remove(&number),
            };
            self.names_changed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn inventory(&self, found: &mut Inventory<'_>) -> io::Result<()> {
        let numbers: Vec<u64> = self.files.lock().keys().copied().collect();
        let mut buf = Vec::new();
        for number in numbers {
            let len = self.file(number, OpenMode::Existing)?.len()?;
            let mut place = number << OFFSET_BITS;
            while place & OFFSET_MASK < len {
                let whole = self.fetch(place, ReadMode::Wait, &mut buf);
                let Ok(Some((header, _))) = whole.as_ref().map(|r| r.filter(|_| record::is_whole(&buf)))
                else {
                    place += BLOCK_BYTES;
                    continue;
                };
                (found.visit)(header.sequence, place);
                place += self.padded(header.record_bytes());
                self.advance(place);
            }
        }
        Ok(())
    }

    fn strays(&self, _living: &LivingLookup<'_>, found: &mut dyn FnMut(Stray)) -> io::Result<()> {
        let names = self.disk.list(&self.dir)?.into_iter();
        let strays = names.filter(|name| {
            let named = number_of(name).is_some_and(|number| self.path(number) == self.dir.join(name));
            !named && !tree_header::is_ours(name)
        });
        strays.for_each(|name| found(Stray { path: self.dir.join(name), kind: StrayKind::Foreign }));
        Ok(())
    }

    fn save(&self, out: &mut Vec<u8>) {
        let files = self.files.lock();
        put_varint(files.len() as u64, out);
        for (number, state) in files.iter() {
            put_varint(*number, out);
            put_varint(state.living, out);
        }
    }

    fn load(&self, saved: &[u8]) -> bool {
        let mut r = ByteReader(saved);
        let Some(count) = r.count(2) else { return false };
        let mut files = self.files.lock();
        for _ in 0..count {
            let (Some(number), Some(living)) = (r.varint(), r.varint()) else { return false };
            files.entry(number).or_default().living = living;
        }
        true
    }
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".app")?.parse().ok()
}
