//! Keys of Message-IDs that another server's history has only as hashes.
//!
//! INN's history has only hashes of Message-IDs, from which no id can be derived. A hash is remembered under
//! the key of the text `[HASH]`, which no Message-ID has, so that journal, history and rebuild treat it like
//! any other. Marks, remembered in the same way, show whether any hash is remembered, one for each hour of
//! arrival and one for each 300 hours. See docs/formats/history.md.

use crate::key::{ArticleKey, KeyHasher};

/// Seconds covered by the mark of an hour.
pub const MARK_SECS: u64 = 3600;
/// Hours covered by the mark of a period, so that a start looks for few marks.
pub const PERIOD_HOURS: u64 = 300;

/// Returns the key under which a hash is remembered.
pub fn hash_key(hasher: &KeyHasher, hash: [u8; 16]) -> ArticleKey {
    hasher.key(format!("[{:032X}]", u128::from_be_bytes(hash)).as_bytes())
}

/// Returns the key of the mark for hashes that arrived in an hour since 1970.
pub fn mark_key(hasher: &KeyHasher, hour: u64) -> ArticleKey {
    hasher.key(format!("[hashes {hour}]").as_bytes())
}

/// Returns the key of the mark for hashes that arrived in a period of [`PERIOD_HOURS`] since 1970.
pub fn period_key(hasher: &KeyHasher, period: u64) -> ArticleKey {
    hasher.key(format!("[hashes of period {period}]").as_bytes())
}

/// Returns the keys of the marks of a hash that arrived at this time, in Unix seconds.
pub fn marks(hasher: &KeyHasher, arrived: u64) -> [ArticleKey; 2] {
    let hour = arrived / MARK_SECS;
    [period_key(hasher, hour / PERIOD_HOURS), mark_key(hasher, hour)]
}
