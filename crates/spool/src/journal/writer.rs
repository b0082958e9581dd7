//! Appends rows to the journal and tells the syncing thread which files to sync.

use super::{FILE_HEAD_BYTES, FILE_MAGIC, FRAME_BYTES, Row, checksum, file_name, starts};
use crate::disk::{Disk, DiskFile, Open};
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Length at which a new file is begun.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

/// What a sync of the journal has to touch; shared with the syncing thread.
#[derive(Debug, Default)]
pub(crate) struct SyncSet {
    files: Mutex<Vec<Arc<dyn DiskFile>>>,
    written: AtomicU64,
    synced: AtomicU64,
}

impl SyncSet {
    /// Position up to which rows are written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Position up to which rows are durable.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Makes all rows written so far durable; returns the position.
    pub fn sync(&self) -> io::Result<u64> {
        let upto = self.written();
        if upto == self.synced() {
            return Ok(upto);
        }
        let files = self.files.lock().clone();
        files.iter().try_for_each(|f| f.sync())?;
        // All but the file being written are whole and synced now.
        let mut now = self.files.lock();
        let done = files.len().saturating_sub(1).min(now.len());
        now.drain(..done);
        self.synced.fetch_max(upto, Ordering::AcqRel);
        Ok(upto)
    }
}

/// The writing end of the journal; owned by the spool's one writer.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: Arc<dyn DiskFile>,
    start: u64,
    end: u64,
    pending: Vec<u8>,
    set: Arc<SyncSet>,
}

impl JournalWriter {
    /// Continues the journal at `end`: what follows there is cut off and the cut made durable, so that old bytes
    /// can never be taken for rows again.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, end: u64) -> io::Result<Self> {
        disk.create_dir(dir)?;
        let all = starts(&**disk, dir)?;
        let last = all.iter().rev().find(|s| end >= **s + FILE_HEAD_BYTES);
        for start in all.iter().filter(|s| last.is_none_or(|last| *s > last)) {
            disk.remove(&dir.join(file_name(*start)))?;
        }
        let set = Arc::new(SyncSet::default());
        let (file, start, end) = match last {
            Some(start) => {
                let file = disk.open(&dir.join(file_name(*start)), Open::Existing)?;
                file.set_len(end - start)?;
                (file, *start, end)
            }
            None => {
                let file = new_file(&**disk, dir, end)?;
                (file, end, end + FILE_HEAD_BYTES)
            }
        };
        file.sync()?;
        disk.sync_dir(dir)?;
        set.files.lock().push(file.clone());
        set.written.store(end, Ordering::Release);
        set.synced.store(end, Ordering::Release);
        Ok(Self { disk: disk.clone(), dir: dir.into(), file, start, end, pending: Vec::new(), set })
    }

    /// Handle for the syncing thread.
    pub fn sync_set(&self) -> &Arc<SyncSet> {
        &self.set
    }

    /// Position behind the last written row.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Position behind the last row pushed.
    pub fn pushed_end(&self) -> u64 {
        self.end + self.pending.len() as u64
    }

    /// Adds a row to what the next [`JournalWriter::write`] writes.
    pub fn push(&mut self, row: &Row<'_>) {
        let at = self.pending.len();
        self.pending.extend_from_slice(&[0; FRAME_BYTES]);
        row.encode(&mut self.pending);
        let payload = &self.pending[at + FRAME_BYTES..];
        let (len, crc) = (payload.len() as u32, checksum(self.end + at as u64, payload));
        self.pending[at..at + 4].copy_from_slice(&len.to_le_bytes());
        self.pending[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Forgets the rows pushed and not written.
    pub fn discard(&mut self) {
        self.pending.clear();
    }

    /// Writes the rows pushed, in one call. After an error none of them counts, and the next write overwrites them.
    pub fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all_at(&[IoSlice::new(&self.pending)], self.end - self.start);
        let len = self.pending.len() as u64;
        self.pending.clear();
        written?;
        self.end += len;
        self.set.written.store(self.end, Ordering::Release);
        Ok(())
    }

    /// Whether it is time for a new file.
    pub fn is_file_full(&self) -> bool {
        self.end - self.start >= FILE_BYTES
    }

    /// Begins a new file; nothing may be pending.
    pub fn next_file(&mut self) -> io::Result<()> {
        let file = new_file(&*self.disk, &self.dir, self.end)?;
        self.disk.sync_dir(&self.dir)?;
        self.set.files.lock().push(file.clone());
        self.start = self.end;
        self.end += FILE_HEAD_BYTES;
        self.file = file;
        self.set.written.store(self.end, Ordering::Release);
        Ok(())
    }

    /// Files all of whose rows lie before `position`.
    pub fn files_before(&self, position: u64) -> io::Result<Vec<PathBuf>> {
        let all = starts(&*self.disk, &self.dir)?;
        let dead = all.windows(2).filter(|w| w[1] <= position).map(|w| self.dir.join(file_name(w[0])));
        Ok(dead.collect())
    }

    /// Bytes kept.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.end - starts(&*self.disk, &self.dir)?.first().copied().unwrap_or(self.end))
    }
}

fn new_file(disk: &dyn Disk, dir: &Path, start: u64) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.open(&dir.join(file_name(start)), Open::Create)?;
    file.set_len(0)?;
    let start = start.to_le_bytes();
    file.write_all_at(&[IoSlice::new(FILE_MAGIC), IoSlice::new(&start)], 0)?;
    Ok(file)
}
