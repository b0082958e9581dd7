//! Water marks and number of articles of a group, as GROUP answers them (RFC 3977 section 6.1.1).

/// Water marks and number of articles of a group, as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupMarks {
    /// Lowest article number; `high + 1` in an empty group.
    pub low: u64,
    /// Highest article number ever shown.
    pub high: u64,
    /// Number of articles, which another server may have estimated.
    pub count: u64,
}
