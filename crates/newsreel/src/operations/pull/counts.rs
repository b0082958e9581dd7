//! What a pull counts, while it runs and when it has ended.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::base::counters::{add, read};

/// Counts of one run, or of all runs of a section since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Numbers, or Message-IDs, that the run looks at, and those dealt with.
    pub total: AtomicU64,
    pub done: AtomicU64,
    /// Groups with something new.
    pub groups: AtomicU64,
    /// Groups that match there and are not carried here.
    pub not_carried: AtomicU64,
    /// Groups that were made.
    pub groups_made: AtomicU64,
    /// Articles that came, and their bytes.
    fetched: AtomicU64,
    bytes: AtomicU64,
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
    /// Articles that came and were known by then.
    pub duplicates: AtomicU64,
    /// Articles that were not asked for, as they are known here.
    pub known: AtomicU64,
    /// Articles that the server has listed and not sent.
    pub missing: AtomicU64,
}

/// The same as values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullCounts {
    /// Numbers, or Message-IDs, that were to be looked at.
    pub total: u64,
    /// Those that were.
    pub done: u64,
    /// Groups with something new.
    pub groups: u64,
    /// Groups that match there and are not carried here.
    pub not_carried: u64,
    /// Groups that were made here.
    pub groups_made: u64,
    /// Articles that came.
    pub fetched: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Articles that were filed.
    pub accepted: u64,
    /// Articles that came and were rejected.
    pub rejected: u64,
    /// Articles that came and were known by then.
    pub duplicates: u64,
    /// Articles that were not asked for, as they are known here.
    pub known: u64,
    /// Articles that the server has listed and not sent.
    pub missing: u64,
}

impl Counts {
    /// An article of so many bytes has come.
    pub fn count_fetched(&self, bytes: usize) {
        add(&self.fetched, 1);
        add(&self.bytes, bytes);
    }

    /// Articles that came.
    pub fn fetched(&self) -> u64 {
        read(&self.fetched)
    }

    /// How they stand.
    pub fn now(&self) -> PullCounts {
        PullCounts {
            total: read(&self.total),
            done: read(&self.done),
            groups: read(&self.groups),
            not_carried: read(&self.not_carried),
            groups_made: read(&self.groups_made),
            fetched: read(&self.fetched),
            bytes: read(&self.bytes),
            accepted: read(&self.accepted),
            rejected: read(&self.rejected),
            duplicates: read(&self.duplicates),
            known: read(&self.known),
            missing: read(&self.missing),
        }
    }

    /// Counts `n` of something.
    pub fn count(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
