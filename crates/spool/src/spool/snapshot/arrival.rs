//! A snapshot that is restored while it still arrives.

use lock_order::Innermost;
use parking_lot::Condvar;
use std::io;

/// How much of a snapshot is in its file, for the thread that restores it and the one that fetches it.
#[derive(Debug, Default)]
pub struct SnapshotArrival {
    state: Innermost<ArrivalState>,
    changed: Condvar,
}

/// Why nothing more of a snapshot arrives.
#[derive(Debug)]
pub enum ArrivalEnd {
    /// It is whole.
    Whole,
    /// It cannot be fetched, with the reason.
    Failed(String),
}

#[derive(Debug, Default)]
struct ArrivalState {
    /// Length of what has arrived.
    bytes: u64,
    end: Option<ArrivalEnd>,
    is_given_up: bool,
}

impl SnapshotArrival {
    /// Notes that this many bytes are in the file; returns false if no more are wanted.
    pub fn reached(&self, bytes: u64) -> bool {
        let mut state = self.state.lock();
        state.bytes = bytes;
        self.changed.notify_all();
        !state.is_given_up
    }

    /// Notes that nothing more arrives.
    pub fn ended(&self, end: ArrivalEnd) {
        self.state.lock().end = Some(end);
        self.changed.notify_all();
    }

    /// Waits until the file has more than `bytes`; returns its length, which is no greater if that is all.
    pub(super) fn more_than(&self, bytes: u64) -> io::Result<u64> {
        let mut state = self.state.lock();
        loop {
            match &state.end {
                _ if state.bytes > bytes => return Ok(state.bytes),
                Some(ArrivalEnd::Whole) => return Ok(state.bytes),
                Some(ArrivalEnd::Failed(why)) => return Err(io::Error::other(why.clone())),
                None => state.wait(&self.changed),
            }
        }
    }

    /// Notes that no more is wanted.
    pub(super) fn give_up(&self) {
        self.state.lock().is_given_up = true;
    }
}
