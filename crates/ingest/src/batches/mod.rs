//! Batches of articles as files: decompressed, split into articles, filed in parcels, and kept while they
//! cannot be filed.
//!
//! [`Batch`] reads one, from whatever source, within a bounded window, and hands out [`Parcel`]s that are
//! committed together. A [`Ledger`] notes what became of each article, in order: what is damaged goes into
//! quarantine, what cannot be filed now is kept. [`Incoming`] is the directory where batches wait. Called by
//! `newsreel rnews`, by XBATCH, and by the task that files what waits. [`Packer`] makes batches, for peers
//! that get such. Sources: RFC 1036 section 3.3, RFC
//! 5537 section 3.10; forms of compression as C News and INN have them.

mod incoming;
mod ledger;
mod lzw;
mod lzw_encoder;
mod pack;
mod quarantine;
mod reader;
mod unpack;

pub use incoming::{Arriving, Found, Incoming, NotKept, Sender};
pub use ledger::{Keep, Ledger, Tally};
pub use pack::Packer;
pub use quarantine::Quarantine;
pub use reader::{Batch, Parcel};
pub use unpack::Unpacked;

use std::sync::atomic::AtomicU64;

use site_base::lock::Leaf;
use tokio::sync::Notify;

/// What a running server knows of the batches that wait.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Wakes the task that files them.
    pub fresh: Notify,
    /// Batches that wait, as of the last look.
    pub batches: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Batches filed since the start.
    pub filed: AtomicU64,
    /// Articles accepted from them.
    pub accepted: AtomicU64,
    /// Pieces of them in quarantine.
    pub damaged: AtomicU64,
    /// Why the last one could not be filed; empty: it was.
    pub problem: Leaf<String>,
}
