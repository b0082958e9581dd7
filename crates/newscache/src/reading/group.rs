//! A group of an upstream in the cache.
//!
//! Small articles and rows are in the group's files; the caller fetches requested ones that are missing, and
//! stores them here. A group whose numbers turn out to have changed is *reset*: everything cached of it is
//! dropped, durably, before anything new is stored. Called by the crate's users.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use disk::ReadMode;

use crate::base::record::{self, CacheRecord, HEADER_BYTES, RecordKind};
use crate::books::bookkeeping::{CacheFile, DatedAnswer};
use crate::books::stats::CacheAccess;
use crate::cache::{Cache, CacheInner};
use crate::index::cells::GroupCell;
use crate::index::loaded::{
    ArticleEntry, GroupIndex, RowBlock, WITHOUT_ROW, append_row, expires, lines, rows, short_hash,
};
use crate::index::runs::NumberRuns;
use crate::reading::index_io::LocatedRecord;
use crate::reading::pieces::LargeReader;
use netnews::GroupMarks;

/// Maximum size of the rows in one record, in bytes.
const BLOCK_BYTES: usize = 32 << 10;

/// Effect of a call on the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum GroupOutcome {
    /// The group continues as it was.
    None,
    /// The group was reset: its numbers have changed.
    Anew,
}

/// Extent of the rows that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowCoverage {
    /// All rows were found.
    Done,
    /// The limit is reached.
    Limit {
        /// Number at which to continue.
        next: u64,
    },
    /// The rows before this range were appended; those of the range are to be fetched.
    Missing {
        /// Numbers without rows.
        range: RangeInclusive<u64>,
    },
}

/// An article that was found, and its position in the buffer that it was read into.
#[derive(Debug)]
pub struct CacheHit {
    /// Range of its Message-ID.
    pub id: Range<usize>,
    /// Start of the article, which extends to the end.
    pub from: usize,
    /// Reader of a large article, of which nothing is in the buffer.
    pub large: Option<LargeReader>,
}

impl CacheHit {
    /// Creates the result for an article whose record is in the buffer.
    fn in_record(record: &CacheRecord<'_>) -> Self {
        let from = HEADER_BYTES + record.id.len();
        Self { id: HEADER_BYTES..from, from, large: None }
    }

    /// Returns its Message-ID, from the buffer.
    pub fn id_in<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(self.id.clone()).unwrap_or_default()
    }
}

/// A group. Clones are handles of the same group.
#[derive(Clone, Debug)]
pub struct CacheGroup {
    cache: Cache,
    cell: Arc<GroupCell>,
}

impl PartialEq for CacheGroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}

/// Location of an article without its bytes.
pub(crate) enum NumberLookup {
    Article(LocatedRecord),
    /// In another group, or in a file of its own; with the record of the link.
    Elsewhere(Vec<u8>, Option<LocatedRecord>),
    Nowhere,
}

impl Cache {
    /// Returns the group of this name at the upstream that numbers it. Does not access the disk.
    pub fn group(&self, origin: &str, name: &[u8], now: u64) -> CacheGroup {
        CacheGroup { cache: self.clone(), cell: self.0.cell(origin, name, now) }
    }
}

impl CacheGroup {
    pub(crate) fn of_cell(cache: &Cache, cell: Arc<GroupCell>) -> Self {
        Self { cache: cache.clone(), cell }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn cell(&self) -> &Arc<GroupCell> {
        &self.cell
    }

    pub(crate) fn inner(&self) -> &CacheInner {
        &self.cache.0
    }

    /// Returns the group's name.
    pub fn name(&self) -> &[u8] {
        &self.cell.name
    }

    /// Returns the upstream that numbers the group.
    pub fn origin(&self) -> &str {
        &self.cell.origin
    }

    /// Returns whether the index is in memory and unlocked, so that reading it does not wait.
    pub fn is_at_hand(&self) -> bool {
        self.cell.index.try_lock().is_some_and(|index| index.is_some())
    }

    /// Returns whether the index is in memory and has no numbers from LISTGROUP, so that a question about
    /// them is pointless.
    pub fn knows_no_numbers(&self) -> bool {
        let index = self.cell.index.try_lock();
        index.is_some_and(|index| index.as_ref().is_some_and(|loaded| loaded.numbers.is_none()))
    }

    /// Calls `work` with the group's index, which is loaded if it is not in memory.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut GroupIndex) -> io::Result<T>) -> io::Result<T> {
        self.with_patience(ReadMode::Wait, work)
    }

    /// Like [`with`](Self::with); without patience `WouldBlock` if that would wait.
    fn with_patience<T>(
        &self,
        patience: ReadMode,
        work: impl FnOnce(&mut GroupIndex) -> io::Result<T>,
    ) -> io::Result<T> {
        self.inner().with_index(&self.cell, patience, work)
    }

    /// Counts a request of a reader for this group, and logs it if the log is enabled.
    pub fn record(&self, access: &CacheAccess<'_>) {
        self.cell.counted.lock().add(access);
        self.inner().log(access);
    }

    /// Returns the water marks from the last answer of upstream.
    pub fn marks(&self) -> Option<DatedAnswer<GroupMarks>> {
        self.inner().books.lock().slots.get(self.cell.slot as usize)?.marks()
    }

    /// Records new water marks from upstream. Expired articles are dropped; if the high mark has fallen, the
    /// group is reset.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn set_marks(&self, marks: GroupMarks, at: u64) -> io::Result<GroupOutcome> {
        self.take_marks(marks, false, at)
    }

    /// Like [`CacheGroup::set_marks`], if a number of the group has the same article as before: the high mark
    /// may then fall, as the newest articles were removed (RFC 3977 6.1.1.2).
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn set_marks_of_same(&self, marks: GroupMarks, at: u64) -> io::Result<GroupOutcome> {
        self.take_marks(marks, true, at)
    }

    fn take_marks(&self, marks: GroupMarks, are_same: bool, at: u64) -> io::Result<GroupOutcome> {
        let before = self.marks().map(|asked| asked.value);
        let is_anew = !are_same && before.is_some_and(|before| marks.high < before.high);
        if is_anew {
            self.begin_anew(at)?;
        }
        let mut gone = Vec::new();
        {
            let mut books = self.inner().books.lock();
            if let Some(slot) = books.slots.get_mut(self.cell.slot as usize) {
                slot.set_marks(Some(DatedAnswer { value: marks, at }));
            }
            if before != Some(marks) {
                books.changed();
            }
            if before.is_some_and(|before| marks.low > before.low) {
                let is_expired =
                    |file: &CacheFile, last| matches!(file, CacheFile::Segment { .. }) && last < marks.low;
                let units = books.units_of(self.cell.slot);
                let expired = units.filter(|(_, unit)| is_expired(&unit.file, unit.last)).map(|(id, _)| id);
                for id in expired.collect::<Vec<_>>() {
                    gone.extend(books.remove(id).map(|file| (id, file)));
                }
            }
        }
        self.inner().discard(&gone);
        if let Some(loaded) = self.cell.index.lock().as_mut() {
            loaded.expire(marks.low);
        }
        if self.cell.is_kept {
            self.inner().write_slot(self.cell.slot, true)?;
        }
        Ok(if is_anew { GroupOutcome::Anew } else { GroupOutcome::None })
    }

    /// Resets the group: drops everything cached of it. Its old files are no longer valid, even if a crash
    /// leaves some of them.
    ///
    /// # Errors
    /// Errors of the disk; nothing of the group is served after one.
    pub fn begin_anew(&self, now: u64) -> io::Result<()> {
        let mut index = self.cell.index.lock();
        let mut gone = Vec::new();
        {
            let mut books = self.inner().books.lock();
            // The files are removed first, since their names depend on the generation.
            books.remove_all(self.cell.slot, &mut gone);
            let generation = books.new_generation(now);
            if let Some(slot) = books.slots.get_mut(self.cell.slot as usize) {
                (slot.generation, slot.next_seq) = (generation, 0);
                slot.set_marks(None);
            }
            books.changed();
        }
        *index = None;
        if self.cell.is_kept && !gone.is_empty() {
            self.inner().write_slot(self.cell.slot, true)?;
            self.inner().sync_slots()?;
        }
        self.inner().discard(&gone);
        Ok(())
    }

    /// Stores all rows that upstream sent for a range, ascending. Rows of small articles that are cached are
    /// not stored. Ranges may come in any order.
    ///
    /// # Errors
    /// `InvalidData` if these are not such rows, and nothing is stored; those of the disk.
    pub fn put_rows(&self, range: RangeInclusive<u64>, text: &[u8], now: u64) -> io::Result<GroupOutcome> {
        for row in rows(text) {
            if row.is_none_or(|row| !range.contains(&row.number) || row.id().is_empty()) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "these are no rows of this range"));
            }
        }
        if range.is_empty() {
            return Ok(GroupOutcome::None);
        }
        let change = if self.with(|loaded| self.contradicts(loaded, text))? {
            self.begin_anew(now)?;
            GroupOutcome::Anew
        } else {
            GroupOutcome::None
        };
        self.with(|loaded| {
            let with_row = NumberRuns::of(&rows(text).flatten().map(|row| row.number).collect::<Vec<_>>());
            if loaded.not_listed(&range, &with_row) {
                self.inner().save_numbers(&self.cell, loaded, now)?;
            }
            let mut parts = loaded.uncovered(&range);
            // Numbers that do not exist according to a block, and are present in the answer.
            let back = rows(text)
                .flatten()
                .map(|row| row.number)
                .filter(|number| loaded.block(*number).is_some() && !loaded.articles.contains(*number));
            for number in back.collect::<Vec<_>>() {
                if self.row_in_block(loaded, number)?.is_none() {
                    parts.push(number..=number);
                }
            }
            for part in parts {
                self.put_part(loaded, &part, text, now)?;
            }
            Ok(())
        })?;
        Ok(change)
    }

    /// Returns whether rows name other articles than those known under their numbers.
    fn contradicts(&self, loaded: &GroupIndex, text: &[u8]) -> io::Result<bool> {
        // The block read last: its first number, and its numbers with their hashes.
        let mut block: Option<(u64, RowBlock)> = None;
        let mut ids: Vec<(u64, u32)> = Vec::new();
        for row in rows(text).flatten() {
            let hash = short_hash(row.id());
            if let Some(entry) = loaded.articles.get(row.number) {
                if entry.id != hash {
                    return Ok(true);
                }
                continue;
            }
            let Some((first, found)) = loaded.block(row.number) else { continue };
            if block != Some((first, found)) {
                let known = self.rows_of(loaded, found)?;
                ids = rows(&known).flatten().map(|row| (row.number, short_hash(row.id()))).collect();
                block = Some((first, found));
            }
            let known = ids.binary_search_by_key(&row.number, |(number, _)| *number);
            if known.is_ok_and(|at| ids.get(at).is_some_and(|(_, known)| *known != hash)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores the rows of a part of a range, in blocks that cover it.
    fn put_part(
        &self,
        loaded: &mut GroupIndex,
        part: &RangeInclusive<u64>,
        text: &[u8],
        now: u64,
    ) -> io::Result<()> {
        let mut first = *part.start();
        let mut payload = Vec::new();
        for row in rows(text).flatten().filter(|row| part.contains(&row.number)) {
            if loaded.articles.get(row.number).is_some_and(ArticleEntry::has_row) {
                // The number alone: its row is made of the article.
                payload.extend_from_slice(format!("{}\r\n", row.number).as_bytes());
            } else {
                payload.extend_from_slice(row.line);
            }
            if payload.len() >= BLOCK_BYTES {
                self.put_block(loaded, first, row.number, &payload, now)?;
                payload.clear();
                first = row.number.saturating_add(1);
            }
        }
        if first <= *part.end() {
            self.put_block(loaded, first, *part.end(), &payload, now)?;
        }
        Ok(())
    }

    fn put_block(
        &self,
        loaded: &mut GroupIndex,
        number: u64,
        last: u64,
        payload: &[u8],
        now: u64,
    ) -> io::Result<()> {
        let record = CacheRecord { kind: RecordKind::Rows, number, last, id: b"", payload };
        self.inner().append(&self.cell, loaded, &record, now, now).map(|_| ())
    }

    /// Returns the text of a block; empty if it no longer exists.
    fn rows_of(&self, loaded: &GroupIndex, block: RowBlock) -> io::Result<Vec<u8>> {
        let Some(at) = self.inner().located(&self.cell, loaded, block.place) else { return Ok(Vec::new()) };
        let Some(read) = self.inner().read(at, ReadMode::Wait)? else { return Ok(Vec::new()) };
        Ok(read.record().filter(|r| r.kind == RecordKind::Rows).map_or_else(Vec::new, |r| r.payload.to_vec()))
    }

    fn row_in_block(&self, loaded: &GroupIndex, number: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((_, block)) = loaded.block(number) else { return Ok(None) };
        let text = self.rows_of(loaded, block)?;
        let row = rows(&text).flatten().find(|row| row.number == number);
        Ok(row.map(|row| row.line.to_vec()))
    }

    /// Appends overview rows of a range until `limit_bytes` are exceeded or one is missing.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn rows(
        &self,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<RowCoverage> {
        let low = self.marks().map_or(0, |asked| asked.value.low);
        self.with(|loaded| {
            let (mut at, end, start) = ((*range.start()).max(low), *range.end(), into.len());
            while at <= end {
                if into.len() - start >= limit_bytes {
                    return Ok(RowCoverage::Limit { next: at });
                }
                let next = match self.rows_at(loaded, at, end, into, now)? {
                    Ok(next) => next,
                    Err(missing) => return Ok(RowCoverage::Missing { range: missing }),
                };
                let Some(next) = next else { break };
                at = next;
            }
            Ok(RowCoverage::Done)
        })
    }

    /// Appends available rows from a number on; returns the number at which to continue, or the missing
    /// range.
    fn rows_at(
        &self,
        loaded: &mut GroupIndex,
        at: u64,
        end: u64,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Result<Option<u64>, RangeInclusive<u64>>> {
        if loaded.is_gone(at) {
            return Ok(Ok(after_gone(loaded, at)));
        }
        if let Some((_, block)) = loaded.block(at) {
            let located = self.inner().located(&self.cell, loaded, block.place);
            let read = located.map_or(Ok(None), |located| self.inner().read(located, ReadMode::Wait))?;
            let Some(read) = read else {
                // The block was damaged: its file was removed, and its rows are to be fetched again.
                loaded.remove_segment(block.place.seq);
                return Ok(Err(at..=block.last.min(end)));
            };
            if let Some(located) = located {
                self.inner().hit(located.unit, located.file, now);
            }
            let text = read.record().map_or(&[][..], |record| record.payload);
            let last = block.last.min(end);
            return Ok(match self.merge(loaded, text, at..=last, into)? {
                Some(missing) => Err(missing),
                None => Ok(last.checked_add(1)),
            });
        }
        if self.made_row(loaded, at, into)? {
            return Ok(Ok(at.checked_add(1)));
        }
        Ok(Err(without_block(loaded, at, end)))
    }

    /// Returns the first part of a range whose rows are missing, by the index alone: rows that turn out to be
    /// damaged count as present.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn missing_rows(&self, range: RangeInclusive<u64>) -> io::Result<Option<RangeInclusive<u64>>> {
        let low = self.marks().map_or(0, |asked| asked.value.low);
        self.with(|loaded| {
            let (mut at, end) = ((*range.start()).max(low), *range.end());
            while at <= end {
                let next = if loaded.is_gone(at) {
                    after_gone(loaded, at)
                } else if let Some((_, block)) = loaded.block(at) {
                    block.last.checked_add(1)
                } else if loaded.articles.get(at).is_some_and(|entry| entry.has_row()) {
                    at.checked_add(1)
                } else {
                    return Ok(Some(without_block(loaded, at, end)));
                };
                let Some(next) = next else { break };
                at = next;
            }
            Ok(None)
        })
    }

    /// Appends the rows of a range that a block covers, merged with those of cached articles. Returns the
    /// range that is still missing.
    fn merge(
        &self,
        loaded: &GroupIndex,
        text: &[u8],
        range: RangeInclusive<u64>,
        into: &mut Vec<u8>,
    ) -> io::Result<Option<RangeInclusive<u64>>> {
        let (first, last) = (*range.start(), *range.end());
        let mut stored = lines(text).filter(|line| (first..=last).contains(&line.number)).peekable();
        let mut cached = loaded.articles.range(range).filter(|(_, entry)| entry.has_row()).peekable();
        let mut at = first;
        loop {
            let next = match (stored.peek().map(|row| row.number), cached.peek().map(|(n, _)| *n)) {
                (Some(row), Some(article)) => row.min(article),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => break,
            };
            if let Some(missing) = listed(loaded, at, next) {
                return Ok(Some(missing));
            }
            let row = stored.next_if(|line| line.number == next);
            let is_cached = cached.next_if(|(number, _)| *number == next).is_some();
            match row {
                _ if loaded.is_gone(next) => {}
                Some(row) if row.is_row => into.extend_from_slice(row.text),
                None if !is_cached => {}
                _ if self.made_row(loaded, next, into)? => {}
                _ => return Ok(Some(next..=next)),
            }
            match next.checked_add(1) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(last.checked_add(1).and_then(|end| listed(loaded, at, end)))
    }

    /// Appends the row of a cached article; returns false if there is none, or no row can be made of it.
    fn made_row(&self, loaded: &GroupIndex, number: u64, into: &mut Vec<u8>) -> io::Result<bool> {
        let Some(entry) = loaded.articles.get(number).filter(|entry| entry.has_row()) else {
            return Ok(false);
        };
        let Some(located) = self.inner().located(&self.cell, loaded, entry.place()) else { return Ok(false) };
        let Some(read) = self.inner().read(located, ReadMode::Wait)? else { return Ok(false) };
        let Some(record) = read.record().filter(|record| record.number == number) else { return Ok(false) };
        let headers = self.cache.overview_headers();
        Ok(append_row(number, record.id, record.payload, &headers, into))
    }

    /// Returns the Message-ID of a number, if it is known.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn id_of(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        Ok(match self.locate(number, ReadMode::Wait)? {
            NumberLookup::Article(located) => {
                let read = self.inner().read(located, ReadMode::Wait)?;
                read.and_then(|read| read.record().map(|record| record.id.to_vec()))
            }
            NumberLookup::Elsewhere(id, _) => Some(id),
            NumberLookup::Nowhere => None,
        })
    }

    /// Returns the highest number up to this one whose article is cached, and the highest for which rows were
    /// stored, which need not have a row.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn last_known(&self, number: u64) -> io::Result<[Option<u64>; 2]> {
        self.with(|loaded| Ok(loaded.last_known(number)))
    }

    /// Returns whether the article of a number seems to be cached, without counting a use.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn has(&self, number: u64, now: u64) -> io::Result<bool> {
        match self.locate(number, ReadMode::Wait)? {
            NumberLookup::Article(_) => Ok(true),
            NumberLookup::Elsewhere(id, _) => self.cache.has_id(&id, now),
            NumberLookup::Nowhere => Ok(false),
        }
    }

    pub(crate) fn locate(&self, number: u64, patience: ReadMode) -> io::Result<NumberLookup> {
        self.with_patience(patience, |loaded| {
            if number < loaded.low || loaded.is_gone(number) {
                return Ok(NumberLookup::Nowhere);
            }
            if let Some(entry) = loaded.articles.get(number)
                && let Some(located) = self.inner().located(&self.cell, loaded, entry.place())
            {
                if !entry.is_link() {
                    return Ok(NumberLookup::Article(located));
                }
                let id = self.id_of_link(located, patience)?;
                return Ok(id.map_or(NumberLookup::Nowhere, |id| NumberLookup::Elsewhere(id, Some(located))));
            }
            if patience == ReadMode::CacheOnly {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let row = self.row_in_block(loaded, number)?;
            let id = row.and_then(|row| rows(&row).flatten().next().map(|row| row.id().to_vec()));
            Ok(id.map_or(NumberLookup::Nowhere, |id| NumberLookup::Elsewhere(id, None)))
        })
    }

    /// Returns the Message-ID in a link.
    fn id_of_link(&self, located: LocatedRecord, patience: ReadMode) -> io::Result<Option<Vec<u8>>> {
        let (file, at) = (located.file, located.place.at);
        if let Some(id) = self.inner().links.get(file, at) {
            return Ok(Some(id.into()));
        }
        let read = self.inner().read(located, patience)?;
        let id = read.and_then(|read| read.record().map(|record| record.id.to_vec()));
        if let Some(id) = &id {
            self.inner().links.put(file, at, id);
        }
        Ok(id)
    }

    /// Appends an article, also one that came as a crosspost in another group, or from another upstream.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn article(&self, number: u64, into: &mut Vec<u8>, now: u64) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let found = self.find(number, ReadMode::Wait, &mut bytes, now)?;
        found.map_or(Ok(None), |found| found.whole(&bytes, into))
    }

    /// Reads an article into a buffer, replacing its content; nothing of a large one, which has a reader.
    ///
    /// # Errors
    /// Errors of the disk; without patience `WouldBlock` if the disk must be waited for.
    pub fn find(
        &self,
        number: u64,
        patience: ReadMode,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<CacheHit>> {
        match self.locate(number, patience)? {
            NumberLookup::Article(located) => self.inner().read_article(located, number, patience, into, now),
            NumberLookup::Elsewhere(id, by) => {
                let found = self.cache.find(&id, patience, into, now)?;
                if let Some(by) = by.filter(|_| found.is_some()) {
                    self.inner().hit(by.unit, by.file, now);
                }
                Ok(found)
            }
            NumberLookup::Nowhere => Ok(None),
        }
    }

    /// Stores an article that upstream sent for a number. If another one was known under it, the group is
    /// reset.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn put_article(&self, number: u64, id: &[u8], bytes: &[u8], now: u64) -> io::Result<GroupOutcome> {
        let change = self.check_id(number, id, now)?;
        let shape = self.inner().shape();
        if bytes.len() as u64 > shape.large_above {
            self.cache.put_large(&self.cell, id, bytes, now)?;
            self.put_link(number, id, now)?;
            return Ok(change);
        }
        if self.cache.holds(id, Some((self.cell.key, number)), now)? {
            self.put_link(number, id, now)?;
            return Ok(change);
        }
        let mut row = Vec::new();
        let last = if append_row(number, id, bytes, &[], &mut row) { 0 } else { WITHOUT_ROW };
        let record = CacheRecord { kind: RecordKind::Article, number, last, id, payload: bytes };
        let expires = expires(bytes, now);
        let is_stored = self.with(|loaded| {
            let known = loaded.articles.get(number);
            let is_known = known.is_some_and(|entry| !entry.is_link() && entry.id == short_hash(id));
            match is_known {
                true => Ok(false),
                false => self.inner().append(&self.cell, loaded, &record, expires, now),
            }
        })?;
        if is_stored {
            self.inner().point(&self.cell, id, number)?;
        }
        Ok(change)
    }

    /// Resets the group if a number belonged to another article.
    pub(crate) fn check_id(&self, number: u64, id: &[u8], now: u64) -> io::Result<GroupOutcome> {
        let is_other = self.with(|loaded| {
            if let Some(entry) = loaded.articles.get(number) {
                return Ok(entry.id != short_hash(id));
            }
            let row = self.row_in_block(loaded, number)?;
            Ok(row.is_some_and(|row| rows(&row).flatten().any(|row| row.id() != id)))
        })?;
        if !is_other {
            return Ok(GroupOutcome::None);
        }
        self.begin_anew(now)?;
        Ok(GroupOutcome::Anew)
    }

    /// Records that the article of a number is stored elsewhere.
    pub(crate) fn put_link(&self, number: u64, id: &[u8], now: u64) -> io::Result<()> {
        let record = CacheRecord { kind: RecordKind::Link, number, last: 0, id, payload: b"" };
        self.with(|loaded| {
            let known = loaded.articles.get(number);
            if known.is_some_and(|entry| entry.is_link() && entry.id == short_hash(id)) {
                return Ok(());
            }
            debug_assert!(record.bytes() > HEADER_BYTES);
            self.inner().append(&self.cell, loaded, &record, now, now).map(|_| ())
        })
    }

    /// Resets the group if a number belonged to another article, then records that the article is stored
    /// elsewhere.
    pub(crate) fn put_checked_link(&self, number: u64, id: &[u8], now: u64) -> io::Result<GroupOutcome> {
        let change = self.check_id(number, id, now)?;
        self.put_link(number, id, now)?;
        Ok(change)
    }

    /// Records that the article no longer exists at upstream.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn forget(&self, number: u64, now: u64) -> io::Result<()> {
        self.with(|loaded| {
            let is_known = loaded.articles.contains(number) || loaded.block(number).is_some();
            if is_known && !loaded.is_gone(number) {
                let record = CacheRecord { kind: RecordKind::Gone, number, last: 0, id: b"", payload: b"" };
                self.inner().append(&self.cell, loaded, &record, now, now)?;
            }
            if let Some(known) = &mut loaded.numbers
                && known.runs.contains(number)
            {
                known.runs.remove(&(number..=number));
                self.inner().save_numbers(&self.cell, loaded, now)?;
            }
            Ok(())
        })
    }
}

impl CacheInner {
    /// Returns the location of a number's article in a group's files, if its Message-ID has this short hash.
    pub fn stored(
        &self,
        cell: &GroupCell,
        number: u64,
        id: u32,
        patience: ReadMode,
    ) -> io::Result<Option<LocatedRecord>> {
        self.with_index(cell, patience, |loaded| {
            let entry = loaded.articles.get(number);
            let entry = entry.filter(|entry| !entry.is_link() && entry.id == id);
            Ok(entry.and_then(|entry| self.located(cell, loaded, entry.place())))
        })
    }

    /// Reads a small article into a buffer, replacing its content.
    pub fn read_article(
        &self,
        located: LocatedRecord,
        number: u64,
        patience: ReadMode,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<CacheHit>> {
        if !self.read_into(located, patience, into)? {
            return Ok(None);
        }
        let record = record::parse_checked(into).map(|(record, _)| record);
        let Some(record) = record.filter(|r| r.kind == RecordKind::Article && r.number == number) else {
            return Ok(None);
        };
        self.hit(located.unit, located.file, now);
        let (found, len) = (CacheHit::in_record(&record), record.payload.len());
        into.truncate(found.from + len);
        Ok(Some(found))
    }
}

/// Returns where to continue after a number without an article: at the next one that exists, if the numbers
/// are known.
fn after_gone(loaded: &GroupIndex, at: u64) -> Option<u64> {
    let known = loaded.numbers.as_ref().filter(|known| (known.first..=known.last).contains(&at));
    let next = known.map(|known| known.runs.next(at).map_or(known.last + 1, |n| n.min(known.last + 1)));
    next.filter(|next| *next > at).or_else(|| at.checked_add(1))
}

/// Returns the part of the range from `at` to `end` before the next block of rows.
fn without_block(loaded: &GroupIndex, at: u64, end: u64) -> RangeInclusive<u64> {
    let next = loaded.next_block(at).filter(|next| *next <= end);
    at..=next.map_or(end, |next| next - 1)
}

/// Returns the range from `at` up to but without `next`, if upstream listed some of its numbers: they have no
/// row here.
fn listed(loaded: &GroupIndex, at: u64, next: u64) -> Option<RangeInclusive<u64>> {
    let known = loaded.numbers.as_ref()?;
    let first = known.runs.next(at).filter(|first| *first < next && !loaded.is_gone(*first))?;
    Some(first..=first)
}
