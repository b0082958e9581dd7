//! Our own strategy: the unit that is expected to save the fewest bytes for each byte it takes goes first.
//!
//! What a unit saves for each byte of room is how often it will be asked for again, whatever its size. That
//! is estimated by how often it was asked for, each time counting less, and by how often the units of its
//! group are asked for again, on average. All that was counted loses weight with every unit that goes, as in
//! GDSF (Cherkasova 1998): a unit's rank is that of the last one to go plus its estimate; of equals the least
//! recently used one goes. The uses of units that went lately are remembered: what comes back is no stranger.
//!
//! Two kinds of readers need something else. Where what is new is read again soon, and what was read before
//! is not, the estimate keeps the wrong units: then the least recently used one goes. Which of both is right
//! is found out by a small share of the other choice, as in LeCaR (Vietri 2018): the choice is worse whose
//! units come back more often. And where more than fits is read over and over, each unit goes before its
//! turn: while more units come back than are there when they are asked for, what comes back goes again first,
//! and the others stay.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::queue::Lists;
use super::rank::Ranked;
use super::{Item, Strategy, Victim};

/// One use, in ranks.
const USE: u64 = 1 << 16;
/// The rank of what goes first, below all estimates.
const LAST: u64 = 0;
/// What the uses of a unit count: so many to the power of 0.8.
const USES: [u64; 16] = [
    0, 65_536, 114_105, 157_827, 198_668, 237_495, 274_793, 310_856, 345_901, 380_080, 413_503, 446_268,
    478_441, 510_078, 541_231, 571_931,
];
/// What the uses of its group count, in tenths.
const GROUP_TENTHS: u64 = 3;
/// Uses of a group after which all of them count half.
const GROUP_USES_MAX: u16 = 1 << 12;
/// In the place of the group of a unit that does not exist.
const NO_GROUP: u32 = u32::MAX;
/// Units that went are remembered, for each that is there, and not fewer than this.
const GONE_FOR_EACH: usize = 2;
const GONE_LEAST: usize = 4096;
/// Uses that are remembered of one that went.
const GONE_USES_MAX: u8 = 8;
/// The share of the choice by recency, at least, and of the other one.
const SHARE_LEAST: f64 = 0.01;
/// How much the share changes with one unit.
const SHARE_STEP: f64 = 0.05;
/// The choice by recency is better if so much less of what it let go comes back.
const BETTER: f64 = 0.6;
/// Units of one choice, for each that is there, after which all of them count half; not fewer than the least.
const JUDGED_FOR_EACH: f64 = 2.0;
const JUDGED_LEAST: f64 = 32.0;
/// Requests, for each unit that is there, after which those counted for a loop count half; not fewer than the
/// least.
const LOOP_FOR_EACH: f64 = 0.5;
const LOOP_LEAST: f64 = 4.0;

/// By which figure a unit was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Estimate,
    Recency,
}

/// A unit that went.
#[derive(Debug, Clone, Copy)]
struct Departed {
    uses: u8,
    /// The choice that let it go where the other would not have; `None`: both agreed, or neither did it.
    by: Option<Choice>,
}

/// What became of the units that one choice let go.
#[derive(Debug, Default)]
struct Judgement {
    gone: f64,
    back: f64,
}

impl Judgement {
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

/// Whether more is read over and over than there is room for.
#[derive(Debug, Default)]
struct LoopWatch {
    hits: f64,
    back: f64,
}

impl LoopWatch {
    /// A unit came back after it went. Whether that is part of a loop.
    fn came_back(&mut self, counted_max: f64) -> bool {
        self.back += 1.0;
        if self.back + self.hits > counted_max {
            (self.back, self.hits) = (self.back / 2.0, self.hits / 2.0);
        }
        self.back > 1.0 + self.hits
    }
}

/// The strategy: 45 bytes for each unit up to the largest, and some 30 for each that is there, for those that
/// went.
#[derive(Debug)]
pub(super) struct Gain {
    units: Ranked,
    /// All units in one list, the least recently used first.
    recency: Lists,
    /// The group of each unit.
    group_of: Vec<u32>,
    uses: Vec<u8>,
    keys: Vec<u32>,
    count: usize,
    /// Of each group: requests for units that were there, and units stored.
    groups: Vec<(u16, u16)>,
    /// The rank of the last one to go.
    floor: u64,
    gone: HashMap<u32, Departed>,
    gone_order: VecDeque<u32>,
    /// The unit that was named last, and by which choice if they differ.
    named: Option<(u32, Option<Choice>)>,
    by_estimate: Judgement,
    by_recency: Judgement,
    /// The share of units that are chosen by recency, and how much of the next one is due.
    share: f64,
    due: f64,
    watch: LoopWatch,
    is_looping: bool,
}

impl Default for Gain {
    fn default() -> Self {
        Self {
            units: Ranked::default(),
            recency: Lists::default(),
            group_of: Vec::new(),
            uses: Vec::new(),
            keys: Vec::new(),
            count: 0,
            groups: Vec::new(),
            floor: LAST + 1,
            gone: HashMap::new(),
            gone_order: VecDeque::new(),
            named: None,
            by_estimate: Judgement::default(),
            by_recency: Judgement::default(),
            share: SHARE_LEAST,
            due: 0.0,
            watch: LoopWatch::default(),
            is_looping: false,
        }
    }
}

/// What a unit is remembered by: half of its key, so that one in some ten thousand strangers is taken for one
/// that comes back.
fn short(key: u64) -> u32 {
    key as u32
}

impl Gain {
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

    /// The group of a unit that is there.
    fn group_of(&self, unit: u32) -> Option<u32> {
        self.group_of.get(unit as usize).copied().filter(|group| *group != NO_GROUP)
    }

    fn remember(&mut self, key: u32, departed: Departed) {
        if self.gone.insert(key, departed).is_none() {
            self.gone_order.push_back(key);
        }
        while self.gone_order.len() > (self.count * GONE_FOR_EACH).max(GONE_LEAST) {
            let oldest = self.gone_order.pop_front();
            oldest.map(|key| self.gone.remove(&key));
        }
    }

    /// Uses that a new unit begins with: those of the one that it was, if it went lately.
    fn uses_before(&mut self, key: u32) -> u8 {
        // Its place in the order of those that went stays until its turn.
        let Some(departed) = self.gone.remove(&key) else {
            self.is_looping = false;
            return 0;
        };
        match departed.by {
            Some(Choice::Estimate) => self.by_estimate.back += 1.0,
            Some(Choice::Recency) => self.by_recency.back += 1.0,
            None => {}
        }
        let counted_max = (self.count as f64 * LOOP_FOR_EACH).max(LOOP_LEAST);
        self.is_looping = self.watch.came_back(counted_max);
        if self.is_looping { departed.uses } else { departed.uses + 1 }
    }

    /// A unit that one choice named, and the other did not, has gone.
    fn judge(&mut self, by: Choice) {
        let gone_max = (self.count as f64 * JUDGED_FOR_EACH).max(JUDGED_LEAST);
        match by {
            Choice::Estimate => self.by_estimate.let_go(gone_max),
            Choice::Recency => self.by_recency.let_go(gone_max),
        }
        let is_better = self.by_recency.rate() < self.by_estimate.rate() * BETTER;
        let share = if is_better { self.share + SHARE_STEP } else { self.share - SHARE_STEP };
        self.share = share.clamp(SHARE_LEAST, 1.0 - SHARE_LEAST);
    }
}

impl Strategy for Gain {
    fn reserve(&mut self, units: usize, groups: usize) {
        self.units.reserve(units);
        self.group_of.reserve_exact(units);
        self.uses.reserve_exact(units);
        self.keys.reserve_exact(units);
        self.groups.reserve_exact(groups);
    }

    fn insert(&mut self, unit: u32, item: Item) {
        let at = unit as usize;
        if at >= self.uses.len() {
            self.uses.resize(at + 1, 0);
            self.keys.resize(at + 1, 0);
            self.group_of.resize(at + 1, NO_GROUP);
        }
        let key = short(item.key);
        self.uses[at] = self.uses_before(key);
        (self.keys[at], self.group_of[at]) = (key, item.group);
        self.count += 1;
        self.recency.push(0, unit);
        self.group(item.group).1 += 1;
        if self.is_looping {
            self.units.set(unit, LAST);
        } else {
            self.rank(unit, item.group);
        }
    }

    fn hit(&mut self, unit: u32) {
        let Some(group) = self.group_of(unit) else { return };
        self.group(group).0 += 1;
        self.watch.hits += 1.0;
        let uses = &mut self.uses[unit as usize];
        *uses = (*uses + 1).min(USES.len() as u8 - 1);
        self.recency.remove(unit);
        self.recency.push(0, unit);
        self.rank(unit, group);
    }

    fn grow(&mut self, unit: u32, item: Item) {
        if self.group_of(unit).is_some() {
            self.recency.remove(unit);
            self.recency.push(0, unit);
            self.rank(unit, item.group);
        }
    }

    fn remove(&mut self, unit: u32) {
        if self.group_of(unit).is_none() {
            return;
        }
        self.group_of[unit as usize] = NO_GROUP;
        self.units.remove(unit);
        self.recency.remove(unit);
        self.count -= 1;
        let by = self.named.take().filter(|(named, _)| *named == unit).and_then(|(_, by)| by);
        if let Some(by) = by {
            self.judge(by);
        }
        let (key, uses) = (self.keys[unit as usize], self.uses[unit as usize]);
        self.remember(key, Departed { uses: uses.min(GONE_USES_MAX), by });
    }

    fn victim(&mut self) -> Option<Victim> {
        let (least, oldest) = (self.units.first()?, self.recency.first(0)?);
        // Named again, it is the same one.
        let before = self.named.and_then(|(_, by)| by).filter(|_| least != oldest);
        let by = before.unwrap_or_else(|| {
            self.due += self.share;
            let is_due = self.due >= 1.0 && !self.is_looping;
            self.due = self.due.fract();
            if is_due { Choice::Recency } else { Choice::Estimate }
        });
        let first = if by == Choice::Recency { oldest } else { least };
        self.named = Some((first, (least != oldest).then_some(by)));
        if first == least {
            self.floor = self.floor.max(self.units.rank(least).unwrap_or(0));
        }
        Some(Victim::Unit(first))
    }
}
