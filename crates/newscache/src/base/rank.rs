//! Order of the locks, outermost first; no spool is used while one of them is held. All others are innermost.

/// A group's index. No thread waits for a second one.
pub(crate) const INDEX: u8 = 32;
/// The table of indexes.
pub(crate) const CELLS: u8 = 33;
/// The books.
pub(crate) const BOOKS: u8 = 34;
