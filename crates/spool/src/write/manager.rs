//! The storage manager's second half: which volume of its class an article goes to (the first half is
//! [`crate::index::rules`]).

use crate::base::config::{ClassConfig, Order};
use crate::base::token::MethodKind;
use crate::method::{Cyclic, Volume, VolumeTable};
use std::sync::Arc;

/// In interleaved order this much goes to one volume before the next one's turn: enough for the articles of a
/// busy feed's batch to be written in one call.
const STRIPE_BYTES_MAX: u64 = 1 << 20;
/// The same for small volumes, as a part of their area.
const STRIPE_PART: u64 = 64;

/// A storage class: a method and the volumes it writes to (a "metacycbuff").
#[derive(Debug)]
pub(crate) struct Class {
    pub method: MethodKind,
    /// Names of its buffers, those that take no more articles too; empty for the other methods.
    pub buffers: Vec<String>,
    /// Those it writes to: indexes into [`VolumeTable`].
    pub volumes: Vec<usize>,
    order: Order,
    /// Position in `volumes` of the one to write to next.
    pub turn: usize,
    /// Bytes stored since its turn began.
    stripe: u64,
    /// What it promises.
    pub floor: Option<ClassFloor>,
    /// Articles of this class that its overflow took, since the start.
    pub spilled: u64,
    /// Articles of this class that were not stored, as they could only have displaced what was promised to
    /// stay.
    pub turned_away: u64,
}

/// How long a class's articles stay at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassFloor {
    pub keep_secs: u64,
    /// The class that takes what would break it.
    pub overflow: Option<usize>,
}

/// A choice made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Index into [`VolumeTable`].
    pub volume: usize,
    pub place: u64,
    pub turn: usize,
    /// A volume declared full, and its new write position.
    pub leaves: Option<(usize, u64)>,
}

/// What a volume would do with a record.
struct Plan {
    volume: usize,
    head: u64,
    place: u64,
    end: u64,
}

impl Class {
    /// A class that continues where its volumes are: in sequential order the one in the middle of a cycle is
    /// next, else the one that has wrapped the fewest times.
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
            Order::Interleave => 0,
            Order::Sequential => middle.or_else(lowest).unwrap_or(0),
        };
        let floor = config.floor.as_ref().map(|f| ClassFloor {
            keep_secs: f.keep_at_least_secs,
            overflow: f.overflow.as_deref().and_then(class),
        });
        let (method, order) = (config.method, config.order);
        // A class that has no buffers has one volume of its own name.
        let own = || vec![config.name.clone()];
        let buffers = if method == MethodKind::Cnfs { config.buffers.clone() } else { own() };
        Self { method, buffers, volumes: indexes, order, turn, stripe: 0, floor, spilled: 0, turned_away: 0 }
    }

    /// Writes to its buffers as they are now, but for those that take no more.
    pub fn use_buffers(&mut self, volumes: &VolumeTable, retired: &[String]) {
        let at_turn = self.volumes.get(self.turn % self.volumes.len().max(1)).copied();
        let method = self.method;
        let is_it = |v: &Arc<dyn Volume>, name: &String| v.name() == name && v.method() == method;
        let index = |name: &String| volumes.all().iter().position(|v| is_it(v, name));
        self.volumes = self.buffers.iter().filter(|b| !retired.contains(b)).filter_map(index).collect();
        let turn = self.volumes.iter().position(|v| Some(*v) == at_turn);
        self.turn = turn.unwrap_or(0);
    }

    /// Where a record of `len` bytes goes; `heads` are the write positions planned so far in this batch.
    /// `may` says whether a volume's write position may move so far: it displaces what is one area earlier.
    pub fn choose(
        &self,
        volumes: &VolumeTable,
        heads: &[Option<u64>],
        len: usize,
        may: &mut dyn FnMut(usize, u64) -> bool,
    ) -> Option<Choice> {
        let plan = |turn: usize| {
            let volume = *self.volumes.get(turn % self.volumes.len().max(1))?;
            let v = volumes.all().get(volume)?;
            let head = heads.get(volume).copied().flatten().unwrap_or_else(|| v.head());
            let place = v.plan(head, len)?;
            Some(Plan { volume, head, place, end: place + v.padded(len) })
        };
        // Volumes may differ in size: what is too large for the current one goes to the next that can hold
        // it. So does what would displace here what is to stay.
        let other = |may: &mut dyn FnMut(usize, u64) -> bool| {
            let turns = self.turn + 1..self.turn + self.volumes.len();
            turns.filter_map(|turn| Some((turn, plan(turn)?))).find(|(_, p)| may(p.volume, p.end))
        };
        let here = plan(self.turn);
        if self.order == Order::Sequential
            && let Some(full) = here.as_ref().filter(|p| p.place != p.head)
            && let Some((turn, next)) = other(may)
            && may(full.volume, full.place)
        {
            // It would wrap: it is full, and the next volume begins its next cycle.
            let leaves = Some((full.volume, full.place));
            return Some(Choice { volume: next.volume, place: next.place, turn, leaves });
        }
        let chosen = here.filter(|p| may(p.volume, p.end)).or_else(|| other(may).map(|(_, p)| p))?;
        Some(Choice { volume: chosen.volume, place: chosen.place, turn: self.turn, leaves: None })
    }

    /// Whether it can take nothing until there is room again.
    pub fn is_full(&self, volumes: &VolumeTable, heads: &[Option<u64>]) -> bool {
        let full = |volume: &usize| {
            let planned = heads.get(*volume).copied().flatten();
            let retained = volumes.all().get(*volume).and_then(|v| v.retained());
            retained.is_some_and(|v| v.is_full(planned.unwrap_or_else(|| v.head())))
        };
        self.volumes.iter().any(full)
    }

    /// Records an article and where it ends: a volume that is full, or has its stripe, is followed by the
    /// next.
    pub fn stored(&mut self, volume: &dyn Volume, head: u64, bytes: u64) {
        self.stripe += bytes;
        let is_done = match self.order {
            Order::Sequential => volume.cyclic().is_some_and(|v| v.offset(head) == Some(0)),
            Order::Interleave => {
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
