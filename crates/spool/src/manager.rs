//! The storage manager's second half: which volume of its class an article goes to (the first half is [`crate::rules`]).

use crate::config::{ClassConfig, Order};
use crate::method::{Volume, VolumeTable};
use crate::token::MethodKind;
use std::sync::Arc;

/// A storage class: a method and the volumes it writes to (a "metacycbuff").
#[derive(Debug)]
pub(crate) struct Class {
    pub method: MethodKind,
    /// Indexes into [`VolumeTable`].
    pub volumes: Vec<usize>,
    order: Order,
    /// Position in `volumes` of the one to write to next.
    pub turn: usize,
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

impl Class {
    /// A class that goes on where its volumes stand: in sequential order the one in the middle of a cycle is at turn,
    /// else the one that has wrapped the fewest times.
    pub fn new(config: &ClassConfig, indexes: Vec<usize>, volumes: &VolumeTable) -> Self {
        let volume = |i: &usize| volumes.all().get(*i);
        let is_within = |v: &Arc<dyn Volume>| v.offset(v.head()) != Some(0);
        let middle = indexes.iter().position(|i| volume(i).is_some_and(is_within));
        let cycle = |i: &usize| volume(i).map(|v| v.cycle(v.head()));
        let lowest = || (0..indexes.len()).min_by_key(|at| indexes.get(*at).map(cycle));
        let turn = match config.order {
            Order::Interleave => 0,
            Order::Sequential => middle.or_else(lowest).unwrap_or(0),
        };
        Self { method: config.method, volumes: indexes, order: config.order, turn }
    }

    /// Where a record of `len` bytes goes; `heads` are the write positions planned so far in this batch.
    pub fn choose(&self, volumes: &VolumeTable, heads: &[Option<u64>], len: usize) -> Option<Choice> {
        let plan = |turn: usize| {
            let volume = *self.volumes.get(turn % self.volumes.len().max(1))?;
            let v = volumes.all().get(volume)?;
            let head = heads.get(volume).copied().flatten().unwrap_or_else(|| v.head());
            Some((volume, head, v.plan(head, len)?))
        };
        let others = || (1..self.volumes.len()).find_map(|n| Some((self.turn + n, plan(self.turn + n)?)));
        // Volumes may differ in size: what is too large for the one at turn goes to the next that can hold it.
        let Some((volume, head, place)) = plan(self.turn) else {
            let (at, (volume, _, place)) = others()?;
            let turn = if self.order == Order::Interleave { at + 1 } else { self.turn };
            return Some(Choice { volume, place, turn, leaves: None });
        };
        if self.order == Order::Interleave {
            return Some(Choice { volume, place, turn: self.turn + 1, leaves: None });
        }
        // It would wrap: it is full, and the next volume begins its next cycle.
        match others().filter(|_| place != head) {
            Some((turn, (next, _, next_place))) => {
                Some(Choice { volume: next, place: next_place, turn, leaves: Some((volume, place)) })
            }
            None => Some(Choice { volume, place, turn: self.turn, leaves: None }),
        }
    }

    /// Told of a record's end: a volume filled to the last byte is left in sequential order.
    pub fn stored(&mut self, volume: &dyn Volume, head: u64) {
        if self.order == Order::Sequential && volume.offset(head) == Some(0) {
            self.turn += 1;
        }
    }
}
