//! `[prefetch]`: fetching from upstreams before a reader asks.

use std::time::Duration;

use super::kinds::*;
use super::{Hours, NamePattern};

section! {
    /// What is fetched from upstreams before a reader asks for it, and kept in the cache: news of some
    /// groups, in passes. A pass fetches at most a quarter of what the cache may take.
    [prefetch] Prefetch, PrefetchDraft {
        /// Groups of which new articles are always fetched.
        groups: Option<NamePattern> = Maybe(Wildmat), example "comp.lang.*";
        /// New articles of a group are also fetched for this long after a reader has read in it; "0 s":
        /// reading has no such effect.
        read_within: Duration = Span, default "0 s", example "7 days";
        /// New articles of this many groups are also fetched: of the most popular ones, for which readers
        /// have sent most requests per byte.
        popular: usize = 0..=10_000, default 0, example 20;
        /// How much of these groups is fetched: "overview", only the overview rows; "threads", also the
        /// follow-ups to articles in the cache; "articles", all articles.
        what: PrefetchScope = word(), default "articles", example "threads";
        /// Maximum number of articles fetched in each group, the newest first.
        articles_max: u64 = 1..=1_000_000, default 1000, example 200;
        /// Larger articles are fetched only when a reader asks for them.
        bytes_max: u64 = Size { min: 1 << 10, max: u64::MAX }, default "64 KiB", example "1 MiB";
        /// Hours of the day during which articles are fetched, in UTC: from the first to the second.
        hours: Hours = HourRange, default "0-24", example "1-6";
        /// Time between the end of one pass and the start of the next.
        interval: Duration = Pause, default "30 min", example "2 h";
        /// Maximum number of bytes per second that passes take; unlimited by default.
        bytes_per_sec_max: Option<u64> = Maybe(Size { min: 1 << 10, max: u64::MAX }), example "5 KiB";
        /// Whether the first request for overview rows of a group has all others fetched as well, the newest
        /// first, up to 100,000. Otherwise no more than a twentieth is added to what readers ask for.
        whole_overview: bool = Switch, default false, example true;
        /// Whether what a reader asks for while its upstream is away is fetched when the upstream is back.
        fetch_later: bool = Switch, default false, example true;
    }
}

words! {
    /// The data fetched of a group.
    pub enum PrefetchScope {
        /// Overview rows.
        Overview = "overview",
        /// Overview rows, and follow-ups to articles in the cache.
        Threads = "threads",
        /// All articles.
        Articles = "articles",
    }
}

impl Prefetch {
    /// Returns true if there is anything to fetch.
    pub fn is_on(&self) -> bool {
        self.groups.is_some() || !self.read_within.is_zero() || self.popular > 0
    }
}
