//! newsreel's cache of other servers' articles: the store, the replacement strategies and their simulator.
//!
//! Everything here blocks, knows no network and no clock (times are passed in, as Unix seconds), and touches
//! the machine only through [`disk::Disk`]. Lost or damaged data is fetched again, with no other effect; a
//! torn or wrong article is never returned. See `docs/cache.md` and `docs/formats/cache.md`. Source: Gschwind
//! and Hauswirth, "NewsCache", USENIX 1999.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod base;
mod books;
mod cache;
pub mod chart;
mod files;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod reading;
mod settings;
pub mod simulate;
pub mod strategy;
#[cfg(test)]
mod tests;

pub use books::bookkeeping::{DatedAnswer, UpstreamMarks};
pub use books::stats::{CacheAccess, CacheStats, CountsByKind, ReadGroup, RequestCounts, RequestKind};
pub use books::wanted::MissedArticle;
pub use cache::Cache;
pub use files::opening::OpeningReport;
pub use reading::group::{CacheGroup, CacheHit, GroupOutcome, RowCoverage};
pub use reading::large::{ArticleDestination, ArticleWriter};
pub use reading::lists::{ListKind, ListReader, ListWriter};
pub use reading::numbers::{Neighbour, NeighbourDirection, NumberChanges};
pub use reading::pieces::LargeReader;
pub use reading::verify::CacheVerifyReport;
pub use settings::{CacheSettings, CacheSizes};
pub use strategy::StrategyKind;
