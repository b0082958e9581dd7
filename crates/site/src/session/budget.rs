//! Limits on the memory of receive buffers beyond a session's first
//! [`BUFFER_BYTES`](nntp_io::pool::BUFFER_BYTES).
//!
//! *Read-ahead* makes feeds fast; a peer that gets none continues with the small buffer. A
//! [`ArticleReservation`] is memory for an article that does not fit into a smaller buffer. It grows with its
//! article, so that memory is held only for bytes that have been sent, and is charged to the sender; the
//! [`ledger`] decides what happens when an account is full. Called by `Input` and the session's loop.
//! Rationale: decision 29.

mod ledger;

pub(super) use ledger::{MemoryAccount, MemoryCharge, NoArticleMemory};

use ledger::{HolderNotice, HolderState, MemoryLedger};
use lock_order::Ordered;
use nntp_io::pool::LARGE_BUFFER_BYTES_MAX;
use site_base::lock::rank;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Size of a session's buffer with read-ahead, in bytes.
pub(super) const READ_AHEAD_BYTES: usize = LARGE_BUFFER_BYTES_MAX;
/// Total memory for read-ahead, in bytes.
const READ_AHEAD_TOTAL_BYTES_MAX: usize = 64 << 20;
/// Interval at which a waiting article checks whether a holder has become slow.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The memory for receive buffers.
#[derive(Debug)]
pub struct ReceiveBudget {
    read_ahead: Arc<Semaphore>,
    ledger: Arc<Ordered<MemoryLedger, { rank::LEDGER }>>,
}

/// Memory beyond the small buffer; returned when dropped.
#[derive(Debug)]
pub(super) enum BufferReservation {
    ReadAhead { _permit: OwnedSemaphorePermit },
    Article(ArticleReservation),
}

/// Memory for an article that is arriving; returned when dropped.
#[derive(Debug)]
pub(super) struct ArticleReservation {
    ledger: Arc<Ordered<MemoryLedger, { rank::LEDGER }>>,
    id: u64,
    bytes: usize,
    shared: Arc<HolderState>,
}

impl Default for ReceiveBudget {
    fn default() -> Self {
        Self {
            read_ahead: Arc::new(Semaphore::new(READ_AHEAD_TOTAL_BYTES_MAX / READ_AHEAD_BYTES)),
            ledger: Arc::default(),
        }
    }
}

impl ReceiveBudget {
    /// Returns memory for read-ahead, if available.
    pub(super) fn read_ahead(&self) -> Option<BufferReservation> {
        self.read_ahead
            .clone()
            .try_acquire_owned()
            .ok()
            .map(|permit| BufferReservation::ReadAhead { _permit: permit })
    }

    /// Returns the memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        let whole = READ_AHEAD_TOTAL_BYTES_MAX / READ_AHEAD_BYTES;
        let read_ahead = whole.saturating_sub(self.read_ahead.available_permits()) * READ_AHEAD_BYTES;
        read_ahead + self.ledger.lock().bytes()
    }

    /// Returns an empty place for an article that began at `since` and may need `bytes_max`.
    pub(super) fn place(
        &self,
        charges: Box<[MemoryCharge]>,
        bytes_max: usize,
        since: Instant,
    ) -> ArticleReservation {
        let shared = Arc::<HolderState>::default();
        let id = self.ledger.lock().enter(charges, bytes_max, since, shared.clone());
        ArticleReservation { ledger: self.ledger.clone(), id, bytes: 0, shared }
    }
}

impl BufferReservation {
    /// Returns the maximum size of the buffer.
    pub fn bytes(&self) -> usize {
        match self {
            Self::ReadAhead { .. } => READ_AHEAD_BYTES,
            Self::Article(place) => place.bytes(),
        }
    }
}

impl ArticleReservation {
    /// Returns the memory that is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows to this size; may wait. The error means that the article must be given up.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), NoArticleMemory> {
        if !self.ledger.lock().want(self.id, bytes, Instant::now()) {
            loop {
                match timeout(LOOK_INTERVAL, poll_fn(|cx| self.shared.signal.poll(cx))).await {
                    Ok(HolderNotice::Granted) => break,
                    Ok(HolderNotice::GiveUp(why)) => return Err(why),
                    Err(_) => self.ledger.lock().look(self.id, Instant::now()),
                }
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Records that this many bytes of the article have arrived.
    pub fn arrived(&self, bytes: usize) {
        self.shared.arrived.store(bytes, Ordering::Relaxed);
    }

    /// Reuses the place for another article, of which `arrived` bytes have arrived. If others wait for
    /// memory, all but `least` is given back.
    pub fn restart(&mut self, arrived: usize, least: usize) {
        self.arrived(arrived);
        (self.id, self.bytes) = self.ledger.lock().restart(self.id, least, Instant::now());
    }

    /// Resolves when the article must be given up.
    pub fn poll_given_up(&self, cx: &Context<'_>) -> Poll<NoArticleMemory> {
        match self.shared.signal.poll(cx) {
            Poll::Ready(HolderNotice::GiveUp(why)) => Poll::Ready(why),
            // A grant that came too late for the waiting side.
            Poll::Ready(HolderNotice::Granted) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for ArticleReservation {
    fn drop(&mut self) {
        self.ledger.lock().leave(self.id, Instant::now());
    }
}
