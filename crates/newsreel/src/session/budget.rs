//! How much memory all receive buffers together may take.
//!
//! Two kinds of room beyond a session's first [`BUFFER_BYTES`](super::pool::BUFFER_BYTES). *Read-ahead* makes feeds
//! fast; who gets none goes on with the small buffer. *Large* room is for an article that fits nothing smaller; it is
//! taken once, for the largest article there may be, and waited for. Since nobody who holds large room waits for more,
//! sessions cannot block each other for ever.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A session's buffer with read-ahead, in bytes.
pub(super) const READ_AHEAD_BYTES: usize = 512 << 10;
/// Memory for read-ahead in all, in bytes.
const READ_AHEAD_TOTAL_BYTES_MAX: usize = 64 << 20;
/// Memory for large articles in all, in bytes, unless four of the largest take more.
const LARGE_TOTAL_BYTES_MAX: usize = 128 << 20;
/// Sessions that may receive a large article at once, at least.
const LARGE_SESSIONS_MIN: usize = 4;

/// The memory for receive buffers.
#[derive(Debug)]
pub(crate) struct Budget {
    read_ahead: Arc<Semaphore>,
    large: Arc<Semaphore>,
    large_bytes: usize,
}

/// Room in the budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Room {
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

impl Room {
    /// How large the buffer may be.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Budget {
    /// A budget for articles of at most `article_bytes_max`.
    pub fn new(article_bytes_max: u64) -> Self {
        // A command line and the end of the article come on top.
        let large_bytes = usize::try_from(article_bytes_max).unwrap_or(usize::MAX / 2).saturating_add(4096);
        let large_sessions = (LARGE_TOTAL_BYTES_MAX / large_bytes).max(LARGE_SESSIONS_MIN);
        Self {
            read_ahead: Arc::new(Semaphore::new(READ_AHEAD_TOTAL_BYTES_MAX / READ_AHEAD_BYTES)),
            large: Arc::new(Semaphore::new(large_sessions)),
            large_bytes: large_bytes.max(READ_AHEAD_BYTES),
        }
    }

    /// Room for read-ahead, if there is some.
    pub(super) fn read_ahead(&self) -> Option<Room> {
        let permit = self.read_ahead.clone().try_acquire_owned().ok()?;
        Some(Room { bytes: READ_AHEAD_BYTES, _permit: permit })
    }

    /// Room for the largest article; waits for it. `None` never comes while the server runs.
    pub(super) async fn large(&self) -> Option<Room> {
        let permit = self.large.clone().acquire_owned().await.ok()?;
        Some(Room { bytes: self.large_bytes, _permit: permit })
    }
}
