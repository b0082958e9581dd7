//! Full text search: an index that is a fold of the journal, and answers to queries.
//!
//! A thread of low priority (`keeping`) reads the journal with a cursor and adds filed articles in order;
//! `filling` adds older ones. [`SearchService`] answers queries: hits are looked up in the living indexes of
//! the spool before they are shown, so a cancelled, hidden or overwritten article is never shown, even if the
//! index still has it. The files are described in `docs/formats/search.md`, the query language in
//! `docs/search.md`. Used by `server`, `control_socket` and the web reader.

mod answering;
mod filling;
mod giving_way;
mod keeping;
mod progress;

pub use answering::{RebuildSearchOperation, SearchOperation, first_of_thread};
pub use keeping::{Indexer, start};
pub use progress::SearchCoverage;

use super::report::SearchStatus;
use arc_swap::ArcSwapOption;
use newssearch::index::{IndexError, Searcher};
use newssearch::query::Query;
use progress::FillPosition;
use site_base::lock::Leaf;
use site_config as config;
use spool::{ArticleKey, Spool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Name of the cursor.
pub const CURSOR: &str = "search";
/// Maximum number of simultaneous queries of visitors, who take turns.
pub const VISITORS_QUERIES_MAX: usize = 4;
/// Maximum number of simultaneous queries: operators need not wait for visitors.
const QUERIES_MAX: usize = VISITORS_QUERIES_MAX + 2;

/// The search index of a running server.
#[derive(Debug, Default)]
pub struct SearchService {
    /// Absent if there is no index, or it is being opened.
    searcher: ArcSwapOption<Searcher>,
    /// Whether the configuration wants an index.
    is_wanted: AtomicBool,
    /// Number of queries in progress.
    queries: AtomicUsize,
    /// Whether the index must be built again.
    is_stale: AtomicBool,
    /// Whether it has all articles that were here when it was begun.
    is_complete: AtomicBool,
    /// Position that `filling` has reached.
    filling: Leaf<FillPosition>,
    /// Time since when rows of the journal have waited for it.
    behind: Leaf<Option<Instant>>,
    /// Whether they wait because a feed is busy.
    gives_way: AtomicBool,
    problem: Leaf<String>,
}

/// Reason why a query has no answer.
#[derive(Debug)]
pub enum SearchError {
    /// There is to be no index.
    Off,
    /// The index is not open yet.
    Opening,
    /// The index cannot be opened, for this reason.
    NotOpened(String),
    /// Too many other queries are in progress.
    Busy,
    /// The index cannot be read.
    Failed(IndexError),
}

impl SearchService {
    /// Returns whether there is an index.
    pub fn is_on(&self) -> bool {
        self.searcher.load().is_some()
    }

    /// Returns whether the index has all articles that were here when it was begun.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    /// Returns how far the index has got.
    pub fn coverage(&self, spool: &Spool, search: &config::Search) -> SearchCoverage {
        if self.is_complete() {
            return SearchCoverage::Whole;
        }
        let (position, groups) = (self.filling.lock().clone(), spool.groups());
        let indexed = groups.iter().filter(|group| search.groups.matches(group.name.as_bytes()));
        SearchCoverage::at(&position, indexed.map(|group| (&*group.name, group.marks())))
    }

    /// Returns the open index, or the reason why there is none.
    fn opened(&self) -> Result<Arc<Searcher>, SearchError> {
        if let Some(searcher) = self.searcher.load_full() {
            return Ok(searcher);
        }
        let problem = self.problem.lock().clone();
        Err(match self.is_wanted.load(Ordering::Relaxed) {
            false => SearchError::Off,
            true if problem.is_empty() => SearchError::Opening,
            true => SearchError::NotOpened(problem),
        })
    }

    /// Returns the Message-IDs of `count` hits, starting with hit `from`, newest first; some of the articles
    /// may have been removed. `thread` is the key of the thread's first article, `groups` restricts the
    /// search.
    pub fn find(
        &self,
        query: &Query,
        thread: Option<&ArticleKey>,
        groups: Option<&[String]>,
        from: usize,
        count: usize,
    ) -> Result<Vec<String>, SearchError> {
        let searcher = self.opened()?;
        let _one = QuerySlot::begin(&self.queries).ok_or(SearchError::Busy)?;
        searcher.search(query, thread.map(short), groups, from, count).map_err(SearchError::Failed)
    }

    /// Returns the status of the index.
    pub fn status(&self, spool: &Spool) -> Option<SearchStatus> {
        let problem = self.problem.lock().clone();
        let searcher = self.searcher.load_full();
        if searcher.is_none() && problem.is_empty() {
            return None;
        }
        let readers = spool.journal().status();
        let cursor = readers.iter().find(|reader| reader.name == CURSOR);
        Some(SearchStatus {
            articles: searcher.map_or(0, |searcher| searcher.articles()),
            is_complete: self.is_complete(),
            waiting_bytes: cursor.map_or(0, |cursor| cursor.backlog_bytes),
            late_secs: self.behind.lock().map_or(0, |since| since.elapsed().as_secs()),
            gives_way: self.gives_way.load(Ordering::Relaxed),
            problem,
        })
    }
}

/// Returns the part of a key that the index stores.
fn short(key: &ArticleKey) -> u64 {
    (key.0 >> 64) as u64
}

/// A query in progress.
struct QuerySlot<'a>(&'a AtomicUsize);

impl<'a> QuerySlot<'a> {
    fn begin(queries: &'a AtomicUsize) -> Option<Self> {
        if queries.fetch_add(1, Ordering::AcqRel) >= QUERIES_MAX {
            queries.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Self(queries))
    }
}

impl Drop for QuerySlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
