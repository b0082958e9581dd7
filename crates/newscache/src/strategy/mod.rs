//! Replacement strategies: the choice of what to remove when there is no room.
//!
//! A strategy knows *units*, which a caller numbers densely: articles, or files of several (`docs/cache.md`).
//! It is pure: no clock, no disk, no threads. Every call costs O(log n) or less. The store and the simulator
//! use the same code. Sources: section 4.1 of the NewsCache paper (LRUA, LRUG, LFUA, LFUG, BAF, LETF and the
//! hybrid); Yang et al., SOSP 2023 (S3-FIFO). Called by `bookkeeping` and `simulate`.

mod fifo;
mod gain;
mod groups;
mod queue;
mod rank;
#[cfg(test)]
mod tests;
mod units;

use std::fmt;
use std::str::FromStr;

/// Properties of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitInfo {
    /// Key of its content, the same when it returns after its removal.
    pub key: u64,
    /// Group it belongs to, numbered densely.
    pub group: u32,
    /// Size in the cache.
    pub bytes: u64,
    /// Time of expiry or posting, in seconds: LETF removes the smallest first.
    pub expires: u64,
}

/// Choice of what to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// One unit.
    Unit(u32),
    /// All units of a group.
    Group(u32),
}

/// Replacement strategy.
///
/// Every call has the unit's present properties, so that a strategy keeps only what it needs itself.
pub trait Strategy: Send {
    /// Makes room for the expected initial number of units and groups.
    fn reserve(&mut self, _units: usize, _groups: usize) {}
    /// Adds a new unit, which has just been requested.
    fn insert(&mut self, unit: u32, item: UnitInfo);
    /// Records a hit in a unit.
    fn hit(&mut self, unit: u32, item: UnitInfo);
    /// Records that a unit has grown, with its new size.
    fn grow(&mut self, unit: u32, item: UnitInfo);
    /// Removes a unit, which the strategy itself or the caller chose.
    fn remove(&mut self, unit: u32, item: UnitInfo);
    /// Returns what to remove next; `None` if there is nothing. The caller then removes it.
    fn victim(&mut self) -> Option<Victim>;
}

/// Kind of strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub enum StrategyKind {
    /// The least recently used unit.
    Lrua,
    /// The least recently used group.
    Lrug,
    /// The least frequently used unit.
    Lfua,
    /// The least frequently used group.
    Lfug,
    /// The biggest unit.
    Baf,
    /// The unit with the smallest expiration time.
    Letf,
    /// The least recently used unit of the least recently used group.
    Hybrid,
    /// Three FIFO queues.
    S3fifo,
    /// Our own: the unit that is expected to save the fewest bytes for the room it takes, by recent requests
    /// for it and its group.
    #[default]
    Gain,
}

impl StrategyKind {
    /// All strategies.
    pub const ALL: [Self; 9] = [
        Self::Lrua,
        Self::Lrug,
        Self::Lfua,
        Self::Lfug,
        Self::Baf,
        Self::Letf,
        Self::Hybrid,
        Self::S3fifo,
        Self::Gain,
    ];

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lrua => "lrua",
            Self::Lrug => "lrug",
            Self::Lfua => "lfua",
            Self::Lfug => "lfug",
            Self::Baf => "baf",
            Self::Letf => "letf",
            Self::Hybrid => "hybrid",
            Self::S3fifo => "s3fifo",
            Self::Gain => "gain",
        }
    }

    /// Creates a strategy of this kind without units.
    pub fn new_strategy(self) -> Box<dyn Strategy> {
        match self {
            Self::Lrua => Box::new(units::UnitStrategy::new(units::UnitOrder::Recency)),
            Self::Lfua => Box::new(units::UnitStrategy::new(units::UnitOrder::Frequency)),
            Self::Baf => Box::new(units::UnitStrategy::new(units::UnitOrder::Size)),
            Self::Letf => Box::new(units::UnitStrategy::new(units::UnitOrder::Expiry)),
            Self::Lrug => Box::new(groups::GroupStrategy::new(groups::GroupOrder::Recency)),
            Self::Lfug => Box::new(groups::GroupStrategy::new(groups::GroupOrder::Frequency)),
            Self::Hybrid => Box::new(groups::HybridStrategy::default()),
            Self::S3fifo => Box::new(fifo::S3Fifo::default()),
            Self::Gain => Box::new(gain::GainStrategy::default()),
        }
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for an unknown name of a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownStrategy;

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = StrategyKind::ALL.map(StrategyKind::name);
        write!(f, "no such strategy; there are {}", names.join(", "))
    }
}

impl std::error::Error for UnknownStrategy {}

impl FromStr for StrategyKind {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownStrategy)
    }
}
