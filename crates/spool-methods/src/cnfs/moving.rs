//! Moving a buffer to another file or device while it is read and written.
//!
//! The whole area is copied first, then the records written meanwhile, then, with the writer held, the rest:
//! last records, cancels, usage bitmap, and finally the headers, so that an interrupted copy is not a buffer.
//! The caller decides when the new file replaces the old one. Called by `crate::care::buffers`.

use super::header::{HEADERS_BYTES, SLOT_BYTES};
use super::{Cycbuff, record};
use crate::volume::{Cyclic, Volume};
use disk::{Disk, DiskFile, OpenMode, Progress};
use spool_base::limits::PART_BYTES_MAX;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes copied at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// Catching up ends when this much or less is left, in bytes.
const REST_BYTES: u64 = 4 << 20;
/// Maximum number of rounds of catching up.
const ROUNDS_MAX: usize = 8;

/// A copy in progress that follows its buffer.
#[derive(Debug)]
pub struct BufferCopy {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// All places before this one are copied.
    upto: u64,
}

impl Cycbuff {
    /// Copies the area to a new file while serving continues. Cancels are recorded from here on.
    pub fn copy_to(&self, disk: &dyn Disk, path: &Path, progress: &dyn Progress) -> io::Result<BufferCopy> {
        let file = disk.open(path, OpenMode::CreatePrivate)?;
        file.try_lock()?;
        file.allocate(self.len)?;
        // An unfinished earlier copy must not look like a buffer.
        file.write_all_at(&[IoSlice::new(&vec![0; HEADERS_BYTES as usize])], 0)?;
        *self.state.cancelled.lock() = Some(Vec::new());
        let mut copying = BufferCopy { path: path.into(), file, upto: self.head() };
        let g = &self.geometry;
        progress.start("copying the buffer", g.area);
        let mut at = 0;
        while at < g.area {
            let n = CHUNK_BYTES.min(g.area - at);
            self.copy(&*copying.file, at, n)?;
            at += n;
            progress.step(at);
        }
        progress.finish();
        for _ in 0..ROUNDS_MAX {
            let head = self.head();
            let left = self.catch_up(&mut copying)?;
            copying.file.sync()?;
            if left <= REST_BYTES || self.head() == head {
                break;
            }
        }
        Ok(copying)
    }

    fn copy(&self, to: &dyn DiskFile, offset: u64, n: u64) -> io::Result<()> {
        let mut chunk = vec![0; usize::try_from(n).unwrap_or_default()];
        let at = self.geometry.area_start + offset;
        self.file.read_exact_at(&mut chunk, at)?;
        to.write_all_at(&[IoSlice::new(&chunk)], at)
    }

    /// Copies the records written since the last call; returns how many bytes that was. A part that is being
    /// written at the moment is copied again the next time.
    fn catch_up(&self, copying: &mut BufferCopy) -> io::Result<u64> {
        let head = self.head();
        let behind = 2 * PART_BYTES_MAX + self.state.longest.load(Ordering::Acquire);
        let from = copying.upto.saturating_sub(behind).max(self.geometry.tail_at(head)).max(self.first());
        let mut place = from.min(head);
        while place < head {
            let n = CHUNK_BYTES.min(head - place).min(self.room(place));
            let Some(offset) = self.offset(place).filter(|_| n > 0) else { break };
            self.copy(&*copying.file, offset, n)?;
            place += n;
        }
        let copied = head.saturating_sub(copying.upto);
        copying.upto = head;
        Ok(copied)
    }

    /// Finishes a copy. Nothing may be written to the buffer meanwhile. Returns the buffer in its new file,
    /// where it is durable.
    pub fn finish_copy(&self, disk: &dyn Disk, mut copying: BufferCopy, now: u64) -> io::Result<Self> {
        self.catch_up(&mut copying)?;
        let cancelled = self.state.cancelled.lock().take().unwrap_or_default();
        for place in cancelled.into_iter().filter(|place| *place >= self.tail()) {
            let at = self.file_offset(place)?;
            record::cancel(&*copying.file, at)?;
        }
        let bitmap = copying.file.map_words(self.geometry.bitmap_at, self.geometry.bitmap_words)?;
        for (new, old) in bitmap.words().iter().zip(self.bitmap.words()) {
            new.store(old.load(Ordering::Acquire), Ordering::Release);
        }
        let moved =
            Self { path: copying.path.display().to_string(), file: copying.file, bitmap, ..self.clone() };
        moved.write_last_copy(now)?;
        moved.file.sync()?;
        moved.write_both_headers(now)?;
        if let Some(parent) = copying.path.parent() {
            disk.sync_dir(parent)?;
        }
        Ok(moved)
    }

    /// Abandons a copy.
    pub fn stop_copying(&self) {
        *self.state.cancelled.lock() = None;
    }

    /// Marks the file as no longer a buffer, for the reason in `text`.
    pub fn retract(&self, text: &str) -> io::Result<()> {
        let mut slot = format!("{}{text}\n", super::header::MAGIC_RETRACTED).into_bytes();
        slot.resize(SLOT_BYTES as usize, 0);
        self.file.write_all_at(&[IoSlice::new(&slot), IoSlice::new(&slot)], 0)?;
        self.file.sync()
    }
}
