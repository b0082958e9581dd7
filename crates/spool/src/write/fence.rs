//! What may be written over: only articles that a start after a power cut will know to have been durable.
//!
//! A start learns from the last `Synced` row that reached the disk how far everything was durable; what
//! follows it is checked against its bytes, and what is not whole never arrived. That is only true as long as
//! nothing after that row has been written over. So the writer compares each new write position with the
//! fence, and where it has come too near it syncs, records that in the journal, and syncs that row. Buffers
//! that take less than their own length between two syncs, which is all but very small ones, never meet it.
//!
//! For the same start's sake a buffer's next cycle is entered only after a durable `Skip` row says so: what a
//! power cut leaves beyond the last known write position is then in the cycle of that position, and an old
//! article elsewhere, such as any in a buffer that never wrapped, cannot have been written over. That costs
//! one sync of the journal for each time a buffer wraps. Called by the writer only.

use crate::base::token::MethodKind;
use crate::method::{Cyclic, VolumeTable};

/// Write positions by volume number.
type Heads = Vec<(u16, u64)>;

/// The write positions up to which all is known to be durable.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    heads: Heads,
    next: Option<Next>,
    /// A place in the last cycle of each volume that is durably entered.
    entered: Heads,
}

/// Where the fence will be once that is known to be durable.
#[derive(Debug)]
struct Next {
    heads: Heads,
    /// Journal position when the heads were taken.
    taken: u64,
    /// The end of the `Synced` row that records it.
    told: Option<u64>,
}

fn heads(volumes: &VolumeTable) -> Heads {
    volumes.all().iter().map(|v| (v.id(), v.head())).collect()
}

impl Fence {
    /// The fence of a spool just opened: what its journal says of the write positions is durable.
    pub fn new(volumes: &VolumeTable) -> Self {
        Self { entered: heads(volumes), ..Self::default() }
    }

    /// Whether the cycle of a place is known to have been entered.
    pub fn is_entered(&self, volume: &dyn Cyclic, place: u64) -> bool {
        if volume.method() != MethodKind::Cnfs {
            return true;
        }
        let entered = self.entered.iter().find(|(id, _)| *id == volume.id()).map(|(_, place)| *place);
        volume.cycle(place) <= volume.cycle(entered.unwrap_or_else(|| volume.first()))
    }

    /// A durable row says that the write position has come to `place`, the first of its cycle.
    pub fn enter(&mut self, volume: u16, place: u64) {
        self.entered.retain(|(id, _)| *id != volume);
        self.entered.push((volume, place));
    }

    /// Whether the volume may be written up to `head`.
    pub fn allows(&self, volume: &dyn Cyclic, head: u64) -> bool {
        if volume.method() != MethodKind::Cnfs {
            return true;
        }
        let known = self.heads.iter().find(|(id, _)| *id == volume.id()).map(|(_, head)| *head);
        let known = known.unwrap_or_else(|| volume.first());
        // An article of more than half the area may reach beyond all there is, with what stays free before
        // the area's end.
        volume.tail_at(head) <= known || volume.head() <= known
    }

    /// Moves the fence as far as is known. `durable` is the journal position up to which rows and articles
    /// are durable, `written` the one up to which the volumes' heads have come.
    pub fn follow(&mut self, durable: u64, written: u64, volumes: &VolumeTable) {
        if self.next.as_ref().is_some_and(|next| next.told.is_some_and(|told| told <= durable))
            && let Some(next) = self.next.take()
        {
            self.heads = next.heads;
        }
        self.next.get_or_insert_with(|| Next { heads: heads(volumes), taken: written, told: None });
    }

    /// A `Synced` row for `upto` was pushed, which ends at `row_end`.
    pub fn told(&mut self, upto: u64, row_end: u64) {
        if let Some(next) = self.next.as_mut().filter(|next| next.told.is_none() && next.taken <= upto) {
            next.told = Some(row_end);
        }
    }

    /// Everything is durable, and the row that records it too.
    pub fn all_told(&mut self, volumes: &VolumeTable) {
        (self.heads, self.next) = (heads(volumes), None);
    }
}
