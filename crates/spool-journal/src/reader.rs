//! Reads journal rows from a position on, up to the last whole one.

use super::{FILE_HEAD_BYTES, FILE_MAGIC, FRAME_BYTES, ROW_BYTES_MAX, checksum, file_name, starts};
use disk::{Disk, DiskFile, OpenMode, read_around};
use spool_base::codec::without_trailing_zeros;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at a time by callers that read the whole journal.
const READ_BYTES: usize = 256 << 10;
/// Bytes read at a time by callers that read a batch.
const BATCH_READ_BYTES: usize = 1 << 16;
/// Minimum gap between a journal that continues after a loss and its earlier rows.
const GAP_BYTES: u64 = 1 << 16;

/// Sequential reader of journal rows.
#[derive(Debug)]
pub struct JournalReader {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    starts: Vec<u64>,
    file: Option<(u64, Arc<dyn DiskFile>)>,
    /// Position of the next row.
    position: u64,
    /// End of the rows to be read.
    limit: u64,
    /// Bytes read at a time.
    read_bytes: usize,
    buf: Vec<u8>,
    at: usize,
}

impl JournalReader {
    /// Opens the journal at `position`; `None` starts at the oldest row kept.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, position: Option<u64>) -> io::Result<Self> {
        let position = position.or(starts(&**disk, dir)?.first().copied()).unwrap_or(0);
        Self::between(disk, dir, position..u64::MAX, READ_BYTES)
    }

    /// Opens the journal at `position` for rows up to `limit`, where a row ends, while later ones may be
    /// written. For short stretches.
    pub fn open_to(disk: &Arc<dyn Disk>, dir: &Path, position: u64, limit: u64) -> io::Result<Self> {
        Self::between(disk, dir, position..limit, BATCH_READ_BYTES)
    }

    /// Continues reading up to `limit`, where a row ends.
    pub fn extend_to(&mut self, limit: u64) {
        self.limit = limit;
    }

    fn between(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        Range { start: position, end: limit }: Range<u64>,
        read_bytes: usize,
    ) -> io::Result<Self> {
        let starts = starts(&**disk, dir)?;
        let mut new = Self {
            disk: disk.clone(),
            dir: dir.into(),
            starts,
            file: None,
            position,
            limit,
            read_bytes,
            buf: Vec::new(),
            at: 0,
        };
        new.enter(position)?;
        Ok(new)
    }

    /// Returns the position of the oldest row kept.
    pub fn oldest(&self) -> Option<u64> {
        self.starts.first().copied()
    }

    /// Returns the position after the last row returned.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reports whether the initial position lies in the journal.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the starts of all files, ascending.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Reads the rows of one file; returns the end of the last one, and whether anything but zeroes follows.
    /// If the head of the file is damaged, returns the start and true.
    pub fn look_over(disk: &Arc<dyn Disk>, dir: &Path, start: u64) -> io::Result<(u64, bool)> {
        let mut reader = Self::open(disk, dir, Some(start))?;
        // Files after this one are not read.
        reader.starts.retain(|s| *s <= start);
        while reader.next_row()?.is_some() {}
        let Some((_, file)) = &reader.file else { return Ok((start, true)) };
        let (mut head, mut frame) = ([0; FILE_HEAD_BYTES as usize], [0; FRAME_BYTES]);
        read_around(&**file, &mut head, 0)?;
        if !head.starts_with(FILE_MAGIC) || head[8..] != start.to_le_bytes() {
            return Ok((start, true));
        }
        read_around(&**file, &mut frame, reader.position - start)?;
        Ok((reader.position, frame.iter().any(|b| *b != 0)))
    }

    /// Reports whether a whole row follows the first one that is not whole: then that is not the end, but
    /// damage. A row is valid only where it was written, so no other bytes pass for one.
    pub fn row_follows(&self) -> io::Result<bool> {
        let Some((start, file)) = &self.file else { return Ok(false) };
        let rest = read_written(&**file, self.position - start)?;
        let is_row = |at: usize| {
            let frame = rest.get(at..)?.first_chunk::<FRAME_BYTES>()?;
            let [a, b, c, d, crc @ ..] = *frame;
            let len = u32::from_le_bytes([a, b, c, d]) as usize;
            let payload =
                rest.get(at + FRAME_BYTES..)?.get(..len).filter(|_| (1..=ROW_BYTES_MAX).contains(&len))?;
            (checksum(self.position + at as u64, payload) == u32::from_le_bytes(crc)).then_some(())
        };
        Ok((1..rest.len()).any(|at| is_row(at).is_some()))
    }

    /// Returns the start of the first file after a position.
    pub fn start_after(&self, position: u64) -> Option<u64> {
        self.starts.iter().find(|s| **s > position).copied()
    }

    /// Returns a position beyond all files, far enough that the gap is obvious.
    pub fn position_behind(&self, position: u64) -> io::Result<u64> {
        let mut end = position;
        if let Some(start) = self.starts.last() {
            end = end
                .max(start + self.disk.open(&self.dir.join(file_name(*start)), OpenMode::ReadOnly)?.len()?);
        }
        Ok(end.next_multiple_of(GAP_BYTES) + GAP_BYTES)
    }

    /// Reports whether the file that should continue the journal at the current position is damaged: it has
    /// no head, although the file before it was truncated there, which happens only after the head was
    /// written. Only meaningful if the machine has not lost power.
    pub fn successor_is_damaged(&self) -> io::Result<bool> {
        let Some((start, file)) = &self.file else { return Ok(false) };
        if !self.starts.contains(&self.position)
            || *start == self.position
            || start + file.len()? > self.position
        {
            return Ok(false);
        }
        let next = self.disk.open(&self.dir.join(file_name(self.position)), OpenMode::ReadOnly)?;
        Ok(!has_head(&*next, self.position)?)
    }

    /// Opens the file that holds `position`, skipping its head. Returns false without moving if there is
    /// none, or if it is not a journal file.
    fn enter(&mut self, position: u64) -> io::Result<bool> {
        let Some(start) = self.starts.iter().rev().find(|s| **s <= position).copied() else {
            return Ok(false);
        };
        let file = self.disk.open(&self.dir.join(file_name(start)), OpenMode::ReadOnly)?;
        if !has_head(&*file, start)? || position > start + file.len()? {
            return Ok(false);
        }
        self.buf.clear();
        self.at = 0;
        self.position = position.max(start + FILE_HEAD_BYTES);
        self.file = Some((start, file));
        Ok(true)
    }

    /// Makes bytes available at the current position, at least `want` if the file has them.
    fn fill(&mut self, want: usize) -> io::Result<usize> {
        if self.buf.len() - self.at < want
            && let Some((start, file)) = &self.file
        {
            self.buf.drain(..self.at);
            self.at = 0;
            let have = self.buf.len();
            let left = usize::try_from(self.limit.saturating_sub(self.position)).unwrap_or(usize::MAX);
            self.buf.resize(have.max(left.min(have + want.max(self.read_bytes))), 0);
            let n = read_around(&**file, &mut self.buf[have..], self.position + have as u64 - start);
            self.buf.truncate(have + n.as_ref().map_or(0, |n| *n));
            n?;
        }
        Ok(self.buf.len() - self.at)
    }

    /// Returns position and payload of the next whole row; `None` at the end of the valid rows.
    pub fn next_row(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.file.is_none() {
            return Ok(None);
        }
        loop {
            let have = self.fill(FRAME_BYTES)?;
            let frame = self.buf.get(self.at..self.at + have.min(FRAME_BYTES)).unwrap_or_default();
            if frame.iter().any(|b| *b != 0) {
                return self.take(have);
            }
            // The file ends here, or only reserved space follows: the next file starts exactly at this
            // position, or does not exist.
            if !self.starts.contains(&self.position) || !self.enter(self.position)? {
                return Ok(None);
            }
        }
    }

    fn take(&mut self, have: usize) -> io::Result<Option<(u64, &[u8])>> {
        let frame: Option<[u8; FRAME_BYTES]> =
            self.buf.get(self.at..self.at + FRAME_BYTES).and_then(|f| f.try_into().ok());
        let Some([a, b, c, d, crc @ ..]) = frame.filter(|_| have >= FRAME_BYTES) else { return Ok(None) };
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len == 0 || len > ROW_BYTES_MAX || self.fill(FRAME_BYTES + len)? < FRAME_BYTES + len {
            return Ok(None);
        }
        let start = self.at + FRAME_BYTES;
        let payload = &self.buf[start..start + len];
        if checksum(self.position, payload) != u32::from_le_bytes(crc) {
            return Ok(None);
        }
        let position = self.position;
        self.position += (FRAME_BYTES + len) as u64;
        self.at = start + len;
        Ok(Some((position, payload)))
    }
}

/// Reads the written part of a file from `offset` on, up to its last byte that is not zero. Files are
/// allocated ahead, so many zeros may follow; they are not kept in memory.
fn read_written(file: &dyn DiskFile, offset: u64) -> io::Result<Vec<u8>> {
    let mut written = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    for range in file.written(offset)? {
        let mut at = range.start;
        while at < range.end {
            let want = piece.len().min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
            let Some(part) = piece.get_mut(..want) else { break };
            let n = read_around(file, part, at)?;
            let used = without_trailing_zeros(part.get(..n).unwrap_or_default());
            if !used.is_empty() {
                written.resize((at - offset) as usize, 0);
                written.extend_from_slice(used);
            }
            if n < want {
                return Ok(written);
            }
            at += n as u64;
        }
    }
    Ok(written)
}

/// Reports whether a file is part of the journal: by its head or, if a bit of the head is damaged, by its
/// first row, which is valid only where it was written.
fn has_head(file: &dyn DiskFile, start: u64) -> io::Result<bool> {
    const HEAD_BYTES: usize = FILE_HEAD_BYTES as usize;
    let mut first = vec![0; HEAD_BYTES + FRAME_BYTES];
    let n = read_around(file, &mut first, 0)?;
    let (head, frame) = first.split_at(HEAD_BYTES);
    if n < HEAD_BYTES {
        return Ok(false);
    }
    if head.starts_with(FILE_MAGIC) && head.ends_with(&start.to_le_bytes()) {
        return Ok(true);
    }
    let Some([a, b, c, d, crc @ ..]) = frame.first_chunk::<FRAME_BYTES>() else { return Ok(false) };
    let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    if len == 0 || len > ROW_BYTES_MAX {
        return Ok(false);
    }
    let mut payload = vec![0; len];
    let n = read_around(file, &mut payload, FILE_HEAD_BYTES + FRAME_BYTES as u64)?;
    Ok(n == len && checksum(start + FILE_HEAD_BYTES, &payload) == u32::from_le_bytes(*crc))
}
