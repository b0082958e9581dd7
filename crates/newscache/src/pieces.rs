//! Large articles read: files of records with a piece of the article each, passed on one after the other.
//!
//! Written by `large`; called by `group`, `large` and `verify`. Format: `docs/formats/cache.md`.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use spool::{DiskFile, Patience};

use crate::bookkeeping::File;
use crate::cache::Cache;
use crate::record::{self, HEADER_BYTES, Kind, hash};

/// Bytes of an article in one record.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

impl Cache {
    /// A large article, to be read. The first time since the start all of it is checked before, so that a
    /// damaged one is fetched again instead of breaking off; `None`: there is none.
    pub(crate) fn open_large(
        &self,
        id: &[u8],
        patience: Patience,
        now: u64,
    ) -> io::Result<Option<LargeReader>> {
        let hash = hash(&[id]);
        let file = File::Large(hash);
        let (unit, is_checked) = {
            let books = self.0.books.lock();
            let Some(unit) = books.large(hash) else { return Ok(None) };
            (unit, books.is_checked(unit, file))
        };
        if !is_checked && patience == Patience::CacheOnly {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let opened = self.0.open_file(unit, file, patience).and_then(|open| {
            let is_whole = is_checked || read_pieces(&*open, id, |_| {})?;
            Ok(is_whole.then_some(open))
        });
        let Some(open) = record::readable(opened)?.flatten() else {
            self.0.drop_damaged(unit, file);
            return Ok(None);
        };
        {
            let mut books = self.0.books.lock();
            books.set_checked(unit, file);
            books.hit(unit, file, now);
        }
        let pieces = Pieces::default();
        Ok(Some(LargeReader { cache: self.clone(), unit, name: file, id: id.to_vec(), open, pieces }))
    }
}

/// A large article that is being read, piece by piece. It can be read to its end even if it leaves the cache
/// meanwhile.
#[derive(Debug)]
pub struct LargeReader {
    cache: Cache,
    unit: u32,
    name: File,
    id: Vec<u8>,
    open: Arc<dyn DiskFile>,
    pieces: Pieces,
}

impl LargeReader {
    /// Appends more of it, at most 128 KiB; false: that was all.
    ///
    /// # Errors
    /// Those of the disk; without patience `WouldBlock` if it must be waited for; `InvalidData` if the rest
    /// is damaged.
    pub fn next(&mut self, patience: Patience, into: &mut Vec<u8>) -> io::Result<bool> {
        let taken = self.pieces.step(&*self.open, &self.id, patience, |piece| into.extend_from_slice(piece));
        match record::readable(taken)? {
            Some(Step::More) => Ok(true),
            Some(Step::End) => Ok(false),
            Some(Step::Damaged) | None => {
                self.cache.0.drop_damaged(self.unit, self.name);
                Err(io::Error::new(io::ErrorKind::InvalidData, "an article in the cache is damaged"))
            }
        }
    }

    /// Appends as much of it as has all of its head; false: that was all of it.
    ///
    /// # Errors
    /// Those of [`LargeReader::next`].
    pub fn read_head(&mut self, patience: Patience, into: &mut Vec<u8>) -> io::Result<bool> {
        let start = into.len();
        while self.next(patience, into)? {
            if memchr::memmem::find(into.get(start..).unwrap_or_default(), b"\r\n\r\n").is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many bytes the article has, but for what a few pieces are rounded up.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn bytes(&self) -> io::Result<u64> {
        let record = (PIECE_BYTES + HEADER_BYTES) as u64;
        let len = self.open.len()?;
        Ok(len - len.div_ceil(record) * HEADER_BYTES as u64)
    }
}

/// How far the pieces of a file have been read.
#[derive(Debug, Default)]
struct Pieces {
    at: u64,
    count: u64,
    has_head: bool,
}

/// What a step through the pieces of a file has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    More,
    End,
    Damaged,
}

/// Bytes that are read in one step: two pieces, and room for what the first record says.
const STEP_BUFFER_BYTES: usize = 2 * (PIECE_BYTES + HEADER_BYTES) + 4096;

thread_local! {
    /// Kept from one read to the next.
    static STEP_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Pieces {
    /// Reads on, and passes on what is whole.
    fn step(
        &mut self,
        file: &dyn DiskFile,
        id: &[u8],
        patience: Patience,
        each: impl FnMut(&[u8]),
    ) -> io::Result<Step> {
        STEP_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(STEP_BUFFER_BYTES, 0);
            let read = record::read_patiently(file, buffer, self.at, patience)?;
            Ok(self.take(buffer.get(..read).unwrap_or_default(), id, each))
        })
    }

    fn take(&mut self, mut rest: &[u8], id: &[u8], mut each: impl FnMut(&[u8])) -> Step {
        let before = self.at;
        while let Some((record, taken)) = record::parse(rest) {
            match record.kind {
                Kind::Head if self.at == 0 && record.id == id => self.has_head = true,
                Kind::Piece if self.has_head && record.number == self.count => {
                    each(record.payload);
                    self.count += 1;
                }
                Kind::End if self.has_head && record.number == self.count => return Step::End,
                _ => return Step::Damaged,
            }
            self.at += taken as u64;
            rest = rest.get(taken..).unwrap_or_default();
        }
        if self.at == before { Step::Damaged } else { Step::More }
    }
}

/// Passes on the pieces of a file; false if it is damaged, or another article's.
pub(crate) fn read_pieces(file: &dyn DiskFile, id: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<bool> {
    let mut pieces = Pieces::default();
    loop {
        match pieces.step(file, id, Patience::Wait, &mut each)? {
            Step::More => {}
            end => return Ok(end == Step::End),
        }
    }
}
