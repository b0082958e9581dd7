//! History: the Message-IDs that have been seen, and the locations of their articles.
//!
//! A log of fixed records in arrival order and an index of it, both mapped: see `docs/formats/history.md`. A
//! fold of the journal. Look-ups take no lock and run concurrently with the only writer. Invariants: a number
//! below `next_record` has a whole record (except for damage); a slot of the index is believed only if its
//! record agrees. Used by the commit, by readers that look for a Message-ID, and by recovery.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod gathered;
mod hold;
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

use disk::Disk;
use disk::Progress;
pub use hold::HistoryHold;
use index::{HistoryIndex, IndexGrowth, IndexReader};
use log::{HistoryLog, LogTail};
pub use old::OldLog;
pub use record::{HistoryRecord, RecordRange};
use record::{RecordWords, invalid_data};
pub use reservation::{Reservation, Reservations};
use spool_base::config::HistoryShape as Shape;
use spool_base::digest::{SetSum, of_id};
use spool_base::key::ArticleKey;
use spool_base::ordered::{Ordered, rank};
use spool_base::token::Token;

/// Seconds by which arrivals of neighbours in history may differ from their order.
const ARRIVALS_SLACK: u32 = 5;
/// Maximum number of records that can ever be numbered.
const RECORDS_MAX: u64 = (1 << shard::NUMBER_BITS) - 1;

/// Result of a look-up in the history. Arrival times are Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryLookup {
    /// The Message-ID is unknown.
    None,
    /// The Message-ID was seen, but has no article: rejected, cancelled, or remembered on request.
    Remembered {
        /// Time of arrival.
        arrived: u32,
    },
    /// The article was stored here; it may have been overwritten since.
    At(Token, u32),
}

const _: () = assert!(Shape::USUAL.shard_bits <= index::SHARD_BITS_MAX);

/// The history. One writer at a time (enforced by a lock inside), any number of readers.
#[derive(Debug)]
pub struct History {
    log: HistoryLog,
    index: HistoryIndex,
    /// First record in the log.
    first_record: AtomicU64,
    /// First record that is not forgotten.
    first_known: AtomicU64,
    next_record: AtomicU64,
    writer: Ordered<HistoryWriter, { rank::HISTORY }>,
    /// Held while a record is overwritten, so that a reader that found it half-written can wait.
    replacing: Ordered<(), { rank::REPLACING }>,
    disk: Arc<dyn Disk>,
}

/// State needed for inserting only.
#[derive(Debug)]
struct HistoryWriter {
    growth: IndexGrowth,
    tail: LogTail,
    /// Inserts for which [`History::reserve`] has made space in the index.
    reserved: usize,
    /// Sum of the Message-IDs that are not forgotten.
    sum: SetSum,
    /// First record of each [`HistoryHold`].
    held: Vec<u64>,
}

impl History {
    /// Opens the history in `dir`, creating missing files. Records from `from.next_record` on are forgotten:
    /// the replay of the journal inserts them again.
    ///
    /// # Errors
    /// `InvalidData` if part of the log is missing: then the caller empties the directory and rebuilds the
    /// history. Otherwise the error of the disk.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        from: RecordRange,
        progress: &dyn Progress,
        shape: Shape,
    ) -> io::Result<Self> {
        if from.first_record > from.next_record || from.next_record > RECORDS_MAX {
            return Err(invalid_data("the history's checkpoint is not possible"));
        }
        disk.create_dir(dir)?;
        let log = HistoryLog::open(disk.clone(), dir, shape.segment_bits, from)?;
        let living = from.first_record..from.next_record;
        let loaded = IndexGrowth::load(&disk, dir, shape)?;
        // For an empty history, an old index would only be full of forgotten records.
        let mut loaded = loaded.filter(|_| !living.is_empty());
        loaded = loaded.and_then(|(index, mut growth)| {
            // Slots of the newest records may have been in memory only.
            let missing = growth.missing().unwrap_or(living.end).clamp(living.start, living.end);
            let is_right = rebuild::goes_with(&index, &log, &(living.start..missing))
                && !growth.has_lost_pages()
                && rebuild::fill_rest(&index, &log, &living, missing);
            growth.set_missing(None);
            is_right.then_some((index, growth))
        });
        let (index, growth) = match loaded {
            Some(loaded) => loaded,
            None => {
                let (index, mut growth) = IndexGrowth::make(&disk, dir, shape, living.end - living.start)?;
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
            first_known: AtomicU64::new(living.start),
            next_record: AtomicU64::new(living.end),
            writer: Ordered::new(HistoryWriter {
                growth,
                tail: LogTail::default(),
                reserved: 0,
                sum: SetSum::default(),
                held: Vec::new(),
            }),
            replacing: Ordered::new(()),
            disk,
        })
    }

    /// Removes the index of the history in `dir`, which may have lost pages, so that [`History::open`] builds
    /// it again.
    ///
    /// # Errors
    /// Any error of the disk.
    pub fn remove_index(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        index::remove_files(disk, dir)
    }

    fn living(&self) -> Range<u64> {
        self.first_record.load(Ordering::Acquire)..self.next_record.load(Ordering::Acquire)
    }

    /// Returns the records that are not forgotten.
    fn known(&self) -> Range<u64> {
        self.first_known.load(Ordering::Acquire)..self.next_record.load(Ordering::Acquire)
    }

    /// Looks up a Message-ID.
    pub fn lookup(&self, key: &ArticleKey) -> HistoryLookup {
        let living = self.known();
        // An index without records need not be in memory.
        if living.is_empty() {
            return HistoryLookup::None;
        }
        self.look_up(key, &living, &mut self.index.reader(), |number| self.log.read(number))
    }

    /// Looks up many Message-IDs. They are fetched together, so that the processor waits for memory once and
    /// not for each.
    pub fn lookup_all(&self, keys: &[ArticleKey], found: &mut Vec<HistoryLookup>) {
        let (living, mut index, log) = (self.known(), self.index.reader(), self.log.load());
        touch(keys, &living, &mut index, |number| log.read(number));
        found
            .extend(keys.iter().map(|key| self.look_up(key, &living, &mut index, |number| log.read(number))));
    }

    /// Returns the number of the record that will be written next.
    pub fn next_record(&self) -> u64 {
        self.next_record.load(Ordering::Acquire)
    }

    /// Reports whether a Message-ID has a record of this number or a later one.
    pub fn is_known_since(&self, key: &ArticleKey, number: u64) -> bool {
        let living = number..self.next_record();
        !living.is_empty()
            && self.look_up(key, &living, &mut self.index.reader(), |number| self.log.read(number))
                != HistoryLookup::None
    }

    fn look_up(
        &self,
        key: &ArticleKey,
        living: &Range<u64>,
        index: &mut IndexReader<'_>,
        read: impl Fn(u64) -> Option<RecordWords>,
    ) -> HistoryLookup {
        match index.find(key, living, |number| self.record_of(key, number, &read)) {
            None => HistoryLookup::None,
            Some(HistoryRecord { token: None, arrived, .. }) => HistoryLookup::Remembered { arrived },
            Some(HistoryRecord { token: Some(token), arrived, .. }) => HistoryLookup::At(token, arrived),
        }
    }

    /// Prefetches the memory that an operation on these keys will read, as [`History::lookup_all`] does.
    pub fn touch(&self, keys: &[ArticleKey]) {
        touch(keys, &self.known(), &mut self.index.reader(), |number| self.log.read(number));
    }

    /// Returns the record at `number`, if it belongs to `key` and is whole.
    fn record_of(
        &self,
        key: &ArticleKey,
        number: u64,
        read: impl Fn(u64) -> Option<RecordWords>,
    ) -> Option<HistoryRecord> {
        let words = read(number).filter(|words| record::raw_key_bits(words) == record::key_bits(key))?;
        self.decode(&words, number, read)
    }

    /// Decodes a record; one that is not whole is damaged, or just being overwritten, and is read again.
    fn decode(
        &self,
        words: &RecordWords,
        number: u64,
        read: impl Fn(u64) -> Option<RecordWords>,
    ) -> Option<HistoryRecord> {
        record::decode(words, number).or_else(|| {
            let _whole = self.replacing.lock();
            record::decode(&read(number)?, number)
        })
    }

    /// Inserts a Message-ID that is not in the history, with its token or, without one, as remembered; that
    /// one may have arrived before the newest record. Returns the record's number.
    ///
    /// # Errors
    /// The disk's error when a file had to grow; then nothing was inserted.
    pub fn insert(&self, key: ArticleKey, token: Option<Token>, arrived: u32) -> io::Result<u64> {
        let mut writer = self.writer.lock();
        let HistoryWriter { growth, tail, reserved, sum, .. } = &mut *writer;
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
        let new = match token {
            Some(_) => record::encode(&key, token, arrived, number),
            None => record::encode_remembered(&key, arrived, self.last_arrival(), false, number),
        };
        if !self.log.write_next(number, &new, tail) {
            return Err(invalid_data("the history log has no place for its next record"));
        }
        // A stale slot may hold this number already: the record comes first, then the bound, then the slot.
        self.next_record.store(number + 1, Ordering::Release);
        sum.add(of_id(key));
        if !growth.insert(&self.index, &key, number, &living) {
            return Err(invalid_data("a shard of the history index is full"));
        }
        Ok(number)
    }

    /// Makes space for the entries of these keys, which are the next to be inserted, so that none of the
    /// inserts fails on a full disk. [`History::release`] undoes it if they are not inserted.
    ///
    /// # Errors
    /// The disk's error when a file had to grow; then no space is reserved.
    pub fn reserve(&self, keys: impl ExactSizeIterator<Item = ArticleKey>) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let HistoryWriter { growth, tail, reserved, .. } = &mut *writer;
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

    /// Cancels the inserts for which space was made last.
    pub fn release(&self) {
        let mut writer = self.writer.lock();
        writer.reserved = 0;
        writer.growth.release();
    }

    /// Overwrites the token of a Message-ID's entry, which keeps its arrival time; without one, it is
    /// remembered, as its article was withdrawn or has expired. Returns false if the Message-ID is unknown.
    pub fn replace(&self, key: &ArticleKey, token: Option<Token>) -> bool {
        let _writer = self.writer.lock();
        let bits = record::key_bits(key);
        let found = self.index.reader().find(key, &self.known(), |number| {
            let words = self.log.read(number).filter(|words| record::raw_key_bits(words) == bits)?;
            Some((number, words))
        });
        let Some((number, words)) = found else { return false };
        let in_order = record::raw_arrived(&words);
        let arrived = record::decode(&words, number).map_or(in_order, |record| record.arrived);
        let _replacing = self.replacing.lock();
        let new = match token {
            Some(_) => record::encode(key, token, arrived, number),
            None => record::encode_remembered(key, arrived, in_order, true, number),
        };
        self.log.write_over(number, &new)
    }

    /// Reports whether a Message-ID is remembered since this time, and never had an article.
    pub fn is_without_article(&self, key: &ArticleKey, arrived: u32) -> bool {
        let read = |number| self.log.read(number);
        let found = self.index.reader().find(key, &self.known(), |number| self.record_of(key, number, read));
        found.is_some_and(|found| found.token.is_none() && !found.had_article && found.arrived == arrived)
    }

    /// Forgets a Message-ID that is known without an article, and overwrites its entry with an empty one. In
    /// a replay the entry may be empty already.
    pub fn forget(&self, key: &ArticleKey) {
        let mut writer = self.writer.lock();
        writer.sum.take(of_id(*key));
        let bits = record::key_bits(key);
        let found = self.index.reader().find(key, &self.known(), |number| {
            let words = self.log.read(number).filter(|words| record::raw_key_bits(words) == bits)?;
            let record = record::decode(&words, number)?;
            record.token.is_none().then_some((number, record::raw_arrived(&words)))
        });
        let Some((number, arrived)) = found else { return };
        let _replacing = self.replacing.lock();
        self.log.write_over(number, &record::encode(&ArticleKey(0), None, arrived, number));
    }

    /// Adds a missing slot for a record to the index. Returns false if there is no space.
    pub fn enter_index(&self, key: &ArticleKey, number: u64) -> bool {
        let writer = self.writer.lock();
        let living = self.living();
        let found = self.index.reader().find(key, &living, |candidate| (candidate == number).then_some(()));
        found.is_some() || writer.growth.insert_in_file(&self.index, key, number, &living)
    }

    /// Overwrites a damaged record with an empty entry: one with a key that no Message-ID has, with the
    /// arrival time of the record before.
    ///
    /// # Errors
    /// If the record does not exist.
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
        if self.log.write_over(number, &record::encode(&ArticleKey(0), None, arrived, number)) {
            return Ok(());
        }
        Err(invalid_data("the history log has no place for this record"))
    }

    /// Writes the record of an article, which arrived at `arrived` (Unix seconds), where it was before it was
    /// lost: into an emptied entry between those of its neighbours. Returns false if there is none. Where
    /// places of the volume ascend (`is_ascending`) they do so in history, too, if many articles are entered
    /// in their order.
    pub fn enter_again(&self, key: ArticleKey, token: Token, arrived: u32, is_ascending: bool) -> bool {
        let writer = self.writer.lock();
        let (living, log) = (self.living(), self.log.snapshot());
        let record = |number: u64| record::decode(&log.read(number)?, number);
        let is_emptied = |number: &u64| record(*number).is_some_and(|r| r.key_bits == 0 && r.token.is_none());
        let known = self.known();
        let mut start = self.first_since(arrived.saturating_sub(ARRIVALS_SLACK));
        let mut end = self.first_since(arrived.saturating_add(ARRIVALS_SLACK + 1)).max(start);
        // An emptied entry has the arrival of a neighbour.
        while start > known.start && is_emptied(&(start - 1)) {
            start -= 1;
        }
        while end < known.end && is_emptied(&end) {
            end += 1;
        }
        let mut free = None;
        for number in start..end {
            match record(number) {
                Some(_) if is_emptied(&number) => free = free.or(Some(number)),
                Some(HistoryRecord { token: Some(other), .. })
                    if is_ascending && other.volume == token.volume =>
                {
                    if other.place > token.place {
                        break;
                    }
                    free = None;
                }
                _ => {}
            }
        }
        let Some(number) = free else { return false };
        let _replacing = self.replacing.lock();
        if !self.log.write_over(number, &record::encode(&key, Some(token), arrived, number)) {
            return false;
        }
        // Without a free slot the next check finds a record that is not in the index.
        let _is_indexed = writer.growth.insert_in_file(&self.index, &key, number, &living);
        true
    }

    /// Returns the range of records that are not forgotten. For a durable checkpoint: take it, call
    /// [`History::sync`], then store it.
    pub fn checkpoint(&self) -> RecordRange {
        // Without the lock, a record without a slot could be counted.
        let _writer = self.writer.lock();
        let known = self.known();
        RecordRange { first_record: known.start, next_record: known.end }
    }

    /// Makes everything inserted and replaced before the call durable, without blocking the writer. Also
    /// creates the next file of the log when the current one is nearly full, so that no insert has to.
    ///
    /// # Errors
    /// Any error of the disk; unsynced data stays marked as such.
    pub fn sync(&self) -> io::Result<()> {
        if let Some(segment) = self.log.make_next(self.living().end)? {
            let _writer = self.writer.lock();
            self.log.add(segment);
        }
        self.log.sync()
    }

    /// Moves all slots that are in memory to the index files, so that the next [`History::open`] has less to
    /// do. If one does not fit, that will build the index again.
    pub fn close(&self) {
        let mut writer = self.writer.lock();
        let living = self.living();
        writer.growth.move_all_gathered(&self.index, &living);
    }

    /// Forgets the oldest records, up to the first one that arrived at `arrived` (Unix seconds) or later.
    /// They stay in the log until [`History::expire_before`]. Returns false if one of them cannot be read, so
    /// that the sum is not exact any more.
    pub fn forget_before(&self, arrived: u32) -> bool {
        let mut writer = self.writer.lock();
        let (first, end) = (self.first_known.load(Ordering::Acquire), self.first_since(arrived));
        let gone = self.sum_of(first..end);
        self.first_known.store(end, Ordering::Release);
        writer.sum.take(gone.unwrap_or_default().0);
        gone.is_some()
    }

    /// Returns the sum of the Message-IDs of these records; `None` if one is damaged.
    fn sum_of(&self, numbers: Range<u64>) -> Option<SetSum> {
        let log = self.log.load();
        let mut sum = SetSum::default();
        for number in numbers {
            let record = record::decode(&log.read(number)?, number)?;
            // An emptied record has no key.
            if record.key_bits != 0 {
                sum.add(of_id(ArticleKey(record.key_bits)));
            }
        }
        Some(sum)
    }

    /// Returns the sum of the Message-IDs that are not forgotten.
    pub fn sum(&self) -> SetSum {
        self.writer.lock().sum
    }

    /// Sets the sum as of a checkpoint.
    pub fn set_sum(&self, sum: SetSum) {
        self.writer.lock().sum = sum;
    }

    /// Counts the sum again. Returns false if a record is damaged.
    pub fn count_sum(&self) -> bool {
        let sum = self.sum_of(self.known());
        self.set_sum(sum.unwrap_or_default());
        sum.is_some()
    }

    /// Returns the key, as far as records have it, of the article at a place of a volume, which arrived at
    /// about this time (Unix seconds). Places of a volume ascend in history, so the search begins at
    /// `cursor`, which moves on. Called by the writer only, while it overwrites no record.
    pub fn key_at(&self, volume: u16, place: u64, arrived: u32, cursor: &mut u64) -> Option<ArticleKey> {
        let (log, known) = (self.log.load(), self.known());
        let record = |number: u64| record::decode(&log.read(number)?, number);
        let at = |number: u64| log.read(number).map(|words| record::raw_arrived(&words));
        let is_here = |record: &HistoryRecord| {
            record.token.is_some_and(|token| token.volume == volume && token.place == place)
        };
        let latest = arrived.saturating_add(ARRIVALS_SLACK);
        let search = |from: u64| {
            let mut near = (from..known.end).take_while(|number| at(*number).is_none_or(|at| at <= latest));
            near.find_map(|number| Some((number, record(number).filter(is_here)?)))
        };
        let next = (*cursor).max(known.start);
        let is_near = at(next).is_some_and(|at| at.saturating_add(ARRIVALS_SLACK) >= arrived);
        let found = if is_near { search(next) } else { None };
        let front = || self.first_since(arrived.saturating_sub(ARRIVALS_SLACK));
        let (number, record) = found.or_else(|| search(front()))?;
        *cursor = number + 1;
        Some(ArticleKey(record.key_bits))
    }

    /// Like [`History::key_at`], for an article whose arrival is not known; may read the whole log.
    pub fn key_of_place(&self, volume: u16, place: u64) -> Option<ArticleKey> {
        let log = self.log.load();
        let record = |number: u64| record::decode(&log.read(number)?, number);
        let is_here = |record: &HistoryRecord| {
            record.token.is_some_and(|token| token.volume == volume && token.place == place)
        };
        let found = self.known().rev().filter_map(record).find(is_here)?;
        Some(ArticleKey(found.key_bits))
    }

    /// Forgets all records below `first_live_record` and removes the files of the log that have no others and
    /// none of a [`HistoryHold`]. Must not exceed the `next_record` of the checkpoint stored last: the files
    /// with a checkpoint's newest records must stay.
    ///
    /// # Errors
    /// Any error of removing a file; the records are forgotten nevertheless.
    pub fn expire_before(&self, first_live_record: u64) -> io::Result<()> {
        let old = {
            let mut writer = self.writer.lock();
            let living = self.living();
            let first = first_live_record.clamp(living.start, living.end);
            let before = self.first_known.fetch_max(first, Ordering::AcqRel);
            let gone = self.sum_of(before..first.max(before));
            writer.sum.take(gone.unwrap_or_default().0);
            let kept = writer.held.iter().fold(first, |kept, held| kept.min(*held));
            self.first_record.store(kept, Ordering::Release);
            self.log.drop_before(kept)
        };
        old.iter().try_for_each(|path| self.disk.remove(path))
    }

    /// Returns the first record that arrived at or after `arrived`, assuming ascending arrivals, or the next
    /// record's number if there is none.
    pub fn first_since(&self, arrived: u32) -> u64 {
        let Range { mut start, mut end } = self.known();
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

    /// Returns the arrival of the newest record, or a later one; 0 without records.
    pub fn last_arrival(&self) -> u32 {
        let Range { start, end } = self.living();
        let newest =
            end.checked_sub(1).filter(|number| *number >= start).and_then(|number| self.log.read(number));
        newest.map_or(0, |words| record::raw_arrived(&words))
    }

    /// Returns the arrival of a record that is not forgotten.
    pub fn arrival_of(&self, number: u64) -> Option<u32> {
        let words = self.log.read(number).filter(|_| self.known().contains(&number))?;
        Some(record::raw_arrived(&words))
    }

    /// Returns the first record below `before` whose article is alive according to `is_alive`; `before` if
    /// there is none.
    pub fn first_living(&self, before: u64, is_alive: &dyn Fn(&Token) -> bool) -> u64 {
        let living = self.known();
        let segments = self.log.snapshot();
        let alive = |number: &u64| {
            let record = segments.read(*number).and_then(|words| record::decode(&words, *number));
            record.and_then(|record| record.token).is_some_and(|token| is_alive(&token))
        };
        (living.start..before.min(living.end)).find(alive).unwrap_or(before)
    }

    /// Returns the number of entries that are not forgotten.
    pub fn entries(&self) -> u64 {
        let known = self.known();
        known.end - known.start
    }

    /// Visits all living records from number `from` on, in order: number, and the record or `None` if it is
    /// damaged.
    pub fn for_each(&self, from: u64, visit: &mut dyn FnMut(u64, Option<HistoryRecord>)) {
        let living = self.living();
        let segments = self.log.snapshot();
        for number in from.max(living.start)..living.end {
            visit(number, segments.read(number).and_then(|words| record::decode(&words, number)));
        }
    }

    /// Reports whether a look-up of this record's key reaches the record. Used by `verify`.
    pub fn is_indexed(&self, number: u64, record: &HistoryRecord) -> bool {
        let here = |candidate| (candidate == number).then_some(());
        let living = self.living();
        // An emptied entry needs no slot.
        record.key_bits == 0
            || self.index.reader().find(&ArticleKey(record.key_bits), &living, here).is_some()
    }

    /// Calls `found` with the position of each damaged word of the index, for [`History::mend_index`].
    pub fn check_index(&self, found: &mut dyn FnMut((usize, usize))) {
        let segments = self.log.snapshot();
        let mut place = |number| self.place_of(&segments, number);
        self.index.reader().check(&self.living(), &mut place, &mut |shard, at| found((shard, at)));
    }

    /// Returns the proper position of a record's slot; `None` if it needs none, or is damaged itself.
    fn place_of(&self, segments: &log::LogSegments, number: u64) -> Option<(usize, u32)> {
        let record = record::decode(&segments.read(number)?, number).filter(|r| r.key_bits != 0)?;
        Some(self.index.place(&ArticleKey(record.key_bits)))
    }

    /// Repairs a word of the index: the shard, and the position in it.
    pub fn mend_index(&self, word: (usize, usize)) {
        let (shard, at) = word;
        let _writer = self.writer.lock();
        let segments = self.log.snapshot();
        let mut place = |number| self.place_of(&segments, number);
        self.index.reader().mend(shard, at, &self.living(), &mut place);
    }

    /// Repairs the lost pages of log and index; returns how many there were. Records on them count as
    /// damaged; slots of other records are restored.
    ///
    /// # Errors
    /// If a page cannot be written.
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
            let key = segments.read(number).map(|words| ArticleKey(record::raw_key_bits(&words)));
            let Some(key) = key.filter(|key| shards.contains(&self.index.place(key).0)) else { continue };
            let is_there =
                reader.find(&key, &living, |candidate| (candidate == number).then_some(())).is_some();
            if !is_there && !writer.growth.insert_in_file(&self.index, &key, number, &living) {
                return Err(invalid_data("a shard of the history index is full"));
            }
        }
        Ok(in_log + in_index)
    }

    /// Reads everything that is mapped, to detect pages that cannot be read.
    pub fn touch_maps(&self) {
        self.log.touch_maps();
        self.writer.lock().growth.touch_maps();
    }

    /// Returns the total size of the log's files in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Returns the total size of the index's files in bytes. They are mapped, and should be in memory for
    /// fast look-ups.
    pub fn index_bytes(&self) -> u64 {
        self.writer.lock().growth.bytes()
    }
}

/// Prefetches what look-ups of these keys will read: the buckets of all, then the records.
fn touch(
    keys: &[ArticleKey],
    living: &Range<u64>,
    index: &mut IndexReader<'_>,
    read: impl Fn(u64) -> Option<RecordWords>,
) {
    let buckets = keys.iter().fold(0, |sum, key| sum ^ index.touch(key));
    let first_word = |number| read(number).map(|words| words[0]);
    let records = keys.iter().fold(0, |sum, key| sum ^ index.find(key, living, first_word).unwrap_or(0));
    std::hint::black_box(buckets ^ records);
}
