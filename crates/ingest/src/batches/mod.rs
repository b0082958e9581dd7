//! Batches of articles as files: decompressed, split into articles, filed in parcels, and kept while they
//! cannot be filed.
//!
//! [`BatchReader`] reads one from any source, within a bounded window, and returns [`BatchParcel`]s that are
//! committed together. A [`BatchLedger`] records the outcome of each article, in order: damaged pieces go
//! into quarantine, articles that cannot be filed now are kept. [`IncomingDir`] is the directory of waiting
//! batches. Called by `newsreel rnews`, by XBATCH, and by the task that files waiting batches.
//! [`BatchPacker`] makes batches, for peers that take them. Sources: RFC 1036 section 3.3, RFC 5537 section
//! 3.10; compression formats as in C News and INN.

mod incoming;
mod ledger;
mod lzw;
mod lzw_encoder;
mod pack;
mod quarantine;
mod reader;
mod unpack;

pub use incoming::{ArrivingBatch, BatchNotKept, BatchSender, IncomingDir, WaitingBatch};
pub use ledger::{BatchLedger, BatchTally, UnfiledPolicy};
pub use pack::BatchPacker;
pub use quarantine::Quarantine;
pub use reader::{BatchParcel, BatchReader};
pub use unpack::UnpackedBatch;

use std::sync::atomic::AtomicU64;

use site_base::lock::Leaf;
use tokio::sync::Notify;

/// State of the waiting batches in a running server.
#[derive(Debug, Default)]
pub struct WaitingBatches {
    /// Wakes the task that files them.
    pub fresh: Notify,
    /// Number of waiting batches, as of the last scan.
    pub batches: AtomicU64,
    /// Their size in bytes.
    pub bytes: AtomicU64,
    /// Batches filed since the start.
    pub filed: AtomicU64,
    /// Articles accepted from batches.
    pub accepted: AtomicU64,
    /// Pieces of batches put in quarantine.
    pub damaged: AtomicU64,
    /// Reason why the last batch could not be filed; empty if it was.
    pub problem: Leaf<String>,
}
