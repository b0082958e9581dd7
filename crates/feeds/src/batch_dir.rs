//! The directory of a peer's batches (`docs/formats/outgoing.md`): its content, its limits, its file names
//! and how files are written.

use super::queue::{OfferQueue, OfferTicket, TakenOffer};
use super::rank;
use disk::{Disk, Replacements};
use lock_order::Ordered;
use site_base::lock::Leaf;
use site_base::units::{about_size, counted};
use site_config::PeerSend;
use spool::ArticleKey;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Most Message-IDs in one ihave or sendme, as in INN.
pub(super) const IHAVE_IDS_MAX: usize = 1_000;
/// Suffix of batches.
pub(super) const EXTENSION: &str = ".rnews";
/// Suffix of batches being written.
const UNFINISHED: &str = ".rnews.new";

/// Fullness of a directory: as many batches, or as large ones, as may wait there.
#[derive(Debug)]
pub struct BatchDirFull {
    /// Number of batches in it.
    files: u64,
    /// Size of them all.
    bytes: u64,
    /// The directory.
    dir: PathBuf,
}

impl fmt::Display for BatchDirFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, bytes) = (counted(self.files, "batch"), about_size(self.bytes));
        write!(f, "no more is made: {files} ({bytes}) not fetched yet in {}", self.dir.display())
    }
}

impl std::error::Error for BatchDirFull {}

/// The batches of one peer.
#[derive(Debug)]
pub(super) struct OutgoingBatches {
    pub dir: PathBuf,
    /// Our path identity, so that batches of several sites do not collide in one directory.
    pub identity: String,
    /// Held while a run of batches is made, one at a time, so that no batch is passed before earlier ones.
    pub making: Ordered<(), { rank::MAKING }>,
    /// Held while a batch gets its name, and while one is removed.
    pub naming: Leaf<()>,
    /// Whether an operator has requested a batch now.
    pub is_wanted: AtomicBool,
    /// Whether the directory is full.
    pub is_full: AtomicBool,
    /// Notified when a batch was made.
    pub fresh: Notify,
    /// Notified when a batch was taken away.
    pub room: Notify,
    /// Notified to retry at once.
    pub hurry: Notify,
    /// Time of the next attempt to hand a batch over.
    pub retry_at: Leaf<Option<Instant>>,
    pub made: AtomicU64,
    pub handed_over: AtomicU64,
    /// Number and bytes of waiting batches, as of the last scan.
    pub waiting: Leaf<(u64, u64)>,
}

/// A batch that waits to be taken away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyBatch {
    pub path: PathBuf,
    pub bytes: u64,
}

impl OutgoingBatches {
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

    /// Returns when a batch is to be made, in Unix milliseconds. `is_read`: the window has all offers.
    pub fn next_due(&self, queue: &OfferQueue, is_read: bool, send: &PeerSend) -> Option<u64> {
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

    /// Returns the waiting batches, oldest first.
    pub fn ready(&self) -> io::Result<Vec<ReadyBatch>> {
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
                // A batch may have been taken away in the meantime.
                && let Ok(about) = entry.metadata()
                && about.is_file()
            {
                ready.push(ReadyBatch { path: entry.path(), bytes: about.len() });
            }
        }
        ready.sort_unstable();
        *self.waiting.lock() = (ready.len() as u64, ready.iter().map(|batch| batch.bytes).sum());
        Ok(ready)
    }

    /// Removes unfinished batches left by a crash.
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

    /// Removes a batch that was taken away, unless another one has its name: `inode` is its own.
    pub fn remove(&self, batch: &Path, inode: u64) -> io::Result<()> {
        let _naming = self.naming.lock();
        if fs::metadata(batch)?.ino() == inode {
            fs::remove_file(batch)?;
            fs::File::open(&self.dir)?.sync_all()?;
        }
        self.room.notify_one();
        Ok(())
    }

    /// Returns the room for further batches.
    pub fn room(&self, send: &PeerSend) -> io::Result<Result<BatchRoom, BatchDirFull>> {
        self.ready()?;
        let (files, bytes) = *self.waiting.lock();
        let room = BatchRoom {
            files: (send.waiting_files_max as u64).saturating_sub(files),
            bytes: send.waiting_bytes_max.saturating_sub(bytes),
        };
        self.is_full.store(room.is_none(), Ordering::Relaxed);
        Ok(if room.is_none() { Err(BatchDirFull { files, bytes, dir: self.dir.clone() }) } else { Ok(room) })
    }

    /// Returns the path of the batch whose first offer is this one.
    pub fn path_of(&self, first: &TakenOffer) -> PathBuf {
        let name = match first.ticket {
            OfferTicket::Slot(_) => format!("{:020}", first.offer.mark.position),
            // The journal row was passed long ago, so it needs a name that no other batch can have.
            OfferTicket::Deferred(key) => format!("{:020}-{:032x}", 0, key.0),
        };
        self.dir.join(format!("{name}-{}{EXTENSION}", self.identity))
    }

    /// Begins batches, each of which is written completely or not at all.
    pub fn begin<'a>(&self, disk: &'a dyn Disk) -> io::Result<Replacements<'a>> {
        disk.create_dir(&self.dir)?;
        Ok(Replacements::new(disk, &self.dir))
    }

    /// Makes these batches durable, and renames them.
    pub fn complete(&self, batches: Replacements<'_>) -> io::Result<()> {
        batches.sync()?;
        let _naming = self.naming.lock();
        batches.name()
    }
}

/// Room for further batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchRoom {
    files: u64,
    bytes: u64,
}

impl BatchRoom {
    pub fn is_none(self) -> bool {
        self.files == 0 || self.bytes == 0
    }

    /// Returns the room left after a batch of this size.
    pub fn without(self, bytes: u64) -> Self {
        Self { files: self.files.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

/// First article of a batch, according to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstArticle {
    /// Article with its row at this position of the journal.
    At(u64),
    /// A deferred article.
    Deferred(ArticleKey),
    /// None: the batch answers an ihave, or is not ours.
    None,
}

/// Returns the first article of a batch; see [`OutgoingBatches::path_of`].
pub(super) fn first_of(batch: &Path) -> FirstArticle {
    let mut parts = batch.file_name().and_then(|name| name.to_str()).unwrap_or_default().split('-');
    let (position, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match position.parse() {
        Ok(0) => u128::from_str_radix(second, 16)
            .map_or(FirstArticle::None, |key| FirstArticle::Deferred(ArticleKey(key))),
        Ok(position) if !second.starts_with("sendme") => FirstArticle::At(position),
        _ => FirstArticle::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_name_identifies_its_first_article() {
        for (name, first) in [
            ("00000000000000004711-a.example.rnews", FirstArticle::At(4_711)),
            ("00000000000000004711-a-b.example.rnews", FirstArticle::At(4_711)),
            ("00000000000000004711-sendme0-a.example.rnews", FirstArticle::None),
            (
                "00000000000000000000-000000000000000000000000000000ff-a.rnews",
                FirstArticle::Deferred(ArticleKey(255)),
            ),
            ("00000000000000000000-x-a.rnews", FirstArticle::None),
            ("other.rnews", FirstArticle::None),
            ("", FirstArticle::None),
        ] {
            assert_eq!(first_of(&Path::new("/out").join(name)), first, "{name}");
        }
    }
}
