//! Choice between waiting for the disk and not, passed down from the session to the file that is read.

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Never waits: [`ReadError::WouldBlock`] if the bytes are not in memory.
    CacheOnly,
    /// Waits for the disk.
    Wait,
}
