//! The history log: fixed records in segment files, mapped; layout in `docs/formats/history.md`.
//!
//! Readers take no lock. Writing, adding and dropping segments is done under the history's writer lock;
//! syncing is not. Invariant: the segments held follow each other without a gap.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::record::{RECORD_BYTES, RECORD_WORDS, RecordRange, RecordWords, invalid_data};
use disk::{Disk, DiskFile, Mapping, OpenMode, touch};

const SUFFIX: &str = ".ring";
const NAME_DIGITS: usize = 10;

/// One file of the log.
#[derive(Debug)]
pub(super) struct LogSegment {
    number: u64,
    file: Arc<dyn DiskFile>,
    map: Arc<dyn Mapping>,
    unsynced: AtomicBool,
}

/// The segment that the next record is written to; kept by the writer.
#[derive(Debug, Default)]
pub(super) struct LogTail {
    segment: Option<Arc<LogSegment>>,
}

/// All segments, ascending.
#[derive(Debug, Default)]
pub(super) struct LogSegments {
    list: Vec<Arc<LogSegment>>,
    segment_bits: u32,
}

/// The log.
#[derive(Debug)]
pub(super) struct HistoryLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// log2 of the records in a segment.
    segment_bits: u32,
    segments: ArcSwap<LogSegments>,
    names_unsynced: AtomicBool,
}

impl HistoryLog {
    /// Opens the segments that hold records of `from` and removes older ones.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, segment_bits: u32, from: RecordRange) -> io::Result<Self> {
        let mut present: Vec<u64> = disk.list(dir)?.iter().filter_map(|name| segment_number(name)).collect();
        present.sort_unstable();
        let log = Self {
            disk,
            dir: dir.to_path_buf(),
            segment_bits,
            segments: ArcSwap::from_pointee(LogSegments { list: Vec::new(), segment_bits }),
            names_unsynced: AtomicBool::new(false),
        };
        for &old in present.iter().filter(|&&s| (s + 1) << segment_bits <= from.first_record) {
            log.disk.remove(&log.path(old))?;
        }
        let first_wanted = from.first_record >> segment_bits;
        let end_wanted = from.next_record.div_ceil(1 << segment_bits);
        let wanted: Vec<u64> =
            present.into_iter().filter(|s| (first_wanted..end_wanted).contains(s)).collect();
        if from.first_record < from.next_record && !(first_wanted..end_wanted).eq(wanted.iter().copied()) {
            let missing = (first_wanted..end_wanted).find(|s| !wanted.contains(s)).unwrap_or(first_wanted);
            return Err(log.damaged(missing, "is missing"));
        }
        let mut list = Vec::with_capacity(wanted.len());
        for number in wanted {
            list.push(Arc::new(log.open_segment(number, from.next_record)?));
        }
        log.segments.store(Arc::new(LogSegments { list, segment_bits }));
        Ok(log)
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("{segment:0NAME_DIGITS$}{SUFFIX}"))
    }

    fn segment_bytes(&self) -> u64 {
        RECORD_BYTES << self.segment_bits
    }

    fn damaged(&self, segment: u64, what: &str) -> io::Error {
        invalid_data(&format!("history file {} {what}; rebuild the history", self.path(segment).display()))
    }

    fn open_segment(&self, number: u64, next_record: u64) -> io::Result<LogSegment> {
        let file = self.disk.open(&self.path(number), OpenMode::Existing)?;
        let used = next_record.saturating_sub(number << self.segment_bits).saturating_mul(RECORD_BYTES);
        if file.len()? < used.min(self.segment_bytes()) {
            return Err(self.damaged(number, "is too short"));
        }
        self.map_segment(number, file)
    }

    fn map_segment(&self, number: u64, file: Arc<dyn DiskFile>) -> io::Result<LogSegment> {
        // Needed for an existing file too: a crash may have separated its creation from its allocation.
        file.allocate(self.segment_bytes())?;
        let map = file.map_words(0, RECORD_WORDS << self.segment_bits)?;
        Ok(LogSegment { number, file, map, unsynced: AtomicBool::new(true) })
    }

    /// Ensures that record `number`, the next one, has a place in the segment in `tail`. Under the writer
    /// lock.
    pub fn make_room(&self, number: u64, tail: &mut LogTail) -> io::Result<()> {
        let wanted = number >> self.segment_bits;
        if tail.segment.as_ref().is_some_and(|segment| segment.number == wanted) {
            return Ok(());
        }
        if self.segments.load().list.last().is_none_or(|last| last.number < wanted) {
            self.add(self.make_segment(wanted)?);
        }
        tail.segment = self.segments.load().list.iter().find(|segment| segment.number == wanted).cloned();
        Ok(())
    }

    /// Ensures that there are segments up to record `number`. Under the writer lock.
    pub fn make_room_to(&self, number: u64) -> io::Result<()> {
        while let Some(next) = self.segments.load().list.last().map(|last| last.number + 1)
            && next <= number >> self.segment_bits
        {
            self.add(self.make_segment(next)?);
        }
        Ok(())
    }

    /// Creates, without the writer lock, the segment that will soon be needed; pass it to
    /// [`HistoryLog::add`].
    pub fn make_next(&self, next_record: u64) -> io::Result<Option<Arc<LogSegment>>> {
        let soon = (next_record + (1 << self.segment_bits) / 4) >> self.segment_bits;
        let held = self.segments.load().list.last().is_none_or(|last| last.number >= soon);
        if held { Ok(None) } else { self.make_segment(soon).map(Some) }
    }

    fn make_segment(&self, number: u64) -> io::Result<Arc<LogSegment>> {
        let file = self.disk.open(&self.path(number), OpenMode::Create)?;
        self.names_unsynced.store(true, Ordering::Release);
        self.map_segment(number, file).map(Arc::new)
    }

    /// Adds a segment if it is the next one. Under the writer lock.
    pub fn add(&self, segment: Arc<LogSegment>) {
        let held = self.segments.load();
        if held.list.last().is_none_or(|last| last.number + 1 == segment.number) {
            let mut list = held.list.clone();
            list.push(segment);
            self.segments.store(Arc::new(LogSegments { list, segment_bits: self.segment_bits }));
        }
    }

    /// Drops all segments that end at or before `first_record`. Under the writer lock. Returns their paths,
    /// to be removed after releasing it.
    pub fn drop_before(&self, first_record: u64) -> Vec<PathBuf> {
        let held = self.segments.load();
        let (old, list): (Vec<_>, Vec<_>) =
            held.list.iter().cloned().partition(|s| (s.number + 1) << self.segment_bits <= first_record);
        if !old.is_empty() {
            self.segments.store(Arc::new(LogSegments { list, segment_bits: self.segment_bits }));
        }
        old.iter().map(|s| self.path(s.number)).collect()
    }

    /// Returns the words of a record; `None` if no segment has it.
    pub fn read(&self, number: u64) -> Option<RecordWords> {
        self.segments.load().read(number)
    }

    /// Returns the current segments, for reading many records; not to be kept.
    pub fn load(&self) -> Guard<Arc<LogSegments>> {
        self.segments.load()
    }

    /// Returns the current segments, to be kept as long as needed.
    pub fn snapshot(&self) -> Arc<LogSegments> {
        self.segments.load_full()
    }

    /// Stores the record for which space was made last. Under the writer lock. Returns false if there is
    /// none.
    pub fn write_next(&self, number: u64, record: &RecordWords, tail: &LogTail) -> bool {
        tail.segment.as_ref().is_some_and(|segment| segment.store(number, self.segment_bits, record))
    }

    /// Overwrites an existing record. Under the writer lock. Returns false if no segment has its place.
    pub fn write_over(&self, number: u64, record: &RecordWords) -> bool {
        let segments = self.segments.load();
        segments.segment(number).is_some_and(|segment| segment.store(number, self.segment_bits, record))
    }

    /// Writes the lost pages as they are in memory now; returns how many there were. Under the writer lock.
    pub fn mend_lost_pages(&self) -> io::Result<u64> {
        let mut pages = 0;
        for segment in &self.segments.load().list {
            let lost = segment.map.lost().len() as u64;
            if lost > 0 {
                segment.map.restore()?;
                segment.unsynced.store(true, Ordering::Release);
            }
            pages += lost;
        }
        Ok(pages)
    }

    /// Reads all records.
    pub fn touch_maps(&self) {
        self.segments.load().list.iter().for_each(|segment| touch(&*segment.map));
    }

    /// Makes all records stored before the call durable.
    pub fn sync(&self) -> io::Result<()> {
        for segment in &self.segments.load().list {
            if segment.unsynced.swap(false, Ordering::AcqRel)
                && let Err(e) = segment.file.sync()
            {
                segment.unsynced.store(true, Ordering::Release);
                return Err(e);
            }
        }
        if self.names_unsynced.swap(false, Ordering::AcqRel)
            && let Err(e) = self.disk.sync_dir(&self.dir)
        {
            self.names_unsynced.store(true, Ordering::Release);
            return Err(e);
        }
        Ok(())
    }

    /// Returns the total size of all segment files in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.load().list.len() as u64 * self.segment_bytes()
    }
}

impl LogSegment {
    fn words(&self, number: u64, segment_bits: u32) -> Option<&[AtomicU64]> {
        let at = number.checked_sub(self.number << segment_bits)? as usize * RECORD_WORDS;
        self.map.words().get(at..at + RECORD_WORDS)
    }

    /// Stores a record, word by word; returns false if its place is not here.
    fn store(&self, number: u64, segment_bits: u32, record: &RecordWords) -> bool {
        let Some(words) = self.words(number, segment_bits) else { return false };
        for (to, word) in words.iter().zip(record) {
            to.store(word.to_le(), Ordering::Relaxed);
        }
        // Set always, and after the words: a sync that misses this store has left the flag set for the next
        // one.
        self.unsynced.store(true, Ordering::Release);
        true
    }
}

impl LogSegments {
    fn segment(&self, number: u64) -> Option<&LogSegment> {
        let first = self.list.first()?.number;
        let at = usize::try_from((number >> self.segment_bits).checked_sub(first)?).ok()?;
        self.list.get(at).map(|segment| &**segment)
    }

    /// Returns the words of a record; `None` if no segment has it.
    pub fn read(&self, number: u64) -> Option<RecordWords> {
        let words = self.segment(number)?.words(number, self.segment_bits)?;
        let mut record = [0; RECORD_WORDS];
        for (word, from) in record.iter_mut().zip(words) {
            *word = u64::from_le(from.load(Ordering::Relaxed));
        }
        Some(record)
    }
}

/// Returns the number in a segment's file name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    if digits.len() != NAME_DIGITS { None } else { digits.parse().ok() }
}
