//! The wall clock, for dates in headers and for expiring what is remembered (arrival times come from the
//! caller), and the processor time of a thread.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the current time in Unix seconds, as arrivals and ages are counted.
pub fn unix_secs() -> u64 {
    since_epoch().as_secs()
}

/// Returns the current time in signed Unix seconds, as dates are, which may lie before 1970.
pub fn unix_now() -> i64 {
    since_epoch().as_secs() as i64
}

/// Returns the current time in Unix milliseconds.
pub fn unix_ms() -> u64 {
    since_epoch().as_millis() as u64
}

/// Returns the processor time that this thread has used.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
