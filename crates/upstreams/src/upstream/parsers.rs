//! What takes octets from an upstream, for the fuzz targets.

use super::line::marks_of;
use super::lists::info;
pub use super::posts::rewritten as rewritten_post;
use super::rows::append_fitted;
use super::xref::with_xref;
use crate::{GroupList, Marks};

/// An overview row as it is shown here, of a group with one number; empty if it lacks fields.
pub fn row(row: &[u8], number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    append_fitted(row, (b"a.b", number), &|group| group != b"c.d", &["Keywords".to_owned()], &mut out);
    out
}

/// The marks that the answer to GROUP says.
pub fn marks(text: &[u8]) -> Option<Marks> {
    marks_of(text, b"a.b").ok()
}

/// The marks that a line of a list says, for clients that count from `least` on.
pub fn listed(list: GroupList, line: &[u8]) -> Option<(Vec<u8>, Marks)> {
    info(list, line, |high| high / 2).map(|group| (group.name.to_vec(), group.marks))
}

/// An article with another Xref.
pub fn other_xref(article: &[u8]) -> Vec<u8> {
    with_xref(article, b"h a.b:1")
}
