//! Groups in use: one cell each, with the group's index while it is in memory.
//!
//! A cell exists as long as it is referenced or its index is in memory; there are never two of one group.
//! Cells that were recently found by their key are found again without a lock. Called by `cache`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use hashbrown::HashMap;
use lock_order::{Innermost, Ordered};

use crate::base::rank;
use crate::books::stats::GroupCounts;
use crate::index::loaded::GroupIndex;

/// Maximum size of the indexes in memory, over all groups.
pub(crate) const INDEX_BYTES_MAX: usize = 4 << 20;
/// Memory of a group besides its index, including allocator overhead. A generous estimate, so that there are
/// no more than 3,000 small ones: each is one small file to be read.
const CELL_BYTES: usize = 1024;
/// Number of cells above which idle ones are dropped.
const SPARE: usize = 1024;
/// Number of cells that are found without a lock, each at a place determined by its key.
const RECENT: usize = 512;

/// A group's index, while it is in use.
#[derive(Debug)]
pub(crate) struct GroupCell {
    pub slot: u32,
    pub key: u64,
    pub origin: Arc<str>,
    pub name: Box<[u8]>,
    /// True if the group can be cached: its name is not too long.
    pub is_kept: bool,
    pub index: Ordered<Option<Box<GroupIndex>>, { rank::INDEX }>,
    /// Memory in bytes.
    weight: AtomicUsize,
    /// Value of [`GroupCells::tick`] at the last use.
    used: AtomicU64,
    /// Requests of readers that are not added to the counters yet.
    pub counted: Innermost<GroupCounts>,
}

impl GroupCell {
    pub fn new(slot: u32, key: u64, origin: Arc<str>, name: &[u8], is_kept: bool) -> Self {
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

    /// Returns whether the cell is referenced, or its index is in memory.
    pub fn is_in_use(cell: &Arc<Self>) -> bool {
        Arc::strong_count(cell) > 1 || cell.weight.load(Ordering::Relaxed) > 0
    }
}

/// All cells.
#[derive(Debug)]
pub(crate) struct GroupCells {
    pub by_slot: Ordered<HashMap<u32, Arc<GroupCell>>, { rank::CELLS }>,
    recent: Box<[ArcSwapOption<GroupCell>]>,
    /// Size of all indexes in bytes.
    weight: AtomicUsize,
    /// Count of changes in size of indexes: their order of use only matters then.
    tick: AtomicU64,
}

impl Default for GroupCells {
    fn default() -> Self {
        Self {
            by_slot: Ordered::default(),
            recent: (0..RECENT).map(|_| ArcSwapOption::empty()).collect(),
            weight: AtomicUsize::new(0),
            tick: AtomicU64::new(0),
        }
    }
}

impl GroupCells {
    /// Returns whether idle cells are to be dropped before one is added to this many.
    pub fn is_to_shrink(cells: usize) -> bool {
        cells > SPARE && cells.is_power_of_two()
    }

    /// Returns the place for recently found cells with this key; another cell may be there.
    pub fn recent(&self, key: u64) -> Option<&ArcSwapOption<GroupCell>> {
        self.recent.get(key as usize % RECENT)
    }

    /// Records the size of a group's index. If the total is too large, the indexes that were not used for
    /// longest are dropped.
    pub fn weigh(&self, cell: &GroupCell, bytes: usize) {
        let weight = bytes + CELL_BYTES;
        if cell.weight.load(Ordering::Relaxed) == weight {
            let tick = self.tick.load(Ordering::Relaxed);
            // Writing an unchanged value would disturb other processors.
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
        let mut others: Vec<Arc<GroupCell>> = self.by_slot.lock().values().cloned().collect();
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

    /// Returns the size of all indexes in memory, in bytes.
    #[cfg(test)]
    pub fn index_bytes(&self) -> usize {
        self.by_slot.lock().values().map(|cell| cell.weight.load(Ordering::Relaxed)).sum()
    }
}
