//! Preparations before a part is stored: space in files that grow, promised numbers, and the groups file,
//! which has the promises and all groups (`docs/formats/groups.md`).

use super::{CommitScratch, SpoolWriter, trouble};
use spool_base::error::SpoolTrouble;
use spool_base::ids::GroupId;
use spool_journal::{GroupsState, JournalRow};
use std::io;

impl SpoolWriter {
    /// Reserves space in growing files for a part, before anything is stored, and promises its numbers.
    pub(super) fn reserve(&mut self, s: &mut CommitScratch) -> Result<(), SpoolTrouble> {
        let history = &self.folds.shared.history;
        history.reserve(s.prepared.iter().map(|p| p.key)).map_err(|e| trouble("make room in history", &e))?;
        if s.promises.is_empty() {
            return Ok(());
        }
        self.promise(std::mem::take(&mut s.promises)).map_err(|e| trouble("write groups file", &e))
    }

    /// Promises numbers in the groups file and in the journal's next rows.
    fn promise(&mut self, promises: Vec<(GroupId, u64)>) -> io::Result<()> {
        let row = JournalRow::Promise(promises);
        self.groups.add(std::slice::from_ref(&row))?;
        self.journal.push(&row);
        Ok(())
    }

    /// Commits rows of groups, durably. The caller has called [`SpoolWriter::accepting`].
    pub fn commit_groups(&mut self, rows: &[JournalRow<'_>]) -> Result<(), SpoolTrouble> {
        self.groups.add(rows).map_err(|e| self.sync.stop(trouble("write groups file", &e)))?;
        self.commit_rows(rows)
    }

    /// Returns the current state of all groups, for the groups file.
    pub(super) fn groups_state(&self) -> GroupsState {
        let folds = &self.folds;
        let removed =
            folds.removals().into_iter().map(|(name, high)| JournalRow::GroupRemoved { name, high });
        let table = folds.shared.groups.snapshot();
        let groups = table.sorted().iter().map(|group| JournalRow::Group(folds.group_row(group)));
        let synced = self.journal.sync_set().synced();
        GroupsState::new(folds.numbers.len() as u32, synced, removed.chain(groups))
    }

    /// Writes one of the two copies of the groups file.
    pub fn write_groups(&self) -> io::Result<()> {
        self.groups.begin();
        self.groups.write(&self.groups_state())
    }
}
