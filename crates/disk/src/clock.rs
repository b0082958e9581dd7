//! The wall clock, for stamps in headers and for forgetting (arrival times come from the caller), and the
//! processor time of a thread.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix seconds.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Processor time that this thread has used.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
