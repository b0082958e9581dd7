//! `[cache]`: the store of data from upstreams.

use std::path::PathBuf;
use std::time::Duration;

use super::HeaderMatch;
use super::kinds::*;
use newscache::StrategyKind;

section! {
    /// What is fetched from upstreams is kept here, for the next reader and for the time when they are away.
    /// Without an [[upstream]] there is no cache. Losing it costs that everything is fetched again.
    [cache] Cache, CacheDraft {
        /// Its directory, relative to site.data. One process at a time uses it.
        path: PathBuf = FilePath, default "cache", example "/var/cache/newsreel", effect Restart, of machine;
        /// What all of its files may take together; it is never exceeded by more than a twentieth.
        size: u64 = Size { min: 1 << 20, max: u64::MAX }, default "1 GiB", example "50 GiB", of machine;
        /// Articles up to this size share files with others of their group; larger ones are files of their
        /// own.
        small_max: u64 = Size { min: 1 << 10, max: 1 << 20 }, default "16 KiB", example "64 KiB", of machine;
        /// What leaves when there is no room: what was used longest ago, by article ("lrua") or by group
        /// ("lrug"); what is used least, by article ("lfua") or by group ("lfug"); the largest ("baf"); what
        /// will expire first ("letf"); "hybrid", "s3fifo"; or what saves least for its size ("gain").
        strategy: StrategyKind = word(), default "gain", example "lrug";
        /// For how long an upstream is not asked again for an article that it did not have.
        negative_age: Duration = Span, default "5 min", example "1 h";
        /// Articles of upstreams that are not shown, as if they were not there: those with one of these
        /// headers. Groups that are not to be shown are left out of upstream.groups.
        refuse: Vec<HeaderMatch> = ListOf(Header), default [],
            example [{ name = "Subject", matches = "*make money fast*" }];
        /// A file that gets a line for each request of a reader; relative to site.data. At 64 MiB it is
        /// renamed, and the older one removed.
        log: Option<PathBuf> = Maybe(FilePath), example "cache-access.log", of machine;
    }
}

words! {
    for StrategyKind {
        Lrua = "lrua",
        Lrug = "lrug",
        Lfua = "lfua",
        Lfug = "lfug",
        Baf = "baf",
        Letf = "letf",
        Hybrid = "hybrid",
        S3fifo = "s3fifo",
        Gain = "gain",
    }
}

impl Cache {
    /// Returns the settings of the store.
    pub fn settings(&self) -> newscache::CacheSettings {
        newscache::CacheSettings {
            size_bytes: self.size,
            small_max: self.small_max,
            strategy: self.strategy,
            negative_age: self.negative_age.as_secs(),
        }
    }
}
