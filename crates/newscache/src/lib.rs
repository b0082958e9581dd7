//! newsreel's cache of other servers' articles: the store, the replacement strategies and their simulator.
//!
//! Everything here blocks, knows no network and no clock (times are passed in, as Unix seconds), and touches
//! the machine only through [`disk::Disk`]. Lost or damaged data is fetched again, with no other effect; a
//! torn or wrong article is never returned. See `docs/cache.md` and `docs/formats/cache.md`. Source: Gschwind
//! and Hauswirth, "NewsCache", USENIX 1999.
//!
//! ```
//! use disk::RealDisk;
//! use newscache::{Cache, CacheSettings, GroupOutcome, StrategyKind};
//! use std::sync::Arc;
//!
//! let dir = std::env::temp_dir().join(format!("newscache-example-{}", std::process::id()));
//! let settings =
//!     CacheSettings { size_bytes: 4 << 20, strategy: StrategyKind::Lrua, ..CacheSettings::default() };
//! let now = 1_795_000_000;
//! let (cache, _) = Cache::open(Arc::new(RealDisk::new()), &dir, settings, now)?;
//! let article = b"From: a@site.example\r\nMessage-ID: <1@site.example>\r\n\r\nbody\r\n";
//! let group = cache.group("upstream.example", b"misc.test", now);
//! let outcome = group.put_article(7, b"<1@site.example>", article, now)?;
//! assert_eq!(outcome, GroupOutcome::None);
//!
//! let mut found = Vec::new();
//! assert_eq!(group.article(7, &mut found, now)?.as_deref(), Some(&b"<1@site.example>"[..]));
//! assert_eq!(found, article);
//! // Upstream is asked for what is not there.
//! assert_eq!(group.article(8, &mut found, now)?, None);
//! # drop((group, cache));
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), std::io::Error>(())
//! ```
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

pub use books::bookkeeping::DatedAnswer;
pub use books::stats::{CacheAccess, CacheStats, CountsByKind, ReadGroup, RequestCounts, RequestKind};
pub use books::wanted::MissedArticle;
pub use cache::Cache;
pub use files::open_files::open_files_max;
pub use files::opening::OpeningReport;
pub use reading::group::{CacheGroup, CacheHit, GroupOutcome, RowCoverage};
pub use reading::large::{ArticleDestination, ArticleWriter};
pub use reading::lists::{ListKind, ListReader, ListWriter};
pub use reading::numbers::{Neighbour, NeighbourDirection, NumberChanges};
pub use reading::pieces::LargeReader;
pub use reading::verify::CacheVerifyReport;
pub use settings::{CacheSettings, CacheSizes};
pub use strategy::StrategyKind;
