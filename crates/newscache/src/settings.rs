//! Settings of a cache, and the sizes that follow from them.

use crate::strategy::StrategyKind;

/// Settings of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Maximum size of all files of the cache together; never exceeded by more than a twentieth.
    pub size_bytes: u64,
    /// Size above which articles are files of their own.
    pub small_max: u64,
    /// Replacement strategy.
    pub strategy: StrategyKind,
    /// Time in seconds for which upstream is not asked again for an article that it did not have.
    pub negative_age: u64,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            size_bytes: 1 << 30,
            small_max: 16 << 10,
            strategy: StrategyKind::default(),
            negative_age: 300,
        }
    }
}

/// Minimum size of a group's file before another one is begun, unless the cache is very small.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Minimum number of files of a very small cache.
const FILES_MIN: u64 = 256;
/// Maximum size of a group's file before another one is begun.
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
/// Approximate number of files of groups, if all are full.
const SEGMENTS: u64 = 1 << 16;
/// Maximum number of articles that are files of their own, in a full cache: bookkeeping of each is in memory.
const LARGE_MAX: u64 = 1 << 17;
/// Minimum size of a cache.
pub(crate) const SIZE_BYTES_MIN: u64 = 1 << 20;

/// Sizes that follow from the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSizes {
    /// Size at which a group's next file is begun.
    pub segment_bytes: u64,
    /// Size above which articles are files of their own.
    pub large_above: u64,
    /// Maximum size of a cached article.
    pub article_bytes_max: u64,
    /// Maximum size of articles and rows.
    pub limit_bytes: u64,
}

impl CacheSettings {
    /// Returns the sizes for these settings.
    pub fn shape(&self) -> CacheSizes {
        let size = self.size_bytes.max(SIZE_BYTES_MIN);
        let large_above = self.small_max.max(size / LARGE_MAX).min(SEGMENT_BYTES_MAX);
        let segment_bytes = (size / SEGMENTS).max(SEGMENT_BYTES_MIN.min(size / FILES_MIN));
        CacheSizes {
            segment_bytes: segment_bytes.next_power_of_two().min(SEGMENT_BYTES_MAX),
            large_above,
            article_bytes_max: size / 8,
            limit_bytes: size - size / 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_the_cache_s_size() {
        let shape = |size_bytes| CacheSettings { size_bytes, ..CacheSettings::default() }.shape();
        assert_eq!((shape(1 << 30).segment_bytes, shape(1 << 30).large_above), (64 << 10, 16 << 10));
        let large = shape(50 << 30);
        assert_eq!((large.segment_bytes, large.large_above), (1 << 20, 400 << 10));
        assert!(shape(0).article_bytes_max >= 64 << 10);
    }
}
