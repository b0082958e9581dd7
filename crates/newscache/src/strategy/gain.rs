//! Our own strategy: removes the unit that is expected to save the fewest bytes for each byte it takes.
//!
//! The saving of a unit per byte of room is the number of its future requests, regardless of its size. It is
//! estimated from the number of past requests, with diminishing weight, and from the average rate of repeated
//! requests for units of its group. All counts lose weight with every removal, as in GDSF (Cherkasova 1998):
//! a unit's rank is that of the last removed one plus its estimate; of equals the least recently used one is
//! removed. The uses of recently removed units are remembered for their return.
//!
//! Two kinds of access need something else. If new units are soon read again, and old ones are not, the
//! estimate keeps the wrong units: then the least recently used one is removed. A small share of the other
//! choice shows which is right, as in LeCaR (Vietri 2018): the choice is worse whose units return more often.
//! And if more than fits is read in a loop, each unit is removed before its turn: while more removed units
//! return than present ones are used, returning units are removed first, and the others stay.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::queue::UnitLists;
use super::rank::RankedQueue;
use super::{Strategy, UnitInfo, Victim};

/// Weight of one use, in ranks.
const USE: u64 = 1 << 16;
/// Lowest rank, below all estimates.
const LAST: u64 = 0;
/// Weight of the uses of a unit: their number to the power of 0.8.
const USES: [u64; 16] = [
    0, 65_536, 114_105, 157_827, 198_668, 237_495, 274_793, 310_856, 345_901, 380_080, 413_503, 446_268,
    478_441, 510_078, 541_231, 571_931,
];
/// Weight of the uses of its group, in tenths.
const GROUP_TENTHS: u64 = 3;
/// Number of uses of a group at which all of them are halved.
const GROUP_USES_MAX: u16 = 1 << 12;
/// Number of removed units that are remembered for each present one, and minimum of the total.
const GONE_FOR_EACH: usize = 2;
const GONE_LEAST: usize = 4096;
/// Maximum number of uses that are remembered of a removed unit.
const GONE_USES_MAX: u8 = 8;
/// Minimum share of the choice by recency, and of the other one.
const SHARE_LEAST: f64 = 0.01;
/// Change of the share with one unit.
const SHARE_STEP: f64 = 0.05;
/// Factor of the rate of returns below which the choice by recency is better.
const BETTER: f64 = 0.6;
/// Number of units of one choice, for each present one, at which all counts are halved; and its minimum.
const JUDGED_FOR_EACH: f64 = 2.0;
const JUDGED_LEAST: f64 = 32.0;
/// Number of requests, for each present unit, at which the counts for a loop are halved; and its minimum.
const LOOP_FOR_EACH: f64 = 0.5;
const LOOP_LEAST: f64 = 4.0;

/// Criterion by which a unit was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalChoice {
    Estimate,
    Recency,
}

/// A removed unit.
#[derive(Debug, Clone, Copy)]
struct RemovedUnit {
    uses: u8,
    /// Choice that removed it where the other would not have; `None` if both agreed, or neither did it.
    by: Option<RemovalChoice>,
}

/// Fate of the units that one choice removed.
#[derive(Debug, Default)]
struct ChoiceRecord {
    gone: f64,
    back: f64,
}

impl ChoiceRecord {
    fn rate(&self) -> f64 {
        (self.back + 0.5) / (self.gone + 2.0)
    }

    fn let_go(&mut self, gone_max: f64) {
        self.gone += 1.0;
        if self.gone > gone_max {
            (self.gone, self.back) = (self.gone / 2.0, self.back / 2.0);
        }
    }
}

/// Detection of loops over more units than there is room for.
#[derive(Debug, Default)]
struct LoopWatch {
    hits: f64,
    back: f64,
}

impl LoopWatch {
    /// Records the return of a removed unit. Returns whether it is part of a loop.
    fn came_back(&mut self, counted_max: f64) -> bool {
        self.back += 1.0;
        if self.back + self.hits > counted_max {
            (self.back, self.hits) = (self.back / 2.0, self.hits / 2.0);
        }
        self.back > 1.0 + self.hits
    }
}

/// The strategy: 37 bytes for each unit up to the largest, and for each present one some 30 for removed ones.
#[derive(Debug)]
pub(super) struct GainStrategy {
    units: RankedQueue,
    /// All units in one list, the least recently used first.
    recency: UnitLists,
    uses: Vec<u8>,
    count: usize,
    /// For each group: requests for present units, and units stored.
    groups: Vec<(u16, u16)>,
    /// Rank of the last removed unit.
    floor: u64,
    gone: HashMap<u32, RemovedUnit>,
    gone_order: VecDeque<u32>,
    /// Last chosen unit, and its choice if the two differ.
    named: Option<(u32, Option<RemovalChoice>)>,
    by_estimate: ChoiceRecord,
    by_recency: ChoiceRecord,
    /// Share of units that are chosen by recency, and accumulated fraction of the next one.
    share: f64,
    due: f64,
    watch: LoopWatch,
    is_looping: bool,
}

impl Default for GainStrategy {
    fn default() -> Self {
        Self {
            units: RankedQueue::default(),
            recency: UnitLists::default(),
            uses: Vec::new(),
            count: 0,
            groups: Vec::new(),
            floor: LAST + 1,
            gone: HashMap::new(),
            gone_order: VecDeque::new(),
            named: None,
            by_estimate: ChoiceRecord::default(),
            by_recency: ChoiceRecord::default(),
            share: SHARE_LEAST,
            due: 0.0,
            watch: LoopWatch::default(),
            is_looping: false,
        }
    }
}

/// Returns the key by which a removed unit is remembered: half of its key, so that one in some ten thousand
/// new units is mistaken for a returning one.
fn short(key: u64) -> u32 {
    key as u32
}

impl GainStrategy {
    fn group(&mut self, group: u32) -> &mut (u16, u16) {
        let at = group as usize;
        if at >= self.groups.len() {
            self.groups.resize(at + 1, (0, 0));
        }
        let counts = &mut self.groups[at];
        if counts.0.max(counts.1) > GROUP_USES_MAX {
            *counts = (counts.0 / 2, counts.1 / 2);
        }
        counts
    }

    fn rank(&mut self, unit: u32, group: u32) {
        let (again, stored) = *self.group(group);
        let uses = self.uses.get(unit as usize).map_or(0, |uses| usize::from(*uses));
        let of_group = u64::from(again) * USE * GROUP_TENTHS / 10 / (u64::from(stored) + 1);
        let expected = USES.get(uses).copied().unwrap_or(0) + of_group;
        self.units.set(unit, self.floor + expected);
    }

    fn is_there(&self, unit: u32) -> bool {
        self.recency.list_of(unit).is_some()
    }

    fn remember(&mut self, key: u32, departed: RemovedUnit) {
        if self.gone.insert(key, departed).is_none() {
            self.gone_order.push_back(key);
        }
        while self.gone_order.len() > (self.count * GONE_FOR_EACH).max(GONE_LEAST) {
            let oldest = self.gone_order.pop_front();
            oldest.map(|key| self.gone.remove(&key));
        }
    }

    /// Returns the initial uses of a new unit: those before its removal, if that was recent.
    fn uses_before(&mut self, key: u32) -> u8 {
        // The place in the order of removed units stays until its turn.
        let Some(departed) = self.gone.remove(&key) else {
            self.is_looping = false;
            return 0;
        };
        match departed.by {
            Some(RemovalChoice::Estimate) => self.by_estimate.back += 1.0,
            Some(RemovalChoice::Recency) => self.by_recency.back += 1.0,
            None => {}
        }
        let counted_max = (self.count as f64 * LOOP_FOR_EACH).max(LOOP_LEAST);
        self.is_looping = self.watch.came_back(counted_max);
        if self.is_looping { departed.uses } else { departed.uses + 1 }
    }

    /// Records the removal of a unit that only one choice named.
    fn judge(&mut self, by: RemovalChoice) {
        let gone_max = (self.count as f64 * JUDGED_FOR_EACH).max(JUDGED_LEAST);
        match by {
            RemovalChoice::Estimate => self.by_estimate.let_go(gone_max),
            RemovalChoice::Recency => self.by_recency.let_go(gone_max),
        }
        let is_better = self.by_recency.rate() < self.by_estimate.rate() * BETTER;
        let share = if is_better { self.share + SHARE_STEP } else { self.share - SHARE_STEP };
        self.share = share.clamp(SHARE_LEAST, 1.0 - SHARE_LEAST);
    }
}

impl Strategy for GainStrategy {
    fn reserve(&mut self, units: usize, groups: usize) {
        self.units.reserve(units);
        self.uses.reserve_exact(units);
        self.groups.reserve_exact(groups);
    }

    fn insert(&mut self, unit: u32, item: UnitInfo) {
        let at = unit as usize;
        if at >= self.uses.len() {
            self.uses.resize(at + 1, 0);
        }
        self.uses[at] = self.uses_before(short(item.key));
        self.count += 1;
        self.recency.push(0, unit);
        self.group(item.group).1 += 1;
        if self.is_looping {
            self.units.set(unit, LAST);
        } else {
            self.rank(unit, item.group);
        }
    }

    fn hit(&mut self, unit: u32, item: UnitInfo) {
        if !self.is_there(unit) {
            return;
        }
        self.group(item.group).0 += 1;
        self.watch.hits += 1.0;
        let uses = &mut self.uses[unit as usize];
        *uses = (*uses + 1).min(USES.len() as u8 - 1);
        self.recency.remove(unit);
        self.recency.push(0, unit);
        self.rank(unit, item.group);
    }

    fn grow(&mut self, unit: u32, item: UnitInfo) {
        if self.is_there(unit) {
            self.recency.remove(unit);
            self.recency.push(0, unit);
            self.rank(unit, item.group);
        }
    }

    fn remove(&mut self, unit: u32, item: UnitInfo) {
        if !self.is_there(unit) {
            return;
        }
        self.units.remove(unit);
        self.recency.remove(unit);
        self.count -= 1;
        let by = self.named.take().filter(|(named, _)| *named == unit).and_then(|(_, by)| by);
        if let Some(by) = by {
            self.judge(by);
        }
        let uses = self.uses[unit as usize].min(GONE_USES_MAX);
        self.remember(short(item.key), RemovedUnit { uses, by });
    }

    fn victim(&mut self) -> Option<Victim> {
        let (least, oldest) = (self.units.first()?, self.recency.first(0)?);
        // A unit that is named again keeps its choice.
        let before = self.named.and_then(|(_, by)| by).filter(|_| least != oldest);
        let by = before.unwrap_or_else(|| {
            self.due += self.share;
            let is_due = self.due >= 1.0 && !self.is_looping;
            self.due = self.due.fract();
            if is_due { RemovalChoice::Recency } else { RemovalChoice::Estimate }
        });
        let first = if by == RemovalChoice::Recency { oldest } else { least };
        self.named = Some((first, (least != oldest).then_some(by)));
        if first == least {
            self.floor = self.floor.max(self.units.rank(least).unwrap_or(0));
        }
        Some(Victim::Unit(first))
    }
}
