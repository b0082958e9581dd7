//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix seconds.
pub(crate) fn unix_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
