//! The bound on the output of compressed files, so that a small one cannot keep its reader busy for long.
//!
//! Used for batches and for archives of mail.

/// Bytes that any compressed file may produce, however small.
const FREE_BYTES: u64 = 64 << 20;
/// Bytes beyond those that each compressed byte may produce. News shrinks to a third; overviews and lists of
/// groups to a tenth.
const FACTOR_MAX: u64 = 200;

/// Returns the maximum number of bytes that `packed_bytes` may decompress to.
pub fn unpacked_bytes_max(packed_bytes: u64) -> u64 {
    FREE_BYTES.saturating_add(packed_bytes.saturating_mul(FACTOR_MAX))
}
