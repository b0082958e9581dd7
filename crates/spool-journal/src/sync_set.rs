//! [`SyncSet`]: the files that a sync of the journal must include, and the written and durable positions.

use crate::GroupsFile;
use disk::DiskFile;
use spool_base::ordered::{Ordered, rank};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Files that a sync of the journal must include; shared with the syncing thread.
#[derive(Debug, Default)]
pub struct SyncSet {
    pub(super) files: Ordered<Vec<Arc<dyn DiskFile>>, { rank::TABLES }>,
    /// Groups file, whose promises must be durable before the journal's.
    groups: OnceLock<Arc<GroupsFile>>,
    /// Held during a sync: a call that waited finds its work done.
    syncing: Ordered<(), { rank::PLACE_SYNCING }>,
    pub(super) written: AtomicU64,
    pub(super) synced: AtomicU64,
    syncs: AtomicU64,
}

impl SyncSet {
    /// Returns the position up to which rows are written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the position up to which rows are durable.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns the number of syncs so far.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Adds the groups file, which is synced before the journal.
    pub fn put_groups(&self, groups: &Arc<GroupsFile>) {
        // Each opening has exactly one.
        let _ = self.groups.set(groups.clone());
    }

    /// Makes all rows written so far durable; returns their end position.
    pub fn sync(&self) -> io::Result<u64> {
        let _one_at_a_time = self.syncing.lock();
        let upto = self.written();
        if upto == self.synced() {
            return Ok(upto);
        }
        self.groups.get().map_or(Ok(()), |groups| groups.sync())?;
        let files = self.files.lock().clone();
        files.iter().try_for_each(|f| f.sync())?;
        // All files but the last, which may grow, are complete and synced now.
        let done = files.len().saturating_sub(1);
        self.files.lock().drain(..done);
        self.synced.fetch_max(upto, Ordering::AcqRel);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.groups.get().map_or(Ok(()), |groups| groups.note_synced(upto))?;
        Ok(upto)
    }
}
