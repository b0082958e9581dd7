//! [`JournalMark`]: a place in the journal from which readers can continue.

/// A place between two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalMark {
    /// Position of the row that follows.
    pub position: u64,
    /// Sequence number of the next article, if known.
    pub sequence: Option<u64>,
}
