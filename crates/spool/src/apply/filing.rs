//! Filing articles and remembering Message-IDs.

use super::hashes::ImportedHashes;
use crate::index::change::{Change, ChangeOutcome, CommitTicket};
use crate::index::fold::SharedIndexes;
use crate::write::commit::SpoolWriter;
use crate::write::locked::LockedWriter;
use spool_base::error::SpoolTrouble;
use spool_base::latency::LatencyHistogram;
use spool_history::HistoryLookup;
use spool_methods::packing::PackedArticle;
use std::ops::DerefMut;
use std::time::Instant;

/// Files batches.
pub(crate) struct Filing<'s> {
    pub shared: &'s SharedIndexes,
    pub writer: &'s LockedWriter,
    /// Times for which the writer was held.
    pub held: &'s LatencyHistogram,
    pub hashes: &'s ImportedHashes,
}

impl Filing<'_> {
    /// Files a batch.
    pub fn file(
        &self,
        time: u64,
        batch: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let packed = if self.shared.packing.is_used() { self.packed(batch) } else { (Vec::new(), 0) };
        let writer = self.writer.lock_at(time);
        // If the classes have changed meanwhile, these articles are stored uncompressed.
        let packed = if writer.generation == packed.1 { packed.0 } else { Vec::new() };
        self.file_held(writer, batch, packed, outcomes)
    }

    /// Like [`Filing::file`], but returns `None` if another thread holds the writer, a sync has to be waited
    /// for, or articles may have to be compressed.
    pub fn try_file(
        &self,
        time: u64,
        batch: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Option<Result<CommitTicket, SpoolTrouble>> {
        if self.shared.packing.is_used() || self.writer.sync().must_wait() {
            return None;
        }
        let mut writer = self.writer.try_lock()?;
        writer.folds.time = time;
        Some(self.file_held(writer, batch, Vec::new(), outcomes))
    }

    /// Compresses the articles of a batch for their classes, of a generation: this takes many times as long
    /// as committing them, so it is done without the lock.
    fn packed(&self, batch: &[Change<'_>]) -> (Vec<Option<PackedArticle>>, u64) {
        let (classes, generation) = {
            let writer = self.writer.lock();
            (writer.classes_of(batch), writer.generation)
        };
        let hasher = &self.shared.hasher;
        let packed = batch.iter().zip(classes).map(|(change, class)| match change {
            Change::Article(new)
                if self.shared.history.lookup(&change.key(hasher)) == HistoryLookup::None =>
            {
                self.shared.packing.pack(class?, new.pieces)
            }
            _ => None,
        });
        (packed.collect(), generation)
    }

    /// Files a batch while holding the writer, and records the duration.
    fn file_held(
        &self,
        mut writer: impl DerefMut<Target = SpoolWriter>,
        batch: &[Change<'_>],
        packed: Vec<Option<PackedArticle>>,
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let begun = Instant::now();
        let result = writer.commit_packed(batch, packed, outcomes);
        drop(writer);
        let each = u32::try_from(batch.len()).ok().and_then(|n| begun.elapsed().checked_div(n));
        self.held.observe_many(each.unwrap_or_default(), batch.len());
        self.hashes.note(batch);
        result
    }
}
