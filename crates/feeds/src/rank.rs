//! Lock order of feeds, outermost first, as ranks of [`lock_order::Ordered`]. The spool's locks come after
//! them, and are taken inside `RUNNING`, `TASKS`, `MAKING` and `DURABLE` only.

use site_base::lock::rank::FEEDS;

/// Running feeds.
pub(super) const RUNNING: u8 = FEEDS;
/// Tasks shared by all feeds.
pub(super) const TASKS: u8 = FEEDS + 1;
/// A run of batches for a peer.
pub(super) const MAKING: u8 = FEEDS + 2;
/// The batch being packed in memory.
pub(super) const PACKING: u8 = FEEDS + 3;
/// Peers fed by the hub.
pub(super) const PEERS: u8 = FEEDS + 4;
/// Durable state of a peer: its cursor, and deferred offers.
pub(super) const DURABLE: u8 = FEEDS + 5;
/// A peer's offers.
pub(super) const WINDOW: u8 = FEEDS + 6;
/// Offers handed out by the hub last.
pub(super) const RECENT: u8 = FEEDS + 7;
/// Position of the hub.
pub(super) const FRONTIER: u8 = FEEDS + 8;
