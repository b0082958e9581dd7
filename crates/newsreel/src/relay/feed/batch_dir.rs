//! The directory of a peer's batches (`docs/formats/outgoing.md`): what lies there, what may be added, how it
//! is called and written.

use super::queue::{Queue, Taken, Ticket};
use crate::base::units::{about_size, grouped};
use crate::config::PeerSend;
use parking_lot::Mutex;
use spool::{Access, Disk, durable_replace};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Message-IDs in one ihave or sendme, as INN has it.
pub(super) const IHAVE_IDS_MAX: usize = 1_000;
/// How the names of batches end.
pub(super) const EXTENSION: &str = ".rnews";
/// How the names of batches end that are being written.
const UNFINISHED: &str = ".rnews.new";

/// The batches of one peer.
#[derive(Debug)]
pub(super) struct Batches {
    pub dir: PathBuf,
    /// Our path identity, so that batches of several sites do not meet in one directory.
    pub identity: String,
    /// Held while a batch gets its name, and while one is removed.
    pub naming: Mutex<()>,
    /// An operator wants one now.
    pub is_wanted: AtomicBool,
    /// As much waits as may.
    pub is_full: AtomicBool,
    /// A batch was made.
    pub fresh: Notify,
    /// A batch was taken away.
    pub room: Notify,
    /// What failed is to be tried again now.
    pub hurry: Notify,
    /// When the next attempt to hand one over is due.
    pub retry_at: Mutex<Option<Instant>>,
    pub made: AtomicU64,
    pub handed_over: AtomicU64,
    /// Batches that waited at the last look, and their bytes.
    pub waiting: Mutex<(u64, u64)>,
}

/// A batch that waits to be taken away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    pub path: PathBuf,
    pub bytes: u64,
}

impl Batches {
    pub fn new(dir: &Path, identity: &str) -> Self {
        Self {
            dir: dir.to_owned(),
            identity: identity.to_owned(),
            naming: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            fresh: Notify::new(),
            room: Notify::new(),
            hurry: Notify::new(),
            retry_at: Mutex::default(),
            made: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            waiting: Mutex::default(),
        }
    }

    /// When a batch is to be made, Unix milliseconds. `is_read`: the window has all there is.
    pub fn next_due(&self, queue: &Queue, is_read: bool, send: &PeerSend) -> Option<u64> {
        let may = queue.next_due(send.delay.as_millis() as u64)?;
        if queue.deferred() > 0 || send.ihave && queue.len() >= IHAVE_IDS_MAX {
            return Some(may);
        }
        let is_enough = !send.ihave && queue.bytes() >= send.batch_bytes || !queue.has_room();
        if is_enough || self.is_wanted.load(Ordering::Relaxed) {
            return Some(may);
        }
        let oldest = queue.oldest().filter(|_| is_read)?;
        Some(may.max(u64::from(oldest) * 1_000 + send.batch_age.as_millis() as u64))
    }

    /// The batches that wait, the oldest first.
    pub fn ready(&self) -> io::Result<Vec<Ready>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *self.waiting.lock() = (0, 0);
                return Ok(Vec::new());
            }
            entries => entries?,
        };
        let mut ready = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(EXTENSION)
                // It may have been taken away meanwhile.
                && let Ok(about) = entry.metadata()
                && about.is_file()
            {
                ready.push(Ready { path: entry.path(), bytes: about.len() });
            }
        }
        ready.sort_unstable();
        *self.waiting.lock() = (ready.len() as u64, ready.iter().map(|batch| batch.bytes).sum());
        Ok(ready)
    }

    /// Removes what a crash has left of batches that were being written.
    pub fn clean(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes a batch that was taken away, unless another one has its name by now: `inode` is its own.
    pub fn remove(&self, batch: &Path, inode: u64) -> io::Result<()> {
        let _naming = self.naming.lock();
        if fs::metadata(batch)?.ino() == inode {
            fs::remove_file(batch)?;
            fs::File::open(&self.dir)?.sync_all()?;
        }
        self.room.notify_one();
        Ok(())
    }

    /// Whether another batch may be made; if not, why, in words.
    pub fn room(&self, send: &PeerSend) -> io::Result<Result<(), String>> {
        self.ready()?;
        let (files, bytes) = *self.waiting.lock();
        let is_full = files >= send.waiting_files_max as u64 || bytes >= send.waiting_bytes_max;
        self.is_full.store(is_full, Ordering::Relaxed);
        Ok(if is_full {
            let (files, bytes) = (grouped(files), about_size(bytes));
            Err(format!("{files} batches ({bytes}) wait in {}: no more is made", self.dir.display()))
        } else {
            Ok(())
        })
    }

    /// The name of the batch whose first offer is this one.
    pub fn path_of(&self, first: &Taken) -> PathBuf {
        let name = match first.ticket {
            Ticket::Slot(_) => format!("{:020}", first.offer.mark.position),
            // Its row was passed long ago: what it may be called is what no other can.
            Ticket::Deferred(key) => format!("{:020}-{:032x}", 0, key.0),
        };
        self.dir.join(format!("{name}-{}{EXTENSION}", self.identity))
    }

    /// Writes a batch: it is there whole, or not at all.
    pub fn write(&self, disk: &dyn Disk, path: &Path, batch: &[u8]) -> io::Result<()> {
        disk.create_dir(&self.dir)?;
        let _naming = self.naming.lock();
        durable_replace(disk, path, &[batch], Access::Group)
    }
}
