//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

pub use disk::clock::unix_now as unix_secs;

/// Unix seconds, signed, as dates and the spool use them.
pub fn unix_now() -> i64 {
    unix_secs() as i64
}

/// Unix milliseconds.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
