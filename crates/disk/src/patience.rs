//! Whether a read may wait for the disk, passed down from a session to the file that it reads.

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// No: the read fails with `WouldBlock` if the bytes are not in memory.
    CacheOnly,
    /// Yes.
    Wait,
}
