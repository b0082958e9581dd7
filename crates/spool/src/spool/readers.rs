//! Reading the journal while it is written, for feeds and other followers of events.

use crate::write::locked::LockedWriter;
use spool_base::status::ReaderStatus;
use spool_journal::{Cursor, Deferrals, JournalMark, Pin, Readers, Tail, TailStart};
use std::io;

/// The journal of an open spool, for readers.
#[derive(Debug, Clone, Copy)]
pub struct JournalReaders<'s> {
    readers: &'s Readers,
    writer: &'s LockedWriter,
}

impl<'s> JournalReaders<'s> {
    pub(crate) fn new(readers: &'s Readers, writer: &'s LockedWriter) -> Self {
        Self { readers, writer }
    }

    /// Opens a reader of the journal that is forgotten when it ends. `name` is for
    /// [`JournalReaders::status`].
    pub fn tail(&self, name: &str, start: TailStart) -> io::Result<Tail> {
        self.readers.tail(self.pin(name)?, start)
    }

    /// Opens the durable reader of the journal of this name, which continues where it was when last saved; a
    /// new one begins at `start`. It claims the journal until [`JournalReaders::remove_cursor`]. A reader can
    /// be open only once.
    pub fn cursor(&self, name: &str, start: TailStart) -> io::Result<Cursor> {
        let _claim = self.pin(name)?;
        self.readers.cursor(name, start)
    }

    /// Returns the current end of the journal, or its oldest row, for [`Cursor::seek`].
    pub fn mark(&self, start: TailStart) -> io::Result<JournalMark> {
        let _claim = self.pin("mark")?;
        self.readers.place_of(start)
    }

    /// Returns the end of the journal after the last commit: rows of later commits lie after it. Takes no
    /// lock of the writer, and is kept up to date as long as some reader of the journal is open.
    pub fn end(&self) -> JournalMark {
        let (position, sequence) = self.readers.end();
        JournalMark { position, sequence: Some(sequence) }
    }

    /// Opens the articles that the durable reader of this name has put off; at most one handle at a time.
    pub fn deferrals(&self, name: &str) -> io::Result<Deferrals> {
        self.readers.deferrals(name)
    }

    /// Removes a cursor and its claim; returns false if it does not exist.
    pub fn remove_cursor(&self, name: &str) -> io::Result<bool> {
        self.readers.remove_cursor(name)
    }

    /// Returns the positions and losses of the journal's readers.
    pub fn status(&self) -> Vec<ReaderStatus> {
        self.readers.status()
    }

    /// Claims the whole journal, which may be read up to its end from now on.
    pub(super) fn pin(&self, name: &str) -> io::Result<Pin> {
        let pin = self.readers.pin(name)?;
        let writer = self.writer.lock();
        writer.journal.reveal(writer.folds.next_sequence);
        Ok(pin)
    }
}
