//! Reading: from a number or Message-ID to a row, and from a row to bytes, by many threads and without the
//! writer's lock.

pub(crate) mod article;

use crate::index::fold::SharedIndexes;
use crate::index::groups::Group;
use crate::index::overview::{BlockRef, BlockRows, CheckedBlock, RowEntry, SegmentKind, between};
use crate::read::article::ArticleBuf;
use disk::ReadMode;
use disk::clock::unix_secs;
use spool_base::error::ReadError;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_methods::cnfs::record::END;
use spool_methods::read_record;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// State of a Message-ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Never seen, or forgotten.
    Unknown,
    /// Seen, but without an article (rejected or cancelled).
    Remembered,
    /// Seen, but its article has been overwritten or expired.
    Gone,
    /// Stored here.
    Present(Token),
    /// Stored here, and hidden: to be treated as if it had been cancelled.
    Hidden(Token),
}

/// Decoded rows of a block, with the buffer that they were decoded from.
#[derive(Default)]
struct BlockBuffer {
    rows: BlockRows,
    raw: Vec<u8>,
    /// Id of the segment and offset, if `rows` is a whole packed block: decompressing takes many times as
    /// long as copying, and a client that reads row by row requests the same block repeatedly.
    packed: Option<(u64, u64)>,
}

/// Number of overview blocks that the disk is asked for at once. 100 rows are in two or three, more rows are
/// read in several steps.
const BLOCKS_BEGUN_MAX: usize = 8;

thread_local! {
    /// Buffer that is kept from one read to the next.
    static BLOCK: RefCell<BlockBuffer> = RefCell::default();
}

/// Reads a block, all of it or only its entries, and passes its rows to `then`.
fn with_block<T>(
    group: GroupId,
    block: &BlockRef,
    all: bool,
    patience: ReadMode,
    then: impl FnOnce(&BlockRows) -> T,
) -> Result<T, ReadError> {
    BLOCK.with_borrow_mut(|held| {
        let place = (block.segment.id, block.offset);
        if held.packed != Some(place) {
            held.packed = None;
            let (rows, raw) = (&mut held.rows, &mut held.raw);
            if all {
                block.read(group, patience, rows, raw)?;
                held.packed = (block.segment.kind == SegmentKind::Packed).then_some(place);
            } else {
                block.read_entries(group, patience, rows, raw)?;
            }
        }
        Ok(then(&held.rows))
    })
}

/// Selection of overview rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowSelection {
    /// Rows of articles that are shown.
    Shown,
    /// Rows of hidden articles as well.
    Stored,
}

/// Rows wanted of a block.
#[derive(Debug, Clone, Copy)]
struct RowRange<'a> {
    /// First number.
    from: u64,
    /// Last number.
    end: u64,
    /// Only these numbers in between, ascending; `None`: all of them.
    living: Option<&'a [u64]>,
}

impl SharedIndexes {
    /// Looks up a Message-ID in the history; hidden articles count as present.
    pub fn lookup(&self, key: &ArticleKey) -> Lookup {
        match self.history.lookup(key) {
            HistoryLookup::None => Lookup::Unknown,
            HistoryLookup::Remembered { .. } => Lookup::Remembered,
            HistoryLookup::At(token, _) if self.volumes.load().is_alive(&token) => Lookup::Present(token),
            HistoryLookup::At(..) => Lookup::Gone,
        }
    }

    pub fn read(
        &self,
        token: &Token,
        expect: Option<&ArticleKey>,
        patience: ReadMode,
        out: &mut ArticleBuf,
    ) -> Result<bool, ReadError> {
        out.header = None;
        let volumes = self.volumes.load();
        let Some(volume) = volumes.get(token.volume).filter(|v| v.method() == token.method) else {
            return Ok(false);
        };
        let mut header = read_record(volume, token.place, patience, &mut out.bytes)?;
        if let Some(packed) = header.filter(|h| h.packed) {
            std::mem::swap(&mut out.raw, &mut out.bytes);
            header = Some(self.packing.unpack(&packed, &mut out.raw, &mut out.bytes)?);
        }
        // Never returns another article's bytes for a Message-ID (guarantee G3).
        out.header =
            header.filter(|h| expect.is_none_or(|key| h.key == *key)).filter(|_| out.bytes.ends_with(END));
        Ok(out.header.is_some())
    }

    /// Has the disk begin to read an article, without waiting; true if it is not in memory.
    pub fn begin_read(&self, token: &Token) -> bool {
        let volumes = self.volumes.load();
        let volume = volumes.get(token.volume).filter(|volume| volume.method() == token.method);
        volume.is_some_and(|volume| volume.is_alive(token.place) && volume.begin_read(token.place))
    }

    /// Has the disk begin to read the first closed blocks with rows of a range, without waiting.
    pub fn begin_rows(&self, id: GroupId, range: RangeInclusive<u64>) {
        let first = |group: &Arc<Group>| -> Vec<BlockRef> {
            group.state().overview.blocks_of(range).take(BLOCKS_BEGUN_MAX).cloned().collect()
        };
        self.with_group(id, first).iter().flatten().for_each(BlockRef::begin_read);
    }

    /// Like [`SharedIndexes::read`], but treats a hidden article as cancelled.
    pub fn read_shown(
        &self,
        token: &Token,
        expect: Option<&ArticleKey>,
        patience: ReadMode,
        out: &mut ArticleBuf,
    ) -> Result<bool, ReadError> {
        let found = self.read(token, expect, patience, out)?;
        if out.header.is_some_and(|header| self.hidden.covers(&header.key, token)) {
            out.header = None;
            return Ok(false);
        }
        Ok(found)
    }

    fn with_group<T>(&self, id: GroupId, f: impl FnOnce(&Arc<Group>) -> T) -> Option<T> {
        self.groups.table().get(id).map(f)
    }

    pub fn token_of(&self, id: GroupId, number: u64, patience: ReadMode) -> Result<Option<Token>, ReadError> {
        let known = |place| self.checked_blocks.token(place, number, unix_secs());
        let block = match self.with_group(id, |group| group.locate(number, known)).flatten() {
            Some(RowLocation::Block(block)) => block,
            Some(RowLocation::Known(token)) => return Ok(token),
            None => return Ok(None),
        };
        with_block(id, &block, false, patience, |rows| {
            self.checked_blocks.put(block.place(), &rows.entries, false, unix_secs());
            rows.find(number).and_then(|i| rows.entries.get(i)).map(|e| e.token)
        })
    }

    /// Appends rows of a block.
    fn append_rows(
        &self,
        id: GroupId,
        block: &BlockRef,
        wanted: RowRange<'_>,
        patience: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        // The rows of a packed block are kept after decompression.
        if block.segment.kind == SegmentKind::Packed {
            return with_block(id, block, true, patience, |rows| copy_rows(rows, wanted, out));
        }
        let now = unix_secs();
        let known = self.checked_blocks.get(block.place(), now);
        if let Some(checked) = known.filter(|checked| checked.is_text_checked(now)) {
            return append_checked_rows(id, block, &checked, wanted, patience, out);
        }
        with_block(id, block, true, patience, |rows| {
            self.checked_blocks.put(block.place(), &rows.entries, true, now);
            copy_rows(rows, wanted, out);
        })
    }

    /// Appends the selected rows of living articles in a range until `limit_bytes` are exceeded; returns the
    /// number at which to continue.
    pub fn over(
        &self,
        id: GroupId,
        range: RangeInclusive<u64>,
        which: RowSelection,
        limit_bytes: usize,
        patience: ReadMode,
        out: &mut Vec<u8>,
    ) -> Result<Option<u64>, ReadError> {
        let end = *range.end();
        let (mut from, mut has_begun) = (*range.start(), false);
        let start = out.len();
        while from <= end {
            if out.len() - start >= limit_bytes {
                return Ok(Some(from));
            }
            let Some(step) = self.with_group(id, |group| group.step(from, end, which, out)).flatten() else {
                break;
            };
            match step {
                OverStep::Done(next) => from = next,
                OverStep::Block(block, living) => {
                    // What comes next is read meanwhile.
                    if patience == ReadMode::Wait && block.last < end && !has_begun {
                        self.begin_rows(id, block.last.saturating_add(1)..=end);
                        has_begun = true;
                    }
                    let wanted = RowRange { from, end, living: living.as_deref() };
                    match self.append_rows(id, &block, wanted, patience, out) {
                        // The rows so far can be sent; the caller requests the rest again, ready to wait.
                        Err(ReadError::WouldBlock) if out.len() > start => return Ok(Some(from)),
                        other => other?,
                    }
                    from = block.last.saturating_add(1);
                }
            }
        }
        Ok(None)
    }

    pub fn arrived_since(
        &self,
        id: GroupId,
        since: u64,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let since = u32::try_from(since).unwrap_or(u32::MAX);
        let Some(group) = self.groups.table().get(id).cloned() else { return Ok(()) };
        let (blocks, open, live, hidden) = {
            let state = group.state();
            let recent = |b: &&BlockRef| b.live > 0 && b.arrived_max >= since;
            let blocks: Vec<_> = state.overview.blocks.iter().filter(recent).cloned().collect();
            let fresh = state.overview.open.entries.iter().any(|e| e.arrived >= since);
            let open = if fresh { state.overview.open.clone() } else { BlockRows::default() };
            let any = fresh || !blocks.is_empty();
            let live = if any { state.live.clone() } else { Default::default() };
            (blocks, open, live, state.hidden.clone())
        };
        let mut tell = |rows: &BlockRows| {
            for (i, e) in rows.entries.iter().enumerate() {
                if e.arrived >= since
                    && live.contains(e.number)
                    && !hidden.contains(e.number)
                    && let Some(id) = rows.row(i).and_then(|row| netnews::overview_row::field(row, 4))
                {
                    visit(id);
                }
            }
        };
        for block in blocks {
            with_block(id, &block, true, ReadMode::Wait, &mut tell)?;
        }
        tell(&open);
        Ok(())
    }

    /// Returns the text of LIST ACTIVE, rebuilt only if something has changed.
    pub fn list_active(&self) -> Arc<Vec<u8>> {
        let generation = self.generation.load(std::sync::atomic::Ordering::Acquire);
        {
            let list = self.list.lock();
            if list.0 == generation && !list.1.is_empty() {
                return list.1.clone();
            }
        }
        let mut out = Vec::new();
        for group in self.groups.snapshot().sorted().iter() {
            let state = group.state();
            let marks = state.marks();
            out.extend_from_slice(group.name.as_bytes());
            out.push(b' ');
            netnews::decimal::append_decimal(marks.high, &mut out);
            out.push(b' ');
            netnews::decimal::append_decimal(marks.low, &mut out);
            out.push(b' ');
            match &state.flag {
                spool_base::ids::GroupFlag::Open => out.push(b'y'),
                flag => out.extend_from_slice(flag.to_string().as_bytes()),
            }
            out.extend_from_slice(b"\r\n");
        }
        let text = Arc::new(out);
        *self.list.lock() = (generation, text.clone());
        text
    }
}

enum RowLocation {
    /// Token of the article, if it has a row.
    Known(Option<Token>),
    /// The row is in this block, which was not checked recently.
    Block(BlockRef),
}

enum OverStep {
    /// Rows of the open block were appended; continue at this number.
    Done(u64),
    /// Read this block; `Some`: only these numbers of it live.
    Block(BlockRef, Option<Vec<u64>>),
}

impl Group {
    /// Locates the token of a number; `known` looks it up in the block at a place. `None` if no article with
    /// this number is shown.
    fn locate(
        &self,
        number: u64,
        known: impl FnOnce((u64, u64)) -> Option<Option<Token>>,
    ) -> Option<RowLocation> {
        let state = self.state();
        if !state.shows(number) {
            return None;
        }
        let open = &state.overview.open;
        if let Some(entry) = open.find(number).and_then(|i| open.entries.get(i)) {
            return Some(RowLocation::Known(Some(entry.token)));
        }
        let block = state.overview.block_of(number)?;
        Some(known(block.place()).map_or_else(|| RowLocation::Block(block.clone()), RowLocation::Known))
    }

    /// Returns the next step of OVER from `from` on; `None` if no number up to `end` lives.
    fn step(&self, from: u64, end: u64, which: RowSelection, out: &mut Vec<u8>) -> Option<OverStep> {
        let state = self.state();
        let all = which == RowSelection::Stored;
        let first = if all { state.live.at_or_after(from) } else { state.shown_from(from) };
        let number = first.filter(|n| *n <= end)?;
        if let Some(block) = state.overview.block_of(number) {
            let span = block.first.max(from)..=block.last.min(end);
            let whole = block.live == block.count && (all || state.shows_all(&span));
            let wanted = || match which {
                RowSelection::Shown => state.shown(span).collect(),
                RowSelection::Stored => state.live.range(span).collect(),
            };
            let living = (!whole).then(wanted);
            return Some(OverStep::Block(block.clone(), living));
        }
        let open = &state.overview.open;
        let first = open.entries.partition_point(|e| e.number < number);
        for (i, entry) in open.entries.iter().enumerate().skip(first) {
            if entry.number > end {
                break;
            }
            if state.live.contains(entry.number) && (all || state.shows(entry.number)) {
                out.extend_from_slice(open.row(i).unwrap_or_default());
            }
        }
        Some(OverStep::Done(end.saturating_add(1)))
    }
}

/// Appends rows of a plain block whose text was checked recently, reading only these rows, in one piece.
fn append_checked_rows(
    id: GroupId,
    block: &BlockRef,
    checked: &CheckedBlock,
    wanted: RowRange<'_>,
    patience: ReadMode,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    let (entries, before) = checked.between(wanted.from, wanted.end);
    let text = before..entries.last().map_or(before, |e| e.end as usize);
    // Read into this buffer first: unlike `out`, it is in the processor's cache.
    BLOCK.with_borrow_mut(|held| {
        block.read_text(id, text, patience, &mut held.raw)?;
        match wanted.living {
            None => out.extend_from_slice(&held.raw),
            Some(living) => copy_living(entries, &held.raw, before, living, out),
        }
        Ok(())
    })
}

/// Copies rows of a block that was read.
fn copy_rows(rows: &BlockRows, wanted: RowRange<'_>, out: &mut Vec<u8>) {
    let (entries, before) = between(&rows.entries, wanted.from, wanted.end);
    let text = rows.text.get(before..entries.last().map_or(before, |e| e.end as usize)).unwrap_or_default();
    match wanted.living {
        None => out.extend_from_slice(text),
        Some(living) => copy_living(entries, text, before, living, out),
    }
}

/// Copies the rows of the numbers in `living` (ascending). `text` is the text of these rows, which begins
/// `before` bytes after the start of the block's text.
fn copy_living(entries: &[RowEntry], text: &[u8], before: usize, living: &[u64], out: &mut Vec<u8>) {
    let (mut living, mut start) = (living.iter().peekable(), 0);
    for entry in entries {
        let end = (entry.end as usize).saturating_sub(before);
        while living.next_if(|n| **n < entry.number).is_some() {}
        if living.next_if(|n| **n == entry.number).is_some() {
            out.extend_from_slice(text.get(start..end).unwrap_or_default());
        }
        start = end;
    }
}
