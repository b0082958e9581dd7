//! Reading of large articles: files of records with a piece of the article each, read one after the other.
//!
//! Written by `large`; called by `group`, `large` and `verify`. Format: `docs/formats/cache.md`.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use disk::{DiskFile, ReadMode};

use crate::base::record::{self, HEADER_BYTES, RecordKind};
use crate::books::bookkeeping::CacheFile;
use crate::cache::Cache;

/// Maximum size of the piece in one record, in bytes.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

impl Cache {
    /// Opens a large article whose Message-ID has this hash. The first time since the start all of it is
    /// checked in advance, so that a damaged one is fetched again instead of breaking off; returns `None` if
    /// there is none.
    pub(crate) fn open_large(
        &self,
        id: &[u8],
        hash: u128,
        patience: ReadMode,
        now: u64,
    ) -> io::Result<Option<LargeReader>> {
        let file = CacheFile::Large(hash);
        let (unit, is_checked) = {
            let books = self.0.books.lock();
            let Some(unit) = books.large(hash) else { return Ok(None) };
            (unit, books.is_checked(unit, file))
        };
        if !is_checked && patience == ReadMode::CacheOnly {
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
        if !is_checked {
            self.0.books.lock().set_checked(unit, file);
        }
        self.0.hit(unit, file, now);
        let (cache, id, buffer) = (self.clone(), id.to_vec(), SPARE.take());
        let (pieces, found) = Default::default();
        Ok(Some(LargeReader { cache, unit, name: file, id, open, pieces, buffer, found }))
    }
}

/// A large article that is being read, piece by piece. It can be read to its end even if it is removed from
/// the cache meanwhile.
#[derive(Debug)]
pub struct LargeReader {
    cache: Cache,
    unit: u32,
    name: CacheFile,
    id: Vec<u8>,
    open: Arc<dyn DiskFile>,
    pieces: PieceReader,
    buffer: Vec<u8>,
    /// Ranges of the last pieces read, in the buffer.
    found: [Range<usize>; PIECES_PER_STEP],
}

thread_local! {
    /// Buffer of a finished reader, for the next one.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for LargeReader {
    fn drop(&mut self) {
        if !self.buffer.is_empty() {
            SPARE.set(std::mem::take(&mut self.buffer));
        }
    }
}

impl LargeReader {
    /// Reads at most 128 KiB more; returns false at the end.
    ///
    /// # Errors
    /// Errors of the disk; without patience `WouldBlock` if the disk must be waited for; `InvalidData` if the
    /// rest is damaged.
    pub fn read(&mut self, patience: ReadMode) -> io::Result<bool> {
        let step = self.pieces.step(&*self.open, &self.id, patience, &mut self.buffer);
        let Some(step) = record::readable(step)?.filter(|step| step.end != PieceEnd::Damaged) else {
            self.cache.0.drop_damaged(self.unit, self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an article in the cache is damaged"));
        };
        self.found = step.pieces;
        Ok(step.end == PieceEnd::NotYet)
    }

    /// Returns the last pieces read.
    pub fn parts(&self) -> [&[u8]; PIECES_PER_STEP] {
        self.found.each_ref().map(|range| self.buffer.get(range.clone()).unwrap_or_default())
    }

    /// Reads more of the article and appends it; returns false at the end.
    ///
    /// # Errors
    /// Like [`LargeReader::read`].
    pub fn next(&mut self, patience: ReadMode, into: &mut Vec<u8>) -> io::Result<bool> {
        let has_more = self.read(patience)?;
        self.parts().iter().for_each(|part| into.extend_from_slice(part));
        Ok(has_more)
    }

    /// Appends pieces until they contain all of its head; returns false if that was the whole article.
    ///
    /// # Errors
    /// Like [`LargeReader::read`].
    pub fn read_head(&mut self, patience: ReadMode, into: &mut Vec<u8>) -> io::Result<bool> {
        let start = into.len();
        while self.next(patience, into)? {
            if memchr::memmem::find(into.get(start..).unwrap_or_default(), b"\r\n\r\n").is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the size of the article in bytes, except for the rounding of a few pieces.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn bytes(&self) -> io::Result<u64> {
        let record = (PIECE_BYTES + HEADER_BYTES) as u64;
        let len = self.open.len()?;
        Ok(len - len.div_ceil(record) * HEADER_BYTES as u64)
    }
}

/// Progress of reading the pieces of a file.
#[derive(Debug, Default)]
struct PieceReader {
    at: u64,
    count: u64,
    has_head: bool,
}

/// Number of pieces that are read in one step.
const PIECES_PER_STEP: usize = 2;
/// Buffer size for one step: its pieces, and the first record.
const STEP_BUFFER_BYTES: usize = PIECES_PER_STEP * (PIECE_BYTES + HEADER_BYTES) + 4096;

/// Result of a step through the pieces of a file.
#[derive(Debug, Default)]
struct PieceStep {
    /// Ranges of the pieces in the buffer.
    pieces: [Range<usize>; PIECES_PER_STEP],
    end: PieceEnd,
}

/// State after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PieceEnd {
    #[default]
    NotYet,
    Whole,
    Damaged,
}

impl PieceReader {
    /// Reads on into a buffer, which is kept between steps; returns the ranges of whole pieces in it.
    fn step(
        &mut self,
        file: &dyn DiskFile,
        id: &[u8],
        patience: ReadMode,
        buffer: &mut Vec<u8>,
    ) -> io::Result<PieceStep> {
        buffer.resize(STEP_BUFFER_BYTES, 0);
        let read = record::read_patiently(file, buffer, self.at, patience)?;
        Ok(self.take(buffer.get(..read).unwrap_or_default(), id))
    }

    fn take(&mut self, bytes: &[u8], id: &[u8]) -> PieceStep {
        let mut step = PieceStep::default();
        let (mut at, mut found) = (0, 0);
        while let Some((record, taken)) = bytes.get(at..).and_then(record::parse) {
            match record.kind {
                RecordKind::Head if self.at == 0 && at == 0 && record.id == id => self.has_head = true,
                RecordKind::Piece if self.has_head && record.number == self.count => {
                    // The rest is read again by the next step.
                    let Some(place) = step.pieces.get_mut(found) else { break };
                    let from = at + HEADER_BYTES + record.id.len();
                    *place = from..from + record.payload.len();
                    (found, self.count) = (found + 1, self.count + 1);
                }
                RecordKind::End if self.has_head && record.number == self.count => {
                    step.end = PieceEnd::Whole;
                    return step;
                }
                _ => {
                    step.end = PieceEnd::Damaged;
                    return step;
                }
            }
            at += taken;
        }
        self.at += at as u64;
        if at == 0 {
            step.end = PieceEnd::Damaged;
        }
        step
    }
}

/// Passes on the pieces of a file; returns false if it is damaged, or another article's.
pub(crate) fn read_pieces(file: &dyn DiskFile, id: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<bool> {
    let (mut pieces, mut buffer) = (PieceReader::default(), Vec::new());
    loop {
        let step = pieces.step(file, id, ReadMode::Wait, &mut buffer)?;
        step.pieces.into_iter().for_each(|piece| each(buffer.get(piece).unwrap_or_default()));
        if step.end != PieceEnd::NotYet {
            return Ok(step.end == PieceEnd::Whole);
        }
    }
}
