//! Groups in use: one cell each, with the group's index while that is in memory.
//!
//! A cell stays as long as somebody has it or its index is in memory; there are never two of one group. Cells
//! that were found by their key lately are found again without a lock. Called by `cache`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use hashbrown::HashMap;
use lock_order::{Innermost, Ordered};

use crate::loaded::Loaded;
use crate::rank;
use crate::stats::OfGroup;

/// Bytes of indexes that are in memory, over all groups.
pub(crate) const INDEX_BYTES_MAX: usize = 4 << 20;
/// What a group takes beside its index while that is in memory, with parts of the allocator's pages. It is
/// counted amply, so that there are no more than 3,000 small ones: each is one small file to be read.
const CELL_BYTES: usize = 1024;
/// Cells that may be there before idle ones are dropped.
const SPARE: usize = 1024;
/// Cells that are found without a lock, each at the place that its key has.
const RECENT: usize = 512;

/// One group's index, while it is in use.
#[derive(Debug)]
pub(crate) struct Cell {
    pub slot: u32,
    pub key: u64,
    pub origin: Arc<str>,
    pub name: Box<[u8]>,
    /// Whether anything is kept of it: its name is not too long.
    pub is_kept: bool,
    pub index: Ordered<Option<Box<Loaded>>, { rank::INDEX }>,
    /// Bytes of memory.
    weight: AtomicUsize,
    /// What [`Cells::tick`] was when it was used.
    used: AtomicU64,
    /// What readers asked for since the counters were last told.
    pub counted: Innermost<OfGroup>,
}

impl Cell {
    pub fn new(slot: u32, key: u64, (origin, name): (Arc<str>, &[u8]), is_kept: bool) -> Self {
        Self {
            slot,
            key,
            origin,
            name: name.into(),
            is_kept,
            index: Ordered::new(None),
            weight: AtomicUsize::new(0),
            used: AtomicU64::new(0),
            counted: Innermost::default(),
        }
    }

    /// Whether somebody has it, or its index is in memory.
    pub fn is_in_use(cell: &Arc<Self>) -> bool {
        Arc::strong_count(cell) > 1 || cell.weight.load(Ordering::Relaxed) > 0
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Cells {
    pub by_slot: Ordered<HashMap<u32, Arc<Cell>>, { rank::CELLS }>,
    recent: Box<[ArcSwapOption<Cell>]>,
    /// Bytes of all indexes.
    weight: AtomicUsize,
    /// Counts how often an index became larger or smaller: only then is it of interest which was used before.
    tick: AtomicU64,
}

impl Default for Cells {
    fn default() -> Self {
        Self {
            by_slot: Ordered::default(),
            recent: (0..RECENT).map(|_| ArcSwapOption::empty()).collect(),
            weight: AtomicUsize::new(0),
            tick: AtomicU64::new(0),
        }
    }
}

impl Cells {
    /// Whether those not in use are to be dropped before there are more than so many.
    pub fn is_to_shrink(cells: usize) -> bool {
        cells > SPARE && cells.is_power_of_two()
    }

    /// Where a cell with this key is if it was found by it lately; there may be another one.
    pub fn recent(&self, key: u64) -> Option<&ArcSwapOption<Cell>> {
        self.recent.get(key as usize % RECENT)
    }

    /// A group's index takes so many bytes now. Where all take too many, those that were not used for longest
    /// are dropped.
    pub fn weigh(&self, cell: &Cell, bytes: usize) {
        let weight = bytes + CELL_BYTES;
        if cell.weight.load(Ordering::Relaxed) == weight {
            let tick = self.tick.load(Ordering::Relaxed);
            // Others need not be told what they know.
            if cell.used.load(Ordering::Relaxed) != tick {
                cell.used.store(tick, Ordering::Relaxed);
            }
            return;
        }
        cell.used.store(self.tick.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let before = cell.weight.swap(weight, Ordering::Relaxed);
        self.weight.fetch_add(weight, Ordering::Relaxed);
        let total = self.weight.fetch_sub(before, Ordering::Relaxed) - before;
        if total <= INDEX_BYTES_MAX {
            return;
        }
        let mut others: Vec<Arc<Cell>> = self.by_slot.lock().values().cloned().collect();
        others.retain(|other| other.weight.load(Ordering::Relaxed) > 0 && other.slot != cell.slot);
        others.sort_unstable_by_key(|other| other.used.load(Ordering::Relaxed));
        for other in others {
            if self.weight.load(Ordering::Relaxed) <= INDEX_BYTES_MAX * 3 / 4 {
                break;
            }
            if let Some(mut index) = other.index.try_lock() {
                *index = None;
                let weight = other.weight.swap(0, Ordering::Relaxed);
                self.weight.fetch_sub(weight, Ordering::Relaxed);
            }
        }
    }

    /// Bytes that all indexes in memory take.
    #[cfg(test)]
    pub fn index_bytes(&self) -> usize {
        self.by_slot.lock().values().map(|cell| cell.weight.load(Ordering::Relaxed)).sum()
    }
}
