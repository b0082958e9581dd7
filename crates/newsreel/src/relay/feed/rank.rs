//! The order of the locks of feeds, outermost first, as ranks of [`spool::Ordered`]. The spool's come after
//! them, and are taken inside `MAKING` and `DURABLE` only. Nothing is taken inside locks without a rank.

/// A run of batches for a peer.
pub(super) const MAKING: u8 = 0;
/// One batch is in memory.
pub(super) const PACKING: u8 = 1;
/// The peers that the hub feeds.
pub(super) const PEERS: u8 = 2;
/// What is on disk of a peer: its cursor, and offers that are put off.
pub(super) const DURABLE: u8 = 3;
/// A peer's offers.
pub(super) const WINDOW: u8 = 4;
/// The offers that the hub has made last.
pub(super) const RECENT: u8 = 5;
/// Up to where the hub has come.
pub(super) const FRONTIER: u8 = 6;
