//! [`Cursor`]: a tail whose position outlives the process (`docs/formats/cursor.md`).
//!
//! The position on disk is never ahead of what is durable in the journal, and is written after the reader
//! is done with the rows before it: so after any crash no row is skipped, and those since the last
//! [`Cursor::save`] come again. [`Cursor::note`] is cheaper, and enough for the death of the process. The
//! file has two copies, written in turn. As long as it exists it claims the journal, whether somebody reads
//! with it or not.

use super::JournalReader;
use super::follow::{Claim, Follow, Pin};
use super::mark::Mark;
use super::tail::{Batch, Tail};
use super::writer::SyncSet;
use crate::base::codec::{Reader, put_u64};
use crate::base::crc::crc32c;
use crate::disk::{Disk, DiskFile, Open, read_around};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

const MAGIC: &[u8; 8] = b"NCursor2";
/// Of the version that had no mark for a kill, and no number of the first row that was decided.
const MAGIC_OLD: &[u8; 8] = b"NCursor1";
/// Distance of the two copies: no torn write reaches both.
const COPY_BYTES: u64 = 4096;
/// Length of what a copy says.
const STATE_BYTES: usize = 76;
/// The same in the old version.
const STATE_OLD_BYTES: usize = 52;
/// Longest name of a cursor.
const NAME_BYTES_MAX: usize = 64;
/// For a sequence number that is not known.
const UNKNOWN: u64 = u64::MAX;
const EXTENSION: &str = ".cursor";

/// What a copy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    generation: u64,
    /// Durable in the journal.
    mark: Mark,
    lost_bytes: u64,
    lost_articles: u64,
    /// At `mark` or after it; holds unless a power cut may have taken rows.
    ahead: Mark,
    /// Sequence number of the first article that was decided with this reader's site; [`UNKNOWN`]: none yet.
    decided_from: u64,
}

impl Default for State {
    fn default() -> Self {
        let mark = Mark::default();
        Self { generation: 0, mark, lost_bytes: 0, lost_articles: 0, ahead: mark, decided_from: UNKNOWN }
    }
}

impl State {
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
        let mut r = Reader(body);
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

    /// The newer copy; `None` if both are damaged.
    fn read(file: &dyn DiskFile) -> io::Result<Option<Self>> {
        let mut newest: Option<Self> = None;
        for copy in 0..2 {
            let mut bytes = [0; STATE_BYTES];
            read_around(file, &mut bytes, copy * COPY_BYTES)?;
            let state = Self::decode(&bytes);
            newest = newest.into_iter().chain(state).max_by_key(|state| state.generation);
        }
        Ok(newest)
    }

    /// Writes the copy that is older; not durable yet.
    fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_all_at(&[IoSlice::new(&self.encode())], self.generation % 2 * COPY_BYTES)
    }
}

fn mark(r: &mut Reader<'_>) -> Option<Mark> {
    Some(Mark { position: r.u64()?, sequence: Some(r.u64()?).filter(|n| *n != UNKNOWN) })
}

/// A durable reader of the journal.
#[derive(Debug)]
pub struct Cursor {
    tail: Tail,
    set: Arc<SyncSet>,
    file: Arc<dyn DiskFile>,
    /// What the durable copy says.
    saved: State,
    /// What the other one says, if it was written since.
    noted: Option<State>,
}

/// The path of a cursor's file; an error if the name cannot be one.
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

/// Claims the journal for all cursors that have a file.
pub(super) fn claim_all(disk: &dyn Disk, dir: &Path, follow: &Follow) -> io::Result<()> {
    for file_name in disk.list(dir)? {
        let Some(name) = file_name.strip_suffix(EXTENSION) else { continue };
        let file = disk.open(&dir.join(&file_name), Open::ReadOnly)?;
        if let Some(state) = State::read(&*file)? {
            let claim = Claim::new(name, true, state.mark.position);
            claim.lost_bytes.store(state.lost_bytes, Ordering::Relaxed);
            claim.lost_articles.store(state.lost_articles, Ordering::Relaxed);
            follow.add(claim)?;
        }
    }
    Ok(())
}

/// Removes a cursor and its claim; false if there is none of this name.
pub(super) fn remove(disk: &dyn Disk, dir: &Path, follow: &Arc<Follow>, name: &str) -> io::Result<bool> {
    let path = path(dir, name)?;
    let Some(claim) = follow.of_cursor(name) else { return Ok(false) };
    let _in_use = Pin::new(follow, claim.clone())?;
    disk.remove(&path)?;
    disk.sync_dir(dir)?;
    follow.remove(&claim);
    Ok(true)
}

impl Cursor {
    /// The cursor of this name; a new one begins at `start`. Without `power_lost` all that was noted holds.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        (follow, set): (&Arc<Follow>, &Arc<SyncSet>),
        (name, power_lost): (&str, bool),
        start: Mark,
    ) -> io::Result<Self> {
        let path = path(dir, name)?;
        if let Some(claim) = follow.of_cursor(name) {
            let pin = Pin::new(follow, claim)?;
            let file = disk.open(&path, Open::Existing)?;
            let mut saved = State::read(&*file)?.ok_or(io::ErrorKind::InvalidData)?;
            if power_lost || saved.ahead.position > set.written() {
                saved.ahead = saved.mark;
            }
            if saved.mark.position > set.written() {
                // The journal was lost, and continues before that.
                saved.mark.position = JournalReader::open(disk, dir, None)?.oldest().unwrap_or_default();
                saved.ahead = saved.mark;
                pin.move_to(saved.mark.position);
            }
            return Ok(Self::at(disk, dir, (follow, set), pin, file, saved));
        }
        // Nothing, or what a crash left of the making of one.
        let mark = Mark { position: start.position.min(set.synced()), ..start };
        let saved = State { generation: 1, mark, ahead: start, ..State::default() };
        let file = disk.open(&path, Open::Create)?;
        file.allocate(2 * COPY_BYTES)?;
        saved.write(&*file)?;
        file.sync()?;
        disk.sync_dir(dir)?;
        let pin = Pin::new(follow, follow.add(Claim::new(name, true, saved.mark.position))?)?;
        Ok(Self::at(disk, dir, (follow, set), pin, file, saved))
    }

    fn at(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        (follow, set): (&Arc<Follow>, &Arc<SyncSet>),
        pin: Pin,
        file: Arc<dyn DiskFile>,
        saved: State,
    ) -> Self {
        let mut tail = Tail::new(disk, dir, follow, pin, saved.ahead.sequence).of_cursor();
        tail.seek(saved.ahead);
        Self { tail, set: set.clone(), file, saved, noted: None }
    }

    /// Reads the next rows; none if there are none yet.
    pub fn next(&mut self, batch: &mut Batch) -> io::Result<()> {
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

    /// The tail it reads with.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Continues at another place, which must be between two rows.
    pub fn seek(&mut self, mark: Mark) {
        self.tail.seek(mark);
    }

    /// After the rows returned so far.
    pub fn mark(&self) -> Mark {
        Mark { position: self.tail.position(), sequence: self.tail.sequence() }
    }

    /// Sequence number of the first article that was decided with this reader's site, once it is known.
    pub fn decided_from(&self) -> Option<u64> {
        Some(self.current().decided_from).filter(|sequence| *sequence != UNKNOWN)
    }

    /// Articles from this sequence number on were decided with this reader's site; durable with the next
    /// save.
    pub fn set_decided_from(&mut self, sequence: u64) {
        self.saved.decided_from = sequence;
        if let Some(noted) = &mut self.noted {
            noted.decided_from = sequence;
        }
    }

    /// Where it continues after any crash.
    pub fn saved(&self) -> Mark {
        self.saved.mark
    }

    /// All rows returned so far are done with; see [`Cursor::save_at`].
    pub fn save(&mut self) -> io::Result<()> {
        self.save_at(self.mark())
    }

    /// All rows before `mark` are done with: after a crash they do not come again, as far as they are
    /// durable now.
    pub fn save_at(&mut self, mark: Mark) -> io::Result<()> {
        let (state, is_new) = self.state_at(mark);
        if !is_new && self.noted.is_none() {
            return Ok(());
        }
        state.write(&*self.file)?;
        self.file.sync()?;
        (self.saved, self.noted) = (state, None);
        self.tail.pin().move_to(state.mark.position);
        Ok(())
    }

    /// As [`Cursor::save_at`], but only against the death of the process: nothing is synced, and the claim
    /// stays. Always the same copy is written, so that a power cut leaves the other.
    pub fn note(&mut self, mark: Mark) -> io::Result<()> {
        let (state, is_new) = self.state_at(mark);
        if !is_new {
            return Ok(());
        }
        state.write(&*self.file)?;
        self.noted = Some(state);
        Ok(())
    }

    /// What the file says now.
    fn current(&self) -> &State {
        self.noted.as_ref().unwrap_or(&self.saved)
    }

    /// What to write, and whether anything has changed.
    fn state_at(&self, mark: Mark) -> (State, bool) {
        let (lost_bytes, lost_articles) = self.tail.pin().lost();
        let state = State {
            generation: self.saved.generation + 1,
            // What a power cut takes from the journal comes again at the same positions, with other rows.
            mark: Mark { position: mark.position.min(self.set.synced()), ..mark },
            lost_bytes,
            lost_articles,
            ahead: mark,
            decided_from: self.saved.decided_from,
        };
        let is_new = (State { generation: self.current().generation, ..state }) != *self.current();
        (state, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    #[test]
    fn either_copy_may_be_damaged() {
        let disk = SimDisk::new();
        let file = disk.open(Path::new("/c"), Open::Create).unwrap();
        file.allocate(2 * COPY_BYTES).unwrap();
        assert_eq!(State::read(&*file).unwrap(), None);
        let state = |generation| {
            let mark = Mark { position: generation * 100, sequence: None };
            State { generation, mark, ahead: mark, ..State::default() }
        };
        (1..=4).for_each(|generation| state(generation).write(&*file).unwrap());
        assert_eq!(State::read(&*file).unwrap(), Some(state(4)));
        file.write_all_at(&[IoSlice::new(&[0xff])], 20).unwrap();
        assert_eq!(State::read(&*file).unwrap(), Some(state(3)));
        state(4).write(&*file).unwrap();
        file.write_all_at(&[IoSlice::new(&[0xff])], COPY_BYTES + 50).unwrap();
        assert_eq!(State::read(&*file).unwrap(), Some(state(4)));
    }

    #[test]
    fn a_copy_of_the_first_version_is_read() {
        let mut body = Vec::new();
        [7, 4_096, UNKNOWN, 10, 2].into_iter().for_each(|n| put_u64(n, &mut body));
        let copy = [&MAGIC_OLD[..], &crc32c(&body).to_le_bytes(), &body, &[0; 24]].concat();
        let mark = Mark { position: 4_096, sequence: None };
        let state =
            State { generation: 7, mark, lost_bytes: 10, lost_articles: 2, ahead: mark, ..State::default() };
        assert_eq!(State::decode(&copy), Some(state));
    }

    #[test]
    fn names_stay_in_the_directory() {
        for bad in ["", ".", "../x", "a/b", "a b", &"x".repeat(65)] {
            assert!(path(Path::new("/j"), bad).is_err(), "{bad}");
        }
        assert_eq!(path(Path::new("/j"), "peer.example").unwrap(), Path::new("/j/peer.example.cursor"));
    }
}
