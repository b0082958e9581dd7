//! Parsers of data from an upstream, for the fuzz targets.

use super::line::marks_of;
use super::lists::info;
pub use super::posts::rewritten as rewritten_post;
use super::rows::append_fitted;
use super::xref::with_xref;
use crate::GroupList;
use netnews::GroupMarks;

/// Returns an overview row as shown here, of a group with one number; empty if it lacks fields.
pub fn row(row: &[u8], number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    append_fitted(row, b"a.b", number, &|group| group != b"c.d", &["Keywords".to_owned()], &mut out);
    out
}

/// Returns the marks in the answer to GROUP.
pub fn marks(text: &[u8]) -> Option<GroupMarks> {
    marks_of(text, b"a.b").ok()
}

/// Returns the marks in a line of a list, for clients that count from `least` on.
pub fn listed(list: GroupList, line: &[u8]) -> Option<(Vec<u8>, GroupMarks)> {
    info(list, line, |high| high / 2).map(|group| (group.name.to_vec(), group.marks))
}

/// Returns an article with another Xref.
pub fn other_xref(article: &[u8]) -> Vec<u8> {
    with_xref(article, b"h a.b:1")
}
