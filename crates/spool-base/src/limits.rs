//! Limits that several floors of the spool share.

/// Bytes stored in one go, unless a single article is larger.
pub const PART_BYTES_MAX: u64 = 1 << 20;
/// Highest number that an article may bring: far above any group's, and far below where arithmetic with it
/// overflows.
pub const NUMBER_MAX: u64 = 1 << 62;
/// Maximum number of groups that one article is filed in.
pub const GROUPS_MAX: usize = 1000;
/// Maximum length of the record of a position in a shared log.
pub const POSITION_BYTES_MAX: usize = 64 << 10;
