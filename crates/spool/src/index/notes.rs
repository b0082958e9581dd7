//! The notes of a site: a fold of the rows `Note` and `Forgotten`.
//!
//! Each kind has a bounded table, in which the newest note comes last. Notes are read while articles and
//! messages are judged; as long as there are none of a kind, that costs one load of a counter.

use lock_order::{INNERMOST, OrderedRw};
use spool_base::codec::{ByteReader, put_bytes, put_sized, put_varint};
use spool_base::digest::{SetSum, of_parts};
use spool_base::key::KeyHasher;
use spool_base::note::{NOTE_KEY_BYTES_MAX, NOTE_VALUE_BYTES_MAX, Note, NoteKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const KINDS: usize = NoteKind::ALL.len();
/// Kinds whose sums always count; later ones do once there are notes of them.
const KINDS_ALWAYS: usize = 3;

/// The notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    counts: [AtomicUsize; KINDS],
    /// Number of changes since the start.
    changes: [AtomicU64; KINDS],
    tables: OrderedRw<[NoteTable; KINDS], INNERMOST>,
}

/// Notes of one kind.
#[derive(Debug, Default)]
struct NoteTable {
    sum: SetSum,
    /// Notes, each with the turn in which it was made.
    by_key: HashMap<Arc<[u8]>, (u64, Note)>,
    /// Keys by turn.
    by_turn: BTreeMap<u64, Arc<[u8]>>,
}

/// A note with its kind and key, as a checkpoint has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyedNote {
    pub kind: NoteKind,
    pub key: Arc<[u8]>,
    pub note: Note,
}

impl Notes {
    /// Returns the number of notes of a kind.
    pub fn count(&self, kind: NoteKind) -> usize {
        self.counts.get(at(kind)).map_or(0, |count| count.load(Ordering::Acquire))
    }

    /// Returns the number of changes of notes of a kind since the start.
    pub fn changes(&self, kind: NoteKind) -> u64 {
        self.changes.get(at(kind)).map_or(0, |changes| changes.load(Ordering::Acquire))
    }

    /// Returns the sum of all notes.
    pub fn sum(&self) -> SetSum {
        let tables = self.tables.read();
        let has_notes = |table: &NoteTable| !table.by_key.is_empty();
        let last = tables.iter().rposition(has_notes).map_or(0, |last| last + 1).max(KINDS_ALWAYS);
        let sums = tables.iter().take(last).map(|table| table.sum.0.to_le_bytes());
        let kinds = sums.collect::<Vec<_>>().concat();
        if tables.iter().all(|table| table.by_key.is_empty()) {
            return SetSum::default();
        }
        SetSum(of_parts(&KeyHasher::new([0; 16]), &[&kinds]))
    }

    /// Returns the note with a key.
    pub fn get(&self, kind: NoteKind, key: &[u8]) -> Option<Note> {
        if self.count(kind) == 0 {
            return None;
        }
        self.tables.read().get(at(kind))?.by_key.get(key).map(|(_, note)| note.clone())
    }

    /// Returns all notes of a kind, the newest last.
    pub fn all(&self, kind: NoteKind) -> Vec<KeyedNote> {
        let tables = self.tables.read();
        let Some(table) = tables.get(at(kind)) else { return Vec::new() };
        let keyed = |key: &Arc<[u8]>| {
            let (_, note) = table.by_key.get(key)?;
            Some(KeyedNote { kind, key: key.clone(), note: note.clone() })
        };
        table.by_turn.values().filter_map(keyed).collect()
    }

    /// Makes the newest note of its kind, replacing the one with the same key; without a value, removes
    /// that one.
    pub fn put(&self, kind: NoteKind, key: &[u8], since: u32, value: Option<&[u8]>) {
        self.change(kind, |table| {
            table.remove(key);
            let Some(value) = value else { return };
            table.push(key.into(), Note { since, value: value.into() });
            if table.by_key.len() > kind.notes_max() {
                table.remove_first();
            }
        });
    }

    /// Forgets the oldest notes about Message-IDs, as long as they were made before a time in Unix seconds.
    pub fn forget(&self, before: u32) {
        for kind in NoteKind::ALL.into_iter().filter(|kind| kind.is_forgotten() && self.count(*kind) > 0) {
            self.change(kind, |table| {
                while table.first().is_some_and(|note| note.since < before) {
                    table.remove_first();
                }
            });
        }
    }

    fn change(&self, kind: NoteKind, change: impl FnOnce(&mut NoteTable)) {
        let mut tables = self.tables.write();
        if let (Some(table), Some(count)) = (tables.get_mut(at(kind)), self.counts.get(at(kind))) {
            change(table);
            count.store(table.by_key.len(), Ordering::Release);
        }
        drop(tables);
        self.changes.get(at(kind)).into_iter().for_each(|changes| {
            changes.fetch_add(1, Ordering::Release);
        });
    }
}

impl NoteTable {
    fn push(&mut self, key: Arc<[u8]>, note: Note) {
        let turn = self.by_turn.last_key_value().map_or(0, |(turn, _)| turn + 1);
        self.by_turn.insert(turn, key.clone());
        self.sum.add(member(&key, &note));
        self.by_key.insert(key, (turn, note));
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some((turn, note)) = self.by_key.remove(key) {
            self.by_turn.remove(&turn);
            self.sum.take(member(key, &note));
        }
    }

    fn first(&self) -> Option<&Note> {
        let (_, key) = self.by_turn.first_key_value()?;
        self.by_key.get(key).map(|(_, note)| note)
    }

    fn remove_first(&mut self) {
        if let Some(key) = self.by_turn.first_key_value().map(|(_, key)| key.clone()) {
            self.remove(&key);
        }
    }
}

/// Returns the hash of a note. No secret is needed: what may be noted is bounded, and the digest of the site
/// has one.
fn member(key: &[u8], note: &Note) -> u128 {
    of_parts(&KeyHasher::new([0; 16]), &[key, &note.since.to_le_bytes(), &note.value])
}

fn at(kind: NoteKind) -> usize {
    usize::from(kind.code()).saturating_sub(1)
}

/// Returns whether key and value are as long as they may be.
pub(crate) fn is_storable(key: &[u8], value: Option<&[u8]>) -> bool {
    key.len() <= NOTE_KEY_BYTES_MAX && value.is_none_or(|value| value.len() <= NOTE_VALUE_BYTES_MAX)
}

/// Appends notes with their number.
pub(crate) fn put_notes(notes: &[KeyedNote], out: &mut Vec<u8>) {
    put_varint(notes.len() as u64, out);
    for KeyedNote { kind, key, note } in notes {
        put_sized(out, |out| {
            out.push(kind.code());
            out.extend_from_slice(&note.since.to_le_bytes());
            put_bytes(key, out);
            put_bytes(&note.value, out);
        });
    }
}

/// Reads what [`put_notes`] wrote; `None` if it is invalid, or has a kind of a later version.
pub(crate) fn read_notes(r: &mut ByteReader<'_>) -> Option<Vec<KeyedNote>> {
    let one = |mut r: ByteReader<'_>| {
        let (kind, since) = (NoteKind::of(r.u8()?)?, r.u32()?);
        let (key, value) = (r.bytes()?.into(), r.bytes()?.into());
        Some(KeyedNote { kind, key, note: Note { since, value } })
    };
    (0..r.count(4)?).map(|_| one(r.sized()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(notes: &Notes, kind: NoteKind) -> Vec<String> {
        notes.all(kind).iter().map(|keyed| String::from_utf8(keyed.key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_newest_note_of_a_key_counts_and_comes_last() {
        let notes = Notes::default();
        for (key, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")] {
            notes.put(NoteKind::EarlyCancel, key.as_bytes(), 7, Some(value.as_bytes()));
        }
        notes.put(NoteKind::EarlyCancel, b"b", 8, None);
        assert_eq!(keys(&notes, NoteKind::EarlyCancel), ["c", "a"]);
        assert_eq!(&*notes.get(NoteKind::EarlyCancel, b"a").unwrap().value, b"4");
        assert_eq!((notes.count(NoteKind::EarlyCancel), notes.count(NoteKind::EarlyHide)), (2, 0));
        assert_eq!(notes.get(NoteKind::EarlyHide, b"a"), None);
    }

    #[test]
    fn the_oldest_notes_are_removed_by_number_and_those_about_ids_by_time() {
        let notes = Notes::default();
        for n in 0..NoteKind::EarlyHide.notes_max() as u32 + 10 {
            notes.put(NoteKind::EarlyHide, &n.to_le_bytes(), n, Some(b""));
        }
        assert_eq!(notes.count(NoteKind::EarlyHide), NoteKind::EarlyHide.notes_max());
        assert_eq!(notes.get(NoteKind::EarlyHide, &9u32.to_le_bytes()), None);
        notes.put(NoteKind::ControlDate, b"x", 1, Some(b"y"));
        notes.forget(1_010);
        assert_eq!(notes.get(NoteKind::EarlyHide, &1_009u32.to_le_bytes()), None);
        assert!(notes.get(NoteKind::EarlyHide, &1_010u32.to_le_bytes()).is_some());
        assert_eq!(notes.count(NoteKind::ControlDate), 1);
    }

    #[test]
    fn notes_round_trip_and_no_prefix_passes_as_whole() {
        let notes = Notes::default();
        notes.put(NoteKind::EarlyCancel, b"key", 1_795_000_000, Some(b"sha256:a"));
        notes.put(NoteKind::EarlyCancel, b"other", 0, Some(b""));
        let all = notes.all(NoteKind::EarlyCancel);
        let mut bytes = Vec::new();
        put_notes(&all, &mut bytes);
        assert_eq!(read_notes(&mut ByteReader(&bytes)), Some(all));
        for cut in 0..bytes.len() {
            assert_eq!(read_notes(&mut ByteReader(&bytes[..cut])), None, "{cut}");
        }
    }
}
