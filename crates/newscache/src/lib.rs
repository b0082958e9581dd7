//! newsreel's cache of other servers' articles: the store, the replacement strategies and their simulator.
//!
//! Everything here blocks, knows no network and no clock (times are passed in, as Unix seconds), and touches
//! the machine only through [`disk::Disk`]. Lost or damaged data is fetched again, with no other effect; a
//! torn or wrong article is never returned. See `docs/cache.md` and `docs/formats/cache.md`. Source: Gschwind
//! and Hauswirth, "NewsCache", USENIX 1999.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod access_log;
mod answers;
mod ascending;
mod bookkeeping;
mod cache;
mod cells;
pub mod chart;
mod compact;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod heads;
mod ids;
mod index_io;
mod lanes;
mod large;
mod lists;
mod loaded;
mod numbers;
mod open_files;
mod opening;
mod packed;
mod pieces;
mod rank;
mod recent;
mod record;
mod runs;
mod settings;
pub mod simulate;
mod slots;
mod stats;
pub mod strategy;
#[cfg(test)]
mod tests;
mod verify;
mod wanted;

pub use bookkeeping::DatedAnswer;
pub use cache::Cache;
pub use group::{CacheGroup, CacheHit, GroupOutcome, RowCoverage};
pub use large::{ArticleDestination, ArticleWriter};
pub use lists::{ListKind, ListReader, ListWriter};
pub use numbers::{Neighbour, NeighbourDirection, NumberChanges};
pub use opening::OpeningReport;
pub use pieces::LargeReader;
pub use settings::{CacheSettings, CacheSizes};
pub use stats::{CacheAccess, CacheStats, CountsByKind, ReadGroup, RequestCounts, RequestKind};
pub use strategy::StrategyKind;
pub use verify::CacheVerifyReport;
pub use wanted::MissedArticle;
