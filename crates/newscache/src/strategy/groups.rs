//! LRUG, LFUG and the hybrid of LRUA and LRUG, which choose by group.

use super::queue::UnitLists;
use super::rank::RankedQueue;
use super::units::frequency;
use super::{Strategy, UnitInfo, Victim};

/// Order of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupOrder {
    Recency,
    Frequency,
}

/// LRUG and LFUG, which remove whole groups.
#[derive(Debug)]
pub(super) struct GroupStrategy {
    rank: GroupOrder,
    groups: RankedQueue,
    units: UnitLists,
    tick: u64,
}

impl GroupStrategy {
    pub fn new(rank: GroupOrder) -> Self {
        Self { rank, groups: RankedQueue::default(), units: UnitLists::default(), tick: 0 }
    }

    fn use_group(&mut self, group: u32) {
        self.tick += 1;
        let rank = match self.rank {
            GroupOrder::Recency => self.tick,
            GroupOrder::Frequency => frequency(self.groups.rank(group), self.tick),
        };
        self.groups.set(group, rank);
    }
}

impl Strategy for GroupStrategy {
    fn insert(&mut self, unit: u32, item: UnitInfo) {
        self.units.push(item.group, unit);
        self.use_group(item.group);
    }

    fn hit(&mut self, unit: u32, _item: UnitInfo) {
        if let Some(group) = self.units.list_of(unit) {
            self.use_group(group);
        }
    }

    fn grow(&mut self, unit: u32, item: UnitInfo) {
        self.hit(unit, item);
    }

    fn remove(&mut self, unit: u32, _item: UnitInfo) {
        let Some(group) = self.units.remove(unit) else { return };
        if self.units.count(group) == 0 {
            self.groups.remove(group);
        }
    }

    fn victim(&mut self) -> Option<Victim> {
        self.groups.first().map(Victim::Group)
    }
}

/// The hybrid: removes the least recently used unit of the least recently used group.
#[derive(Debug, Default)]
pub(super) struct HybridStrategy {
    groups: RankedQueue,
    units: UnitLists,
    tick: u64,
}

impl Strategy for HybridStrategy {
    fn insert(&mut self, unit: u32, item: UnitInfo) {
        self.tick += 1;
        self.units.push(item.group, unit);
        self.groups.set(item.group, self.tick);
    }

    fn hit(&mut self, unit: u32, _item: UnitInfo) {
        self.tick += 1;
        if let Some(group) = self.units.remove(unit) {
            self.units.push(group, unit);
            self.groups.set(group, self.tick);
        }
    }

    fn grow(&mut self, unit: u32, item: UnitInfo) {
        self.hit(unit, item);
    }

    fn remove(&mut self, unit: u32, _item: UnitInfo) {
        let Some(group) = self.units.remove(unit) else { return };
        if self.units.count(group) == 0 {
            self.groups.remove(group);
        }
    }

    fn victim(&mut self) -> Option<Victim> {
        self.units.first(self.groups.first()?).map(Victim::Unit)
    }
}
