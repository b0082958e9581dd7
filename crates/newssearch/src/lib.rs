//! Full text search over articles.
//!
//! `words` says what a word is, `query` what can be asked, `text` which text an article has. They are pure.
//! With the feature `tantivy` there is `index`, which answers queries: it is kept by tantivy, and all its
//! bytes go through `disk::Disk` (`directory`). It knows articles by what the caller hands it: a key, a
//! place, groups, dates, and returns Message-IDs; whether an article may be shown is the caller's to say, who
//! has the living index. Called by `newsreel` when it is built with the feature `search`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(feature = "tantivy")]
mod directory;
#[cfg(feature = "tantivy")]
pub mod index;
pub mod query;
pub mod text;
pub mod words;
