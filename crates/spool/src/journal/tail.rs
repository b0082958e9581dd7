//! [`Tail`]: reads the journal while it is written, for feeds and whatever else follows what happens to
//! articles.
//!
//! A tail returns rows in order, each once, from a position on; it waits for more without polling, in a
//! thread ([`Tail::wait`]) or a task ([`Tail::poll_rows`]). No file stays open between two batches, so that
//! a slow reader holds no disk space beyond its claim, but for one that keeps up ([`Tail::kept_open`]). Where
//! rows were removed before it read them, or cannot be read, it resumes after them and counts what is
//! missing: articles by their sequence numbers, which have no gaps.

use super::follow::{Follow, Pin};
use super::mark::Mark;
use super::{ArticleRow, JournalReader, Row, row};
use crate::base::ids::Flag;
use crate::base::key::Key;
use crate::base::token::Token;
use disk::Disk;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A batch is full with so many bytes of rows.
const BATCH_BYTES_MAX: usize = 1 << 18;

/// What happened, as a row of the journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// An article was accepted. It may be gone by now.
    Article(ArticleRow<'a>),
    /// A Message-ID is remembered without an article.
    Remembered {
        /// Hash of the Message-ID.
        key: Key,
        /// Unix seconds.
        arrived: u32,
    },
    /// An article was cancelled.
    Cancelled {
        /// Hash of its Message-ID.
        key: Key,
        /// Where it was.
        token: Token,
    },
    /// An article was due, and is gone under all its numbers.
    Expired {
        /// Hash of its Message-ID.
        key: Key,
        /// Where it was.
        token: Token,
    },
    /// A group was made or changed, or is as it was: each journal file begins with all groups.
    Group {
        /// Its name.
        name: String,
        /// Its flag now.
        flag: Flag,
    },
    /// A group was removed.
    GroupRemoved {
        /// Its name.
        name: String,
    },
}

impl<'a> Event<'a> {
    /// `None` for rows that only the journal itself needs.
    fn of(row: Row<'a>) -> Option<Self> {
        Some(match row {
            Row::Article(article) => Self::Article(article),
            Row::Remember { key, arrived } => Self::Remembered { key, arrived },
            Row::Cancel { key, token, .. } => Self::Cancelled { key, token },
            Row::Expire { key, token, gone: true, .. } => Self::Expired { key, token },
            Row::Group(group) => Self::Group { name: group.name, flag: group.flag },
            Row::GroupRemoved { name, .. } => Self::GroupRemoved { name },
            _ => return None,
        })
    }
}

/// Rows that follow one another; memory that is used again for the next ones.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    rows: Vec<(u64, Range<usize>)>,
}

impl Batch {
    /// The events with their positions, in order.
    pub fn events(&self) -> impl Iterator<Item = (u64, Event<'_>)> {
        self.rows.iter().filter_map(|(position, range)| {
            let row = Row::decode(self.bytes.get(range.clone())?)?;
            Some((*position, Event::of(row)?))
        })
    }

    /// Whether there was no row to read.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets the events; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    fn push(&mut self, position: u64, payload: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.rows.push((position, start..self.bytes.len()));
    }
}

/// Where the tail of a reader without a cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With what happens from now on.
    Now,
    /// With the oldest row that is kept.
    Oldest,
}

/// A reader of the journal.
#[derive(Debug)]
pub struct Tail {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    follow: Arc<Follow>,
    pin: Pin,
    position: u64,
    /// Sequence number of the next article, if known.
    sequence: Option<u64>,
    /// Rows were lost since the last article.
    after_loss: bool,
    /// The claim follows what was read.
    moves_pin: bool,
    /// What it has read keeps its file open for the next batch.
    keeps_open: bool,
    /// At `position`, if a file is open.
    reader: Option<JournalReader>,
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Tail {
    pub(super) fn new(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        follow: &Arc<Follow>,
        pin: Pin,
        sequence: Option<u64>,
    ) -> Self {
        let (position, follow) = (pin.position(), follow.clone());
        let (disk, dir) = (disk.clone(), dir.to_owned());
        Self {
            disk,
            dir,
            follow,
            pin,
            position,
            sequence,
            after_loss: false,
            moves_pin: true,
            keeps_open: false,
            reader: None,
        }
    }

    /// The same for a reader that keeps up: the file that is being written is not looked for each time.
    #[must_use]
    pub fn kept_open(self) -> Self {
        Self { keeps_open: true, ..self }
    }

    /// The same for a cursor, which moves the claim itself.
    pub(super) fn of_cursor(self) -> Self {
        Self { moves_pin: false, ..self }
    }

    /// Continues at another place, which must be between two rows.
    pub(super) fn seek(&mut self, mark: Mark) {
        (self.position, self.sequence, self.after_loss) = (mark.position, mark.sequence, false);
    }

    /// After the rows returned so far.
    pub fn mark(&self) -> Mark {
        Mark { position: self.position, sequence: self.sequence }
    }

    /// Where the next batch begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of rows that it may read now.
    pub fn unread_bytes(&self) -> u64 {
        self.follow.revealed().saturating_sub(self.position)
    }

    /// What is claimed for this reader, and what it lost.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Sequence number that the next article should have.
    pub(super) fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Whether all has been read, and nothing will follow since the spool is closed.
    pub fn is_ended(&self) -> bool {
        self.follow.is_closed() && self.position >= self.follow.revealed()
    }

    /// Reads the next rows; none if there are none yet.
    pub fn next(&mut self, batch: &mut Batch) -> io::Result<()> {
        batch.clear();
        let (limit, sequence) = self.follow.end();
        while batch.is_empty() && self.position < limit {
            match self.read(limit, batch) {
                // A file was removed while it was looked for.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                read => read?,
            }
        }
        if self.position >= limit {
            // No article follows that would show how many were lost.
            self.settle_loss(sequence);
        }
        if self.moves_pin {
            self.pin.move_to(self.position);
        }
        Ok(())
    }

    /// Passes over all rows there are, unless one of them may be of an article that goes to a site; whether
    /// it did.
    pub fn pass_over_unsent(&mut self) -> bool {
        let (limit, sequence) = self.follow.end();
        if self.after_loss || limit <= self.position || self.follow.sent() > self.position {
            return false;
        }
        (self.position, self.sequence) = (limit, Some(sequence));
        if self.moves_pin {
            self.pin.move_to(self.position);
        }
        true
    }

    /// Reads rows, or skips what cannot be read.
    fn read(&mut self, limit: u64, batch: &mut Batch) -> io::Result<()> {
        let mut reader = match self.reader.take().filter(|reader| reader.position() == self.position) {
            Some(mut reader) => {
                reader.extend_to(limit);
                reader
            }
            None => return self.read_anew(limit, batch),
        };
        self.take_rows(&mut reader, batch)?;
        self.position = self.position.max(reader.position());
        // Else its file has ended, and the next one is looked for.
        if !batch.is_empty() {
            self.reader = Some(reader);
        }
        Ok(())
    }

    /// The same, where no file is open.
    fn read_anew(&mut self, limit: u64, batch: &mut Batch) -> io::Result<()> {
        let mut reader = JournalReader::open_to(&self.disk, &self.dir, self.position, limit)?;
        self.take_rows(&mut reader, batch)?;
        if reader.is_open() {
            self.position = self.position.max(reader.position());
        }
        if batch.is_empty() && self.position < limit {
            let next = reader.start_after(self.position).filter(|start| *start < limit).unwrap_or(limit);
            self.pin.count_lost(next - self.position, 0);
            (self.position, self.after_loss) = (next, true);
        } else if self.keeps_open {
            self.reader = Some(reader);
        }
        Ok(())
    }

    fn take_rows(&mut self, reader: &mut JournalReader, batch: &mut Batch) -> io::Result<()> {
        while batch.bytes.len() < BATCH_BYTES_MAX
            && let Some((position, payload)) = reader.next()?
        {
            if let Some(sequence) = row::sequence_of(payload) {
                self.settle_loss(sequence);
                self.sequence = Some(sequence + 1);
            }
            batch.push(position, payload);
        }
        Ok(())
    }

    /// Counts the articles that were lost before the one with this sequence number.
    fn settle_loss(&mut self, sequence: u64) {
        if std::mem::take(&mut self.after_loss) {
            let expected = self.sequence.unwrap_or(sequence);
            self.pin.count_lost(0, sequence.saturating_sub(expected));
            self.sequence = Some(sequence);
        }
    }

    /// Ready once there are rows to read, or the spool is closed; else the task is woken then. Only the task
    /// that polled last is.
    pub fn poll_rows(&self, context: &Context<'_>) -> Poll<()> {
        self.pin.poll(self.position, context)
    }

    /// Waits in this thread until there are rows to read or the spool is closed; false if neither happened
    /// in time.
    pub fn wait(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if self.poll_rows(&Context::from_waker(&waker)).is_ready() {
                return true;
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            std::thread::park_timeout(left);
        }
    }
}
