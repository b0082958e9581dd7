//! Overview: the rows of OVER by group, in blocks (`docs/formats/overview.md`).
//!
//! A new row goes into the group's open block in memory; at 16 KiB of text the block is closed, that is,
//! written to the current segment. Blocks of cold segments are compressed later
//! ([`crate::care::overview`]). The group's [`crate::index::groups::LiveSet`] decides which rows are
//! alive.

mod block;
mod checked;
pub(crate) mod packed;
mod segment;

pub(crate) use block::{BlockRows, RowEntry, between};
pub(crate) use checked::{CheckedBlock, CheckedBlocks};
pub(crate) use segment::{OverviewSegment, OverviewSegments, SegmentKind, SegmentState};

use crate::index::groups::LiveSet;
use disk::DiskFile;
use disk::ReadMode;
use spool_base::error::ReadError;
use spool_base::ids::GroupId;
use std::collections::VecDeque;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The open block of a quiet group is closed if at least this fraction of it is full: shorter blocks would
/// take longer to read, and longer ones more memory while they wait.
pub(crate) const REST_PART: usize = 4;

/// Reference to a closed block, with the number of its living rows.
#[derive(Debug, Clone)]
pub(crate) struct BlockRef {
    pub first: u64,
    pub last: u64,
    pub segment: Arc<OverviewSegment>,
    pub offset: u64,
    pub len: u32,
    pub count: u32,
    /// Number of rows whose article lives.
    pub live: u32,
    /// Latest arrival in the block, Unix seconds.
    pub arrived_max: u32,
}

impl BlockRef {
    /// Reads and checks the whole block.
    pub fn read(
        &self,
        group: GroupId,
        patience: ReadMode,
        rows: &mut BlockRows,
        raw: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.read_bytes(self.len as usize, patience, raw)?;
        if rows.decode(group, raw) { Ok(()) } else { Err(self.damaged(group)) }
    }

    /// Reads and checks the entries, without the text.
    pub fn read_entries(
        &self,
        group: GroupId,
        patience: ReadMode,
        rows: &mut BlockRows,
        raw: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let head = match self.segment.kind {
            SegmentKind::Plain => block::head_bytes(self.count as usize),
            // Only the block itself records where its entries end.
            SegmentKind::Packed => self.len as usize,
        };
        self.read_bytes(head, patience, raw)?;
        if rows.decode_entries(group, raw) { Ok(()) } else { Err(self.damaged(group)) }
    }

    /// Reads a range of a plain block's text without checking it.
    pub fn read_text(
        &self,
        group: GroupId,
        text: Range<usize>,
        patience: ReadMode,
        raw: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let head = block::head_bytes(self.count as usize);
        self.read_range(head + text.start..head + text.end, patience, raw)?;
        if raw.len() == text.len() { Ok(()) } else { Err(self.damaged(group)) }
    }

    /// Has the disk begin to read the block, without waiting. An error comes up again when it is read.
    pub fn begin_read(&self) {
        let _error = self.segment.file.begin_read(self.offset..self.offset + u64::from(self.len));
    }

    fn read_bytes(&self, len: usize, patience: ReadMode, raw: &mut Vec<u8>) -> Result<(), ReadError> {
        self.read_range(0..len, patience, raw)
    }

    /// Reads a range of the block's bytes, as far as the file has them.
    fn read_range(
        &self,
        range: Range<usize>,
        patience: ReadMode,
        raw: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        // Old contents are overwritten, and need not be zeros.
        raw.resize(range.len(), 0);
        let file: &dyn DiskFile = &*self.segment.file;
        let offset = self.offset + range.start as u64;
        let n = match patience {
            ReadMode::CacheOnly => file.read_at_cached(raw, offset)?,
            ReadMode::Wait => file.read_at(raw, offset)?,
        };
        raw.truncate(n);
        Ok(())
    }

    /// Returns the place of the block, which is never reused and whose contents never change.
    pub fn place(&self) -> (u64, u64) {
        (self.segment.id, self.offset)
    }

    fn damaged(&self, group: GroupId) -> ReadError {
        ReadError::damaged(format!(
            "overview block of group {} at {} in segment {:08} is damaged; `newsreel verify --repair` makes \
                it anew from the \
             articles",
            group.0, self.offset, self.segment.number
        ))
    }
}

/// Location at which a block was written.
#[derive(Debug)]
pub(crate) struct BlockLocation {
    pub segment: Arc<OverviewSegment>,
    pub offset: u64,
    pub len: u32,
}

/// The overview of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupOverview {
    /// Closed blocks, in number order.
    pub blocks: VecDeque<BlockRef>,
    /// Rows not yet in a segment.
    pub open: BlockRows,
}

impl GroupOverview {
    /// Adds a row of at most `row_bytes_max`; `text` appends it in wire form. Numbers must ascend.
    pub fn push(&mut self, entry: RowEntry, row_bytes_max: usize, text: impl FnOnce(&mut Vec<u8>)) {
        self.open.make_room(row_bytes_max);
        text(&mut self.open.text);
        self.open.entries.push(RowEntry { end: self.open.text.len() as u32, ..entry });
    }

    /// Reports whether a number is higher than those of all rows.
    pub fn is_followed_by(&self, number: u64) -> bool {
        let last = self.open.entries.last().map(|e| e.number).or(self.blocks.back().map(|b| b.last));
        last.is_none_or(|last| last < number)
    }

    /// Reports whether the open block should be closed before a row of this size and number is added, to hold
    /// no more text than `block_text_bytes`.
    pub fn is_full(&self, number: u64, row_bytes_max: usize, block_text_bytes: usize) -> bool {
        let Some(first) = self.open.entries.first() else { return false };
        self.open.text.len() + row_bytes_max > block_text_bytes || !block::fits(first.number, number)
    }

    /// Reports whether a number fits into the open block, ignoring the amount of text.
    pub fn fits(&self, number: u64) -> bool {
        self.open.entries.first().is_none_or(|first| block::fits(first.number, number))
    }

    /// Returns the addresses that adding the next row will modify: its entry, the block's first one, its
    /// text.
    pub fn next_writes(&self) -> [usize; 3] {
        let BlockRows { entries, text } = &self.open;
        let spare = entries.as_ptr_range().end.addr();
        [spare, entries.as_ptr().addr(), text.as_ptr_range().end.addr()]
    }

    /// Writes the open block to a segment, or drops it if no row of it lives.
    pub fn close(
        &mut self,
        group: GroupId,
        live: &LiveSet,
        segments: &mut OverviewSegments,
    ) -> io::Result<()> {
        let living = self.open.entries.iter().filter(|e| live.contains(e.number)).count();
        let (Some(first), Some(last)) = (self.open.entries.first(), self.open.entries.last()) else {
            return Ok(());
        };
        if living > 0 {
            let (segment, offset, len) = segments.append(|out| self.open.encode(group, out))?;
            let arrived_max = self.open.entries.iter().map(|e| e.arrived).max().unwrap_or(0);
            segment.holds(group, first.number, arrived_max);
            self.blocks.push_back(BlockRef {
                first: first.number,
                last: last.number,
                segment,
                offset,
                len,
                count: self.open.entries.len() as u32,
                live: living as u32,
                arrived_max,
            });
        }
        self.open.entries.clear();
        self.open.text.clear();
        Ok(())
    }

    /// Frees memory of the open block that is not needed while nothing is filed here: a block with enough
    /// text is closed, otherwise only spare memory is freed.
    pub fn rest(
        &mut self,
        group: GroupId,
        live: &LiveSet,
        enough_bytes: usize,
        segments: &mut OverviewSegments,
    ) -> io::Result<()> {
        let closed = match self.open.text.len() >= enough_bytes {
            true => self.close(group, live, segments),
            false => Ok(()),
        };
        self.open.shrink();
        closed
    }

    /// Reports whether [`GroupOverview::rest`] would free a worthwhile amount of memory.
    pub fn may_rest(&self, enough_bytes: usize) -> bool {
        self.open.text.len() >= enough_bytes || self.open.has_spare()
    }

    /// Replaces a closed block's rows with others; the numbers are within those of the old ones, and all
    /// alive.
    pub fn renew(
        &mut self,
        group: GroupId,
        first: u64,
        rows: &BlockRows,
        segments: &mut OverviewSegments,
    ) -> io::Result<()> {
        let block = self.blocks.iter_mut().find(|b| b.first == first && b.live > 0);
        let Some(block) = block else { return Ok(()) };
        let (segment, offset, len) = segments.append(|out| rows.encode(group, out))?;
        block.segment.live_blocks.fetch_sub(1, Ordering::Relaxed);
        segment.holds(group, first, block.arrived_max);
        let count = rows.entries.len() as u32;
        *block = BlockRef { segment, offset, len, count, live: count, ..block.clone() };
        Ok(())
    }

    /// Returns the closed block that begins with this number, if it is in `segment` and a row of it lives,
    /// and its next neighbours for which the same holds, at most `max` altogether.
    pub fn blocks_in(&self, segment: u32, first: u64, max: usize) -> Vec<BlockRef> {
        let at = self.blocks.partition_point(|b| b.last < first);
        let is_there = |b: &&BlockRef| b.segment.number == segment && b.live > 0;
        let begins = self.blocks.get(at).is_some_and(|b| b.first == first);
        self.blocks.iter().skip(at).take_while(is_there).take(max * usize::from(begins)).cloned().collect()
    }

    /// Replaces neighbouring blocks by one block with the same rows; returns false if they differ from `old`.
    pub fn moved(&mut self, group: GroupId, old: &[BlockRef], to: BlockLocation) -> bool {
        let (Some(first), Some(last)) = (old.first(), old.last()) else { return false };
        let at = self.blocks.partition_point(|b| b.last < first.first);
        let place = |b: &BlockRef| (b.segment.number, b.offset, b.first);
        let now = || self.blocks.iter().skip(at).take(old.len());
        let live = now().map(|b| b.live).sum();
        if live == 0 || !now().map(place).eq(old.iter().map(place)) {
            return false;
        }
        let merged = BlockRef {
            first: first.first,
            last: last.last,
            segment: to.segment,
            offset: to.offset,
            len: to.len,
            count: old.iter().map(|b| b.count).sum(),
            live,
            arrived_max: old.iter().map(|b| b.arrived_max).max().unwrap_or(0),
        };
        merged.segment.holds(group, merged.first, merged.arrived_max);
        for block in now().filter(|b| b.live > 0) {
            block.segment.live_blocks.fetch_sub(1, Ordering::Relaxed);
        }
        self.blocks.drain(at + 1..at + old.len());
        if let Some(block) = self.blocks.get_mut(at) {
            *block = merged;
        }
        true
    }

    /// Accounts for the death of a number; the caller updates the live set.
    pub fn died(&mut self, number: u64) {
        let at = self.place_of(number);
        let Some(block) = self.blocks.get_mut(at).filter(|b| b.first <= number && b.live > 0) else { return };
        block.live -= 1;
        if block.live == 0 {
            block.segment.live_blocks.fetch_sub(1, Ordering::Relaxed);
        }
        while self.blocks.front().is_some_and(|b| b.live == 0) {
            self.blocks.pop_front();
        }
    }

    /// Returns the closed block that holds a number.
    pub fn block_of(&self, number: u64) -> Option<&BlockRef> {
        self.blocks.get(self.place_of(number)).filter(|b| b.first <= number && b.live > 0)
    }

    /// Returns the closed blocks with living rows that have numbers of a range.
    pub fn blocks_of(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = &BlockRef> {
        let blocks = self.blocks.range(self.place_of(*range.start())..);
        blocks.take_while(move |block| block.first <= *range.end()).filter(|block| block.live > 0)
    }

    /// Returns the index of the first closed block that does not end before a number. Due numbers are in the
    /// first.
    fn place_of(&self, number: u64) -> usize {
        match self.blocks.front() {
            Some(first) if first.last >= number => 0,
            _ => self.blocks.partition_point(|b| b.last < number),
        }
    }

    /// Drops everything (the group was removed).
    pub fn clear(&mut self) {
        for block in self.blocks.drain(..).filter(|b| b.live > 0) {
            block.segment.live_blocks.fetch_sub(1, Ordering::Relaxed);
        }
        self.open = BlockRows::default();
    }
}
