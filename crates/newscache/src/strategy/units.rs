//! LRUA, LFUA, BAF and LETF: units ordered by one value.

use super::rank::RankedQueue;
use super::{Strategy, UnitInfo, Victim};

/// Number of bits of a rank by frequency for the time of the last use.
const TICK_BITS: u32 = 40;

/// Value that orders the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitOrder {
    Recency,
    Frequency,
    Size,
    Expiry,
}

/// Returns a rank of counted uses, with the time of the last one below: of equal counts the least recent is
/// first.
pub(super) fn frequency(before: Option<u64>, tick: u64) -> u64 {
    let count = before.map_or(0, |rank| rank >> TICK_BITS) + 1;
    (count.min((1 << (64 - TICK_BITS)) - 1) << TICK_BITS) | (tick & ((1 << TICK_BITS) - 1))
}

/// Strategy that orders units by one value.
#[derive(Debug)]
pub(super) struct UnitStrategy {
    rank: UnitOrder,
    units: RankedQueue,
    /// Number of requests so far.
    tick: u64,
}

impl UnitStrategy {
    pub fn new(rank: UnitOrder) -> Self {
        Self { rank, units: RankedQueue::default(), tick: 0 }
    }
}

impl Strategy for UnitStrategy {
    fn insert(&mut self, unit: u32, item: UnitInfo) {
        self.tick += 1;
        let rank = match self.rank {
            UnitOrder::Recency => self.tick,
            UnitOrder::Frequency => frequency(None, self.tick),
            UnitOrder::Size => u64::MAX - item.bytes,
            UnitOrder::Expiry => item.expires,
        };
        self.units.set(unit, rank);
    }

    fn hit(&mut self, unit: u32, _item: UnitInfo) {
        self.tick += 1;
        let Some(before) = self.units.rank(unit) else { return };
        match self.rank {
            UnitOrder::Recency => self.units.set(unit, self.tick),
            UnitOrder::Frequency => self.units.set(unit, frequency(Some(before), self.tick)),
            // Of equals the least recently used one is removed first.
            UnitOrder::Size | UnitOrder::Expiry => self.units.set(unit, before),
        }
    }

    fn grow(&mut self, unit: u32, item: UnitInfo) {
        match self.rank {
            UnitOrder::Recency | UnitOrder::Frequency => self.hit(unit, item),
            UnitOrder::Size | UnitOrder::Expiry => self.insert(unit, item),
        }
    }

    fn remove(&mut self, unit: u32, _item: UnitInfo) {
        self.units.remove(unit);
    }

    fn victim(&mut self) -> Option<Victim> {
        self.units.first().map(Victim::Unit)
    }
}
