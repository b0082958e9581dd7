//! Our own strategy: the unit that is expected to save the fewest bytes for each byte it takes goes first.
//!
//! What a unit saves for each byte of room is how often it will be asked for again, whatever its size. That
//! is estimated by how often it was asked for, each time counting less, and by how often the units of its
//! group are asked for again, on average. All that was counted loses weight with every unit that goes, as in
//! GDSF (Cherkasova 1998): a unit's rank is that of the last one to go plus its estimate. The uses of units
//! that went lately are remembered, for as many as twice those that are there: what comes back is no
//! stranger.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::rank::Ranked;
use super::{Item, Strategy, Victim};

/// One use, in ranks.
const USE: u64 = 1 << 16;
/// What the uses of a unit count: their square root.
const USES: [u64; 9] = [0, USE, 92_682, 113_512, 131_072, 146_543, 160_530, 173_392, 185_364];
/// What the uses of its group count, in tenths.
const GROUP_TENTHS: u64 = 3;
/// Uses of a group after which all of them count half.
const GROUP_USES_MAX: u16 = 1 << 12;
/// In the place of the group of a unit that does not exist.
const NO_GROUP: u32 = u32::MAX;
/// Units that went are remembered, for each that is there.
const GONE_FOR_EACH: usize = 2;
/// Uses that are remembered of one that went.
const GONE_USES_MAX: u8 = 3;

/// The strategy: 25 bytes for each unit up to the largest, and some 30 for each that is there, for those that
/// went.
#[derive(Debug, Default)]
pub(super) struct Gain {
    units: Ranked,
    /// The group of each unit.
    group_of: Vec<u32>,
    uses: Vec<u8>,
    keys: Vec<u32>,
    count: usize,
    /// Of each group: requests for units that were there, and units stored.
    groups: Vec<(u16, u16)>,
    /// The rank of the last one to go.
    floor: u64,
    gone: HashMap<u32, u8>,
    gone_order: VecDeque<u32>,
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

    fn remember(&mut self, key: u32, uses: u8) {
        if self.gone.insert(key, uses.min(GONE_USES_MAX)).is_none() {
            self.gone_order.push_back(key);
        }
        while self.gone_order.len() > (self.count * GONE_FOR_EACH).max(1) {
            let oldest = self.gone_order.pop_front();
            oldest.map(|key| self.gone.remove(&key));
        }
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
        // Its place in the order of those that went stays until its turn.
        self.uses[at] = self.gone.remove(&key).map_or(0, |uses| uses + 1);
        (self.keys[at], self.group_of[at]) = (key, item.group);
        self.count += 1;
        self.group(item.group).1 += 1;
        self.rank(unit, item.group);
    }

    fn hit(&mut self, unit: u32) {
        let Some(group) = self.group_of(unit) else { return };
        self.group(group).0 += 1;
        let uses = &mut self.uses[unit as usize];
        *uses = (*uses + 1).min(USES.len() as u8 - 1);
        self.rank(unit, group);
    }

    fn grow(&mut self, unit: u32, item: Item) {
        if self.group_of(unit).is_some() {
            self.rank(unit, item.group);
        }
    }

    fn remove(&mut self, unit: u32) {
        if self.group_of(unit).is_none() {
            return;
        }
        self.group_of[unit as usize] = NO_GROUP;
        self.units.remove(unit);
        self.count -= 1;
        let (key, uses) = (self.keys[unit as usize], self.uses[unit as usize]);
        self.remember(key, uses);
    }

    fn victim(&mut self) -> Option<Victim> {
        let first = self.units.first()?;
        self.floor = self.floor.max(self.units.rank(first).unwrap_or(0));
        Some(Victim::Unit(first))
    }
}
