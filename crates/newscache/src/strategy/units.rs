//! LRUA, LFUA, BAF and LETF: units ordered by one value.

use super::rank::Ranked;
use super::{Item, Strategy, Victim};

/// Number of bits of a rank by frequency for the time of the last use.
const TICK_BITS: u32 = 40;

/// Value that orders the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
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
pub(super) struct ByUnit {
    rank: Rank,
    units: Ranked,
    /// Number of requests so far.
    tick: u64,
}

impl ByUnit {
    pub fn new(rank: Rank) -> Self {
        Self { rank, units: Ranked::default(), tick: 0 }
    }
}

impl Strategy for ByUnit {
    fn insert(&mut self, unit: u32, item: Item) {
        self.tick += 1;
        let rank = match self.rank {
            Rank::Recency => self.tick,
            Rank::Frequency => frequency(None, self.tick),
            Rank::Size => u64::MAX - item.bytes,
            Rank::Expiry => item.expires,
        };
        self.units.set(unit, rank);
    }

    fn hit(&mut self, unit: u32) {
        self.tick += 1;
        let Some(before) = self.units.rank(unit) else { return };
        match self.rank {
            Rank::Recency => self.units.set(unit, self.tick),
            Rank::Frequency => self.units.set(unit, frequency(Some(before), self.tick)),
            // Of equals the least recently used one is removed first.
            Rank::Size | Rank::Expiry => self.units.set(unit, before),
        }
    }

    fn grow(&mut self, unit: u32, item: Item) {
        match self.rank {
            Rank::Recency | Rank::Frequency => self.hit(unit),
            Rank::Size | Rank::Expiry => self.insert(unit, item),
        }
    }

    fn remove(&mut self, unit: u32) {
        self.units.remove(unit);
    }

    fn victim(&mut self) -> Option<Victim> {
        self.units.first().map(Victim::Unit)
    }
}
