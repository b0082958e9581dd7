//! Notes: small facts that decide what becomes of articles and messages to come.

use super::Spool;
use spool_base::note::{Note, NoteKind};
use std::sync::Arc;

impl Spool {
    /// Returns the number of notes of a kind.
    pub fn note_count(&self, kind: NoteKind) -> usize {
        self.shared.notes.count(kind)
    }

    /// Returns a number that changes whenever notes of a kind do.
    pub fn note_changes(&self, kind: NoteKind) -> u64 {
        self.shared.notes.changes(kind)
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
