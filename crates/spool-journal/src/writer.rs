//! Appends rows to the journal and records the files that the syncing thread must sync.

use super::known::{self, KnownFiles};
use super::sync_set::SyncSet;
use super::{
    FILE_HEAD_BYTES, FILE_MAGIC, FRAME_BYTES, FollowState, JournalReader, JournalRow, ROW_BYTES_MAX,
    checksum, cursor, file_name, starts,
};
use disk::clock::unix_secs;
use disk::{Disk, DiskFile, OpenMode, STEP_BYTES_MAX, ZeroFill, read_around};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bounds on the part of the journal that readers may claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimLimits {
    /// Bytes behind the end of the journal.
    pub bytes_max: u64,
    /// Age in seconds.
    pub secs_max: u64,
    /// Current time in Unix seconds.
    pub now: u64,
}

/// Writing end of the journal, owned by the spool's only writer.
#[derive(Debug)]
pub struct JournalWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Length at which a new file is begun; each file reserves an eighth more.
    file_bytes: u64,
    start: u64,
    end: u64,
    pending: Vec<u8>,
    /// End of the last row of an article that goes to a site.
    sent: u64,
    ahead: ZeroFill,
    set: Arc<SyncSet>,
    follow: Arc<FollowState>,
    /// Names of the readers' files.
    known: Arc<KnownFiles>,
    /// Whether rows that may alter news follow the last [`JournalRow::Position`].
    is_amid: bool,
    /// Start positions and start times (Unix seconds) of the files for which the time is known.
    begun: Vec<(u64, u64)>,
}

impl JournalWriter {
    /// Continues the journal at `end`: everything after it is cut off, and the cut made durable, so that old
    /// bytes can never be read as rows.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, end: u64, file_bytes: u64) -> io::Result<Self> {
        disk.create_dir(dir)?;
        let all = starts(&**disk, dir)?;
        let last = all.iter().rev().find(|s| end >= **s + FILE_HEAD_BYTES);
        // Durably, and the newest first: rows after a gap would be those of a damaged journal.
        for start in all.iter().rev().take_while(|s| last.is_none_or(|last| *s > last)) {
            disk.remove(&dir.join(file_name(*start)))?;
            disk.sync_dir(dir)?;
        }
        // A position beyond the capacity of the last file begins a new one: the gap shows that rows are
        // missing.
        let open_file = |start: u64| disk.open(&dir.join(file_name(start)), OpenMode::Existing);
        let last = match last {
            Some(start) if start + open_file(*start)?.len()? < end => None,
            last => last,
        };
        let set = Arc::new(SyncSet::default());
        let (file, start, end) = match last {
            Some(start) => {
                // A power cut after a kill may still take what an earlier process did not sync.
                for older in all.iter().filter(|s| *s < start) {
                    open_file(*older)?.sync()?;
                }
                let file = open_file(*start)?;
                file.set_len(end - start)?;
                mend_head(&*file, *start)?;
                file.sync()?;
                reserve(&*file, file_bytes)?;
                (file, *start, end)
            }
            None => {
                let file = new_file(&**disk, dir, end, file_bytes)?;
                (file, end, end + FILE_HEAD_BYTES)
            }
        };
        file.sync()?;
        disk.sync_dir(dir)?;
        set.files.lock().push(file.clone());
        set.written.store(end, Ordering::Release);
        set.synced.store(end, Ordering::Release);
        let follow = Arc::new(FollowState::default());
        let known = Arc::new(KnownFiles::open(disk, dir, &[known::CURSOR, known::DEFERRED])?);
        cursor::claim_all(&**disk, dir, &known, &follow)?;
        let mut begun = Vec::new();
        for start in starts(&**disk, dir)?.into_iter().filter(|s| *s < start) {
            begun.extend(begun_at(disk, dir, start)?.map(|at| (start, at)));
        }
        begun.push((start, unix_secs()));
        Ok(Self {
            disk: disk.clone(),
            dir: dir.into(),
            file,
            file_bytes,
            start,
            end,
            pending: Vec::new(),
            sent: end,
            ahead: ZeroFill::default(),
            set,
            follow,
            known,
            is_amid: false,
            begun,
        })
    }

    /// Returns the disk and the directory of the journal.
    pub fn place(&self) -> (&Arc<dyn Disk>, &Path) {
        (&self.disk, &self.dir)
    }

    /// Returns the names of the readers' files.
    pub(crate) fn known(&self) -> &Arc<KnownFiles> {
        &self.known
    }

    /// Returns the state shared with readers.
    pub(crate) fn follow(&self) -> &Arc<FollowState> {
        &self.follow
    }

    /// Lets readers read up to the last row written, whose article is published.
    pub fn reveal(&self, next_sequence: u64) {
        self.follow.reveal(self.end, next_sequence, self.sent);
    }

    /// Returns the position from which on the journal is kept: `needed`, or earlier if readers claim so
    /// within bounds.
    pub fn keep_from(&mut self, needed: u64, bounds: &ClaimLimits) -> u64 {
        let claimed = self.follow.lowest_claim().unwrap_or(u64::MAX);
        // A file ends where, and when, the next one begins.
        let is_old = |begun: &&(u64, u64)| begun.1.saturating_add(bounds.secs_max) <= bounds.now;
        let old = self.begun.iter().rev().find(is_old).map_or(0, |(start, _)| *start);
        let keep_from = needed.min(claimed.max(self.end.saturating_sub(bounds.bytes_max)).max(old));
        self.begun.retain(|(start, _)| *start >= keep_from);
        keep_from
    }

    /// Returns the handle for the syncing thread.
    pub fn sync_set(&self) -> &Arc<SyncSet> {
        &self.set
    }

    /// Returns the position after the last written row.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the start of the current file.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the current file, and the offset of its last row's end.
    pub fn file_end(&self) -> (&Arc<dyn DiskFile>, u64) {
        (&self.file, self.end - self.start)
    }

    /// Returns the position after the last row pushed.
    pub fn pushed_end(&self) -> u64 {
        self.end + self.pending.len() as u64
    }

    /// Adds a row to be written by the next [`JournalWriter::write`].
    pub fn push(&mut self, row: &JournalRow<'_>) {
        let at = self.pending.len();
        self.pending.extend_from_slice(&[0; FRAME_BYTES]);
        row.encode(&mut self.pending);
        let payload = &self.pending[at + FRAME_BYTES..];
        debug_assert!(payload.len() <= ROW_BYTES_MAX, "a row is longer than the reader takes");
        let (len, crc) = (payload.len() as u32, checksum(self.end + at as u64, payload));
        self.pending[at..at + 4].copy_from_slice(&len.to_le_bytes());
        self.pending[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        match row {
            JournalRow::Position { .. } => self.is_amid = false,
            row => self.is_amid |= row.may_alter_news(),
        }
        if let JournalRow::Article(article) = row
            && article.tagged.sites().iter().any(|byte| *byte != 0)
        {
            self.sent = self.pushed_end();
        }
    }

    /// Reports whether rows that may alter news were pushed after the last [`JournalRow::Position`].
    pub fn is_amid(&self) -> bool {
        self.is_amid
    }

    /// Adds rows that restate what is known.
    pub fn restate<'r>(&mut self, rows: impl IntoIterator<Item = JournalRow<'r>>) {
        let is_amid = self.is_amid;
        rows.into_iter().for_each(|row| self.push(&row));
        self.is_amid = is_amid;
    }

    /// Forgets rows that were pushed but not written.
    pub fn discard(&mut self) {
        self.pending.clear();
    }

    /// Writes the pushed rows in one call. After an error none of them counts, and the next write overwrites
    /// them.
    pub fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (at, len) = (self.end - self.start, self.pending.len() as u64);
        // The last row is followed by zeros anyway. While rows fit into the reserved space, the spare zeros
        // do too.
        let reserved = reserved_bytes(self.file_bytes).checked_sub(at + len);
        let room = reserved.unwrap_or(STEP_BYTES_MAX).min(STEP_BYTES_MAX);
        let spare = self.ahead.spare(at, len, room, STEP_BYTES_MAX);
        let written = self.file.write_all_at(&[IoSlice::new(&self.pending), IoSlice::new(spare)], at);
        self.pending.clear();
        if let Err(e) = written {
            // Partly written rows must never be read as rows, even after their beginning is overwritten.
            self.ahead.reset();
            self.file.set_len(self.end - self.start)?;
            // The cut released the reserved space. If it cannot be reserved again, rows need free space, too.
            let _ = reserve(&*self.file, self.file_bytes);
            return Err(e);
        }
        self.end += len;
        self.set.written.store(self.end, Ordering::Release);
        Ok(())
    }

    /// Reports whether it is time for a new file.
    pub fn is_file_full(&self) -> bool {
        self.end - self.start >= self.file_bytes
    }

    /// Begins a new file; nothing may be pending.
    pub fn next_file(&mut self) -> io::Result<()> {
        let file = new_file(&*self.disk, &self.dir, self.end, self.file_bytes)?;
        self.file.set_len(self.end - self.start)?;
        self.disk.sync_dir(&self.dir)?;
        self.set.files.lock().push(file.clone());
        self.start = self.end;
        self.begun.push((self.start, unix_secs()));
        self.end += FILE_HEAD_BYTES;
        self.file = file;
        self.ahead.reset();
        self.set.written.store(self.end, Ordering::Release);
        Ok(())
    }

    /// Returns the files all of whose rows lie before `position`.
    pub fn files_before(&self, position: u64) -> io::Result<Vec<PathBuf>> {
        let all = starts(&*self.disk, &self.dir)?;
        let dead = all.windows(2).filter(|w| w[1] <= position).map(|w| self.dir.join(file_name(w[0])));
        Ok(dead.collect())
    }
}

/// Returns the start time of a file, if one of its first rows has it.
fn begun_at(disk: &Arc<dyn Disk>, dir: &Path, start: u64) -> io::Result<Option<u64>> {
    const ROWS_MAX: usize = 16;
    let mut reader = JournalReader::open(disk, dir, Some(start))?;
    for _ in 0..ROWS_MAX {
        let Some((_, payload)) = reader.next_row()? else { break };
        if let Some(JournalRow::Begun { at }) = JournalRow::decode(payload) {
            return Ok(Some(u64::from(at)));
        }
    }
    Ok(None)
}

fn new_file(disk: &dyn Disk, dir: &Path, start: u64, file_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
    let path = dir.join(file_name(start));
    let file = disk.open(&path, OpenMode::Create)?;
    let made =
        file.set_len(0).and_then(|()| reserve(&*file, file_bytes)).and_then(|()| write_head(&*file, start));
    if let Err(e) = made {
        // Rows still written to the previous file must not seem to lie in this one.
        disk.remove(&path)?;
        return Err(e);
    }
    Ok(file)
}

fn write_head(file: &dyn DiskFile, start: u64) -> io::Result<()> {
    file.write_all_at(&[IoSlice::new(FILE_MAGIC), IoSlice::new(&start.to_le_bytes())], 0)
}

/// Rewrites the head of a file whose creation was cut off.
fn mend_head(file: &dyn DiskFile, start: u64) -> io::Result<()> {
    let mut head = [0; FILE_HEAD_BYTES as usize];
    read_around(file, &mut head, 0)?;
    let whole = head.starts_with(FILE_MAGIC) && head.ends_with(&start.to_le_bytes());
    if whole { Ok(()) } else { write_head(file, start) }
}

/// Reserves a file's space: a full disk should fail here, where nothing is lost, and not in a batch whose
/// articles have already displaced others. The last ninth is for rows that free space while the disk is too
/// full for another file.
fn reserve(file: &dyn DiskFile, file_bytes: u64) -> io::Result<()> {
    file.allocate(reserved_bytes(file_bytes))
}

/// Returns the disk space that a file of this length occupies from the start.
pub fn reserved_bytes(file_bytes: u64) -> u64 {
    file_bytes + file_bytes / 8
}
