//! The groups file: the state of every group, kept apart from journal and indexes (`docs/formats/groups.md`).
//!
//! Two copies. A state of all groups is written to the inactive copy; rows between two states are appended to
//! the active one. Written by the writer (rows) and the syncing thread (states); read by opening. Invariants:
//! one copy is whole at every moment, and a promise is durable here before the journal's sync makes it count.

use crate::JournalRow;
use disk::{Disk, DiskFile, OpenMode};
use spool_base::codec::{put_u64, without_trailing_zeros};
use spool_base::ordered::{Ordered, rank};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file and its copy, in the spool's directory.
pub const NAMES: [&str; 2] = ["groups", "groups.copy"];
const MAGIC: &[u8; 8] = b"NGroups1";
const HEAD_BYTES: usize = 48;
/// Offset in the head of the position up to which the journal is durable.
const SYNCED_AT: usize = 32;
/// Length and checksum before each row.
const FRAME_BYTES: usize = 8;
/// Maximum length of a payload.
const ROW_BYTES_MAX: usize = 1 << 20;
/// Unit in which space is reserved.
const RESERVE_BYTES: u64 = 64 << 10;

/// State of all groups at one moment, to be written.
#[derive(Debug)]
pub struct GroupsState {
    next_group: u32,
    synced: u64,
    payloads: Vec<Vec<u8>>,
}

impl GroupsState {
    /// Creates a state from the rows of all groups and removed groups; the journal is durable up to `synced`.
    pub fn new<'a>(next_group: u32, synced: u64, rows: impl Iterator<Item = JournalRow<'a>>) -> Self {
        Self { next_group, synced, payloads: rows.map(|row| payload(&row)).collect() }
    }

    /// Returns the bytes of the file.
    fn encode(&self, sequence: u64) -> Vec<u8> {
        let bytes: usize = self.payloads.iter().map(|payload| FRAME_BYTES + payload.len()).sum();
        let mut out = Vec::with_capacity(HEAD_BYTES + bytes);
        out.resize(HEAD_BYTES, 0);
        self.payloads.iter().for_each(|payload| put_row(sequence, 0, payload, &mut out));
        let len = (out.len() - HEAD_BYTES) as u64;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(MAGIC);
        put_u64(sequence, &mut head);
        put_u64(len, &mut head);
        head.extend_from_slice(&self.next_group.to_le_bytes());
        head.extend_from_slice(&disk::crc::crc32c(&head).to_le_bytes());
        head.extend_from_slice(&encode_synced(sequence, self.synced));
        out.splice(..HEAD_BYTES, head);
        out
    }
}

/// Contents of the copies.
#[derive(Debug, Default)]
pub struct GroupsFound {
    /// Whether a copy exists.
    pub exists: bool,
    /// Id of the next new group.
    pub next_group: u32,
    /// Payloads of rows, to be applied in this order.
    pub payloads: Vec<Vec<u8>>,
    /// Position up to which the journal was durable.
    pub synced: u64,
    /// Copies that are damaged, or were not written to their end.
    pub damaged: Vec<PathBuf>,
    /// A copy that is missing, beside one that is there.
    pub missing: Option<PathBuf>,
}

/// One copy as read from disk.
struct GroupsCopy {
    sequence: u64,
    next_group: u32,
    synced: u64,
    payloads: Vec<Vec<u8>>,
    /// Whether no part of the copy is damaged.
    whole: bool,
    /// End of the last row.
    end: u64,
}

#[derive(Debug, Default)]
struct GroupsFileState {
    /// Index of the active copy, and its sequence number.
    current: usize,
    sequence: u64,
    file: Option<Arc<dyn DiskFile>>,
    /// Offset of the next row, and end of the reserved space.
    end: u64,
    reserved: u64,
    /// Rows added since a state was taken that is not written yet.
    since: Option<Vec<Vec<u8>>>,
}

/// The groups file of an open spool.
#[derive(Debug)]
pub struct GroupsFile {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    inner: Ordered<GroupsFileState, { rank::GROUPS_FILE }>,
    dirty: AtomicBool,
    /// Held while a state is written, or rows are synced.
    busy: Ordered<(), { rank::GROUPS_SYNCING }>,
}

impl GroupsFile {
    /// Reads the existing copies; rows may be added once a state is written.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<(Self, GroupsFound)> {
        let (mut copies, mut damaged, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for (index, name) in NAMES.iter().enumerate() {
            let path = dir.join(name);
            let Some(bytes) = read(&**disk, &path)? else {
                missing.push(path);
                continue;
            };
            let copy = decode(&bytes);
            if !copy.as_ref().is_some_and(|copy| copy.whole) {
                damaged.push(path);
            }
            copies.extend(copy.map(|copy| (index, copy)));
        }
        let missing = missing.pop().filter(|_| missing.is_empty());
        copies.sort_by_key(|(_, copy)| copy.sequence);
        let newest_whole = copies.iter().rev().find(|(_, copy)| copy.whole).map(|(index, _)| *index);
        let inner = GroupsFileState {
            current: newest_whole.unwrap_or(0),
            sequence: copies.last().map_or(0, |(_, copy)| copy.sequence),
            ..GroupsFileState::default()
        };
        let mut found =
            GroupsFound { exists: !copies.is_empty(), damaged, missing, ..GroupsFound::default() };
        for (_, copy) in copies {
            found.next_group = found.next_group.max(copy.next_group);
            found.synced = found.synced.max(copy.synced);
            found.payloads.extend(copy.payloads);
        }
        let (inner, dirty, busy) = (Ordered::new(inner), AtomicBool::new(false), Ordered::default());
        Ok((Self { disk: disk.clone(), dir: dir.into(), inner, dirty, busy }, found))
    }

    /// Appends rows of current changes. They are durable with the next [`GroupsFile::sync`].
    pub fn add(&self, rows: &[JournalRow<'_>]) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let Some(file) = inner.file.clone() else { return Err(io::ErrorKind::NotFound.into()) };
        let payloads: Vec<_> = rows.iter().map(payload).collect();
        let mut bytes = Vec::new();
        payloads.iter().for_each(|payload| put_row(inner.sequence, inner.end, payload, &mut bytes));
        let end = inner.end + bytes.len() as u64;
        if end > inner.reserved {
            let reserved = (end + RESERVE_BYTES).next_multiple_of(RESERVE_BYTES);
            file.allocate(reserved)?;
            inner.reserved = reserved;
        }
        file.write_all_at(&[IoSlice::new(&bytes)], inner.end)?;
        inner.end = end;
        if let Some(since) = &mut inner.since {
            since.extend(payloads);
        }
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Records that the journal is durable up to a position. Not synced: the record survives a kill, and
    /// after a power cut an older one does no harm.
    pub fn note_synced(&self, position: u64) -> io::Result<()> {
        let inner = self.inner.lock();
        let Some(file) = &inner.file else { return Ok(()) };
        file.write_all_at(&[IoSlice::new(&encode_synced(inner.sequence, position))], SYNCED_AT as u64)
    }

    /// Begins a new state: rows added from here on follow it.
    pub fn begin(&self) {
        self.inner.lock().since = Some(Vec::new());
    }

    /// Writes the state taken at [`GroupsFile::begin`] to the inactive copy, durably, and makes it the active
    /// one. May be called again after an error; has no effect once the state is written.
    pub fn write(&self, state: &GroupsState) -> io::Result<()> {
        let _busy = self.busy.lock();
        let (target, sequence) = {
            let inner = self.inner.lock();
            if inner.since.is_none() {
                return Ok(());
            }
            (1 - inner.current, inner.sequence + 1)
        };
        let path = self.dir.join(NAMES[target]);
        let file = self.disk.open(&path, OpenMode::Create)?;
        let (bytes, old_len) = (state.encode(sequence), file.len()?);
        let end = bytes.len() as u64;
        let reserved = (end + RESERVE_BYTES).next_multiple_of(RESERVE_BYTES).max(old_len);
        file.allocate(reserved)?;
        // Zeros overwrite all of the older state after the new one.
        let rest = vec![0; (reserved - end) as usize];
        file.write_all_at(&[IoSlice::new(&bytes), IoSlice::new(&rest)], 0)?;
        file.sync()?;
        if old_len == 0 {
            self.disk.sync_dir(&self.dir)?;
        }
        let mut inner = self.inner.lock();
        let since = inner.since.take().unwrap_or_default();
        let mut added = Vec::new();
        since.iter().for_each(|payload| put_row(sequence, end, payload, &mut added));
        let room = |len: u64| if len > reserved { file.allocate(len) } else { Ok(()) };
        let written = room(end + added.len() as u64)
            .and_then(|()| file.write_all_at(&[IoSlice::new(&added)], end))
            .and_then(|()| if added.is_empty() { Ok(()) } else { file.sync() });
        if let Err(e) = written {
            inner.since = Some(since);
            return Err(e);
        }
        (inner.current, inner.sequence, inner.file) = (target, sequence, Some(file));
        (inner.end, inner.reserved) = (end + added.len() as u64, reserved.max(end + added.len() as u64));
        Ok(())
    }

    /// Makes the rows added so far durable.
    pub fn sync(&self) -> io::Result<()> {
        if !self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let _busy = self.busy.lock();
        if self.dirty.swap(false, Ordering::AcqRel) {
            let file = self.inner.lock().file.clone();
            let synced = file.map_or(Ok(()), |file| file.sync());
            synced.inspect_err(|_| self.dirty.store(true, Ordering::Release))?;
        }
        Ok(())
    }

    /// Returns the copies that are damaged or missing.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let _busy = self.busy.lock();
        // The lock excludes half-written rows.
        let _inner = self.inner.lock();
        let paths = NAMES.map(|name| self.dir.join(name));
        let whole = |path: &PathBuf| {
            let bytes = read(&*self.disk, path).ok().flatten();
            bytes.and_then(|bytes| decode(&bytes)).is_some_and(|copy| copy.whole)
        };
        paths.into_iter().filter(|path| !whole(path)).collect()
    }
}

/// Encodes the part of the head that is written on its own: position, checksum, zeros.
fn encode_synced(sequence: u64, position: u64) -> [u8; HEAD_BYTES - SYNCED_AT] {
    let mut out = [0; HEAD_BYTES - SYNCED_AT];
    let crc = disk::crc::crc32c_of_two(&sequence.to_le_bytes(), &position.to_le_bytes());
    let bytes = position.to_le_bytes().into_iter().chain(crc.to_le_bytes());
    out.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    out
}

fn payload(row: &JournalRow<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    row.encode(&mut payload);
    payload
}

/// Appends a row to `out`, which begins at an offset in the file.
fn put_row(sequence: u64, begin: u64, payload: &[u8], out: &mut Vec<u8>) {
    let offset = begin + out.len() as u64;
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(sequence, offset, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

fn checksum(sequence: u64, offset: u64, payload: &[u8]) -> u32 {
    let place = [sequence.to_le_bytes(), offset.to_le_bytes()].concat();
    disk::crc::crc32c_of_two(&place, payload)
}

/// Returns the valid row at an offset.
fn row_at(bytes: &[u8], sequence: u64, offset: usize) -> Option<&[u8]> {
    let [a, b, c, d, crc @ ..] = *bytes.get(offset..)?.first_chunk::<FRAME_BYTES>()?;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len == 0 || len > ROW_BYTES_MAX {
        return None;
    }
    let payload = bytes.get(offset + FRAME_BYTES..)?.get(..len)?;
    (checksum(sequence, offset as u64, payload) == u32::from_le_bytes(crc)).then_some(payload)
}

/// The bytes of a copy, as far as they can be read; `None` if there is none.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, OpenMode::ReadOnly) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = vec![0; file.len()? as usize];
    // An unreadable file is treated as damaged.
    let n = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(n);
    Ok(Some(bytes))
}

/// Decodes a copy; `None` if its head is damaged.
fn decode(bytes: &[u8]) -> Option<GroupsCopy> {
    let (head, crc) = bytes.get(..SYNCED_AT)?.split_at(SYNCED_AT - 4);
    if !head.starts_with(MAGIC) || crc != disk::crc::crc32c(head).to_le_bytes() {
        return None;
    }
    let number = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk::<8>()?));
    let (sequence, state_bytes) = (number(8)?, number(16)?);
    let next_group = u32::from_le_bytes(*head.get(24..)?.first_chunk::<4>()?);
    let used = without_trailing_zeros(bytes).len();
    let synced = bytes.get(SYNCED_AT..HEAD_BYTES)?;
    let position = u64::from_le_bytes(*synced.first_chunk()?);
    let known = encode_synced(sequence, position) == synced;
    let mut copy = GroupsCopy {
        sequence,
        next_group,
        synced: if known { position } else { 0 },
        payloads: Vec::new(),
        whole: known,
        end: HEAD_BYTES as u64,
    };
    let mut at = HEAD_BYTES;
    while at < used {
        match row_at(bytes, sequence, at) {
            Some(payload) => {
                copy.payloads.push(payload.to_vec());
                at += FRAME_BYTES + payload.len();
                copy.end = at as u64;
            }
            None => {
                copy.whole = false;
                at += 1;
            }
        }
    }
    copy.whole &= copy.end >= HEAD_BYTES as u64 + state_bytes;
    Some(copy)
}
