//! Whether a read may wait for the disk. Passed down from the session that reads to the file that is read.

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// No: [`ReadError::WouldBlock`] if the bytes are not in memory.
    CacheOnly,
    /// Yes.
    Wait,
}
