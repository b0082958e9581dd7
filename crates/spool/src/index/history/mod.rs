//! History: which Message-IDs have been seen, and where their articles are.
//!
//! A log of fixed records in arrival order and an index of it, both mapped: see `docs/formats/history.md`. A
//! fold of the journal. Look-ups take no lock and run beside the one writer. Invariants: a number below
//! `next_record` has a whole record (but for damage); a slot of the index is believed only if its record says
//! the same. Called by the commit road, by readers that look for a Message-ID, and by recovery.

mod index;
mod log;
mod old;
mod rebuild;
mod record;
mod reservation;
mod shard;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::config::HistoryShape as Shape;
use crate::base::key::Key;
use crate::base::ordered::{Ordered, rank};
use crate::base::token::Token;
use disk::Disk;
use disk::Progress;
use index::{Growth, Index, Reader};
use log::{Log, Tail};
pub(crate) use old::OldLog;
pub use record::{Checkpoint, Record};
use record::{Words, invalid_data};
pub use reservation::{Reservation, Reservations};

/// Records that can ever be numbered.
const RECORDS_MAX: u64 = (1 << shard::NUMBER_BITS) - 1;

/// What history knows about a Message-ID. Arrival times are Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    None,
    /// It was seen, but has no article: rejected, cancelled, or remembered on order.
    Remembered {
        /// When it was seen.
        arrived: u32,
    },
    /// Its article was stored here; it may have been overwritten since.
    At(Token, u32),
}

const _: () = assert!(Shape::USUAL.shard_bits <= index::SHARD_BITS_MAX);

/// The history. One writer at a time (a lock inside sees to it), any number of readers.
#[derive(Debug)]
pub struct History {
    log: Log,
    index: Index,
    first_record: AtomicU64,
    next_record: AtomicU64,
    writer: Ordered<Writer, { rank::HISTORY }>,
    /// Held while a record is written over, so that a reader that met it half-written can wait.
    replacing: Ordered<(), { rank::REPLACING }>,
    disk: Arc<dyn Disk>,
}

/// State that only inserting needs.
#[derive(Debug)]
struct Writer {
    growth: Growth,
    tail: Tail,
    /// Inserts for which [`History::reserve`] has made room in the index.
    reserved: usize,
}

impl History {
    /// Opens the history in `dir`, making what is missing. Records from `from.next_record` on are forgotten:
    /// the replay of the journal inserts them again.
    ///
    /// # Errors
    /// `InvalidData` if part of the log is missing: then the caller empties the directory and builds the
    /// history again. Else what the disk says.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        from: Checkpoint,
        progress: &dyn Progress,
        shape: Shape,
    ) -> io::Result<Self> {
        if from.first_record > from.next_record || from.next_record > RECORDS_MAX {
            return Err(invalid_data("the history's checkpoint is not possible"));
        }
        disk.create_dir(dir)?;
        let log = Log::open(disk.clone(), dir, shape.segment_bits, from)?;
        let living = from.first_record..from.next_record;
        let loaded = Growth::load(&disk, dir, shape.shard_bits)?;
        // For an empty history an old index would only be full of forgotten records.
        let loaded = loaded.filter(|(index, growth)| {
            !living.is_empty() && rebuild::goes_with(index, &log, &living) && !growth.has_lost_pages()
        });
        let (index, growth) = match loaded {
            Some(loaded) => loaded,
            None => {
                let (index, mut growth) =
                    Growth::make(&disk, dir, shape.shard_bits, living.end - living.start)?;
                if !rebuild::fill(&index, &log, &living, progress) {
                    return Err(invalid_data("the history log does not fit into its index"));
                }
                growth.complete();
                (index, growth)
            }
        };
        Ok(Self {
            log,
            index,
            first_record: AtomicU64::new(living.start),
            next_record: AtomicU64::new(living.end),
            writer: Ordered::new(Writer { growth, tail: Tail::default(), reserved: 0 }),
            replacing: Ordered::new(()),
            disk,
        })
    }

    /// Removes the index of the history in `dir`, of which pages may be lost, so that [`History::open`]
    /// builds it again.
    ///
    /// # Errors
    /// What the disk says.
    pub fn remove_index(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        index::remove_files(disk, dir)
    }

    fn living(&self) -> Range<u64> {
        self.first_record.load(Ordering::Acquire)..self.next_record.load(Ordering::Acquire)
    }

    /// What is known of a Message-ID.
    pub fn lookup(&self, key: &Key) -> Found {
        let living = self.living();
        // An index without records need not be in memory.
        if living.is_empty() {
            return Found::None;
        }
        self.look_up(key, &living, &mut self.index.reader(), |number| self.log.read(number))
    }

    /// What is known of many. They are fetched together, so that the processor waits for memory once and not
    /// for each.
    pub fn lookup_all(&self, keys: &[Key], found: &mut Vec<Found>) {
        let (living, mut index, log) = (self.living(), self.index.reader(), self.log.load());
        touch(keys, &living, &mut index, |number| log.read(number));
        found
            .extend(keys.iter().map(|key| self.look_up(key, &living, &mut index, |number| log.read(number))));
    }

    /// The number of the record that will be written next.
    pub fn next_record(&self) -> u64 {
        self.next_record.load(Ordering::Acquire)
    }

    /// Whether a Message-ID has a record of this number or a later one.
    pub fn is_known_since(&self, key: &Key, number: u64) -> bool {
        let living = number..self.next_record();
        !living.is_empty()
            && self.look_up(key, &living, &mut self.index.reader(), |number| self.log.read(number))
                != Found::None
    }

    fn look_up(
        &self,
        key: &Key,
        living: &Range<u64>,
        index: &mut Reader<'_>,
        read: impl Fn(u64) -> Option<Words>,
    ) -> Found {
        match index.find(key, living, |number| self.record_of(key, number, &read)) {
            None => Found::None,
            Some(Record { token: None, arrived, .. }) => Found::Remembered { arrived },
            Some(Record { token: Some(token), arrived, .. }) => Found::At(token, arrived),
        }
    }

    /// To be called before something is done for each of these keys: as [`History::lookup_all`] fetches what
    /// that will read.
    pub fn touch(&self, keys: &[Key]) {
        touch(keys, &self.living(), &mut self.index.reader(), |number| self.log.read(number));
    }

    /// The record at `number`, if it is one of `key` and whole.
    fn record_of(&self, key: &Key, number: u64, read: impl Fn(u64) -> Option<Words>) -> Option<Record> {
        let words = read(number).filter(|words| record::raw_key_bits(words) == record::key_bits(key))?;
        record::decode(&words, number).or_else(|| {
            // Damaged, or being written over just now.
            let _whole = self.replacing.lock();
            record::decode(&read(number)?, number)
        })
    }

    /// Enters a Message-ID that is not in the history, with its token or, without, as remembered. Gives the
    /// record's number.
    ///
    /// # Errors
    /// The disk's error when a file had to grow; then nothing was entered.
    pub fn insert(&self, key: Key, token: Option<Token>, arrived: u32) -> io::Result<u64> {
        let mut writer = self.writer.lock();
        let Writer { growth, tail, reserved } = &mut *writer;
        let living = self.living();
        let number = living.end;
        if number >= RECORDS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the history has used up its record numbers",
            ));
        }
        self.log.make_room(number, tail)?;
        match reserved.checked_sub(1) {
            Some(rest) => *reserved = rest,
            None => growth.make_room(&self.index, &key, &living)?,
        }
        if !self.log.write_next(number, &record::encode(&key, token, arrived, number), tail) {
            return Err(invalid_data("the history log has no place for its next record"));
        }
        // A stale slot may name this number already: the record comes first, then the bound, then the slot.
        self.next_record.store(number + 1, Ordering::Release);
        if !growth.insert(&self.index, &key, number, &living) {
            return Err(invalid_data("a shard of the history index is full"));
        }
        Ok(number)
    }

    /// Makes room for the entries of these keys, which are the next to be inserted, so that none of the
    /// inserts meets a full disk. If they will not come: [`History::release`].
    ///
    /// # Errors
    /// The disk's error when a file had to grow; then no room is reserved.
    pub fn reserve(&self, keys: impl ExactSizeIterator<Item = Key>) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let Writer { growth, tail, reserved } = &mut *writer;
        let (living, count) = (self.living(), keys.len());
        self.log.make_room(living.end, tail)?;
        self.log.make_room_to((living.end + count as u64).min(RECORDS_MAX).saturating_sub(1))?;
        for key in keys {
            if let Err(e) = growth.make_room(&self.index, &key, &living) {
                growth.release();
                return Err(e);
            }
        }
        *reserved = count;
        Ok(())
    }

    /// The entries for which room was made last will not come.
    pub fn release(&self) {
        let mut writer = self.writer.lock();
        writer.reserved = 0;
        writer.growth.release();
    }

    /// Writes a new token (or none: remembered) over the entry of a Message-ID, which keeps its arrival time.
    /// False if it is unknown.
    pub fn replace(&self, key: &Key, token: Option<Token>) -> bool {
        let _writer = self.writer.lock();
        let bits = record::key_bits(key);
        let found = self.index.reader().find(key, &self.living(), |number| {
            let words = self.log.read(number).filter(|words| record::raw_key_bits(words) == bits)?;
            Some((number, record::raw_arrived(&words)))
        });
        let Some((number, arrived)) = found else { return false };
        let _replacing = self.replacing.lock();
        self.log.write_over(number, &record::encode(key, token, arrived, number))
    }

    /// Writes an empty entry over that of a Message-ID. False if it is unknown.
    pub fn forget(&self, key: &Key) -> bool {
        let _writer = self.writer.lock();
        let bits = record::key_bits(key);
        let found = self.index.reader().find(key, &self.living(), |number| {
            let words = self.log.read(number).filter(|words| record::raw_key_bits(words) == bits)?;
            Some((number, record::raw_arrived(&words)))
        });
        let Some((number, arrived)) = found else { return false };
        let _replacing = self.replacing.lock();
        self.log.write_over(number, &record::encode(&Key(0), None, arrived, number))
    }

    /// Enters a record into the index that has no slot there. False if there is no room.
    pub fn enter_index(&self, key: &Key, number: u64) -> bool {
        let mut writer = self.writer.lock();
        let living = self.living();
        let found = self.index.reader().find(key, &living, |candidate| (candidate == number).then_some(()));
        found.is_some() || writer.growth.insert(&self.index, key, number, &living)
    }

    /// Writes an empty entry over a damaged record: one of a key that no Message-ID has, remembered as of the
    /// record before.
    ///
    /// # Errors
    /// If there is no such record.
    pub fn empty(&self, number: u64) -> io::Result<()> {
        let _writer = self.writer.lock();
        let living = self.living();
        let words = self.log.read(number).filter(|_| living.contains(&number));
        let words = words.ok_or_else(|| invalid_data("there is no such history record"))?;
        if record::decode(&words, number).is_some() {
            return Ok(());
        }
        let neighbour = number.checked_sub(1).filter(|n| living.contains(n)).unwrap_or(number + 1);
        let arrived = self.log.read(neighbour).map_or(0, |words| record::raw_arrived(&words));
        let _replacing = self.replacing.lock();
        if self.log.write_over(number, &record::encode(&Key(0), None, arrived, number)) {
            return Ok(());
        }
        Err(invalid_data("the history log has no place for this record"))
    }

    /// Which records there are now. For a durable checkpoint: take it, then [`History::sync`], then store it.
    pub fn checkpoint(&self) -> Checkpoint {
        // Without the lock, a record could be counted whose slot is not there yet.
        let _writer = self.writer.lock();
        let living = self.living();
        Checkpoint { first_record: living.start, next_record: living.end }
    }

    /// Makes all that was inserted and replaced before the call durable, without holding up the writer. Also
    /// makes the next file of the log when the present one is nearly full, so that no insert has to.
    ///
    /// # Errors
    /// What the disk says; what was not synced stays marked so.
    pub fn sync(&self) -> io::Result<()> {
        if let Some(segment) = self.log.make_next(self.living().end)? {
            let _writer = self.writer.lock();
            self.log.add(segment);
        }
        self.log.sync()
    }

    /// Forgets all records below `first_live_record` and removes the files of the log that hold no others.
    /// Not beyond the `next_record` of the checkpoint stored last: files that a checkpoint's newest records
    /// are in must not go.
    ///
    /// # Errors
    /// What the disk says as a file is removed; the records are forgotten all the same.
    pub fn expire_before(&self, first_live_record: u64) -> io::Result<()> {
        let old = {
            let _writer = self.writer.lock();
            let living = self.living();
            let first = first_live_record.clamp(living.start, living.end);
            self.first_record.store(first, Ordering::Release);
            self.log.drop_before(first)
        };
        old.iter().try_for_each(|path| self.disk.remove(path))
    }

    /// The first record that arrived at or after `arrived`; arrivals are taken to ascend. The next record's
    /// number if there is none.
    pub fn first_since(&self, arrived: u32) -> u64 {
        let Range { mut start, mut end } = self.living();
        while start < end {
            let middle = start + (end - start) / 2;
            if self.log.read(middle).is_some_and(|words| record::raw_arrived(&words) < arrived) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }

    /// Arrival of the newest record; 0 without records.
    pub fn last_arrival(&self) -> u32 {
        let Range { start, end } = self.living();
        let newest =
            end.checked_sub(1).filter(|number| *number >= start).and_then(|number| self.log.read(number));
        newest.map_or(0, |words| record::raw_arrived(&words))
    }

    /// The first record below `before` whose article `is_alive` says yes to; `before` if there is none.
    pub fn first_living(&self, before: u64, is_alive: &dyn Fn(&Token) -> bool) -> u64 {
        let living = self.living();
        let segments = self.log.snapshot();
        let alive = |number: &u64| {
            let record = segments.read(*number).and_then(|words| record::decode(&words, *number));
            record.and_then(|record| record.token).is_some_and(|token| is_alive(&token))
        };
        (living.start..before.min(living.end)).find(alive).unwrap_or(before)
    }

    /// Number of living entries.
    pub fn entries(&self) -> u64 {
        let living = self.living();
        living.end - living.start
    }

    /// Visits all living records from number `from` on, in order: number, and the record or `None` if it is
    /// damaged.
    pub fn for_each(&self, from: u64, visit: &mut dyn FnMut(u64, Option<Record>)) {
        let living = self.living();
        let segments = self.log.snapshot();
        for number in from.max(living.start)..living.end {
            visit(number, segments.read(number).and_then(|words| record::decode(&words, number)));
        }
    }

    /// True if a look-up of this record's key passes it. For verify.
    pub fn is_indexed(&self, number: u64, record: &Record) -> bool {
        let here = |candidate| (candidate == number).then_some(());
        // An entry that was emptied needs no slot.
        record.key_bits == 0
            || self.index.reader().find(&Key(record.key_bits), &self.living(), here).is_some()
    }

    /// Calls `found` with each word of the index that is damaged: which one, for [`History::mend_index`].
    pub fn check_index(&self, found: &mut dyn FnMut((usize, usize))) {
        let segments = self.log.snapshot();
        let mut place = |number| self.place_of(&segments, number);
        self.index.reader().check(&self.living(), &mut place, &mut |shard, at| found((shard, at)));
    }

    /// Where a record's slot belongs; `None` if it needs none, or is damaged itself.
    fn place_of(&self, segments: &log::Segments, number: u64) -> Option<(usize, u32)> {
        let record = record::decode(&segments.read(number)?, number).filter(|r| r.key_bits != 0)?;
        Some(self.index.place(&Key(record.key_bits)))
    }

    /// Mends a word of the index.
    pub fn mend_index(&self, word: (usize, usize)) {
        let _writer = self.writer.lock();
        let segments = self.log.snapshot();
        self.index.reader().mend(word, &self.living(), &mut |number| self.place_of(&segments, number));
    }

    /// Makes good the pages of log and index that could not be read; returns how many there were. Records
    /// that lay there are as damaged as if they had rotted; slots of the others are found again.
    ///
    /// # Errors
    /// If a page cannot be written either.
    pub fn mend_lost_pages(&self) -> io::Result<u64> {
        let mut writer = self.writer.lock();
        let in_log = self.log.mend_lost_pages()?;
        let (in_index, shards) = writer.growth.restore_lost_pages(&self.index)?;
        if shards.is_empty() {
            return Ok(in_log + in_index);
        }
        let (living, segments) = (self.living(), self.log.snapshot());
        let mut reader = self.index.reader();
        for number in living.clone() {
            let key = segments.read(number).map(|words| Key(record::raw_key_bits(&words)));
            let Some(key) = key.filter(|key| shards.contains(&self.index.place(key).0)) else { continue };
            let is_there =
                reader.find(&key, &living, |candidate| (candidate == number).then_some(())).is_some();
            if !is_there && !writer.growth.insert(&self.index, &key, number, &living) {
                return Err(invalid_data("a shard of the history index is full"));
            }
        }
        Ok(in_log + in_index)
    }

    /// Reads all that is mapped, so that pages that cannot be read are known.
    pub fn touch_maps(&self) {
        self.log.touch_maps();
        self.writer.lock().growth.touch_maps();
    }

    /// Bytes of the log's files.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Bytes of the index's files. They are mapped: this is what should be in memory for quick look-ups.
    pub fn index_bytes(&self) -> u64 {
        self.writer.lock().growth.bytes()
    }
}

/// Brings what look-ups of these keys will read into the processor's cache: the buckets of all, then the
/// records.
fn touch(keys: &[Key], living: &Range<u64>, index: &mut Reader<'_>, read: impl Fn(u64) -> Option<Words>) {
    let buckets = keys.iter().fold(0, |sum, key| sum ^ index.touch(key));
    let first_word = |number| read(number).map(|words| words[0]);
    let records = keys.iter().fold(0, |sum, key| sum ^ index.find(key, living, first_word).unwrap_or(0));
    std::hint::black_box(buckets ^ records);
}
