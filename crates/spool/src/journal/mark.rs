//! [`Mark`]: a place in the journal, for readers that continue there.

/// A place between two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Position of the row that follows.
    pub position: u64,
    /// Sequence number that the next article should have, if known.
    pub sequence: Option<u64>,
}
