//! Counts of control messages that were filed: the task that carries them out learns of each, and need not
//! read the journal if there is none.
//!
//! Messages whose filing had begun before the end of the journal was looked up, and is done, lie before
//! that end.
//!
//! Both counts use release and acquire, and are ordered with the journal by the thread that files: `begun` is
//! increased before its row is committed, so any task that has found the row before the end of the journal
//! sees the increase; `done` is increased afterwards, so any task that sees the increase finds the row. No
//! task relies on an order between the two counts.

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
            self.begun.fetch_add(count, Ordering::Release);
            ControlFiling(self, count)
        })
    }

    /// Returns the number of messages whose filing has begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Returns the number of messages that are filed, or were refused by the spool.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }
}

impl Drop for ControlFiling<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(self.1, Ordering::Release);
        self.0.fresh.notify_one();
    }
}
