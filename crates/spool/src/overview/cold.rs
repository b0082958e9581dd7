//! Compressing cold overview: the blocks of a plain segment move, as packed blocks, into a packed segment.
//!
//! Invariants: nothing is changed where it lies; a block counts as moved, in memory, once its packed form is written whole; the
//! plain segment is removed by the checkpoint that does not name it any more. The writer's lock is taken for
//! moments only, never while a block is read, compressed or written. Called by the server in a thread of its own, at leisure; what
//! a crash leaves is in `docs/formats/overview.md`.

use super::{BlockRef, Rows, Segment, packed};
use crate::clock::unix_now;
use crate::groups::GroupId;
use crate::reading::Patience;
use crate::spool::Spool;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Plain bytes of blocks that move in one step: some milliseconds of work.
const STEP_BYTES: u64 = 256 << 10;
/// A checkpoint is taken when segments that wait for it hold so many times what it will write.
const IDLE_PER_CHECKPOINT: u64 = 2;

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackReport {
    /// Blocks compressed.
    pub blocks: u64,
    /// Their length before, in bytes.
    pub plain_bytes: u64,
    /// Their length now, in bytes.
    pub packed_bytes: u64,
    /// Blocks that are damaged and stay as they are.
    pub damaged: u64,
    /// It was stopped before it was through.
    pub stopped: bool,
}

/// A block and its packed form in the step's bytes.
struct Moving {
    group: GroupId,
    block: BlockRef,
    at: u64,
    len: u32,
}

impl Spool {
    /// Compresses all overview that is cold, and has the plain files removed where that is worth a checkpoint. `pause` is called
    /// after each step with the time it took, and ends the pass with false. Only one pass runs at a time.
    pub fn pack_overview(&self, pause: &mut dyn FnMut(Duration) -> bool) -> io::Result<PackReport> {
        let mut report = PackReport::default();
        let Some(_pass) = self.packing_overview.try_lock() else { return Ok(report) };
        let before = match self.shared.config.overview_cold_secs {
            0 => u64::MAX,
            secs => unix_now().saturating_sub(secs),
        };
        while !report.stopped && self.trouble().is_none() {
            let cold = self.writer().lock().folds.segments.cold(before);
            let Some(segment) = cold else { break };
            self.pack_segment(&segment, pause, &mut report)?;
            self.drop_idle_segments();
        }
        // A checkpoint may have been in the way when the last segment became idle.
        self.drop_idle_segments();
        Ok(report)
    }

    fn pack_segment(
        &self,
        segment: &Arc<Segment>,
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

    /// Moves the first blocks of `rest`; returns how many of them are done with.
    fn pack_step(
        &self,
        segment: &Segment,
        rest: &[(GroupId, u64)],
        report: &mut PackReport,
    ) -> io::Result<usize> {
        let (mut rows, mut raw, mut bytes) = (Rows::default(), Vec::new(), Vec::new());
        let (mut moving, mut plain, mut done) = (Vec::new(), 0, 0);
        for (group, first) in rest {
            if plain >= STEP_BYTES {
                break;
            }
            done += 1;
            let find =
                |g: Arc<crate::groups::Group>| g.state().overview.block_in(segment.number, *first).cloned();
            let Some(block) = self.group(*group).and_then(find) else { continue };
            let at = bytes.len();
            plain += u64::from(block.len);
            // `verify` tells what is damaged, and repairs it.
            let whole = block.read(*group, Patience::Wait, &mut rows, &mut raw).is_ok();
            if !whole || !packed::encode(&rows, *group, &mut bytes) {
                bytes.truncate(at);
                report.damaged += 1;
                continue;
            }
            let len = (bytes.len() - at) as u32;
            moving.push(Moving { group: *group, block, at: at as u64, len });
        }
        if !moving.is_empty() {
            self.put_packed(&moving, &bytes, report)?;
        }
        Ok(done)
    }

    /// Writes packed blocks, and says that they are where the plain ones' rows are.
    fn put_packed(&self, moving: &[Moving], bytes: &[u8], report: &mut PackReport) -> io::Result<()> {
        let (to, end) = self.writer().lock().folds.segments.packed()?;
        // Nobody else writes there: there is one pass.
        to.write(bytes, end)?;
        let mut writer = self.writer().lock();
        for m in moving {
            let Some(group) = self.group(m.group) else { continue };
            if group.state().overview.moved(m.group, &m.block, &to, end + m.at, m.len) {
                report.blocks += 1;
                report.plain_bytes += u64::from(m.block.len);
                report.packed_bytes += u64::from(m.len);
            }
        }
        writer.folds.segments.packed_up_to(to.number, end + bytes.len() as u64);
        Ok(())
    }

    /// Takes a checkpoint if segments without rows are many times as long as it: it has them removed.
    fn drop_idle_segments(&self) {
        let mut writer = self.writer().lock();
        let idle = writer.folds.segments.idle_bytes();
        if idle > 0 && idle >= IDLE_PER_CHECKPOINT * 2 * writer.checkpointed.1 {
            writer.checkpoint_unless_pending();
        }
    }
}
