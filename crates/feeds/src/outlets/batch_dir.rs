//! The directory of a peer's batches (`docs/formats/outgoing.md`): its content, its limits, its file names
//! and how files are written.

use crate::peer::queue::{OfferQueue, OfferTicket, TakenOffer};
use crate::rank;
use disk::{Disk, Replacements};
use lock_order::Ordered;
use site_base::lock::Leaf;
use site_base::units::{about_size, counted};
use site_config::PeerSend;
use spool::ArticleKey;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Most Message-IDs in one ihave or sendme, as in INN.
pub(crate) const IHAVE_IDS_MAX: usize = 1_000;
/// Suffix of batches.
pub(crate) const EXTENSION: &str = ".rnews";
/// Suffix of batches being written.
const UNFINISHED: &str = ".rnews.new";

/// Fullness of a directory: as many batches, or as large ones, as may wait there.
#[derive(Debug, thiserror::Error)]
#[error(
    "no more is made: {} ({}) not fetched yet in {dir}",
    counted(*.files, "batch"),
    about_size(*.bytes)
)]
pub struct BatchDirFull {
    /// Number of batches in it.
    files: u64,
    /// Size of them all.
    bytes: u64,
    /// The directory.
    dir: PathBuf,
}

/// The batches of one peer.
#[derive(Debug)]
pub(crate) struct OutgoingBatches {
    pub dir: PathBuf,
    disk: Arc<dyn Disk>,
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
pub(crate) struct ReadyBatch {
    pub path: PathBuf,
    pub bytes: u64,
}

impl OutgoingBatches {
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, identity: &str) -> Self {
        Self {
            dir: dir.to_owned(),
            disk,
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
        let mut ready = Vec::new();
        for name in self.disk.list(&self.dir)?.into_iter().filter(|name| name.ends_with(EXTENSION)) {
            let path = self.dir.join(name);
            // A batch may have been taken away in the meantime.
            if let Ok(Some(about)) = self.disk.about(&path) {
                ready.push(ReadyBatch { path, bytes: about.bytes });
            }
        }
        *self.waiting.lock() = (ready.len() as u64, ready.iter().map(|batch| batch.bytes).sum());
        Ok(ready)
    }

    /// Removes unfinished batches left by a crash, and none that an operator has made meanwhile.
    pub fn clean(&self) -> io::Result<()> {
        let _one_at_a_time = self.making.lock();
        let mut names = self.disk.list(&self.dir)?;
        names.retain(|name| name.ends_with(UNFINISHED));
        self.disk.remove_in(&self.dir, &names)
    }

    /// Removes a batch that was taken away, unless another one has its name: `identity` is its own.
    pub fn remove(&self, batch: &Path, identity: (u64, u64)) -> io::Result<()> {
        let _naming = self.naming.lock();
        if self.disk.identity(batch)? == Some(identity) {
            self.disk.remove(batch)?;
            self.disk.sync_dir(&self.dir)?;
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
            // The journal row was passed long ago. The article may be requested again while this batch waits,
            // and begin another one.
            OfferTicket::Deferred(key) => format!("{:020}-{:032x}-{}", 0, key.0, first.offer.arrived),
        };
        self.dir.join(format!("{name}-{}{EXTENSION}", self.identity))
    }

    /// Begins batches, each of which is written completely or not at all.
    pub fn begin(&self) -> io::Result<Replacements<'_>> {
        self.disk.create_dir(&self.dir)?;
        Ok(Replacements::new(&*self.disk, &self.dir))
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
pub(crate) struct BatchRoom {
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
pub(crate) enum FirstArticle {
    /// Article with its row at this position of the journal.
    At(u64),
    /// A deferred article.
    Deferred(ArticleKey),
    /// None: the batch answers an ihave, or is not ours.
    None,
}

/// Returns the first article of a batch; see [`OutgoingBatches::path_of`].
pub(crate) fn first_of(batch: &Path) -> FirstArticle {
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
    use disk::{CrashKind, FileAccess, SimDisk, read_small};

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

    const DIR: &str = "/out/leaf";

    /// Makes two runs of batches, one again with the name of the first, and removes the first.
    fn work(own: &OutgoingBatches, done: &mut Vec<&'static str>) -> io::Result<()> {
        for (run, names) in [("first", &["1.rnews", "2.rnews"][..]), ("again", &["1.rnews", "3.rnews"][..])] {
            let mut batches = own.begin()?;
            for name in names {
                batches.add(
                    &own.dir.join(name),
                    &[run.as_bytes(), b" ", name.as_bytes()],
                    FileAccess::Group,
                )?;
            }
            own.complete(batches)?;
            done.push(run);
        }
        let taken = own.dir.join("1.rnews");
        own.remove(&taken, (7, 7))?;
        done.push("another has the name");
        let identity = own.disk.identity(&taken)?.unwrap_or_default();
        own.remove(&taken, identity)?;
        done.push("removed");
        Ok(())
    }

    #[test]
    fn a_crash_at_any_write_leaves_whole_batches_and_those_completed() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost, CrashKind::Remount] {
            for step in 0.. {
                let (sim, mut done) = (SimDisk::new(), Vec::new());
                sim.create_dir(Path::new(DIR)).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let _crashed =
                    work(&OutgoingBatches::new(Arc::new(sim.clone()), Path::new(DIR), "x"), &mut done);
                let image = sim.image().unwrap();
                let own = OutgoingBatches::new(Arc::new(image.clone()), Path::new(DIR), "x");
                own.clean().unwrap();
                let what = format!("{kind:?} at step {step}, done: {done:?}");
                let ready = own.ready().unwrap();
                assert_eq!(ready.len(), image.list(Path::new(DIR)).unwrap().len(), "{what}");
                let left: Vec<String> = ready
                    .iter()
                    .map(|batch| read_small(&image, &batch.path, 100).unwrap().unwrap())
                    .map(|text| String::from_utf8(text).unwrap())
                    .collect();
                for (batch, text) in ready.iter().zip(&left) {
                    let name = batch.path.file_name().unwrap().to_str().unwrap();
                    let runs = if name == "3.rnews" { &["again"][..] } else { &["first", "again"][..] };
                    assert!(runs.iter().any(|run| *text == format!("{run} {name}")), "{what}: {left:?}");
                }
                let is_left = |text: &str| left.iter().any(|left| left.ends_with(text));
                assert!(is_left("first 2.rnews") || done.is_empty(), "{what}: {left:?}");
                assert!(is_left(" 1.rnews") || done.is_empty() || done.len() > 2, "{what}: {left:?}");
                assert!(is_left("again 3.rnews") || done.len() < 2, "{what}: {left:?}");
                assert!(!is_left(" 1.rnews") || done.len() < 4, "{what}: {left:?}");
                if !sim.crashed() {
                    assert_eq!(done.len(), 4);
                    break;
                }
            }
        }
    }
}
