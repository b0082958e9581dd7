//! Doors for the targets in `fuzz/`: functions that read octets from a file and are not public otherwise.
//! Nothing else calls these.

use crate::loaded::{Loaded, Segment};
use crate::record::{Kind, Record, scan};
use crate::wanted::Wanted;
use crate::{index_io, opening, slots};

/// A group's file read: how many articles are known then, and where its last whole record ends.
pub fn group_file(file: &[u8]) -> (usize, usize) {
    let mut loaded = Loaded::default();
    loaded.add_segment(0, Segment { first: 1, ..Segment::default() });
    let (end, _) = scan(file, |record, at| loaded.apply(&record, 0, at));
    (loaded.articles.len(), end)
}

/// An article's record.
pub fn record(article: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Record { kind: Kind::Article, number: 7, last: 0, id: b"", payload: article }.put(&mut bytes);
    bytes
}

/// Whether this is a group's place in the file of groups.
pub fn group_place(place: &[u8]) -> bool {
    slots::take(place).is_some()
}

/// Whether this is a group's file of numbers.
pub fn numbers_file(file: &[u8]) -> bool {
    index_io::take_numbers(file, b"origin\0name").is_some()
}

/// Whether what is read of a list of wanted articles reads back the same.
pub fn wanted_file(file: &[u8]) -> bool {
    let wanted = Wanted::take(file);
    Wanted::take(&wanted.put()).all() == wanted.all()
}

/// How many uses a file of them has.
pub fn uses_file(file: &[u8]) -> usize {
    opening::Uses::take(file.to_vec()).map_or(0, |uses| uses.count())
}
