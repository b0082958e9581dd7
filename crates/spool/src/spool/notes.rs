//! Notes: small facts that decide what becomes of articles and messages to come.

use super::Spool;
use crate::base::error::{SpoolTrouble, TroubleKind};
use crate::base::note::{Note, NoteKind};
use crate::index::change::{Change, ChangeOutcome};
use crate::index::notes::is_storable;
use crate::journal::JournalRow;
use std::sync::Arc;

impl Spool {
    /// Makes and removes notes. They are durable with the journal's next sync.
    pub(super) fn note(
        &self,
        time: u64,
        run: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer_at(time);
        writer.accepting()?;
        for change in run {
            let Change::Note { kind, key, value, since } = *change else { continue };
            if !is_storable(key, value) {
                return Err(SpoolTrouble::new(TroubleKind::Refused, "a note is too long"));
            }
            let known = self.shared.notes.get(kind, key);
            let is_new = known.as_ref().map(|note| &*note.value) != value;
            if is_new {
                let since = u32::try_from(since).unwrap_or(u32::MAX);
                writer.journal.push(&JournalRow::Note { kind, since, key, value });
                writer.write_unsynced().inspect_err(|_| writer.journal.discard())?;
                self.shared.notes.put(kind, key, since, value);
            }
            outcomes.push(ChangeOutcome::Changed(usize::from(is_new)));
        }
        Ok(())
    }

    /// Returns the number of notes of a kind.
    pub fn note_count(&self, kind: NoteKind) -> usize {
        self.shared.notes.count(kind)
    }

    /// Returns the note with a key.
    pub fn note_of(&self, kind: NoteKind, key: &[u8]) -> Option<Note> {
        self.shared.notes.get(kind, key)
    }

    /// Returns all notes of a kind with their keys, the newest last.
    pub fn notes(&self, kind: NoteKind) -> Vec<(Arc<[u8]>, Note)> {
        self.shared.notes.all(kind).into_iter().map(|keyed| (keyed.key, keyed.note)).collect()
    }
}
