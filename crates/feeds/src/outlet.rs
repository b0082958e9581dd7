//! How articles leave for a peer: over connections, or another way.
//!
//! What belongs to each way alone. The tasks that let articles out ([`super::run`]) take offers from the
//! peer's window and settle them, as connections do; so cursor, limits of the backlog and orders of operators
//! are the same for all.

use super::batch_dir::Batches;
use super::line_file::LineFile;
use super::queue::Queue;
use site_config::{PeerSend, WayOut};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::Notify;

/// A way out, with what belongs to it alone.
#[derive(Debug)]
pub(super) enum Outlet {
    Connections,
    Batches(Batches),
    File(LineFile),
    Program(Channel),
}

impl Outlet {
    /// As configured; `identity` is our path identity.
    pub fn of(send: &PeerSend, identity: &str) -> Self {
        match send.way_out() {
            WayOut::Connections => Self::Connections,
            WayOut::Batches(dir) => Self::Batches(Batches::new(dir, identity)),
            WayOut::File(path) => Self::File(LineFile::new(path)),
            WayOut::Program(words) => Self::Program(Channel::new(words)),
        }
    }

    /// How many tasks may be at work at once.
    pub fn tasks_max(&self, send: &PeerSend) -> usize {
        if matches!(self, Self::Connections) { send.connections } else { 1 }
    }

    /// When there is something to do, Unix milliseconds; `None`: nothing waits. `is_read`: the window has all
    /// there is.
    pub fn next_due(&self, queue: &Queue, is_read: bool, send: &PeerSend) -> Option<u64> {
        match self {
            Self::Batches(own) => own.next_due(queue, is_read, send),
            _ => queue.next_due(send.delay.as_millis() as u64),
        }
    }

    /// Lets out now what waits, and has other programs look again: see `newsreel ctl feed PEER flush`.
    pub fn flush(&self) -> io::Result<()> {
        match self {
            Self::Connections => {}
            Self::Batches(own) => {
                own.is_wanted.store(true, Ordering::Relaxed);
                own.hurry.notify_one();
                own.room.notify_one();
            }
            Self::File(own) => own.flush()?,
            Self::Program(own) => own.restart.notify_one(),
        }
        Ok(())
    }

    /// Makes durable what must be before the cursor passes it.
    pub fn sync(&self) -> io::Result<()> {
        if let Self::File(own) = self { own.sync() } else { Ok(()) }
    }

    /// Whether as much waits to be taken away as may.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Batches(own) => own.is_full.load(Ordering::Relaxed),
            Self::File(own) => own.is_full.load(Ordering::Relaxed),
            Self::Connections | Self::Program(_) => false,
        }
    }

    /// When what failed apart from the feed's own tasks is tried again.
    pub fn retry_at(&self) -> Option<Instant> {
        if let Self::Batches(own) = self { *own.retry_at.lock() } else { None }
    }
}

/// The program of one peer.
#[derive(Debug)]
pub(super) struct Channel {
    pub words: Vec<String>,
    /// It is to be started again.
    pub restart: Notify,
}

impl Channel {
    pub fn new(words: &[String]) -> Self {
        Self { words: words.to_vec(), restart: Notify::new() }
    }
}
