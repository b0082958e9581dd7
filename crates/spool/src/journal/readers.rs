//! Creates the tails and cursors of an open journal.

use super::cursor::{self, Cursor};
use super::deferred::Deferrals;
use super::follow::{Claim, Follow, Pin};
use super::mark::Mark;
use super::tail::{Start, Tail};
use super::writer::SyncSet;
use super::{JournalReader, JournalWriter, row};
use crate::base::status::ReaderStatus;
use crate::disk::Disk;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What readers of the journal need of it.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    follow: Arc<Follow>,
    set: Arc<SyncSet>,
    /// Rows that were not durable may be others now.
    power_lost: bool,
}

impl Readers {
    pub fn of(journal: &JournalWriter, power_lost: bool) -> Self {
        let (disk, dir) = journal.place();
        let (follow, set) = (journal.follow().clone(), journal.sync_set().clone());
        Self { disk: disk.clone(), dir: dir.to_owned(), follow, set, power_lost }
    }

    /// What readers share with the writer.
    pub fn follow(&self) -> &Arc<Follow> {
        &self.follow
    }

    /// A claim on all there is of the journal, for a reader that is about to begin. The caller lets the
    /// writer reveal what it has written after this, so that the reader may begin anywhere up to there.
    pub fn pin(&self, name: &str) -> io::Result<Pin> {
        Pin::new(&self.follow, self.follow.add(Claim::new(name, false, 0))?)
    }

    /// A reader that begins at `start`, with this claim.
    pub fn tail(&self, pin: Pin, start: Start) -> io::Result<Tail> {
        let Mark { position, sequence } = self.place_of(start)?;
        pin.move_to(position);
        Ok(Tail::new(&self.disk, &self.dir, &self.follow, pin, sequence))
    }

    /// The durable reader of this name; a new one begins at `start`.
    pub fn cursor(&self, name: &str, start: Start) -> io::Result<Cursor> {
        let start = self.place_of(start)?;
        Cursor::open(&self.disk, &self.dir, (&self.follow, &self.set), (name, self.power_lost), start)
    }

    /// The articles that the durable reader of this name has put off.
    pub fn deferrals(&self, name: &str) -> io::Result<Deferrals> {
        Deferrals::open(&self.disk, &self.dir, name)
    }

    /// Where a new reader begins.
    pub fn place_of(&self, start: Start) -> io::Result<Mark> {
        let (end, next) = self.follow.end();
        if start == Start::Now {
            return Ok(Mark { position: end, sequence: Some(next) });
        }
        loop {
            match self.oldest(end) {
                // A checkpoint that was taken before this reader came has just removed the file.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                oldest => {
                    let (position, sequence) = oldest?;
                    return Ok(Mark { position, sequence: sequence.or(Some(next)) });
                }
            }
        }
    }

    /// Position of the oldest row that is kept, and the sequence number of the first article from there up to
    /// `end`, if there is one.
    fn oldest(&self, end: u64) -> io::Result<(u64, Option<u64>)> {
        let oldest = JournalReader::open(&self.disk, &self.dir, None)?.oldest().unwrap_or_default();
        let mut reader = JournalReader::open_to(&self.disk, &self.dir, oldest, end)?;
        while let Some((_, payload)) = reader.next()? {
            if let Some(sequence) = row::sequence_of(payload) {
                return Ok((oldest, Some(sequence)));
            }
        }
        Ok((oldest, None))
    }

    /// Removes a durable reader; false if there is none of this name.
    pub fn remove_cursor(&self, name: &str) -> io::Result<bool> {
        let removed = cursor::remove(&*self.disk, &self.dir, &self.follow, name)?;
        Deferrals::remove(&*self.disk, &self.dir, name)?;
        Ok(removed)
    }

    /// How all readers stand.
    pub fn status(&self) -> Vec<ReaderStatus> {
        self.follow.status()
    }
}
