//! Time slices of the tasks on a thread.
//!
//! A task that never waits keeps its thread from all other connections, and may keep the runtime from polling
//! the network at all: for example an answer from memory of which nothing is sent, or which the client reads
//! as fast as it is made. Such work calls [`TimeSlice::pause`] in between.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Maximum time between two pauses, and for which finished answers wait for others.
pub(crate) const SLICE: Duration = Duration::from_millis(5);

/// Returns the time of a clock that is cheap to read after every command, and exact to some milliseconds.
pub(crate) fn coarse_now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::MonotonicCoarse)).unwrap_or_default()
}

/// Time at which a task last yielded.
#[derive(Debug)]
pub struct TimeSlice(Instant);

impl Default for TimeSlice {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeSlice {
    /// Yields to other tasks, if it is time; returns whether it was.
    #[inline]
    pub async fn pause(&mut self) -> bool {
        let is_due = self.0.elapsed() >= SLICE;
        if is_due {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn busy_task_lets_others_run() {
        let ran = Arc::new(AtomicBool::new(false));
        let other = ran.clone();
        tokio::spawn(async move { other.store(true, Ordering::Release) });
        let (began, mut slice) = (Instant::now(), TimeSlice::default());
        while !ran.load(Ordering::Acquire) {
            assert!(began.elapsed() < Duration::from_secs(60));
            slice.pause().await;
        }
    }
}
