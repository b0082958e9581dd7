//! The directory of a peer's batches (`docs/formats/outgoing.md`): what lies there, what may be added, how it
//! is called and written.

use super::queue::{Queue, Taken, Ticket};
use super::rank;
use crate::base::lock::Leaf;
use crate::base::units::{about_size, counted};
use crate::config::PeerSend;
use lock_order::Ordered;
use spool::{Disk, Key, Replacements};
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
    /// Held while a run of batches is made, one at a time: none is passed before those that begin earlier.
    pub making: Ordered<(), { rank::MAKING }>,
    /// Held while a batch gets its name, and while one is removed.
    pub naming: Leaf<()>,
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
    pub retry_at: Leaf<Option<Instant>>,
    pub made: AtomicU64,
    pub handed_over: AtomicU64,
    /// Batches that waited at the last look, and their bytes.
    pub waiting: Leaf<(u64, u64)>,
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
            making: Ordered::default(),
            naming: Leaf::default(),
            is_wanted: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            fresh: Notify::new(),
            room: Notify::new(),
            hurry: Notify::new(),
            retry_at: Leaf::default(),
            made: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            waiting: Leaf::default(),
        }
    }

    /// When a batch is to be made, Unix milliseconds. `is_read`: the window has all there is.
    pub fn next_due(&self, queue: &Queue, is_read: bool, send: &PeerSend) -> Option<u64> {
        let may = queue.next_due(send.delay.as_millis() as u64)?;
        if queue.has_deferred() || send.ihave && queue.open() >= IHAVE_IDS_MAX {
            return Some(may);
        }
        let is_enough = !send.ihave && queue.open_bytes() >= send.batch_bytes || queue.is_stuck();
        if is_enough || self.is_wanted.load(Ordering::Relaxed) {
            return Some(may);
        }
        let oldest = queue.oldest_open().filter(|_| is_read)?;
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

    /// Room for another batch, if there is some; else why not, in words.
    pub fn room(&self, send: &PeerSend) -> io::Result<Result<Room, String>> {
        self.ready()?;
        let (files, bytes) = *self.waiting.lock();
        let room = Room {
            files: (send.waiting_files_max as u64).saturating_sub(files),
            bytes: send.waiting_bytes_max.saturating_sub(bytes),
        };
        self.is_full.store(room.is_none(), Ordering::Relaxed);
        Ok(if room.is_none() {
            let (files, bytes) = (counted(files, "batch"), about_size(bytes));
            Err(format!("no more is made: {files} ({bytes}) not fetched yet in {}", self.dir.display()))
        } else {
            Ok(room)
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

    /// Batches that are being written: each is there whole, or not at all.
    pub fn begin<'a>(&self, disk: &'a dyn Disk) -> io::Result<Replacements<'a>> {
        disk.create_dir(&self.dir)?;
        Ok(Replacements::new(disk, &self.dir))
    }

    /// Makes these batches durable, and gives them their names.
    pub fn complete(&self, batches: Replacements<'_>) -> io::Result<()> {
        batches.sync()?;
        let _naming = self.naming.lock();
        batches.name()
    }
}

/// How much more may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    files: u64,
    bytes: u64,
}

impl Room {
    pub fn is_none(self) -> bool {
        self.files == 0 || self.bytes == 0
    }

    /// What is left after a batch of so many bytes.
    pub fn without(self, bytes: u64) -> Self {
        Self { files: self.files.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

/// With which article a batch begins, as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// One whose row is there in the journal.
    At(u64),
    /// One that was deferred.
    Deferred(Key),
    /// With none: it answers an ihave, or is not ours.
    None,
}

/// See [`Batches::path_of`].
pub(super) fn first_of(batch: &Path) -> First {
    let mut parts = batch.file_name().and_then(|name| name.to_str()).unwrap_or_default().split('-');
    let (position, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match position.parse() {
        Ok(0) => u128::from_str_radix(second, 16).map_or(First::None, |key| First::Deferred(Key(key))),
        Ok(position) if !second.starts_with("sendme") => First::At(position),
        _ => First::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_with_what_the_batch_begins() {
        for (name, first) in [
            ("00000000000000004711-a.example.rnews", First::At(4_711)),
            ("00000000000000004711-a-b.example.rnews", First::At(4_711)),
            ("00000000000000004711-sendme0-a.example.rnews", First::None),
            ("00000000000000000000-000000000000000000000000000000ff-a.rnews", First::Deferred(Key(255))),
            ("00000000000000000000-x-a.rnews", First::None),
            ("other.rnews", First::None),
            ("", First::None),
        ] {
            assert_eq!(first_of(&Path::new("/out").join(name)), first, "{name}");
        }
    }
}
