//! Lists of groups from upstreams, each a file that is read piece by piece.
//!
//! A list is replaced as a whole; while a new one arrives the old one is read. Called by the crate's users.
//! Format: `docs/formats/cache.md`.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{DiskFile, NewFile, OpenMode};

use crate::base::record::{self, CacheRecord, RecordKind, hash64};
use crate::cache::{Cache, CacheInner};

/// Maximum size of the lines in one record, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum length of a line: an answer of NNTP has 512 octets, and descriptions may be longer.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Size of a read, in bytes.
const READ_BYTES: usize = 256 << 10;

/// Kind of list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// LIST ACTIVE.
    Active,
    /// LIST ACTIVE.TIMES.
    Times,
    /// LIST NEWSGROUPS.
    Descriptions,
    /// LIST COUNTS.
    Counts,
    /// LIST OVERVIEW.FMT.
    OverviewFmt,
}

impl ListKind {
    fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Times => "times",
            Self::Descriptions => "descriptions",
            Self::Counts => "counts",
            Self::OverviewFmt => "overview-fmt",
        }
    }
}

fn path(inner: &CacheInner, origin: &str, kind: ListKind) -> PathBuf {
    inner.dir.join(format!("lists/{:016x}-{}", hash64(&[origin.as_bytes()]), kind.word()))
}

/// Returns the payload of a list's first record.
fn name(origin: &str, kind: ListKind) -> Vec<u8> {
    [kind.word().as_bytes(), b" ", origin.as_bytes()].concat()
}

/// A list that is being read.
#[derive(Debug)]
pub struct ListReader {
    file: Arc<dyn DiskFile>,
    asked_at: u64,
    offset: u64,
    pieces: u64,
    buffer: Vec<u8>,
    start: usize,
}

/// A list that arrives. If it is dropped before it is finished, nothing is left.
#[derive(Debug)]
pub struct ListWriter {
    new: NewFile,
    path: PathBuf,
    line: Vec<u8>,
    pieces: u64,
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a list of the cache is damaged")
}

impl Cache {
    /// Opens the last list from an upstream.
    ///
    /// # Errors
    /// Errors of the disk. A damaged list is treated as absent.
    pub fn list(&self, origin: &str, kind: ListKind) -> io::Result<Option<ListReader>> {
        let file = match self.0.disk.open(&path(&self.0, origin, kind), OpenMode::ReadOnly) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut reader = ListReader { file, asked_at: 0, offset: 0, pieces: 0, buffer: Vec::new(), start: 0 };
        // The end is the last record, so a list that was truncated by a crash is recognized at once.
        let head = reader.record(|record| match record.kind {
            RecordKind::Head if record.payload == name(origin, kind) => Some(record.last),
            _ => None,
        });
        let Ok(Some(at)) = head else { return Ok(None) };
        reader.asked_at = at;
        if reader.has_end()? { Ok(Some(reader)) } else { Ok(None) }
    }

    /// Begins to store a list that was requested from an upstream at this time (Unix seconds).
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn put_list(&self, origin: &str, kind: ListKind, at: u64) -> io::Result<ListWriter> {
        let path = path(&self.0, origin, kind);
        let n = self.0.unfinished.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("new{n}"));
        // Removes the remains of an earlier list after a crash.
        let _left = self.0.disk.remove(&unfinished);
        let new = NewFile::begin(self.0.disk.clone(), unfinished, &self.0.dir)?;
        let mut writer = ListWriter { new, path, line: Vec::new(), pieces: 0 };
        let payload = name(origin, kind);
        let record = CacheRecord { kind: RecordKind::Head, number: 0, last: at, id: b"", payload: &payload };
        writer.put(&record)?;
        Ok(writer)
    }
}

impl ListReader {
    /// Returns the time at which the list was requested, in Unix seconds.
    pub fn at(&self) -> u64 {
        self.asked_at
    }

    /// Returns whether the file's last record ends it.
    fn has_end(&self) -> io::Result<bool> {
        let end = CacheRecord { kind: RecordKind::End, number: 0, last: 0, id: b"", payload: b"" };
        let mut bytes = vec![0; end.bytes()];
        let Some(at) = self.file.len()?.checked_sub(bytes.len() as u64) else { return Ok(false) };
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(record::parse(&bytes).is_some_and(|(record, _)| record.kind == RecordKind::End))
    }

    /// Reads the next record.
    fn record<T>(&mut self, take: impl FnOnce(CacheRecord<'_>) -> T) -> io::Result<T> {
        if record::parse(self.buffer.get(self.start..).unwrap_or_default()).is_none() {
            self.offset += self.start as u64;
            self.buffer.resize(READ_BYTES, 0);
            self.start = 0;
            let read = self.file.read_at(&mut self.buffer, self.offset)?;
            self.buffer.truncate(read);
        }
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let (record, taken) = record::parse(rest).ok_or_else(damaged)?;
        self.start += taken;
        Ok(take(record))
    }

    /// Appends some lines; returns false at the end.
    ///
    /// # Errors
    /// Errors of the disk; `InvalidData` if the list is damaged.
    pub fn next(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let expected = self.pieces;
        self.pieces += 1;
        let taken = self.record(|record| match record.kind {
            RecordKind::Piece if record.number == expected => {
                into.extend_from_slice(record.payload);
                Some(true)
            }
            RecordKind::End if record.number == expected => Some(false),
            _ => None,
        })?;
        taken.ok_or_else(damaged)
    }
}

impl ListWriter {
    fn put(&mut self, record: &CacheRecord<'_>) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(record.bytes());
        record.put(&mut bytes);
        self.new.append(&bytes)
    }

    fn put_lines(&mut self, bytes: usize) -> io::Result<()> {
        let rest = self.line.split_off(bytes);
        let payload = std::mem::replace(&mut self.line, rest);
        let number = self.pieces;
        self.pieces += 1;
        self.put(&CacheRecord { kind: RecordKind::Piece, number, last: 0, id: b"", payload: &payload })
    }

    /// Adds lines, or parts of lines, as they arrive.
    ///
    /// # Errors
    /// Errors of the disk; `InvalidData` if a line has no end.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.line.extend_from_slice(lines);
        while self.line.len() >= PIECE_BYTES {
            let whole = self.line.get(..PIECE_BYTES).unwrap_or_default();
            let end = match memchr::memrchr(b'\n', whole) {
                Some(last) => last + 1,
                None => {
                    let rest = self.line.get(PIECE_BYTES..).unwrap_or_default();
                    match memchr::memchr(b'\n', rest) {
                        Some(more) => PIECE_BYTES + more + 1,
                        None if rest.len() < LINE_BYTES_MAX => return Ok(()),
                        None => return Err(io::Error::new(ErrorKind::InvalidData, "a line without end")),
                    }
                }
            };
            self.put_lines(end)?;
        }
        Ok(())
    }

    /// Completes the list, which replaces the old one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.put_lines(self.line.len())?;
        }
        self.put(&CacheRecord {
            kind: RecordKind::End,
            number: self.pieces,
            last: 0,
            id: b"",
            payload: b"",
        })?;
        self.new.finish(&self.path)
    }
}
