//! The wall clock, for stamps in headers and for forgetting; arrival times come from the caller.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix seconds.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
