//! The order of the locks of feeds, outermost first, as ranks of [`lock_order::Ordered`]. The spool's come
//! after them, and are taken inside `RUNNING`, `TASKS`, `MAKING` and `DURABLE` only.

use site_base::lock::rank::FEEDS;

/// The feeds that run.
pub(super) const RUNNING: u8 = FEEDS;
/// The tasks that all feeds share.
pub(super) const TASKS: u8 = FEEDS + 1;
/// The threads that feeds run in; nothing is taken inside.
pub(super) const THREADS: u8 = FEEDS + 1;
/// A run of batches for a peer.
pub(super) const MAKING: u8 = FEEDS + 2;
/// One batch is in memory.
pub(super) const PACKING: u8 = FEEDS + 3;
/// The peers that the hub feeds.
pub(super) const PEERS: u8 = FEEDS + 4;
/// What is on disk of a peer: its cursor, and offers that are put off.
pub(super) const DURABLE: u8 = FEEDS + 5;
/// A peer's offers.
pub(super) const WINDOW: u8 = FEEDS + 6;
/// The offers that the hub has made last.
pub(super) const RECENT: u8 = FEEDS + 7;
/// Up to where the hub has come.
pub(super) const FRONTIER: u8 = FEEDS + 8;
