//! The order of locks, outermost first; whoever holds one of them uses no spool. All others are innermost.

/// A group's index. Nobody waits for a second one.
pub(crate) const INDEX: u8 = 32;
/// The table of indexes.
pub(crate) const CELLS: u8 = 33;
/// The books.
pub(crate) const BOOKS: u8 = 34;
