//! Articles by Message-ID, and large ones, which are files of their own, in pieces with a checksum each.
//!
//! A large article gets its name when it is complete; before that it is `unfinished-N`, which the next
//! opening removes. Called by the crate's users, and by `group`. Format: `docs/formats/cache.md`.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{DiskFile, OpenMode, ReadMode};

use crate::base::record::{CacheRecord, RecordKind, hash};
use crate::books::bookkeeping::{CacheFile, on_disk};
use crate::cache::{Cache, CacheInner, CacheRoom};
use crate::index::cells::GroupCell;
use crate::index::ids::{ArticlePointer, EMPTY};
use crate::index::loaded::{expires, short};
use crate::reading::group::{CacheGroup, CacheHit, GroupOutcome};
use crate::reading::index_io::head;
use crate::reading::pieces::PIECE_BYTES;

/// Amount of room that is reserved at once for an article that arrives.
const STEP_BYTES: u64 = 1 << 20;

/// Destination of an article that arrives.
#[derive(Debug, Clone, Copy)]
pub enum ArticleDestination<'a> {
    /// Number in a group.
    Group(&'a CacheGroup, u64),
    /// No number: the article was requested by its Message-ID from this upstream.
    Upstream(&'a str),
}

/// Returns the group for an article requested by Message-ID alone, one of 256 of an upstream, and a number in
/// it.
fn unnumbered(id: &[u8]) -> (Vec<u8>, u64) {
    let hash = hash(&[id]) as u64;
    (vec![0, (hash >> 56) as u8], (hash & (u64::MAX >> 9)) + 1)
}

impl Cache {
    /// Appends the article with a Message-ID, from any group or upstream.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn by_id(&self, id: &[u8], into: &mut Vec<u8>, now: u64) -> io::Result<bool> {
        let mut bytes = Vec::new();
        let found = self.find(id, ReadMode::Wait, &mut bytes, now)?;
        Ok(found.map_or(Ok(None), |found| found.whole(&bytes, into))?.is_some())
    }

    /// Reads the article with a Message-ID into a buffer, replacing its content; nothing of a large one,
    /// which has a reader.
    ///
    /// # Errors
    /// Errors of the disk; without patience `WouldBlock` if the disk must be waited for.
    pub fn find(
        &self,
        id: &[u8],
        patience: ReadMode,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<CacheHit>> {
        let hash = hash(&[id]);
        // Only small ones are in this table.
        if let Some(pointer) = self.0.recent.get(hash)
            && let Some(found) = self.pointed(pointer, id, hash, patience, into, now)?
        {
            return Ok(Some(found));
        }
        if let Some(large) = self.open_large(id, hash, patience, now)? {
            into.clear();
            into.extend_from_slice(id);
            return Ok(Some(CacheHit { id: 0..id.len(), from: id.len(), large: Some(large) }));
        }
        for pointer in self.0.ids.find(hash, patience, &mut { EMPTY })? {
            if let Some(found) = self.pointed(pointer, id, hash, patience, into, now)? {
                self.0.recent.put(hash, pointer);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Reads the article with a Message-ID, of this hash, if it is where a pointer says.
    fn pointed(
        &self,
        pointer: ArticlePointer,
        id: &[u8],
        hash: u128,
        patience: ReadMode,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<CacheHit>> {
        let Some(cell) = self.0.cell_of_key(pointer.key, now) else { return Ok(None) };
        let stored = self.0.stored(&cell, pointer.number, short(hash), patience)?;
        let Some(located) = stored else { return Ok(None) };
        let found = self.0.read_article(located, pointer.number, patience, into, now)?;
        Ok(found.filter(|found| found.id_in(into) == id))
    }

    /// Returns whether the article with a Message-ID seems to be cached, without reading it.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn has_id(&self, id: &[u8], now: u64) -> io::Result<bool> {
        self.holds(id, None, now)
    }

    /// Returns whether it seems to be cached other than as this number of this group.
    pub(crate) fn holds(&self, id: &[u8], but: Option<(u64, u64)>, now: u64) -> io::Result<bool> {
        let hash = hash(&[id]);
        if self.0.books.lock().large(hash).is_some() {
            return Ok(true);
        }
        for pointer in self.0.ids.find(hash, ReadMode::Wait, &mut { EMPTY })? {
            if but == Some((pointer.key, pointer.number)) {
                continue;
            }
            let Some(cell) = self.0.cell_of_key(pointer.key, now) else { continue };
            if self.0.stored(&cell, pointer.number, short(hash), ReadMode::Wait)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores an article that was requested by its Message-ID; `origin` is the upstream that it came from.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn put_by_id(&self, origin: &str, id: &[u8], bytes: &[u8], now: u64) -> io::Result<()> {
        if self.holds(id, None, now)? {
            return Ok(());
        }
        let (name, number) = unnumbered(id);
        // The number is a hash: another article with the same number is no contradiction, and is replaced.
        let group = self.group(origin, &name, now);
        if bytes.len() as u64 > self.0.shape().large_above {
            return self.put_large(group.cell(), id, bytes, now);
        }
        let record = CacheRecord { kind: RecordKind::Article, number, last: 0, id, payload: bytes };
        let expires = expires(bytes, now);
        let is_stored = group.with(|loaded| self.0.append(group.cell(), loaded, &record, expires, now))?;
        if is_stored { self.0.point(group.cell(), id, number) } else { Ok(()) }
    }

    /// Creates a writer for an article that arrives in pieces. The article becomes visible when it is
    /// finished; if the writer is dropped before, nothing is left.
    ///
    /// # Errors
    /// None before something is written.
    pub fn writer(&self, place: ArticleDestination<'_>, id: &[u8], now: u64) -> io::Result<ArticleWriter> {
        let (group, number) = match place {
            ArticleDestination::Group(group, number) => (group.clone(), Some(number)),
            ArticleDestination::Upstream(origin) => (self.group(origin, &unnumbered(id).0, now), None),
        };
        Ok(ArticleWriter {
            cache: self.clone(),
            group,
            number,
            id: id.to_vec(),
            buffer: Vec::new(),
            total: 0,
            large: None,
            is_given_up: false,
        })
    }

    /// Stores an article as a file of its own.
    pub(crate) fn put_large(
        &self,
        cell: &Arc<GroupCell>,
        id: &[u8],
        bytes: &[u8],
        now: u64,
    ) -> io::Result<()> {
        if bytes.len() as u64 > self.0.shape().article_bytes_max || !cell.is_kept {
            return Ok(());
        }
        let Some(mut unfinished) = UnfinishedFile::begin(&self.0, cell, id)? else { return Ok(()) };
        for piece in bytes.chunks(PIECE_BYTES) {
            if !unfinished.append(&self.0, RecordKind::Piece, piece)? {
                return Ok(());
            }
        }
        unfinished.finish(&self.0, cell, id, expires(bytes, now), now)
    }
}

impl CacheHit {
    /// Appends the whole article, from the buffer that it was read into; returns its Message-ID, or `None` if
    /// it turns out to be damaged.
    pub(crate) fn whole(self, buffer: &[u8], into: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        let start = into.len();
        let id = self.id_in(buffer).to_vec();
        let Some(mut large) = self.large else {
            into.extend_from_slice(buffer.get(self.from..).unwrap_or_default());
            return Ok(Some(id));
        };
        loop {
            match large.next(ReadMode::Wait, into) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(id)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    into.truncate(start);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A large article that is not complete yet.
struct UnfinishedFile {
    inner: Arc<CacheInner>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    end: u64,
    pieces: u64,
    /// Bytes that are reserved for it.
    reserved: u64,
    is_finished: bool,
}

impl UnfinishedFile {
    /// Creates a file; returns `None` if there is no room.
    fn begin(inner: &Arc<CacheInner>, cell: &GroupCell, id: &[u8]) -> io::Result<Option<Self>> {
        let Some(room) = inner.reserve(on_disk(1)) else { return Ok(None) };
        let n = inner.unfinished.fetch_add(1, Ordering::Relaxed);
        let path = inner.dir.join(format!("large/new/unfinished-{n}"));
        inner.prepare_file(cell.slot, &path)?;
        let file = inner.disk.open(&path, OpenMode::Create)?;
        file.set_len(0)?;
        let mut made = Self {
            inner: inner.clone(),
            path,
            file,
            end: 0,
            pieces: 0,
            reserved: room.keep(),
            is_finished: false,
        };
        let payload = head(cell);
        let head = CacheRecord { kind: RecordKind::Head, number: cell.key, last: 0, id, payload: &payload };
        Ok(made.write(inner, &head)?.then_some(made))
    }

    /// Appends a record; returns false if there is no room.
    fn write(&mut self, inner: &CacheInner, record: &CacheRecord<'_>) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(record.bytes());
        record.put(&mut bytes);
        let end = self.end + bytes.len() as u64;
        if on_disk(end) > self.reserved {
            let more = on_disk(end).next_multiple_of(STEP_BYTES.min(on_disk(end))) - self.reserved;
            let Some(room) = inner.reserve(more) else { return Ok(false) };
            self.reserved += room.keep();
        }
        self.file.write_all_at(&[IoSlice::new(&bytes)], self.end)?;
        self.end = end;
        Ok(true)
    }

    fn append(&mut self, inner: &CacheInner, kind: RecordKind, payload: &[u8]) -> io::Result<bool> {
        let record = CacheRecord { kind, number: self.pieces, last: 0, id: b"", payload };
        self.pieces += 1;
        self.write(inner, &record)
    }

    /// Renames the file to its final name, and enters it in the books.
    fn finish(
        mut self,
        inner: &CacheInner,
        cell: &GroupCell,
        id: &[u8],
        expires: u64,
        now: u64,
    ) -> io::Result<()> {
        if !self.append(inner, RecordKind::End, b"")? {
            return Ok(());
        }
        let hash = hash(&[id]);
        let file = CacheFile::Large(hash);
        let path = file.path(&inner.dir);
        inner.disk.make_dirs(path.parent().unwrap_or(&inner.dir), false)?;
        let same = {
            // Another copy of the same article, stored meanwhile, is replaced.
            let mut books = inner.books.lock();
            let same = books.large(hash);
            same.map(|unit| books.remove(unit));
            same
        };
        inner.disk.rename(&self.path, &path)?;
        if let Some(unit) = same {
            inner.close_file(unit);
        }
        self.is_finished = true;
        let room = CacheRoom::of(inner, std::mem::take(&mut self.reserved));
        room.settle(|books| books.enter(cell.slot, file, self.end, expires, now));
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        drop(CacheRoom::of(&self.inner, self.reserved));
        if !self.is_finished {
            // The next opening removes a file that cannot be removed now.
            let _left = self.inner.disk.remove(&self.path);
        }
    }
}

/// Writer of an article that arrives in pieces.
pub struct ArticleWriter {
    cache: Cache,
    group: CacheGroup,
    number: Option<u64>,
    id: Vec<u8>,
    buffer: Vec<u8>,
    total: u64,
    large: Option<(UnfinishedFile, u64)>,
    /// True if the article is too large, or there is no room: the rest is ignored.
    is_given_up: bool,
}

impl std::fmt::Debug for ArticleWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({} bytes)", self.total)
    }
}

impl ArticleWriter {
    /// Adds a piece. An article that is too large to be cached is ignored.
    ///
    /// # Errors
    /// Errors of the disk; the article is then not cached, even after further calls.
    pub fn write(&mut self, bytes: &[u8], now: u64) -> io::Result<()> {
        if self.is_given_up {
            return Ok(());
        }
        self.total += bytes.len() as u64;
        let shape = self.cache.0.shape();
        if self.total > shape.article_bytes_max || !self.group.cell().is_kept {
            self.give_up();
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        if self.total <= shape.large_above {
            return Ok(());
        }
        let written = self.flush(now, PIECE_BYTES);
        if written.is_err() {
            self.give_up();
        }
        written
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.large = None;
        self.buffer = Vec::new();
    }

    /// Writes whole pieces; the entire rest where a piece may be as small as one byte.
    fn flush(&mut self, now: u64, least: usize) -> io::Result<()> {
        let inner = self.cache.0.clone();
        if self.large.is_none() {
            match UnfinishedFile::begin(&inner, self.group.cell(), &self.id)? {
                Some(unfinished) => self.large = Some((unfinished, expires(&self.buffer, now))),
                None => self.give_up(),
            }
        }
        let mut from = 0;
        while let Some((unfinished, _)) = &mut self.large {
            let rest = self.buffer.get(from..).unwrap_or_default();
            if rest.len() < least.max(1) {
                break;
            }
            let piece = rest.get(..PIECE_BYTES).unwrap_or(rest);
            from += piece.len();
            if !unfinished.append(&inner, RecordKind::Piece, piece)? {
                self.give_up();
            }
        }
        self.buffer.drain(..from.min(self.buffer.len()));
        Ok(())
    }

    /// Completes the article, which can be read from now on.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn finish(mut self, now: u64) -> io::Result<GroupOutcome> {
        if self.is_given_up {
            return Ok(GroupOutcome::None);
        }
        if self.large.is_none() {
            return match self.number {
                Some(number) => self.group.put_article(number, &self.id, &self.buffer, now),
                None => {
                    let origin = self.group.origin();
                    self.cache.put_by_id(origin, &self.id, &self.buffer, now).map(|()| GroupOutcome::None)
                }
            };
        }
        self.flush(now, 1)?;
        let Some((unfinished, expires)) = self.large.take() else { return Ok(GroupOutcome::None) };
        let change = match self.number {
            Some(number) => self.group.put_checked_link(number, &self.id, now)?,
            None => GroupOutcome::None,
        };
        unfinished.finish(&self.cache.0, self.group.cell(), &self.id, expires, now)?;
        Ok(change)
    }
}
