//! The bound on what comes out of compressed files, so that a small one cannot keep its reader busy for long.
//!
//! Used for batches and for archives of mail.

/// Bytes that may come out of however few.
const FREE_BYTES: u64 = 64 << 20;
/// Beyond them: bytes that may come out for each that went in. News shrinks to a third; overviews and lists
/// of groups to a tenth.
const FACTOR_MAX: u64 = 200;

/// The most bytes that may come out of `packed_bytes`.
pub fn unpacked_bytes_max(packed_bytes: u64) -> u64 {
    FREE_BYTES.saturating_add(packed_bytes.saturating_mul(FACTOR_MAX))
}
