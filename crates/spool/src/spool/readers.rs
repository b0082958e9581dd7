//! Reading the journal while it is written: for feeds, and whatever else follows what happens to articles.

use super::Spool;
use crate::base::status::ReaderStatus;
use crate::journal::{Cursor, Deferrals, Mark, Pin, Start, Tail};
use std::io;

impl Spool {
    /// A reader of the journal that is forgotten when it ends. `name` is for [`Spool::journal_readers`].
    pub fn tail(&self, name: &str, start: Start) -> io::Result<Tail> {
        self.readers.tail(self.pin(name)?, start)
    }

    /// The durable reader of the journal of this name, which goes on where it was when last saved; a new
    /// one begins at `start`. It claims the journal until [`Spool::remove_cursor`]. Nobody else may be
    /// reading with it.
    pub fn cursor(&self, name: &str, start: Start) -> io::Result<Cursor> {
        let _claim = self.pin(name)?;
        self.readers.cursor(name, start)
    }

    /// Where the journal ends now, or where its oldest row is, for [`Cursor::seek`].
    pub fn journal_mark(&self, start: Start) -> io::Result<Mark> {
        let _claim = self.pin("mark")?;
        self.readers.place_of(start)
    }

    /// Where the journal ended after the last commit: rows of later commits lie after it. Takes no lock of
    /// the writer, and is kept up to date as long as some reader of the journal is open.
    pub fn journal_end(&self) -> Mark {
        let (position, sequence) = self.readers.follow().end();
        Mark { position, sequence: Some(sequence) }
    }

    /// The articles that the durable reader of this name has put off; at most one handle at a time.
    pub fn deferrals(&self, name: &str) -> io::Result<Deferrals> {
        self.readers.deferrals(name)
    }

    /// Removes a cursor and its claim; false if there is none of this name.
    pub fn remove_cursor(&self, name: &str) -> io::Result<bool> {
        self.readers.remove_cursor(name)
    }

    /// Where the readers of the journal are, and what they lost.
    pub fn journal_readers(&self) -> Vec<ReaderStatus> {
        self.readers.status()
    }

    /// A claim on the whole journal, which may be read up to its end from now on.
    fn pin(&self, name: &str) -> io::Result<Pin> {
        let pin = self.readers.pin(name)?;
        let writer = self.writer.lock();
        writer.journal.reveal(writer.folds.next_sequence);
        Ok(pin)
    }
}
