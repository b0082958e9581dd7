//! `[prefetch]`: fetching from upstreams before a reader asks.

use std::time::Duration;

use super::kinds::*;
use super::{ConfigWord, Hours, NamePattern};

section! {
    /// What is fetched from upstreams before a reader asks for it, and kept in the cache: news of some
    /// groups, in passes. A pass fetches at most a quarter of what the cache may take.
    [prefetch] Prefetch, PrefetchDraft {
        /// Groups of which new articles are always fetched.
        groups: Option<NamePattern> = Maybe(Wildmat), example "comp.lang.*";
        /// So do groups for this long after a reader has read in them. "0 s": reading alone does not count.
        read_within: Duration = Span, default "0 s", example "7 days";
        /// So do this many groups: those of which readers have asked for most per byte.
        popular: usize = 0..=10_000, default 0, example 20;
        /// What is fetched of these groups: "overview": only what is needed to list articles; "threads": also
        /// the follow-ups to articles that are in the cache; "articles": all of them.
        what: PrefetchScope = word(), default "articles", example "threads";
        /// In each group at most this many of its newest articles.
        articles_max: u64 = 1..=1_000_000, default 1000, example 200;
        /// Larger articles are left to those who ask for them.
        bytes_max: u64 = Size { min: 1 << 10, max: u64::MAX }, default "64 KiB", example "1 MiB";
        /// The hours of the day in which it is done, in UTC: from the first to the second.
        hours: Hours = HourRange, default "0-24", example "1-6";
        /// The time between the end of one pass and the start of the next.
        interval: Duration = Pause, default "30 min", example "2 h";
        /// Bytes per second that it takes; by default as fast as they arrive.
        bytes_per_sec_max: Option<u64> = Maybe(Size { min: 1 << 10, max: u64::MAX }), example "5 KiB";
        /// Whether the first request for overview rows of a group has all others fetched as well, the newest
        /// first, up to 100,000. Otherwise no more than a twentieth is added to what readers ask for.
        whole_overview: bool = Switch, default false, example true;
        /// Whether what a reader asks for while its upstream is away is fetched when the upstream is back.
        fetch_later: bool = Switch, default false, example true;
    }
}

/// The data fetched of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchScope {
    /// Overview rows.
    Overview,
    /// Overview rows, and follow-ups to articles in the cache.
    Threads,
    /// All articles.
    Articles,
}

impl ConfigWord for PrefetchScope {
    const WORDS: &'static [(&'static str, Self)] =
        &[("overview", Self::Overview), ("threads", Self::Threads), ("articles", Self::Articles)];
}

impl Prefetch {
    /// Returns true if there is anything to fetch.
    pub fn is_on(&self) -> bool {
        self.groups.is_some() || !self.read_within.is_zero() || self.popular > 0
    }
}
