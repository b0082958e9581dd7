//! Journal files that only readers need: kept within bounds, and removed when the disk is full.

use super::SpoolWriter;
use spool_journal::ClaimLimits;
use std::io;
use std::path::PathBuf;

impl SpoolWriter {
    /// Returns the journal files that may be removed once a checkpoint at `position` is durable.
    pub(super) fn dead_journals(&mut self, position: u64) -> io::Result<Vec<PathBuf>> {
        let config = self.folds.shared.current.load();
        let bounds = ClaimLimits {
            bytes_max: config.journal_claim_bytes,
            secs_max: config.journal_claim_secs,
            now: self.folds.time,
        };
        let needed = position.saturating_sub(config.journal_keep_bytes);
        let keep_from = self.journal.keep_from(needed, &bounds);
        self.journal.files_before(keep_from)
    }

    /// Removes journal files that only readers claim: on a full disk, accepting has priority. Readers count
    /// their losses.
    pub(super) fn release_claims(&self) -> io::Result<()> {
        let shared = &self.folds.shared;
        let keep = shared.current.load().journal_keep_bytes;
        for path in self.journal.files_before(self.sync.checkpointed().saturating_sub(keep))? {
            match shared.disk.remove(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}
