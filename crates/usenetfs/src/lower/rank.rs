//! The order of the locks that have others inside, outermost first, as ranks of [`lock_order::Ordered`]. All
//! other locks are [`lock_order::Innermost`]. Whoever lists a server's articles takes the server's locks
//! inside that of the listing; all these are before those.

/// A turn at the lower tree.
pub const TURN: u8 = 0;
/// The conversions that were asked for.
pub const CONVERSIONS: u8 = 1;
/// One of them.
pub const CONVERSION: u8 = 2;
/// A listing that is open.
pub const LISTING: u8 = 3;
