//! Replacement strategies: which part of the cache goes next when there is no room.
//!
//! A strategy knows *units*, which a caller numbers densely: articles, or files of several (`docs/cache.md`).
//! It is pure: no clock, no disk, no threads. Every call costs O(log n) or less. The store and the simulator
//! use the same code. Sources: section 4.1 of the NewsCache paper (LRUA, LRUG, LFUA, LFUG, BAF, LETF and the
//! hybrid); Yang et al., SOSP 2023 (S3-FIFO). Called by
//! `bookkeeping` and `simulate`.

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

/// What is known of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Stands for what it holds, also when it comes back after it was removed.
    pub key: u64,
    /// The group it belongs to, numbered densely.
    pub group: u32,
    /// What it takes of the cache.
    pub bytes: u64,
    /// When it expires, or was posted, in seconds: the least goes first under LETF.
    pub expires: u64,
}

/// What is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// One unit.
    Unit(u32),
    /// All units of a group.
    Group(u32),
}

/// Decides what goes next.
pub trait Strategy: Send {
    /// There will be so many units and groups at first.
    fn reserve(&mut self, _units: usize, _groups: usize) {}
    /// There is a new unit, which has just been asked for.
    fn insert(&mut self, unit: u32, item: Item);
    /// Something in a unit was asked for, and was there.
    fn hit(&mut self, unit: u32);
    /// More has come into a unit, which has so many bytes now.
    fn grow(&mut self, unit: u32, item: Item);
    /// A unit is gone, by the strategy's own choice or not.
    fn remove(&mut self, unit: u32);
    /// What goes next; `None` if there is nothing. It is not gone before it is removed.
    fn victim(&mut self) -> Option<Victim>;
}

/// Which strategy.
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
    /// The unit with the least expiration time.
    Letf,
    /// The least recently used unit of the least recently used group.
    Hybrid,
    /// Three FIFO queues.
    S3fifo,
    /// Our own: the unit that is expected to save the fewest bytes for the room it takes, by what was asked
    /// of it and of its group lately.
    #[default]
    Gain,
}

impl StrategyKind {
    /// All of them.
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

    /// Its name in the configuration.
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

    /// A strategy of this kind that knows no unit yet.
    pub fn new_strategy(self) -> Box<dyn Strategy> {
        match self {
            Self::Lrua => Box::new(units::ByUnit::new(units::Rank::Recency)),
            Self::Lfua => Box::new(units::ByUnit::new(units::Rank::Frequency)),
            Self::Baf => Box::new(units::ByUnit::new(units::Rank::Size)),
            Self::Letf => Box::new(units::ByUnit::new(units::Rank::Expiry)),
            Self::Lrug => Box::new(groups::ByGroup::new(groups::Rank::Recency)),
            Self::Lfug => Box::new(groups::ByGroup::new(groups::Rank::Frequency)),
            Self::Hybrid => Box::new(groups::Hybrid::default()),
            Self::S3fifo => Box::new(fifo::S3Fifo::default()),
            Self::Gain => Box::new(gain::Gain::default()),
        }
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no strategy of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchStrategy;

impl fmt::Display for NoSuchStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = StrategyKind::ALL.map(StrategyKind::name);
        write!(f, "no such strategy; there are {}", names.join(", "))
    }
}

impl std::error::Error for NoSuchStrategy {}

impl FromStr for StrategyKind {
    type Err = NoSuchStrategy;

    fn from_str(name: &str) -> Result<Self, NoSuchStrategy> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(NoSuchStrategy)
    }
}
