//! Full text search over articles.
//!
//! `words` defines words, `query` the language of queries, `text` the text of an article, `snippet` the place
//! in it that matches. They are pure. With the feature `tantivy` there is `index`, which answers queries: it
//! is kept by tantivy, and all its bytes go through `disk::Disk` (`directory`). It identifies articles by
//! data of the caller: a key, a position, groups, dates, and returns Message-IDs; the caller, which has the
//! current index, decides whether an article may be shown. Called by `newsreel` when it is built with the
//! feature `search`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod directory;
pub mod index;
pub mod query;
pub mod snippet;
pub mod text;
pub mod words;
