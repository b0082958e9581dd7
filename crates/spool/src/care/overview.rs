//! Care for overview while serving: cold overview is compressed, and groups that are quiet give back memory.
//!
//! Compression moves the blocks of a plain segment, as packed blocks, into a packed segment. Invariants:
//! nothing is changed in place; a block counts as moved, in memory, once its packed form is written whole;
//! the plain segment is removed by the first checkpoint that does not refer to it. The writer's lock is taken
//! only briefly, never while a block is read, compressed or written. The server does both in background
//! threads; the remnants of a crash are described in `docs/formats/overview.md`.

use crate::index::fold::SharedIndexes;
use crate::index::groups::Group;
use crate::index::overview::{BlockLocation, BlockRef, BlockRows, OverviewSegment, REST_PART, packed};
use crate::write::locked::LockedWriter;
use disk::ReadMode;
use disk::clock::unix_secs;
use spool_base::ids::GroupId;
use spool_base::ordered::{Ordered, rank};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of plain blocks that move in one step: some milliseconds of work.
const STEP_BYTES: u64 = 256 << 10;
/// Number of neighbours that become one packed block: four times as long, the text compresses by 8 % better
/// and is read a fifth faster; a single row costs four times as much.
const BLOCKS_MERGED: usize = 4;
/// A checkpoint is taken when the segments that wait for it have this many times its size.
const IDLE_PER_CHECKPOINT: u64 = 2;
/// Number of groups whose overview is examined under one hold of the writer's lock: at most a MiB is written
/// there.
const GROUPS_AT_ONCE: usize = 64;

/// Results of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackReport {
    /// Blocks compressed.
    pub blocks: u64,
    /// Plain length of these blocks, in bytes.
    pub plain_bytes: u64,
    /// Packed length of these blocks, in bytes.
    pub packed_bytes: u64,
    /// Damaged blocks, which stay as they are.
    pub damaged: u64,
    /// Whether the pass was stopped before its end.
    pub stopped: bool,
}

/// Neighbouring blocks, and the range of their packed form in the step's bytes.
struct MovingBlocks {
    group: GroupId,
    blocks: Vec<BlockRef>,
    at: u64,
    len: u32,
}

/// Appends the packed form of `rows`, which come from the blocks `merged`, and clears both.
fn put_block(
    group: GroupId,
    rows: &mut BlockRows,
    merged: &mut Vec<BlockRef>,
    bytes: &mut Vec<u8>,
    moving: &mut Vec<MovingBlocks>,
) {
    let at = bytes.len();
    if !merged.is_empty() && packed::encode(rows, group, bytes) {
        let len = (bytes.len() - at) as u32;
        moving.push(MovingBlocks { group, blocks: std::mem::take(merged), at: at as u64, len });
    } else {
        bytes.truncate(at);
    }
    merged.clear();
    rows.entries.clear();
    rows.text.clear();
}

/// Care for the overview of an open spool; see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct OverviewCare<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    packing: &'s Ordered<(), { rank::PACKING_OVERVIEW }>,
}

impl<'s> OverviewCare<'s> {
    pub(crate) fn new(
        shared: &'s SharedIndexes,
        writer: &'s LockedWriter,
        packing: &'s Ordered<(), { rank::PACKING_OVERVIEW }>,
    ) -> Self {
        Self { shared, writer, packing }
    }

    /// Compresses all cold overview, and has the plain files removed if that is worth a checkpoint. `pause`
    /// is called after each step with its duration, and ends the pass by returning false. Only one pass runs
    /// at a time.
    pub fn pack(&self, pause: &mut dyn FnMut(Duration) -> bool) -> io::Result<PackReport> {
        let mut report = PackReport::default();
        let Some(_pass) = self.packing.try_lock() else { return Ok(report) };
        let before = match self.shared.current.load().overview_cold_secs {
            0 => u64::MAX,
            secs => unix_secs().saturating_sub(secs),
        };
        while !report.stopped && self.writer.sync().trouble().is_none() {
            let cold = self.writer.lock().folds.segments.cold(before);
            let Some(segment) = cold else { break };
            self.pack_segment(&segment, pause, &mut report)?;
            self.drop_idle_segments();
        }
        // A checkpoint may have been in progress when the last segment became idle.
        self.drop_idle_segments();
        Ok(report)
    }

    fn pack_segment(
        &self,
        segment: &Arc<OverviewSegment>,
        pause: &mut dyn FnMut(Duration) -> bool,
        report: &mut PackReport,
    ) -> io::Result<()> {
        let blocks = segment.take_blocks();
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let began = Instant::now();
            match self.pack_step(segment, rest, report) {
                Ok(done) => rest = rest.get(done..).unwrap_or_default(),
                Err(e) => {
                    segment.put_blocks_back(rest);
                    return Err(e);
                }
            }
            if !pause(began.elapsed()) {
                segment.put_blocks_back(rest);
                report.stopped = true;
                break;
            }
        }
        Ok(())
    }

    /// Moves the first blocks of `rest`; returns how many were handled.
    fn pack_step(
        &self,
        segment: &OverviewSegment,
        rest: &[(GroupId, u64)],
        report: &mut PackReport,
    ) -> io::Result<usize> {
        let (mut bytes, mut moving, mut plain, mut done) = (Vec::new(), Vec::new(), 0, 0);
        while let Some((group, first)) = rest.get(done).filter(|_| plain < STEP_BYTES) {
            let find = |g: Arc<Group>| g.state().overview.blocks_in(segment.number, *first, BLOCKS_MERGED);
            let blocks = self.shared.groups.get(*group).map(find).unwrap_or_default();
            // A dead block yields none, a merged one several.
            let last = blocks.last().map_or(*first, |b| b.first);
            done += rest.iter().skip(done).take_while(|next| **next <= (*group, last)).count();
            plain += blocks.iter().map(|b| u64::from(b.len)).sum::<u64>();
            self.pack_blocks(*group, blocks, &mut bytes, &mut moving, report);
        }
        if !moving.is_empty() {
            self.put_packed(segment, &moving, &bytes, report)?;
        }
        Ok(done)
    }

    /// Joins neighbours into packed blocks: one, or, if a damaged one lies between them, those before and
    /// after it.
    fn pack_blocks(
        &self,
        group: GroupId,
        blocks: Vec<BlockRef>,
        bytes: &mut Vec<u8>,
        moving: &mut Vec<MovingBlocks>,
        report: &mut PackReport,
    ) {
        let (mut one, mut raw, mut all) = (BlockRows::default(), Vec::new(), BlockRows::default());
        let mut merged = Vec::new();
        let text_bytes_max = BLOCKS_MERGED * self.shared.config.overview.block_text_bytes;
        for block in blocks {
            // Damaged blocks are left to `verify`, which reports them, and to repair.
            let whole = block.read(group, ReadMode::Wait, &mut one, &mut raw).is_ok();
            report.damaged += u64::from(!whole);
            if !whole || all.text.len() + one.text.len() > text_bytes_max {
                put_block(group, &mut all, &mut merged, bytes, moving);
            }
            if whole {
                all.append(&one);
                merged.push(block);
            }
        }
        put_block(group, &mut all, &mut merged, bytes, moving);
    }

    /// Writes packed blocks, and makes the groups refer to them instead of the plain ones.
    fn put_packed(
        &self,
        from: &OverviewSegment,
        moving: &[MovingBlocks],
        bytes: &[u8],
        report: &mut PackReport,
    ) -> io::Result<()> {
        let (to, end) = self.writer.lock().folds.segments.packed()?;
        // There is only one pass, so nothing else writes there.
        to.write(bytes, end)?;
        let mut writer = self.writer.lock();
        for m in moving {
            let Some(group) = self.shared.groups.get(m.group) else { continue };
            let placed = BlockLocation { segment: to.clone(), offset: end + m.at, len: m.len };
            if group.state().overview.moved(m.group, &m.blocks, placed) {
                report.blocks += m.blocks.len() as u64;
                report.plain_bytes += m.blocks.iter().map(|b| u64::from(b.len)).sum::<u64>();
                report.packed_bytes += u64::from(m.len);
            } else {
                // A block has died, or was rewritten: the others are left to the next pass.
                from.put_blocks_back(&m.blocks.iter().map(|b| (m.group, b.first)).collect::<Vec<_>>());
            }
        }
        writer.folds.segments.packed_up_to(to.number, end + bytes.len() as u64);
        Ok(())
    }

    /// Takes a checkpoint if segments without rows are many times as large: it removes them.
    fn drop_idle_segments(&self) {
        let mut writer = self.writer.lock();
        let idle = writer.folds.segments.idle_bytes();
        if idle > 0 && idle >= IDLE_PER_CHECKPOINT * 2 * writer.checkpointed.1 {
            writer.checkpoint_unless_pending();
        }
    }

    /// Frees memory that is not needed while things are quiet: open overview blocks of groups in which
    /// nothing was filed for `quiet_secs` are written to a segment if at least a quarter full, otherwise they
    /// lose their spare memory; cached data of readers that was not used for a while is forgotten.
    pub fn rest(&self, quiet_secs: u64) {
        let now = unix_secs();
        self.shared.checked_blocks.rest(now);
        let before = now.saturating_sub(quiet_secs);
        let enough = self.shared.config.overview.block_text_bytes / REST_PART;
        let may_rest = |group: &&Arc<Group>| {
            let state = group.state();
            state.changed <= before && state.overview.may_rest(enough)
        };
        let groups = self.shared.groups.sorted();
        let groups: Vec<GroupId> = groups.iter().filter(may_rest).map(|group| group.id).collect();
        for some in groups.chunks(GROUPS_AT_ONCE) {
            let mut writer = self.writer.lock();
            // Nothing is done after trouble, or after closing.
            if self.writer.sync().trouble().is_some() {
                return;
            }
            writer.folds.rest(some, before);
        }
    }
}
