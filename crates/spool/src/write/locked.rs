//! [`LockedWriter`]: the writer behind its lock.

use crate::write::commit::SpoolWriter;
use crate::write::syncer::SyncState;
use disk::clock::unix_secs;
use spool_base::error::SpoolError;
use spool_base::ordered::{Ordered, OrderedGuard, rank};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Pause while a message of a shared log is being applied.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(1);

/// The writer, which one thread holds at a time.
#[derive(Debug)]
pub(crate) struct LockedWriter {
    writer: Ordered<SpoolWriter, { rank::WRITER }>,
    sync: Arc<SyncState>,
}

/// The writer, held.
pub(crate) type HeldWriter<'w> = OrderedGuard<'w, SpoolWriter, { rank::WRITER }>;

impl LockedWriter {
    pub fn new(writer: SpoolWriter) -> Self {
        Self { sync: writer.sync.clone(), writer: Ordered::new(writer) }
    }

    /// Returns the state shared with the syncing thread, without the lock.
    pub fn sync(&self) -> &Arc<SyncState> {
        &self.sync
    }

    pub fn lock(&self) -> HeldWriter<'_> {
        self.writer.lock()
    }

    pub fn try_lock(&self) -> Option<HeldWriter<'_>> {
        self.writer.try_lock()
    }

    /// Locks the writer for changes at a time, in Unix seconds.
    pub fn lock_at(&self, time: u64) -> HeldWriter<'_> {
        let mut writer = self.writer.lock();
        writer.folds.time = time;
        writer
    }

    /// Locks the writer at a moment when everything that is applied is named by the position in a shared log.
    pub fn lock_at_position(&self) -> HeldWriter<'_> {
        loop {
            let writer = self.writer.lock();
            if !writer.is_between_positions() {
                return writer;
            }
            drop(writer);
            std::thread::sleep(BETWEEN_POSITIONS);
        }
    }

    /// Reports whether all changes come from a shared log.
    pub fn is_of_shared_log(&self) -> bool {
        !self.writer.lock().folds.position.is_empty()
    }

    /// Locks the writer, if it accepts.
    pub fn accepting(&self) -> Result<HeldWriter<'_>, SpoolError> {
        let mut writer = self.writer.lock();
        writer.accepting().map_err(|trouble| SpoolError::no_changes(&trouble))?;
        Ok(writer)
    }

    /// Takes a checkpoint of the indexes and waits until it is on disk.
    pub fn checkpoint(&self) -> io::Result<()> {
        loop {
            let _trouble_is_asked_for = self.sync.await_checkpoint();
            let mut writer = self.lock_at(unix_secs());
            if let Some(trouble) = self.sync.trouble() {
                return Err(io::Error::other(trouble.to_string()));
            }
            if self.sync.is_checkpoint_pending() {
                continue;
            }
            if writer.is_between_positions() {
                drop(writer);
                std::thread::sleep(BETWEEN_POSITIONS);
                continue;
            }
            // Together with those of the checkpoint, both copies are written.
            writer.write_headers()?;
            writer.write_groups()?;
            writer.checkpoint()?;
            drop(writer);
            let _trouble_shows_later = self.sync.await_checkpoint();
            return Ok(());
        }
    }
}
