//! Articles that wait for the indexing threads, bounded in bytes. Called by `workers`.

use std::sync::Arc;
use std::time::Duration;

use lock_order::Innermost;
use parking_lot::Condvar;

/// Maximum size of waiting articles, in bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Maximum wait for room: failed threads make none.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);

/// Articles that wait to be indexed.
#[derive(Debug, Default)]
pub struct WaitingBytes {
    bytes: Innermost<usize>,
    less: Condvar,
}

impl WaitingBytes {
    /// Waits for room, and reserves it.
    pub fn claim(self: &Arc<Self>, bytes: usize) -> WaitingClaim {
        let mut waiting = self.bytes.lock();
        let is_too_much = |waiting: &mut usize| *waiting > 0 && *waiting + bytes > WAITING_BYTES_MAX;
        waiting.wait_while_for(&self.less, is_too_much, ROOM_WAIT_MAX);
        *waiting += bytes;
        WaitingClaim { waiting: self.clone(), bytes }
    }
}

/// Reservation for a waiting article, until dropped.
#[derive(Debug)]
pub struct WaitingClaim {
    waiting: Arc<WaitingBytes>,
    bytes: usize,
}

impl Drop for WaitingClaim {
    fn drop(&mut self) {
        *self.waiting.bytes.lock() -= self.bytes;
        self.waiting.less.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_wait_within_a_bound() {
        let waiting = Arc::<WaitingBytes>::default();
        let large = waiting.claim(2 * WAITING_BYTES_MAX);
        let (told, heard) = std::sync::mpsc::channel();
        let other = waiting.clone();
        let thread = std::thread::spawn(move || {
            let claim = other.claim(1);
            told.send(*other.bytes.lock()).unwrap();
            drop(claim);
        });
        drop(large);
        assert_eq!(heard.recv().unwrap(), 1, "it waited for the other");
        thread.join().unwrap();
        assert_eq!(*waiting.bytes.lock(), 0);
    }
}
