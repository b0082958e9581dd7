//! Order of the locks that enclose others, outermost first, as ranks of [`lock_order::Ordered`]. All other
//! locks are [`lock_order::Innermost`]. Listing a server's articles takes the server's locks inside that of
//! the listing; all these ranks are below the server's.

/// Turn at the lower tree.
pub const TURN: u8 = 0;
/// Requested conversions.
pub const CONVERSIONS: u8 = 1;
/// A single conversion.
pub const CONVERSION: u8 = 2;
/// An open listing.
pub const LISTING: u8 = 3;
