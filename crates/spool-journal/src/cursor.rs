//! [`Cursor`]: a tail whose position survives the process (`docs/formats/cursor.md`).
//!
//! The position on disk is never ahead of what is durable in the journal, and is written after the reader has
//! finished with the rows before it: after any crash no row is skipped, and those since the last
//! [`Cursor::save`] are returned again. [`Cursor::note`] is cheaper, and protects against the death of the
//! process only. The file has two copies, written in turn. As long as it exists it claims the journal, even
//! while it is not being read. A reader whose file is damaged or missing goes back to the oldest row:
//! repeated rows are harmless, skipped rows are not. The file is opened for each write: a site may have more
//! readers than a process may have open files.

use super::JournalReader;
use super::context::ReaderContext;
use super::follow::{FollowState, JournalClaim, Pin};
use super::known::{CURSOR as EXTENSION, KnownFiles};
use super::mark::JournalMark;
use super::sync_set::SyncSet;
use super::tail::{JournalBatch, Tail, TailStart};
use disk::crc::crc32c;
use disk::{Disk, DiskFile, OpenMode, read_around, set_aside};
use spool_base::codec::{ByteReader, put_u64};
use spool_base::status::CursorDamage;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tracing::{error, info, warn};

const MAGIC: &[u8; 8] = b"NCursor2";
/// Magic of the version without a mark for kills and without the number of the first decided row.
const MAGIC_OLD: &[u8; 8] = b"NCursor1";
/// Distance between the two copies: no torn write reaches both.
const COPY_BYTES: u64 = 4096;
/// Length of a copy's contents.
const STATE_BYTES: usize = 76;
/// Length of a copy's contents in the old version.
const STATE_OLD_BYTES: usize = 52;
/// Maximum length of a cursor's name.
const NAME_BYTES_MAX: usize = 64;
/// Placeholder for an unknown sequence number.
const UNKNOWN: u64 = u64::MAX;
/// Extension of a cursor's file during its creation.
const EXTENSION_NEW: &str = "cursor-new";
/// Generation of the newer copy in a new file: both copies are written, and earlier versions, which wrote
/// one, began with 1.
const FIRST_GENERATION: u64 = 3;
/// Number of attempts to read a file that may be in the middle of a write.
const TRIES: usize = 3;

/// Contents of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CursorState {
    generation: u64,
    /// Mark that is durable in the journal.
    mark: JournalMark,
    lost_bytes: u64,
    lost_articles: u64,
    /// Mark at or after `mark`; valid unless a power cut may have taken rows.
    ahead: JournalMark,
    /// Sequence number of the first article routed with this reader's site known; [`UNKNOWN`]: none yet.
    decided_from: u64,
}

impl Default for CursorState {
    fn default() -> Self {
        let mark = JournalMark::default();
        Self { generation: 0, mark, lost_bytes: 0, lost_articles: 0, ahead: mark, decided_from: UNKNOWN }
    }
}

impl CursorState {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(STATE_BYTES);
        let number = |sequence: Option<u64>| sequence.unwrap_or(UNKNOWN);
        for n in [
            self.generation,
            self.mark.position,
            number(self.mark.sequence),
            self.lost_bytes,
            self.lost_articles,
            self.ahead.position,
            number(self.ahead.sequence),
            self.decided_from,
        ] {
            put_u64(n, &mut body);
        }
        let mut out = Vec::with_capacity(STATE_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&crc32c(&body).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let is_old = bytes.starts_with(MAGIC_OLD);
        let bytes = if is_old { bytes.get(..STATE_OLD_BYTES)? } else { bytes };
        let (head, body) = bytes.split_at_checked(MAGIC.len() + 4)?;
        let whole = (is_old || head.starts_with(MAGIC)) && head.ends_with(&crc32c(body).to_le_bytes());
        let mut r = ByteReader(body);
        let generation = r.u64()?;
        let mark = mark(&mut r)?;
        let mut state =
            Self { generation, mark, lost_bytes: r.u64()?, lost_articles: r.u64()?, ..Self::default() };
        state.ahead = mark;
        if !is_old {
            state.ahead = self::mark(&mut r)?;
            state.decided_from = r.u64()?;
        }
        whole.then_some(state)
    }

    /// Reads the newer copy, and whether the other one is damaged; `None` if both are.
    fn read(file: &dyn DiskFile) -> io::Result<Option<(Self, bool)>> {
        let (mut copies, mut blank) = (Vec::new(), 0);
        for copy in 0..2 {
            let mut bytes = [0; STATE_BYTES];
            read_around(file, &mut bytes, copy * COPY_BYTES)?;
            blank += usize::from(bytes == [0; STATE_BYTES]);
            copies.extend(Self::decode(&bytes));
        }
        let count = copies.len();
        let newest = copies.into_iter().max_by_key(|state| state.generation);
        Ok(newest.map(|newest| {
            // Earlier versions wrote a single copy at first.
            let was_alone = blank == 1 && newest.generation == 1;
            (newest, count < 2 && !was_alone)
        }))
    }

    /// Opens and reads the file at `path`.
    fn find(disk: &dyn Disk, path: &Path) -> io::Result<CursorFile> {
        let file = match disk.open(path, OpenMode::Existing) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(CursorFile::Missing),
            file => file?,
        };
        Ok(match Self::read(&*file)? {
            Some((state, is_lone)) => CursorFile::Readable { file, state, is_lone },
            None => CursorFile::Damaged(file),
        })
    }

    /// Writes over the older copy, without a sync.
    fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_all_at(&[IoSlice::new(&self.encode())], self.generation % 2 * COPY_BYTES)
    }

    /// Writes both copies, durably.
    fn write_both(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.allocate(2 * COPY_BYTES)?;
        Self { generation: self.generation - 1, ..*self }.write(file)?;
        self.write(file)?;
        file.sync()
    }

    /// Creates the file, which gets its name once it is whole.
    fn create(&self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let new = path.with_extension(EXTENSION_NEW);
        self.write_both(&*disk.open(&new, OpenMode::Create)?)?;
        disk.rename(&new, path)?;
        path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
    }
}

/// File of a cursor as it was found.
enum CursorFile {
    /// At least one copy is whole; `is_lone`: the other one is damaged.
    Readable {
        file: Arc<dyn DiskFile>,
        state: CursorState,
        is_lone: bool,
    },
    /// Both copies are damaged.
    Damaged(Arc<dyn DiskFile>),
    Missing,
}

impl CursorFile {
    fn damage(&self) -> Option<CursorDamage> {
        match self {
            Self::Readable { is_lone, .. } => is_lone.then_some(CursorDamage::OneCopy),
            Self::Damaged(_) => Some(CursorDamage::BothCopies),
            Self::Missing => Some(CursorDamage::Missing),
        }
    }
}

fn mark(r: &mut ByteReader<'_>) -> Option<JournalMark> {
    Some(JournalMark { position: r.u64()?, sequence: Some(r.u64()?).filter(|n| *n != UNKNOWN) })
}

/// A durable reader of the journal.
#[derive(Debug)]
pub struct Cursor {
    tail: Tail,
    set: Arc<SyncSet>,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Contents of the durable copy.
    saved: CursorState,
    /// Contents of the other copy, if it was written since.
    noted: Option<CursorState>,
}

/// Returns the path of a cursor's file; an error if the name is not allowed.
fn path(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.starts_with('.');
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if !fits || !name.bytes().all(plain) {
        let text = format!(
            "\"{name}\" cannot be the name of a cursor: 1 to 64 letters, digits, \".\", \"-\", \"_\""
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(dir.join(format!("{name}{EXTENSION}")))
}

/// Claims the journal for all cursors that have a file or should have one. An unreadable cursor claims all of
/// it.
pub(super) fn claim_all(
    disk: &dyn Disk,
    dir: &Path,
    known: &KnownFiles,
    follow: &FollowState,
) -> io::Result<()> {
    for file_name in known.all() {
        let Some(name) = file_name.strip_suffix(EXTENSION) else { continue };
        let found = CursorState::find(disk, &dir.join(&file_name))?;
        let state =
            if let CursorFile::Readable { state, .. } = found { state } else { CursorState::default() };
        let claim = JournalClaim::new(name, true, state.mark.position);
        claim.lost_bytes.store(state.lost_bytes, Ordering::Relaxed);
        claim.lost_articles.store(state.lost_articles, Ordering::Relaxed);
        found.damage().filter(|damage| damage.went_back()).into_iter().for_each(|d| claim.note_damage(d));
        follow.add(claim)?;
    }
    Ok(())
}

/// Removes a cursor and its claim; returns false if it does not exist.
pub(super) fn remove(readers: &ReaderContext, name: &str) -> io::Result<bool> {
    let path = path(&readers.dir, name)?;
    let Some(claim) = readers.follow.of_cursor(name) else { return Ok(false) };
    let _in_use = Pin::new(&readers.follow, claim.clone())?;
    readers.known.remove(&[&file_name(name)]);
    match readers.disk.remove(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => readers.disk.sync_dir(&readers.dir)?,
    }
    readers.follow.remove(&claim);
    Ok(true)
}

/// Moves all readers that are beyond `end` back there, since the journal is to be cut off there.
pub fn go_back(disk: &dyn Disk, dir: &Path, end: u64) -> io::Result<()> {
    for name in disk.list(dir)?.iter().filter(|name| name.ends_with(EXTENSION)) {
        let CursorFile::Readable { file, state, .. } = CursorState::find(disk, &dir.join(name))? else {
            continue;
        };
        if state.mark.position.max(state.ahead.position) > end {
            let before = |mark: JournalMark| match mark.position > end {
                true => JournalMark { position: end, sequence: None },
                false => mark,
            };
            let (mark, ahead) = (before(state.mark), before(state.ahead));
            CursorState { generation: state.generation + 2, mark, ahead, ..state }.write_both(&*file)?;
        }
    }
    Ok(())
}

fn file_name(name: &str) -> String {
    format!("{name}{EXTENSION}")
}

/// Returns the cursors whose files are damaged now, with the kind of damage.
pub(super) fn damaged(readers: &ReaderContext) -> io::Result<Vec<(String, CursorDamage)>> {
    let mut damaged = Vec::new();
    for claim in readers.follow.cursors() {
        let path = path(&readers.dir, &claim.name)?;
        let mut damage = None;
        for _ in 0..TRIES {
            let _writing = claim.writing.lock();
            damage = CursorState::find(&*readers.disk, &path)?.damage();
            // The file may be in the middle of a write, or the cursor may have been removed meanwhile.
            if damage.is_none() || readers.follow.of_cursor(&claim.name).is_none() {
                damage = None;
                break;
            }
        }
        damaged.extend(damage.map(|damage| (claim.name.clone(), damage)));
    }
    Ok(damaged)
}

/// Repairs the file of a cursor, in use or not: from the copy that is whole, or from its claim.
pub(super) fn mend(readers: &ReaderContext, name: &str) -> io::Result<()> {
    let path = path(&readers.dir, name)?;
    let Some(claim) = readers.follow.of_cursor(name) else { return Ok(()) };
    let _writing = claim.writing.lock();
    let saved = JournalMark { position: claim.position.load(Ordering::Acquire), sequence: None };
    let again =
        CursorState { generation: FIRST_GENERATION, mark: saved, ahead: saved, ..CursorState::default() };
    match CursorState::find(&*readers.disk, &path)? {
        CursorFile::Readable { is_lone: false, .. } => Ok(()),
        CursorFile::Readable { file, state, .. } => {
            // The copy that is whole stays the newer one.
            CursorState { generation: state.generation.saturating_sub(1), ..state }.write(&*file)?;
            file.sync()
        }
        // The cursor's reader writes newer copies there.
        CursorFile::Damaged(file) => again.write_both(&*file),
        CursorFile::Missing => again.create(&*readers.disk, &path),
    }
}

impl Cursor {
    /// Opens the cursor of this name. A new one begins at `start`, and one whose file is damaged or missing
    /// at the oldest row. Without a power cut all noted positions are valid.
    pub(super) fn open(readers: &ReaderContext, name: &str, start: TailStart) -> io::Result<Self> {
        let path = path(&readers.dir, name)?;
        if let Some(claim) = readers.follow.of_cursor(name) {
            let pin = Pin::new(&readers.follow, claim)?;
            let found = CursorState::find(&*readers.disk, &path)?;
            return match found {
                CursorFile::Readable { state, is_lone, .. } => {
                    Self::resume(readers, pin, &path, state, is_lone)
                }
                lost => {
                    let aside = match lost {
                        CursorFile::Damaged(_) => Some(set_aside(&*readers.disk, &path)?),
                        _ => None,
                    };
                    let damage =
                        if aside.is_some() { CursorDamage::BothCopies } else { CursorDamage::Missing };
                    pin.claim().note_damage(damage);
                    let cursor = Self::begin(readers, &path, name, TailStart::Oldest, Some(pin))?;
                    let position = cursor.saved().position;
                    error!(
                        file = %path.display(), ?damage, ?aside, position,
                        "where a reader of the journal was is lost: it begins with the oldest row again"
                    );
                    Ok(cursor)
                }
            };
        }
        let start = if readers.known.has(&file_name(name)) { TailStart::Oldest } else { start };
        Self::begin(readers, &path, name, start, None)
    }

    /// Begins a cursor that is new, or whose file is lost.
    fn begin(
        readers: &ReaderContext,
        path: &Path,
        name: &str,
        start: TailStart,
        pin: Option<Pin>,
    ) -> io::Result<Self> {
        let start = readers.place_of(start)?;
        let mark = JournalMark { position: start.position.min(readers.set.synced()), ..start };
        let saved =
            CursorState { generation: FIRST_GENERATION, mark, ahead: start, ..CursorState::default() };
        saved.create(&*readers.disk, path)?;
        readers.known.add(&file_name(name));
        let new =
            || Pin::new(&readers.follow, readers.follow.add(JournalClaim::new(name, true, mark.position))?);
        let pin = pin.map_or_else(new, Ok)?;
        pin.move_to(mark.position);
        Ok(Self::at(readers, pin, path, saved))
    }

    /// Continues a cursor from its file.
    fn resume(
        readers: &ReaderContext,
        pin: Pin,
        path: &Path,
        mut saved: CursorState,
        is_lone: bool,
    ) -> io::Result<Self> {
        let written = readers.set.written();
        if readers.power_lost || saved.ahead.position > written {
            saved.ahead = saved.mark;
        }
        if saved.mark.position > written {
            // The journal was lost, and continues before that position.
            let journal = JournalReader::open(&readers.disk, &readers.dir, None)?;
            saved.mark.position = journal.oldest().unwrap_or_default();
            saved.ahead = saved.mark;
            pin.move_to(saved.mark.position);
        }
        let mut cursor = Self::at(readers, pin, path, saved);
        if is_lone {
            cursor.write_other_copy(readers.power_lost)?;
        }
        Ok(cursor)
    }

    /// Rewrites the damaged copy.
    fn write_other_copy(&mut self, power_lost: bool) -> io::Result<()> {
        let (name, position) = (self.tail.pin().claim().name.clone(), self.saved.mark.position);
        if power_lost {
            info!(name, position, "a power cut has torn a copy of a reader's position; the other one counts");
        } else {
            warn!(name, position, "a copy of a reader's position is damaged; the other one counts");
            self.tail.pin().claim().note_damage(CursorDamage::OneCopy);
        }
        let state = CursorState { generation: self.saved.generation + 1, ..self.saved };
        let file = self.disk.open(&self.path, OpenMode::Existing)?;
        state.write(&*file)?;
        file.sync()?;
        self.saved = state;
        Ok(())
    }

    fn at(readers: &ReaderContext, pin: Pin, path: &Path, saved: CursorState) -> Self {
        let ReaderContext { disk, dir, follow, set, .. } = readers;
        let mut tail = Tail::new(disk, dir, follow, pin, saved.ahead.sequence).of_cursor();
        tail.seek(saved.ahead);
        let (set, disk, path) = (set.clone(), disk.clone(), path.to_owned());
        Self { tail, set, disk, path, saved, noted: None }
    }

    /// Reads the next rows; leaves the batch empty if there are none yet.
    pub fn next(&mut self, batch: &mut JournalBatch) -> io::Result<()> {
        self.tail.next(batch)
    }

    /// See [`Tail::wait`].
    pub fn wait(&self, timeout: Duration) -> bool {
        self.tail.wait(timeout)
    }

    /// See [`Tail::poll_rows`].
    pub fn poll_rows(&self, context: &Context<'_>) -> Poll<()> {
        self.tail.poll_rows(context)
    }

    /// Returns the tail with which the cursor reads.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Moves to another mark, which must be between two rows.
    pub fn seek(&mut self, mark: JournalMark) {
        self.tail.seek(mark);
    }

    /// Returns the mark after the rows returned so far.
    pub fn mark(&self) -> JournalMark {
        JournalMark { position: self.tail.position(), sequence: self.tail.sequence() }
    }

    /// Returns the sequence number of the first article routed with this reader's site known, if recorded.
    pub fn decided_from(&self) -> Option<u64> {
        Some(self.current().decided_from).filter(|sequence| *sequence != UNKNOWN)
    }

    /// Records that articles from this sequence number on were routed with this reader's site known; durable
    /// with the next save.
    pub fn set_decided_from(&mut self, sequence: u64) {
        self.saved.decided_from = sequence;
        if let Some(noted) = &mut self.noted {
            noted.decided_from = sequence;
        }
    }

    /// Returns the mark at which the reader continues after any crash.
    pub fn saved(&self) -> JournalMark {
        self.saved.mark
    }

    /// Marks all rows returned so far as finished; see [`Cursor::save_at`].
    pub fn save(&mut self) -> io::Result<()> {
        self.save_at(self.mark())
    }

    /// Marks all rows before `mark` as finished: those that are durable now are not returned again after a
    /// crash.
    pub fn save_at(&mut self, mark: JournalMark) -> io::Result<()> {
        let (state, is_new) = self.state_at(mark);
        if !is_new && self.noted.is_none() {
            return Ok(());
        }
        if let Some(file) = self.write(&state)? {
            file.sync()?;
        }
        (self.saved, self.noted) = (state, None);
        self.tail.pin().move_to(state.mark.position);
        Ok(())
    }

    /// Like [`Cursor::save_at`], but protects only against the death of the process: nothing is synced, and
    /// the claim stays. The same copy is written each time, so that a power cut leaves the other.
    pub fn note(&mut self, mark: JournalMark) -> io::Result<()> {
        let (state, is_new) = self.state_at(mark);
        if !is_new {
            return Ok(());
        }
        self.write(&state)?;
        self.noted = Some(state);
        Ok(())
    }

    /// Writes over the older copy, excluding concurrent checks and repairs; returns the file, which is not
    /// synced. A missing file is created again with both copies, and synced.
    fn write(&self, state: &CursorState) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let _writing = self.tail.pin().claim().writing.lock();
        match self.disk.open(&self.path, OpenMode::Existing) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                state.create(&*self.disk, &self.path)?;
                Ok(None)
            }
            file => {
                let file = file?;
                state.write(&*file)?;
                Ok(Some(file))
            }
        }
    }

    /// Returns the current contents of the file.
    fn current(&self) -> &CursorState {
        self.noted.as_ref().unwrap_or(&self.saved)
    }

    /// Returns the state to be written, and whether anything has changed.
    fn state_at(&self, mark: JournalMark) -> (CursorState, bool) {
        let (lost_bytes, lost_articles) = self.tail.pin().lost();
        let state = CursorState {
            generation: self.saved.generation + 1,
            // After a power cut, other rows may appear at positions that were not durable.
            mark: JournalMark { position: mark.position.min(self.set.synced()), ..mark },
            lost_bytes,
            lost_articles,
            ahead: mark,
            decided_from: self.saved.decided_from,
        };
        let is_new = (CursorState { generation: self.current().generation, ..state }) != *self.current();
        (state, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    #[test]
    fn either_copy_may_be_damaged() {
        let disk = SimDisk::new();
        let file = disk.open(Path::new("/c"), OpenMode::Create).unwrap();
        file.allocate(2 * COPY_BYTES).unwrap();
        assert_eq!(CursorState::read(&*file).unwrap(), None);
        let state = |generation| {
            let mark = JournalMark { position: generation * 100, sequence: None };
            CursorState { generation, mark, ahead: mark, ..CursorState::default() }
        };
        state(1).write(&*file).unwrap();
        assert_eq!(CursorState::read(&*file).unwrap(), Some((state(1), false)), "as earlier versions began");
        (2..=4).for_each(|generation| state(generation).write(&*file).unwrap());
        assert_eq!(CursorState::read(&*file).unwrap(), Some((state(4), false)));
        file.write_all_at(&[IoSlice::new(&[0xff])], 20).unwrap();
        assert_eq!(CursorState::read(&*file).unwrap(), Some((state(3), true)));
        state(4).write(&*file).unwrap();
        file.write_all_at(&[IoSlice::new(&[0xff])], COPY_BYTES + 50).unwrap();
        assert_eq!(CursorState::read(&*file).unwrap(), Some((state(4), true)));
    }

    #[test]
    fn a_copy_of_the_first_version_is_read() {
        let mut body = Vec::new();
        [7, 4_096, UNKNOWN, 10, 2].into_iter().for_each(|n| put_u64(n, &mut body));
        let copy = [&MAGIC_OLD[..], &crc32c(&body).to_le_bytes(), &body, &[0; 24]].concat();
        let mark = JournalMark { position: 4_096, sequence: None };
        let state = CursorState {
            generation: 7,
            mark,
            lost_bytes: 10,
            lost_articles: 2,
            ahead: mark,
            ..CursorState::default()
        };
        assert_eq!(CursorState::decode(&copy), Some(state));
    }

    #[test]
    fn names_stay_in_the_directory() {
        for bad in ["", ".", "../x", "a/b", "a b", &"x".repeat(65)] {
            assert!(path(Path::new("/j"), bad).is_err(), "{bad}");
        }
        assert_eq!(path(Path::new("/j"), "peer.example").unwrap(), Path::new("/j/peer.example.cursor"));
    }
}
