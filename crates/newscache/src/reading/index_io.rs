//! Input and output of a group's index and files: loading, applying removals, appending and reading records.
//!
//! All with the group's index locked, except for reading a located record. Called by `group`.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{DiskFile, OpenMode, ReadMode, read_small};

use crate::base::record::{self, CacheRecord, RecordKind, RecordsEnd};
use crate::books::bookkeeping::{CacheFile, on_disk};
use crate::cache::CacheInner;
use crate::index::cells::GroupCell;
use crate::index::ids::ArticlePointer;
use crate::index::loaded::{GroupIndex, GroupSegment, KnownNumbers, RecordPosition};
use crate::index::runs::NumberRuns;

/// Maximum number of entries of one group's index; beyond it the oldest file is removed.
const GROUP_ENTRIES_MAX: usize = 200_000;
/// Maximum size of a group's file: one record more than a segment may have.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A record that was read, with its bytes and a correct checksum.
pub(crate) struct ReadRecord {
    bytes: Vec<u8>,
}

impl ReadRecord {
    /// Returns the record.
    pub fn record(&self) -> Option<CacheRecord<'_>> {
        record::parse_checked(&self.bytes).map(|(record, _)| record)
    }
}

/// Location of a record, for reading it without the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocatedRecord {
    pub unit: u32,
    pub file: CacheFile,
    pub place: RecordPosition,
}

impl CacheInner {
    /// Calls `work` with a group's index, which is loaded if it is not in memory; without patience
    /// `WouldBlock` if that would wait.
    pub fn with_index<T>(
        &self,
        cell: &GroupCell,
        patience: ReadMode,
        work: impl FnOnce(&mut GroupIndex) -> io::Result<T>,
    ) -> io::Result<T> {
        let index = match patience {
            ReadMode::Wait => Some(cell.index.lock()),
            ReadMode::CacheOnly => cell.index.try_lock(),
        };
        let Some(mut index) = index else { return Err(io::ErrorKind::WouldBlock.into()) };
        self.refresh(cell, &mut index, patience)?;
        let (done, weight) = match index.as_mut() {
            Some(loaded) => {
                let done = work(loaded);
                if let Err(error) = self.compact(cell, loaded) {
                    tracing::warn!("a file of the cache was not written again: {error}");
                }
                (done, loaded.bytes())
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        drop(index);
        self.cells.weigh(cell, weight);
        done
    }

    /// Updates an index: files that were removed meanwhile are dropped from it.
    pub fn refresh(
        &self,
        cell: &GroupCell,
        index: &mut Option<Box<GroupIndex>>,
        patience: ReadMode,
    ) -> io::Result<()> {
        // Read first, so that changes during the update are applied the next time.
        let changes = self.changes.load(Ordering::Acquire);
        if let Some(loaded) = index
            && loaded.changes != changes
        {
            loaded.changes = changes;
            let books = self.books.lock();
            let Some(slot) = books.slots.get(cell.slot as usize) else { return Ok(()) };
            loaded.low = slot.marks().map_or(0, |marks| marks.value.low);
            if slot.generation != loaded.generation {
                *index = None;
            } else if slot.removals != loaded.removals {
                let mut living: Vec<u32> = Vec::new();
                let mut has_numbers = false;
                for (_, unit) in books.units_of(cell.slot) {
                    match unit.file {
                        CacheFile::Segment { seq, .. } => living.push(seq),
                        CacheFile::Numbers { .. } => has_numbers = true,
                        CacheFile::Large(_) => {}
                    }
                }
                living.sort_unstable();
                loaded.removals = slot.removals;
                drop(books);
                let known = loaded.segments().map(|(seq, _)| seq);
                for seq in known.filter(|seq| living.binary_search(seq).is_err()).collect::<Vec<_>>() {
                    loaded.remove_segment(seq);
                }
                if !has_numbers {
                    loaded.numbers = None;
                }
            }
        }
        match patience {
            ReadMode::CacheOnly if index.is_none() => return Err(io::ErrorKind::WouldBlock.into()),
            ReadMode::Wait if index.is_none() => {
                let mut loaded = Box::new(self.load(cell)?);
                loaded.changes = changes;
                *index = Some(loaded);
            }
            _ => {}
        }
        Ok(())
    }

    fn load(&self, cell: &GroupCell) -> io::Result<GroupIndex> {
        let mut loaded = GroupIndex::default();
        let mut files: Vec<(u32, CacheFile)> = Vec::new();
        {
            let books = self.books.lock();
            if let Some(slot) = books.slots.get(cell.slot as usize) {
                (loaded.generation, loaded.removals) = (slot.generation, slot.removals);
                loaded.low = slot.marks().map_or(0, |marks| marks.value.low);
            }
            files.extend(books.units_of(cell.slot).map(|(id, unit)| (id, unit.file)));
        }
        files.sort_unstable_by_key(|(_, file)| match file {
            CacheFile::Segment { seq, .. } => *seq,
            _ => u32::MAX,
        });
        for (unit, file) in files {
            match file {
                CacheFile::Segment { seq, .. } => self.load_segment(cell, &mut loaded, unit, file, seq)?,
                CacheFile::Numbers { .. } => self.load_numbers(cell, &mut loaded, unit, file)?,
                CacheFile::Large(_) => {}
            }
        }
        loaded.expire(loaded.low);
        Ok(loaded)
    }

    fn load_segment(
        &self,
        cell: &GroupCell,
        loaded: &mut GroupIndex,
        unit: u32,
        file: CacheFile,
        seq: u32,
    ) -> io::Result<()> {
        let path = file.path(&self.dir);
        let Some(bytes) = record::readable(read_small(&*self.disk, &path, FILE_BYTES_MAX))?.flatten() else {
            self.drop_damaged(unit, file);
            return Ok(());
        };
        let is_head =
            |record: &CacheRecord<'_>| record.kind == RecordKind::Head && record.payload == head(cell);
        let is_ours = record::parse(&bytes).is_some_and(|(record, _)| is_head(&record));
        let segment = GroupSegment { unit, first: 1, ..GroupSegment::default() };
        loaded.add_segment(seq, segment);
        let (end, ending) = record::scan(&bytes, |record, at| loaded.apply(&record, seq, at));
        if !is_ours || ending == RecordsEnd::Damaged {
            loaded.remove_segment(seq);
            self.drop_damaged(unit, file);
            return Ok(());
        }
        let is_cut = ending == RecordsEnd::Clean
            || self.disk.open(&path, OpenMode::Existing).and_then(|file| file.set_len(end as u64)).is_ok();
        if let Some(segment) = loaded.segment_mut(seq) {
            (segment.end, segment.is_sealed) = (end as u64, !is_cut);
            if segment.first <= segment.last {
                self.books.lock().set_last(unit, file, segment.last);
            }
        }
        Ok(())
    }

    fn load_numbers(
        &self,
        cell: &GroupCell,
        loaded: &mut GroupIndex,
        unit: u32,
        file: CacheFile,
    ) -> io::Result<()> {
        let bytes = read_small(&*self.disk, &file.path(&self.dir), FILE_BYTES_MAX);
        let bytes = record::readable(bytes)?.flatten().unwrap_or_default();
        loaded.numbers = take_numbers(&bytes, &head(cell));
        match loaded.numbers {
            Some(_) => loaded.numbers_unit = unit,
            None => self.drop_damaged(unit, file),
        }
        Ok(())
    }

    /// Saves the known numbers, in a file that is replaced as a whole.
    pub fn save_numbers(&self, cell: &GroupCell, loaded: &mut GroupIndex, now: u64) -> io::Result<()> {
        let Some(numbers) = &loaded.numbers else { return Ok(()) };
        let file = CacheFile::Numbers { key: cell.key, generation: loaded.generation };
        let bytes = put_numbers(numbers, &head(cell));
        let Some(room) = self.reserve(on_disk(bytes.len() as u64)) else { return Ok(()) };
        let path = file.path(&self.dir);
        self.prepare_file(cell.slot, &path)?;
        let new = path.with_extension("new");
        let written = self.disk.open(&new, OpenMode::Create).and_then(|made| {
            made.set_len(0)?;
            made.write_all_at(&[IoSlice::new(&bytes)], 0)?;
            self.disk.rename(&new, &path)
        });
        let known = loaded.numbers_unit;
        loaded.numbers_unit = room.settle(|books| {
            let len = bytes.len() as u64;
            match books.is_file(known, file) && books.grow(known, file, len, u64::MAX, now, now) {
                true => known,
                false => books.enter(cell.slot, file, len, now, now),
            }
        });
        written
    }

    /// Appends a record to the group's newest file, or to a new one. Returns false if there was no room for
    /// it.
    pub fn append(
        &self,
        cell: &GroupCell,
        loaded: &mut GroupIndex,
        record: &CacheRecord<'_>,
        expires: u64,
        now: u64,
    ) -> io::Result<bool> {
        if !cell.is_kept {
            return Ok(false);
        }
        if loaded.weight() > GROUP_ENTRIES_MAX
            && let Some((_, oldest)) = loaded.segments().next()
        {
            let unit = oldest.unit;
            let gone = self.books.lock().remove(unit);
            self.discard(&gone.map(|file| (unit, file)).into_iter().collect::<Vec<_>>());
        }
        match self.extend(cell, loaded, record, expires, now)? {
            Some(is_there) => Ok(is_there),
            None => self.begin(cell, loaded, record, expires, now),
        }
    }

    /// Appends a record to the newest file. Returns `None` if there is none, if the record does not fit
    /// there, or if the file was removed meanwhile.
    fn extend(
        &self,
        cell: &GroupCell,
        loaded: &mut GroupIndex,
        record: &CacheRecord<'_>,
        expires: u64,
        now: u64,
    ) -> io::Result<Option<bool>> {
        let segment_bytes = self.shape().segment_bytes;
        let fits = |segment: &GroupSegment| {
            !segment.is_sealed && segment.end + record.bytes() as u64 <= segment_bytes
        };
        let newest = loaded.newest().filter(|(_, segment)| fits(segment));
        let Some((seq, segment)) = newest else { return Ok(None) };
        let file = CacheFile::Segment { key: cell.key, generation: loaded.generation, seq };
        let mut bytes = Vec::with_capacity(record.bytes());
        record.put(&mut bytes);
        let end = segment.end + bytes.len() as u64;
        let Some(room) = self.reserve(on_disk(end) - on_disk(segment.end)) else { return Ok(Some(false)) };
        if !self.books.lock().is_file(segment.unit, file) {
            return Ok(None);
        }
        let written = self
            .open_file(segment.unit, file, ReadMode::Wait)
            .and_then(|open| open.write_all_at(&[IoSlice::new(&bytes)], segment.end));
        let last = record.last.max(record.number);
        let is_there = room.settle(|books| {
            let len = if written.is_ok() { end } else { segment.end };
            books.grow(segment.unit, file, len, last, expires, now)
        });
        let Some(kept) = loaded.segment_mut(seq) else { return Ok(None) };
        if let Err(error) = written {
            kept.is_sealed = true;
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // The file was removed by another process.
            self.drop_damaged(segment.unit, file);
            return Ok(None);
        }
        kept.end = end;
        if !is_there {
            return Ok(None);
        }
        loaded.apply(record, seq, segment.end as usize);
        Ok(Some(true))
    }

    /// Creates a file with a record.
    fn begin(
        &self,
        cell: &GroupCell,
        loaded: &mut GroupIndex,
        record: &CacheRecord<'_>,
        expires: u64,
        now: u64,
    ) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(record.bytes() + 256);
        let payload = head(cell);
        let head =
            CacheRecord { kind: RecordKind::Head, number: cell.key, last: now, id: b"", payload: &payload };
        head.put(&mut bytes);
        let at = bytes.len();
        record.put(&mut bytes);
        let Some(room) = self.reserve(on_disk(bytes.len() as u64)) else { return Ok(false) };
        let seq = {
            let mut books = self.books.lock();
            let Some(slot) = books.slots.get_mut(cell.slot as usize) else { return Ok(false) };
            slot.next_seq += 1;
            slot.next_seq - 1
        };
        let file = CacheFile::Segment { key: cell.key, generation: loaded.generation, seq };
        let path = file.path(&self.dir);
        self.prepare_file(cell.slot, &path)?;
        let written = self
            .disk
            .open(&path, OpenMode::CreateNew)
            .and_then(|made| made.write_all_at(&[IoSlice::new(&bytes)], 0));
        if let Err(error) = written {
            // The file may not have been created.
            let _gone = self.disk.remove(&path);
            return Err(error);
        }
        let end = bytes.len() as u64;
        let unit = room.settle(|books| {
            let unit = books.enter(cell.slot, file, end, expires, now);
            books.set_last(unit, file, record.last.max(record.number));
            unit
        });
        loaded.add_segment(seq, GroupSegment { unit, end, first: 1, ..GroupSegment::default() });
        loaded.apply(record, seq, at);
        Ok(true)
    }

    /// Returns the location of a record.
    pub fn located(
        &self,
        cell: &GroupCell,
        loaded: &GroupIndex,
        place: RecordPosition,
    ) -> Option<LocatedRecord> {
        let unit = loaded.segment(place.seq)?.unit;
        let file = CacheFile::Segment { key: cell.key, generation: loaded.generation, seq: place.seq };
        Some(LocatedRecord { unit, file, place })
    }

    /// Reads a record; returns `None` if it no longer exists, or is damaged, in which case its file is
    /// removed. Without patience `WouldBlock` if the disk must be waited for.
    pub fn read(&self, at: LocatedRecord, patience: ReadMode) -> io::Result<Option<ReadRecord>> {
        let mut bytes = Vec::new();
        Ok(self.read_into(at, patience, &mut bytes)?.then_some(ReadRecord { bytes }))
    }

    /// Like [`read`](Self::read), into a buffer, replacing its content; returns false if there is no record.
    pub fn read_into(&self, at: LocatedRecord, patience: ReadMode, into: &mut Vec<u8>) -> io::Result<bool> {
        // The old content is not cleared first: all of it is overwritten.
        into.resize(at.place.bytes as usize, 0);
        let mut read = |open: &Arc<dyn DiskFile>| {
            record::read_patiently(&**open, into, u64::from(at.place.at), patience)
        };
        let read = match self.files.with(at.unit, at.file, &mut read) {
            Some(done) => done,
            None => self.open_file(at.unit, at.file, patience).and_then(|open| read(&open)),
        };
        into.truncate(record::readable(read)?.unwrap_or_default());
        let is_whole = record::parse(into).is_some();
        if !is_whole {
            self.drop_damaged(at.unit, at.file);
        }
        Ok(is_whole)
    }

    /// Records the location of the article with a Message-ID.
    pub fn point(&self, cell: &Arc<GroupCell>, id: &[u8], number: u64) -> io::Result<()> {
        self.ids.add(id, ArticlePointer { key: cell.key, number })
    }
}

/// Returns the payload of the first record of each file of a group.
pub(crate) fn head(cell: &GroupCell) -> Vec<u8> {
    [cell.origin.as_bytes(), b"\0", &cell.name].concat()
}

fn put_numbers(numbers: &KnownNumbers, head: &[u8]) -> Vec<u8> {
    let mut payload = (head.len() as u16).to_le_bytes().to_vec();
    payload.extend_from_slice(head);
    payload.extend_from_slice(&numbers.at.to_le_bytes());
    numbers.runs.put(&mut payload);
    let mut bytes = Vec::new();
    let (number, last) = (numbers.first, numbers.last);
    CacheRecord { kind: RecordKind::Numbers, number, last, id: b"", payload: &payload }.put(&mut bytes);
    bytes
}

/// Parses the numbers of the group with this head.
pub(crate) fn take_numbers(bytes: &[u8], head: &[u8]) -> Option<KnownNumbers> {
    let (record, _) = record::parse(bytes)?;
    let (len, rest) = record.payload.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    let (at, mut rest) = rest.split_first_chunk::<8>()?;
    let runs = NumberRuns::take(&mut rest)?;
    let is_ours = record.kind == RecordKind::Numbers && name == head && record.number <= record.last;
    let (first, last, at) = (record.number, record.last, u64::from_le_bytes(*at));
    is_ours.then_some(KnownNumbers { first, last, at, runs })
}
