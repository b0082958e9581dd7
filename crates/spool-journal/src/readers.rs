//! Creates the tails and cursors of an open journal.

use super::JournalWriter;
use super::context::ReaderContext;
use super::cursor::{self, Cursor};
use super::deferred::Deferrals;
use super::follow::{JournalClaim, Pin};
use super::mark::JournalMark;
use super::tail::{Tail, TailStart};
use disk::is_set_aside;
use spool_base::status::{CursorDamage, ReaderStatus};
use std::io;

/// The readers of an open journal.
#[derive(Debug, Clone)]
pub struct Readers {
    context: ReaderContext,
}

/// Damage of a file that belongs to readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReaderDamage {
    /// Cursor of this name.
    Cursor(String, CursorDamage),
    /// Deferred articles of the reader of this name.
    Deferred(String),
    /// Names of the readers' files.
    Names,
    /// Name of a damaged file that was set aside.
    SetAside(String),
}

impl Readers {
    /// Returns the readers of this journal, after a power cut, or a crash of the program, or neither.
    pub fn of(journal: &JournalWriter, power_lost: bool, crashed: bool) -> Self {
        let (disk, dir) = journal.place();
        let (follow, set) = (journal.follow().clone(), journal.sync_set().clone());
        let known = journal.known().clone();
        let (disk, dir) = (disk.clone(), dir.to_owned());
        Self { context: ReaderContext { disk, dir, follow, set, known, power_lost, crashed } }
    }

    /// Returns the position up to which rows may be read, and the sequence number of the next article.
    pub fn end(&self) -> (u64, u64) {
        self.context.follow.end()
    }

    /// Records that no row will follow, which wakes all who wait for one.
    pub fn close(&self) {
        self.context.follow.close();
    }

    /// Claims the whole existing journal for a reader that is about to begin. The caller then lets the writer
    /// reveal what it has written, so that the reader may begin anywhere up to there.
    pub fn pin(&self, name: &str) -> io::Result<Pin> {
        Pin::new(&self.context.follow, self.context.follow.add(JournalClaim::new(name, false, 0))?)
    }

    /// Creates a reader that begins at `start`, with this claim.
    pub fn tail(&self, pin: Pin, start: TailStart) -> io::Result<Tail> {
        let JournalMark { position, sequence } = self.place_of(start)?;
        pin.move_to(position);
        Ok(Tail::new(&self.context.disk, &self.context.dir, &self.context.follow, pin, sequence))
    }

    /// Opens the durable reader of this name; a new one begins at `start`.
    pub fn cursor(&self, name: &str, start: TailStart) -> io::Result<Cursor> {
        Cursor::open(&self.context, name, start)
    }

    /// Opens the articles that the durable reader of this name has put off.
    pub fn deferrals(&self, name: &str) -> io::Result<Deferrals> {
        Deferrals::open(&self.context, name)
    }

    /// Returns the mark at which a new reader begins.
    pub fn place_of(&self, start: TailStart) -> io::Result<JournalMark> {
        self.context.place_of(start)
    }

    /// Removes a durable reader; returns false if it does not exist.
    pub fn remove_cursor(&self, name: &str) -> io::Result<bool> {
        let removed = cursor::remove(&self.context, name)?;
        Deferrals::remove(&self.context, name)?;
        Ok(removed)
    }

    /// Returns the status of all readers.
    pub fn status(&self) -> Vec<ReaderStatus> {
        self.context.follow.status()
    }

    /// Returns the damaged files of readers.
    pub fn damaged(&self) -> io::Result<Vec<ReaderDamage>> {
        let mut damaged = Vec::new();
        if !self.context.known.is_whole() {
            damaged.push(ReaderDamage::Names);
        }
        damaged.extend(
            cursor::damaged(&self.context)?.into_iter().map(|(name, what)| ReaderDamage::Cursor(name, what)),
        );
        for name in self.context.follow.cursors().iter().map(|claim| &claim.name) {
            if Deferrals::is_damaged(&self.context, name)? {
                damaged.push(ReaderDamage::Deferred(name.clone()));
            }
        }
        let aside = self.context.disk.list(&self.context.dir)?.into_iter().filter(|name| is_set_aside(name));
        damaged.extend(aside.map(ReaderDamage::SetAside));
        Ok(damaged)
    }

    /// Repairs the file of a cursor.
    pub fn mend_cursor(&self, name: &str) -> io::Result<()> {
        cursor::mend(&self.context, name)
    }

    /// Rewrites the file with the names.
    pub fn mend_names(&self) -> io::Result<()> {
        self.context.known.mend()
    }
}
