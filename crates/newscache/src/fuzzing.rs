//! Entry points for the targets in `fuzz/`: functions that read octets from a file and are otherwise private.
//! They have no other callers.

use crate::base::record::{CacheRecord, RecordKind, scan};
use crate::books::wanted::MissedList;
use crate::files::opening;
use crate::files::slots;
use crate::index::loaded::{GroupIndex, GroupSegment};
use crate::reading::index_io;

/// Reads a group's file; returns the number of articles found, and the end of its last whole record.
pub fn group_file(file: &[u8]) -> (usize, usize) {
    let mut loaded = GroupIndex::default();
    loaded.add_segment(0, GroupSegment { first: 1, ..GroupSegment::default() });
    let (end, _) = scan(file, |record, at| loaded.apply(&record, 0, at));
    (loaded.articles.len(), end)
}

/// Returns an article's record.
pub fn record(article: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    CacheRecord { kind: RecordKind::Article, number: 7, last: 0, id: b"", payload: article }.put(&mut bytes);
    bytes
}

/// Returns whether `place` is a group's place in the file of groups.
pub fn group_place(place: &[u8]) -> bool {
    slots::take(place).is_some()
}

/// Returns whether `file` is a group's file of numbers.
pub fn numbers_file(file: &[u8]) -> bool {
    index_io::take_numbers(file, b"origin\0name").is_some()
}

/// Returns whether a list of wanted articles is read back as it is written.
pub fn wanted_file(file: &[u8]) -> bool {
    let wanted = MissedList::take(file);
    MissedList::take(&wanted.put()).all() == wanted.all()
}

/// Returns the number of uses in a file of them.
pub fn uses_file(file: &[u8]) -> usize {
    opening::SavedUses::take(file.to_vec()).map_or(0, |uses| uses.count())
}
