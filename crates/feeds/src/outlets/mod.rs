//! Outlets of a peer: connections, or another way.
//!
//! Each way has its own state here. The tasks that let articles out ([`crate::peer::run`]) take offers from
//! the peer's window and settle them, as connections do; so the cursor, the limits of the backlog and the
//! orders of operators are the same for all.

pub(crate) mod batch_dir;
pub(crate) mod batches;
pub(crate) mod channel;
pub(crate) mod file;
pub(crate) mod hand_over;
pub(crate) mod line_file;
pub(crate) mod lines;
pub(crate) mod sendme;

use crate::outlets::batch_dir::OutgoingBatches;
use crate::outlets::line_file::LineFile;
use crate::peer::queue::OfferQueue;
use disk::Disk;
use site_config::{FeedTransport, PeerSend};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::Notify;

/// An outlet with its own state.
#[derive(Debug)]
pub(crate) enum Outlet {
    Connections,
    Batches(OutgoingBatches),
    File(LineFile),
    Program(ProgramChannel),
}

impl Outlet {
    /// Returns the configured outlet; `identity` is our path identity.
    pub fn of(send: &PeerSend, identity: &str, disk: Arc<dyn Disk>) -> Self {
        match send.way_out() {
            FeedTransport::Connections => Self::Connections,
            FeedTransport::Batches(dir) => Self::Batches(OutgoingBatches::new(disk, dir, identity)),
            FeedTransport::File(path) => Self::File(LineFile::new(disk, path)),
            FeedTransport::Program(words) => Self::Program(ProgramChannel::new(words)),
        }
    }

    /// Returns the largest number of simultaneous tasks.
    pub fn tasks_max(&self, send: &PeerSend) -> usize {
        if matches!(self, Self::Connections) { send.connections } else { 1 }
    }

    /// Returns when there is something to do, in Unix milliseconds; `None` if nothing waits. `is_read`: the
    /// window has all offers.
    pub fn next_due(&self, queue: &OfferQueue, is_read: bool, send: &PeerSend) -> Option<u64> {
        match self {
            Self::Batches(own) => own.next_due(queue, is_read, send),
            _ => queue.next_due(send.delay.as_millis() as u64),
        }
    }

    /// Lets waiting articles out now, and makes other programs check again: see `newsreel ctl feed PEER
    /// flush`.
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

    /// Makes durable what must be durable before the cursor passes it.
    pub fn sync(&self) -> io::Result<()> {
        if let Self::File(own) = self { own.sync() } else { Ok(()) }
    }

    /// Returns whether the output has reached its limit.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Batches(own) => own.is_full.load(Ordering::Relaxed),
            Self::File(own) => own.is_full.load(Ordering::Relaxed),
            Self::Connections | Self::Program(_) => false,
        }
    }

    /// Returns when a failure outside of the feed's own tasks is retried.
    pub fn retry_at(&self) -> Option<Instant> {
        if let Self::Batches(own) = self { *own.retry_at.lock() } else { None }
    }
}

/// The program of one peer.
#[derive(Debug)]
pub(crate) struct ProgramChannel {
    pub words: Vec<String>,
    /// Notified to start the program again.
    pub restart: Notify,
}

impl ProgramChannel {
    pub fn new(words: &[String]) -> Self {
        Self { words: words.to_vec(), restart: Notify::new() }
    }
}
