//! The wall clock, for dates in headers and for expiring what is remembered (arrival times come from the
//! caller), and the processor time of a thread.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time in Unix seconds.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Returns the processor time that this thread has used.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
