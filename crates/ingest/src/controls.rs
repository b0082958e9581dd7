//! Counts of control messages that were filed: the task that carries them out learns of each, and need not
//! read the journal if there is none.
//!
//! Messages whose filing had begun before the end of the journal was looked up, and is done, lie before
//! that end.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Control messages filed since the start, except cancels.
#[derive(Debug, Default)]
pub struct ControlCounts {
    begun: AtomicU64,
    done: AtomicU64,
    /// Notified of each message filed.
    pub fresh: Notify,
}

/// Guard for control messages being filed.
pub(super) struct ControlFiling<'a>(&'a ControlCounts, u64);

impl ControlCounts {
    /// Counts `count` control messages as being filed until the guard is dropped.
    pub(super) fn filing(&self, count: u64) -> Option<ControlFiling<'_>> {
        (count > 0).then(|| {
            self.begun.fetch_add(count, Ordering::SeqCst);
            ControlFiling(self, count)
        })
    }

    /// Returns the number of messages whose filing has begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Returns the number of messages that are filed, or were refused by the spool.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }
}

impl Drop for ControlFiling<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(self.1, Ordering::SeqCst);
        self.0.fresh.notify_one();
    }
}
