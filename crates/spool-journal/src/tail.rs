//! [`Tail`]: reads the journal while it is written, for feeds and other followers of events.
//!
//! A tail returns rows in order, each once, from a position on; it waits for more without polling, in a
//! thread ([`Tail::wait`]) or a task ([`Tail::poll_rows`]). Between two batches no file stays open, except
//! for a reader that keeps up ([`Tail::kept_open`]), so that a slow reader holds no disk space beyond its
//! claim. If rows were removed before they were read, or cannot be read, the tail resumes after them and
//! counts the missing articles by their sequence numbers, which have no gaps.

use super::follow::{FollowState, Pin};
use super::mark::JournalMark;
use super::{ArticleRow, JournalReader, JournalRow, row};
use disk::Disk;
use spool_base::ids::GroupFlag;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Bytes of rows that fill a batch.
const BATCH_BYTES_MAX: usize = 1 << 18;

/// An event recorded in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalEvent<'a> {
    /// An article was accepted. It may have been removed since.
    Article(ArticleRow<'a>),
    /// A Message-ID is remembered without an article.
    Remembered {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Arrival time in Unix seconds.
        arrived: u32,
    },
    /// An article was cancelled.
    Cancelled {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Token of the article.
        token: Token,
    },
    /// An article was due, and was removed with all its numbers.
    Expired {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Token of the article.
        token: Token,
    },
    /// A group was created or changed, or is unchanged: each journal file begins with all groups.
    Group {
        /// Name of the group.
        name: String,
        /// Current flag.
        flag: GroupFlag,
    },
    /// A group was removed.
    GroupRemoved {
        /// Name of the group.
        name: String,
    },
}

impl<'a> JournalEvent<'a> {
    /// Converts a row; `None` for rows that only the journal itself needs.
    fn of(row: JournalRow<'a>) -> Option<Self> {
        Some(match row {
            JournalRow::Article(article) => Self::Article(article),
            JournalRow::Remember { key, arrived } => Self::Remembered { key, arrived },
            JournalRow::Cancel { key, token, .. } => Self::Cancelled { key, token },
            JournalRow::Expire { key, token, gone: true, .. } => Self::Expired { key, token },
            JournalRow::Group(group) => Self::Group { name: group.name, flag: group.flag },
            JournalRow::GroupRemoved { name, .. } => Self::GroupRemoved { name },
            _ => return None,
        })
    }
}

/// Consecutive rows, in memory that is reused for the next ones.
#[derive(Debug, Default)]
pub struct JournalBatch {
    bytes: Vec<u8>,
    rows: Vec<(u64, Range<usize>)>,
}

impl JournalBatch {
    /// Returns the events with their positions, in order.
    pub fn events(&self) -> impl Iterator<Item = (u64, JournalEvent<'_>)> {
        self.rows.iter().filter_map(|(position, range)| {
            let row = JournalRow::decode(self.bytes.get(range.clone())?)?;
            Some((*position, JournalEvent::of(row)?))
        })
    }

    /// Reports whether there was no row to read.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets the events, keeping the memory.
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

/// Position at which the tail of a reader without a cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailStart {
    /// Current end of the journal.
    Now,
    /// Oldest row that is kept.
    Oldest,
}

/// A reader of the journal.
#[derive(Debug)]
pub struct Tail {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    follow: Arc<FollowState>,
    pin: Pin,
    position: u64,
    /// Sequence number of the next article, if known.
    sequence: Option<u64>,
    /// Whether rows were lost since the last article.
    after_loss: bool,
    /// Whether the claim follows the position.
    moves_pin: bool,
    /// Whether the file stays open for the next batch.
    keeps_open: bool,
    /// Reader at `position`, if a file is open.
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
        follow: &Arc<FollowState>,
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

    /// Returns this tail for a reader that keeps up: the current file stays open between batches.
    #[must_use]
    pub fn kept_open(self) -> Self {
        Self { keeps_open: true, ..self }
    }

    /// Returns this tail for a cursor, which moves the claim itself.
    pub(super) fn of_cursor(self) -> Self {
        Self { moves_pin: false, ..self }
    }

    /// Moves to another mark, which must be between two rows.
    pub(super) fn seek(&mut self, mark: JournalMark) {
        (self.position, self.sequence, self.after_loss) = (mark.position, mark.sequence, false);
    }

    /// Returns the mark after the rows returned so far.
    pub fn mark(&self) -> JournalMark {
        JournalMark { position: self.position, sequence: self.sequence }
    }

    /// Returns the position of the next batch.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the bytes of rows that may be read now.
    pub fn unread_bytes(&self) -> u64 {
        self.follow.revealed().saturating_sub(self.position)
    }

    /// Returns the reader's claim, with its losses.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Returns the expected sequence number of the next article.
    pub(super) fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Reports whether all rows have been read and the spool is closed, so that none will follow.
    pub fn is_ended(&self) -> bool {
        self.follow.is_closed() && self.position >= self.follow.revealed()
    }

    /// Reads the next rows; leaves the batch empty if there are none yet.
    pub fn next(&mut self, batch: &mut JournalBatch) -> io::Result<()> {
        batch.clear();
        let (limit, sequence) = self.follow.end();
        while batch.is_empty() && self.position < limit {
            match self.read(limit, batch) {
                // A file was removed just before it was opened.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                read => read?,
            }
        }
        if self.position >= limit {
            // No later article will show how many were lost.
            self.settle_loss(sequence);
        }
        if self.moves_pin {
            self.pin.move_to(self.position);
        }
        Ok(())
    }

    /// Skips all available rows, unless one of them may be of an article that goes to a site. Returns whether
    /// they were skipped.
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

    /// Reads rows, skipping unreadable ones.
    fn read(&mut self, limit: u64, batch: &mut JournalBatch) -> io::Result<()> {
        let mut reader = match self.reader.take().filter(|reader| reader.position() == self.position) {
            Some(mut reader) => {
                reader.extend_to(limit);
                reader
            }
            None => return self.read_anew(limit, batch),
        };
        self.take_rows(&mut reader, batch)?;
        self.position = self.position.max(reader.position());
        // Otherwise the file has ended, and the next one is opened.
        if !batch.is_empty() {
            self.reader = Some(reader);
        }
        Ok(())
    }

    /// Reads rows after opening the file.
    fn read_anew(&mut self, limit: u64, batch: &mut JournalBatch) -> io::Result<()> {
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

    fn take_rows(&mut self, reader: &mut JournalReader, batch: &mut JournalBatch) -> io::Result<()> {
        while batch.bytes.len() < BATCH_BYTES_MAX
            && let Some((position, payload)) = reader.next_row()?
        {
            if let Some(sequence) = row::sequence_of(payload) {
                self.settle_loss(sequence);
                self.sequence = Some(sequence + 1);
            }
            batch.push(position, payload);
        }
        Ok(())
    }

    /// Counts the articles lost before the one with this sequence number.
    fn settle_loss(&mut self, sequence: u64) {
        if std::mem::take(&mut self.after_loss) {
            let expected = self.sequence.unwrap_or(sequence);
            self.pin.count_lost(0, sequence.saturating_sub(expected));
            self.sequence = Some(sequence);
        }
    }

    /// Returns `Ready` once there are rows to read, or the spool is closed; otherwise the task is woken then.
    /// Only the last task that polled is woken.
    pub fn poll_rows(&self, context: &Context<'_>) -> Poll<()> {
        self.pin.poll(self.position, context)
    }

    /// Blocks this thread until there are rows to read or the spool is closed; returns false on timeout.
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
