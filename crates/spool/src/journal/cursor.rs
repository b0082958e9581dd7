//! [`Cursor`]: a tail whose position outlives the process (`docs/formats/cursor.md`).
//!
//! The position on disk is never ahead of what is durable in the journal, and is written after the reader
//! is done with the rows before it: so after any crash no row is skipped, and those since the last
//! [`Cursor::save`] come again. The file has two copies, written in turn. As long as it exists it claims
//! the journal, whether somebody reads with it or not.

use super::JournalReader;
use super::follow::{Claim, Follow, Pin};
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

const MAGIC: &[u8; 8] = b"NCursor1";
/// Distance of the two copies: no torn write reaches both.
const COPY_BYTES: u64 = 4096;
/// Length of what a copy says.
const STATE_BYTES: usize = 52;
/// Longest name of a cursor.
const NAME_BYTES_MAX: usize = 64;
/// For a sequence number that is not known.
const UNKNOWN: u64 = u64::MAX;
const EXTENSION: &str = ".cursor";

/// What a copy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    generation: u64,
    position: u64,
    sequence: u64,
    lost_bytes: u64,
    lost_articles: u64,
}

impl State {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(STATE_BYTES);
        for n in [self.generation, self.position, self.sequence, self.lost_bytes, self.lost_articles] {
            put_u64(n, &mut body);
        }
        let mut out = Vec::with_capacity(STATE_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&crc32c(&body).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(MAGIC.len() + 4)?;
        let whole = head.starts_with(MAGIC) && head.ends_with(&crc32c(body).to_le_bytes());
        let mut r = Reader(body);
        let state = Self {
            generation: r.u64()?,
            position: r.u64()?,
            sequence: r.u64()?,
            lost_bytes: r.u64()?,
            lost_articles: r.u64()?,
        };
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

    /// Writes the copy that is older, durably.
    fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_all_at(&[IoSlice::new(&self.encode())], self.generation % 2 * COPY_BYTES)?;
        file.sync()
    }
}

/// A durable reader of the journal.
#[derive(Debug)]
pub struct Cursor {
    tail: Tail,
    set: Arc<SyncSet>,
    file: Arc<dyn DiskFile>,
    saved: State,
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
            let claim = Claim::new(name, true, state.position);
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
    /// The cursor of this name; a new one begins at `start`, with the article of this sequence number.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        (follow, set): (&Arc<Follow>, &Arc<SyncSet>),
        name: &str,
        (start, sequence): (u64, Option<u64>),
    ) -> io::Result<Self> {
        let path = path(dir, name)?;
        if let Some(claim) = follow.of_cursor(name) {
            let pin = Pin::new(follow, claim)?;
            let file = disk.open(&path, Open::Existing)?;
            let mut saved = State::read(&*file)?.ok_or(io::ErrorKind::InvalidData)?;
            if saved.position > set.written() {
                // The journal was lost, and goes on before that.
                saved.position = JournalReader::open(disk, dir, None)?.oldest().unwrap_or_default();
                pin.move_to(saved.position);
            }
            return Ok(Self::at(disk, dir, (follow, set), pin, file, saved));
        }
        // Nothing, or what a crash left of the making of one.
        let (position, sequence) = (start.min(set.synced()), sequence.unwrap_or(UNKNOWN));
        let saved = State { generation: 1, position, sequence, ..State::default() };
        let file = disk.open(&path, Open::Create)?;
        file.allocate(2 * COPY_BYTES)?;
        saved.write(&*file)?;
        disk.sync_dir(dir)?;
        let pin = Pin::new(follow, follow.add(Claim::new(name, true, saved.position))?)?;
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
        let tail =
            Tail::new(disk, dir, follow, pin, Some(saved.sequence).filter(|n| *n != UNKNOWN)).of_cursor();
        Self { tail, set: set.clone(), file, saved }
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

    /// All rows returned so far are done with: after a crash they do not come again, as far as they are
    /// durable now.
    pub fn save(&mut self) -> io::Result<()> {
        let (lost_bytes, lost_articles) = self.tail.pin().lost();
        let state = State {
            generation: self.saved.generation + 1,
            // What a power cut takes from the journal comes again at the same positions, with other rows.
            position: self.tail.position().min(self.set.synced()),
            sequence: self.tail.sequence().unwrap_or(UNKNOWN),
            lost_bytes,
            lost_articles,
        };
        if (State { generation: self.saved.generation, ..state }) == self.saved {
            return Ok(());
        }
        state.write(&*self.file)?;
        self.saved = state;
        self.tail.pin().move_to(state.position);
        Ok(())
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
        let state = |generation| State { generation, position: generation * 100, ..State::default() };
        (1..=4).for_each(|generation| state(generation).write(&*file).unwrap());
        assert_eq!(State::read(&*file).unwrap(), Some(state(4)));
        file.write_all_at(&[IoSlice::new(&[0xff])], 20).unwrap();
        assert_eq!(State::read(&*file).unwrap(), Some(state(3)));
        state(4).write(&*file).unwrap();
        file.write_all_at(&[IoSlice::new(&[0xff])], COPY_BYTES + 50).unwrap();
        assert_eq!(State::read(&*file).unwrap(), Some(state(4)));
    }

    #[test]
    fn names_stay_in_the_directory() {
        for bad in ["", ".", "../x", "a/b", "a b", &"x".repeat(65)] {
            assert!(path(Path::new("/j"), bad).is_err(), "{bad}");
        }
        assert_eq!(path(Path::new("/j"), "peer.example").unwrap(), Path::new("/j/peer.example.cursor"));
    }
}
