//! How many control messages have been filed: who carries them out learns of each, and need not read the
//! journal where there is none.
//!
//! What was begun before a place of the journal was looked up, and is done, lies before it.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Control messages filed since the start, but for cancels.
#[derive(Debug, Default)]
pub struct Controls {
    begun: AtomicU64,
    done: AtomicU64,
    /// Told of each that is filed.
    pub fresh: Notify,
}

/// Some are being filed.
pub(super) struct Filing<'a>(&'a Controls, u64);

impl Controls {
    /// `count` control messages are being filed, until the value is dropped.
    pub(super) fn filing(&self, count: u64) -> Option<Filing<'_>> {
        (count > 0).then(|| {
            self.begun.fetch_add(count, Ordering::SeqCst);
            Filing(self, count)
        })
    }

    /// Those of which the filing has begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Those that are filed, or were refused by the spool.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }
}

impl Drop for Filing<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(self.1, Ordering::SeqCst);
        self.0.fresh.notify_one();
    }
}
