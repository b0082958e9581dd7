//! Our own strategy: the unit that is expected to save the fewest bytes for each byte it takes goes first.
//!
//! What a unit saves for each byte of room is how often it will be asked for again. That is estimated by how
//! often it was asked for, and by how often the units of its group are, on average; and all that was counted
//! loses weight with every unit that goes, as in GDSF (Cherkasova 1998): a unit's rank is that of the last
//! one to go plus its estimate.

use super::queue::Lists;
use super::rank::Ranked;
use super::{Item, Strategy, Victim};

/// One use, in ranks.
const USE: u64 = 1 << 16;
/// Uses of a unit that count.
const USES_MAX: u64 = 8;
/// Uses of a group after which all of them count half.
const GROUP_USES_MAX: u64 = 1 << 12;

/// The strategy.
#[derive(Debug, Default)]
pub(super) struct Gain {
    units: Ranked,
    lists: Lists,
    uses: Vec<u8>,
    /// Of each group: units asked for again, and units stored.
    groups: Vec<(u64, u64)>,
    /// The rank of the last one to go.
    floor: u64,
}

impl Gain {
    fn group(&mut self, group: u32) -> &mut (u64, u64) {
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
        let uses = self.uses.get(unit as usize).map_or(0, |uses| u64::from(*uses));
        let expected = uses * USE + again * USE / (stored + 1);
        self.units.set(unit, self.floor + expected);
    }
}

impl Strategy for Gain {
    fn insert(&mut self, unit: u32, item: Item) {
        let at = unit as usize;
        if at >= self.uses.len() {
            self.uses.resize(at + 1, 0);
        }
        self.uses[at] = 0;
        self.lists.push(item.group, unit);
        self.group(item.group).1 += 1;
        self.rank(unit, item.group);
    }

    fn hit(&mut self, unit: u32) {
        let Some(group) = self.lists.list_of(unit) else { return };
        self.group(group).0 += 1;
        let uses = &mut self.uses[unit as usize];
        *uses = (u64::from(*uses) + 1).min(USES_MAX) as u8;
        self.rank(unit, group);
    }

    fn grow(&mut self, unit: u32, item: Item) {
        if self.lists.list_of(unit).is_some() {
            self.rank(unit, item.group);
        }
    }

    fn remove(&mut self, unit: u32) {
        self.lists.remove(unit);
        self.units.remove(unit);
    }

    fn victim(&mut self) -> Option<Victim> {
        let first = self.units.first()?;
        self.floor = self.floor.max(self.units.rank(first).unwrap_or(0));
        Some(Victim::Unit(first))
    }
}
