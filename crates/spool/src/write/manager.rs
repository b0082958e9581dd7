//! The storage manager's second half: the choice of a volume within an article's class (the first half is
//! [`crate::index::rules`]).

use spool_base::config::{BufferOrder, ClassConfig};
use spool_base::token::MethodKind;
use spool_methods::{Cyclic, Volume, VolumeTable};
use std::sync::Arc;

/// Amount written to one volume in interleaved order before the next one's turn: enough for the articles of a
/// busy feed's batch to be written in one call.
const STRIPE_BYTES_MAX: u64 = 1 << 20;
/// Stripe length for small volumes, as a fraction of their area.
const STRIPE_PART: u64 = 64;

/// A storage class: a method and the volumes it writes to (a "metacycbuff").
#[derive(Debug)]
pub(crate) struct Class {
    pub method: MethodKind,
    /// Names of the class's buffers, including retired ones; for other methods the class's own name.
    pub buffers: Vec<String>,
    /// Indexes into [`VolumeTable`] of the volumes it writes to.
    pub volumes: Vec<usize>,
    order: BufferOrder,
    /// Position in `volumes` of the next one to write to.
    pub turn: usize,
    /// Bytes stored since that volume's turn began.
    stripe: u64,
    /// Minimum retention.
    pub floor: Option<ClassFloor>,
    /// Articles of this class that its overflow has taken since the start.
    pub spilled: u64,
    /// Articles of this class that were not stored, as they could only have displaced protected ones.
    pub turned_away: u64,
}

/// Minimum retention of a class's articles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassFloor {
    pub keep_secs: u64,
    /// Class that takes articles which would break the floor.
    pub overflow: Option<usize>,
}

/// A chosen volume and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VolumeChoice {
    /// Index into [`VolumeTable`].
    pub volume: usize,
    pub place: u64,
    pub turn: usize,
    /// A volume declared full, and its new write position.
    pub leaves: Option<(usize, u64)>,
}

/// Plan of a volume for a record.
struct VolumePlan {
    volume: usize,
    head: u64,
    place: u64,
    end: u64,
}

impl Class {
    /// Creates a class that continues where its volumes are: in sequential order the one in the middle of a
    /// cycle is next, otherwise the one that has wrapped the fewest times.
    pub fn new(
        config: &ClassConfig,
        indexes: Vec<usize>,
        volumes: &VolumeTable,
        class: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let volume = |i: &usize| volumes.all().get(*i);
        let cyclic = |i: &usize| volume(i).and_then(|v| v.cyclic());
        let is_within = |v: &dyn Cyclic| v.offset(v.head()) != Some(0);
        let middle = indexes.iter().position(|i| cyclic(i).is_some_and(is_within));
        let cycle = |i: &usize| cyclic(i).map(|v| v.cycle(v.head()));
        let lowest = || (0..indexes.len()).min_by_key(|at| indexes.get(*at).map(cycle));
        let turn = match config.order {
            BufferOrder::Interleave => 0,
            BufferOrder::Sequential => middle.or_else(lowest).unwrap_or(0),
        };
        let floor = config.floor.as_ref().map(|f| ClassFloor {
            keep_secs: f.keep_at_least_secs,
            overflow: f.overflow.as_deref().and_then(class),
        });
        let (method, order) = (config.method, config.order);
        // A class without buffers has one volume of its own name.
        let own = || vec![config.name.clone()];
        let buffers = if method == MethodKind::Cnfs { config.buffers.clone() } else { own() };
        Self { method, buffers, volumes: indexes, order, turn, stripe: 0, floor, spilled: 0, turned_away: 0 }
    }

    /// Uses the current volumes of its buffers, except for retired ones.
    pub fn use_buffers(&mut self, volumes: &VolumeTable, retired: &[String]) {
        let at_turn = self.volumes.get(self.turn % self.volumes.len().max(1)).copied();
        let method = self.method;
        let is_it = |v: &Arc<dyn Volume>, name: &String| v.name() == name && v.method() == method;
        let index = |name: &String| volumes.all().iter().position(|v| is_it(v, name));
        self.volumes = self.buffers.iter().filter(|b| !retired.contains(b)).filter_map(index).collect();
        let turn = self.volumes.iter().position(|v| Some(*v) == at_turn);
        self.turn = turn.unwrap_or(0);
    }

    /// Chooses the place of a record of `len` bytes; `heads` are the write positions planned so far in this
    /// batch. `may` returns whether a volume's write position may move to a place, displacing what is one
    /// area earlier.
    pub fn choose(
        &self,
        volumes: &VolumeTable,
        heads: &[Option<u64>],
        len: usize,
        may: &mut dyn FnMut(usize, u64) -> bool,
    ) -> Option<VolumeChoice> {
        let plan = |turn: usize| {
            let volume = *self.volumes.get(turn % self.volumes.len().max(1))?;
            let v = volumes.all().get(volume)?;
            let head = heads.get(volume).copied().flatten().unwrap_or_else(|| v.head());
            let place = v.plan(head, len)?;
            Some(VolumePlan { volume, head, place, end: place + v.padded(len) })
        };
        // Volumes may differ in size: a record too large for the current one goes to the next that can hold
        // it, as does one that would displace protected articles here.
        let other = |may: &mut dyn FnMut(usize, u64) -> bool| {
            let turns = self.turn + 1..self.turn + self.volumes.len();
            turns.filter_map(|turn| Some((turn, plan(turn)?))).find(|(_, p)| may(p.volume, p.end))
        };
        let here = plan(self.turn);
        if self.order == BufferOrder::Sequential
            && let Some(full) = here.as_ref().filter(|p| p.place != p.head)
            && let Some((turn, next)) = other(may)
            && may(full.volume, full.place)
        {
            // The volume would wrap: it is full, and the next one begins its next cycle.
            let leaves = Some((full.volume, full.place));
            return Some(VolumeChoice { volume: next.volume, place: next.place, turn, leaves });
        }
        let chosen = here.filter(|p| may(p.volume, p.end)).or_else(|| other(may).map(|(_, p)| p))?;
        Some(VolumeChoice { volume: chosen.volume, place: chosen.place, turn: self.turn, leaves: None })
    }

    /// Reports whether the class can take nothing until space is freed.
    pub fn is_full(&self, volumes: &VolumeTable, heads: &[Option<u64>]) -> bool {
        let full = |volume: &usize| {
            let planned = heads.get(*volume).copied().flatten();
            let retained = volumes.all().get(*volume).and_then(|v| v.retained());
            retained.is_some_and(|v| v.is_full(planned.unwrap_or_else(|| v.head())))
        };
        self.volumes.iter().any(full)
    }

    /// Records an article and its end: a volume that is full, or has its stripe, is followed by the next.
    pub fn stored(&mut self, volume: &dyn Volume, head: u64, bytes: u64) {
        self.stripe += bytes;
        let is_done = match self.order {
            BufferOrder::Sequential => volume.cyclic().is_some_and(|v| v.offset(head) == Some(0)),
            BufferOrder::Interleave => {
                let part = volume.cyclic().map_or(u64::MAX, |v| v.area() / STRIPE_PART);
                self.stripe >= STRIPE_BYTES_MAX.min(part)
            }
        };
        if is_done {
            self.turn += 1;
            self.stripe = 0;
        }
    }
}
