//! What is configured of a cache, and the sizes that follow from it.

use crate::strategy::StrategyKind;

/// What is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What all files of the cache may take together; never exceeded by more than a twentieth.
    pub size_bytes: u64,
    /// Larger articles are files of their own.
    pub small_max: u64,
    /// What goes when there is no room.
    pub strategy: StrategyKind,
    /// For how many seconds upstream is not asked again for what it did not have.
    pub negative_age: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            size_bytes: 1 << 30,
            small_max: 16 << 10,
            strategy: StrategyKind::default(),
            negative_age: 300,
        }
    }
}

/// Files of a group are at least this long before another one is begun, if the cache is not very small.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// A very small cache has at least so many files.
const FILES_MIN: u64 = 256;
/// And at most this long.
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
/// So many files of groups there are about, if all are full.
const SEGMENTS: u64 = 1 << 16;
/// No more articles than this are files of their own, in a full cache: what is known of each is in memory.
const LARGE_MAX: u64 = 1 << 17;
/// The smallest cache.
pub(crate) const SIZE_BYTES_MIN: u64 = 1 << 20;

/// The sizes that follow from the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// When a group's next file is begun.
    pub segment_bytes: u64,
    /// Larger articles are files of their own.
    pub large_above: u64,
    /// Larger ones are not cached.
    pub article_bytes_max: u64,
    /// What articles and rows may take.
    pub limit_bytes: u64,
}

impl Settings {
    /// The sizes for these settings.
    pub fn shape(&self) -> Shape {
        let size = self.size_bytes.max(SIZE_BYTES_MIN);
        let large_above = self.small_max.max(size / LARGE_MAX).min(SEGMENT_BYTES_MAX);
        let segment_bytes = (size / SEGMENTS).max(SEGMENT_BYTES_MIN.min(size / FILES_MIN));
        Shape {
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
        let shape = |size_bytes| Settings { size_bytes, ..Settings::default() }.shape();
        assert_eq!((shape(1 << 30).segment_bytes, shape(1 << 30).large_above), (64 << 10, 16 << 10));
        let large = shape(50 << 30);
        assert_eq!((large.segment_bytes, large.large_above), (1 << 20, 400 << 10));
        assert!(shape(0).article_bytes_max >= 64 << 10);
    }
}
