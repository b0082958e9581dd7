//! Overwrite protection: an article may be overwritten only if a start after a power cut will know that it
//! was durable.
//!
//! A start learns from the last `Synced` row that reached the disk up to where everything was durable; rows
//! after that are checked against their bytes, and articles that are not whole never arrived. This works only
//! as long as nothing after that row has been overwritten. The writer therefore compares each new write
//! position with the fence, and if it comes too near, syncs, records that in the journal, and syncs that row.
//! Buffers that take less than their own length between two syncs, which is all but very small ones, never
//! reach the fence.
//!
//! For the same reason a buffer's next cycle is entered only after a durable `Skip` row records it: the
//! remnants of a power cut beyond the last known write position are then in the cycle of that position, and
//! an old article elsewhere, such as any in a buffer that never wrapped, cannot have been overwritten. That
//! costs one sync of the journal each time a buffer wraps. Used by the writer only.

use spool_base::token::MethodKind;
use spool_methods::{Cyclic, VolumeTable};

/// Write positions by volume number.
type Heads = Vec<(u16, u64)>;

/// Write positions up to which everything is known to be durable.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    heads: Heads,
    next: Option<PendingFence>,
    /// A place in the last durably entered cycle of each volume.
    entered: Heads,
}

/// The next position of the fence, once that is known to be durable.
#[derive(Debug)]
struct PendingFence {
    heads: Heads,
    /// Journal position when the heads were taken.
    taken: u64,
    /// End of the `Synced` row that records it.
    told: Option<u64>,
}

fn heads(volumes: &VolumeTable) -> Heads {
    volumes.all().iter().map(|v| (v.id(), v.head())).collect()
}

impl Fence {
    /// Creates the fence of a spool just opened: the write positions in its journal are durable.
    pub fn new(volumes: &VolumeTable) -> Self {
        Self { entered: heads(volumes), ..Self::default() }
    }

    /// Reports whether the cycle of a place is known to have been entered.
    pub fn is_entered(&self, volume: &dyn Cyclic, place: u64) -> bool {
        if volume.method() != MethodKind::Cnfs {
            return true;
        }
        let entered = self.entered.iter().find(|(id, _)| *id == volume.id()).map(|(_, place)| *place);
        volume.cycle(place) <= volume.cycle(entered.unwrap_or_else(|| volume.first()))
    }

    /// Records that a durable row has the write position at `place`, the first of its cycle.
    pub fn enter(&mut self, volume: u16, place: u64) {
        self.entered.retain(|(id, _)| *id != volume);
        self.entered.push((volume, place));
    }

    /// Reports whether the volume may be written up to `head`.
    pub fn allows(&self, volume: &dyn Cyclic, head: u64) -> bool {
        if volume.method() != MethodKind::Cnfs {
            return true;
        }
        let known = self.heads.iter().find(|(id, _)| *id == volume.id()).map(|(_, head)| *head);
        let known = known.unwrap_or_else(|| volume.first());
        // A very large article, with the free space before the area's end, may displace everything; then
        // everything up to the write position must be durable.
        volume.tail_at(head) <= known || volume.head() <= known
    }

    /// Moves the fence as far as known. Rows and articles are durable up to journal position `durable`; the
    /// volumes' heads are those at position `written`.
    pub fn follow(&mut self, durable: u64, written: u64, volumes: &VolumeTable) {
        if self.next.as_ref().is_some_and(|next| next.told.is_some_and(|told| told <= durable))
            && let Some(next) = self.next.take()
        {
            self.heads = next.heads;
        }
        self.next.get_or_insert_with(|| PendingFence { heads: heads(volumes), taken: written, told: None });
    }

    /// Records that a `Synced` row for `upto` was pushed, which ends at `row_end`.
    pub fn told(&mut self, upto: u64, row_end: u64) {
        if let Some(next) = self.next.as_mut().filter(|next| next.told.is_none() && next.taken <= upto) {
            next.told = Some(row_end);
        }
    }

    /// Records that everything is durable, including the row that says so.
    pub fn all_told(&mut self, volumes: &VolumeTable) {
        (self.heads, self.next) = (heads(volumes), None);
    }
}
