//! Pages of the residents stream: entries packed, checked, written and read back.
//!
//! Invariant: a page on disk is never rewritten, except a damaged one by a repair; one that is not full when
//! a checkpoint is taken is never extended.

use super::{FILE_BYTES, Resident, ResidentEntry, damaged};
use disk::{Disk, DiskFile, OpenMode};
use spool_base::codec::{ByteReader, put_varint, unzigzag, zigzag};
use spool_base::ids::GroupId;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a page: fits the largest possible entry (`GROUPS_MAX` groups, 15 bytes each).
pub(super) const PAGE_BYTES: u64 = 16 << 10;
/// Length of checksum and length field at the beginning of a page.
const HEAD_BYTES: usize = 6;
/// Number of unwritten bytes at which pages are written.
const WRITE_BYTES: usize = 64 << 10;

/// Added to the number of an entry's groups if a count of a ring follows; more than `GROUPS_MAX`.
const HAS_RING_END: u64 = 1 << 13;

/// Values that the entries of a page are relative to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResidentCoder {
    place: u64,
    arrived: u32,
    ring_end: u64,
}

impl ResidentCoder {
    fn put(&mut self, entry: &ResidentEntry<'_>, out: &mut Vec<u8>) {
        let ResidentEntry { place, arrived, numbers, ring_end } = *entry;
        put_varint(zigzag(place.wrapping_sub(self.place)), out);
        put_varint(zigzag(i64::from(arrived.wrapping_sub(self.arrived) as i32) as u64), out);
        (self.place, self.arrived) = (place, arrived);
        if ring_end == 0 {
            put_varint(numbers.len() as u64, out);
        } else {
            put_varint(numbers.len() as u64 + HAS_RING_END, out);
            put_varint(zigzag(ring_end.wrapping_sub(self.ring_end)), out);
            self.ring_end = ring_end;
        }
        for (group, number) in numbers {
            put_varint(u64::from(group.0), out);
            put_varint(*number, out);
        }
    }

    /// Decodes the entry at `offset`, which moves past it; `spare` is memory for its numbers.
    pub fn get(
        &mut self,
        entries: &[u8],
        offset: &mut usize,
        spare: &mut Vec<(GroupId, u64)>,
    ) -> Option<Resident> {
        let mut r = ByteReader(entries.get(*offset..)?);
        let place = self.place.wrapping_add(unzigzag(r.varint()?));
        let arrived = self.arrived.wrapping_add(unzigzag(r.varint()?) as u32);
        let (mut count, mut ring_end) = (r.varint()?, 0);
        if let Some(numbers) = count.checked_sub(HAS_RING_END) {
            (count, ring_end) = (numbers, self.ring_end.wrapping_add(unzigzag(r.varint()?)));
        }
        (count <= r.0.len() as u64 / 2).then_some(())?;
        spare.clear();
        for _ in 0..count {
            spare.push((GroupId(u32::try_from(r.varint()?).ok()?), r.varint()?));
        }
        *offset = entries.len() - r.0.len();
        let last_end = if ring_end == 0 { self.ring_end } else { ring_end };
        *self = Self { place, arrived, ring_end: last_end };
        Some(Resident { place, arrived, numbers: std::mem::take(spare), ring_end })
    }
}

/// The pages of one volume's stream.
#[derive(Debug)]
pub(super) struct ResidentPages {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: BTreeMap<u64, (Arc<dyn DiskFile>, bool)>,
    /// Stream position of `sealed`.
    written: u64,
    /// Whole pages that are not written yet.
    sealed: Vec<u8>,
    /// Entries of the open page after them.
    open: Vec<u8>,
    coder: ResidentCoder,
    /// The page read last, checked.
    cached: Option<(u64, Vec<u8>)>,
}

impl ResidentPages {
    /// Opens the pages from the one at `first` up to `written`; removes all other files.
    pub fn open(disk: &Arc<dyn Disk>, dir: PathBuf, first: u64, written: u64) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        let numbers = first / FILE_BYTES..written.div_ceil(FILE_BYTES);
        for name in disk.list(&dir)? {
            if !number_of(&name).is_some_and(|n| numbers.contains(&n)) {
                disk.remove(&dir.join(name))?;
            }
        }
        for number in numbers {
            let end = (written - number * FILE_BYTES).min(FILE_BYTES);
            if disk.open(&dir.join(file_name(number)), OpenMode::Existing)?.len()? < end {
                return Err(damaged());
            }
        }
        Ok(Self {
            disk: disk.clone(),
            dir,
            files: BTreeMap::new(),
            written,
            sealed: Vec::new(),
            open: Vec::new(),
            coder: ResidentCoder::default(),
            cached: None,
        })
    }

    /// Returns the stream position of the page that entries are added to.
    pub fn open_at(&self) -> u64 {
        self.written + self.sealed.len() as u64
    }

    /// Returns the stream position after all entries.
    pub fn end(&self) -> u64 {
        self.open_at() + self.open.len() as u64
    }

    pub fn push(&mut self, entry: &ResidentEntry<'_>) -> io::Result<()> {
        let (start, before) = (self.open.len(), self.coder);
        self.coder.put(entry, &mut self.open);
        if HEAD_BYTES + self.open.len() <= PAGE_BYTES as usize {
            return Ok(());
        }
        self.open.truncate(start);
        self.coder = before;
        self.seal();
        self.coder.put(entry, &mut self.open);
        if self.sealed.len() >= WRITE_BYTES { self.write_sealed() } else { Ok(()) }
    }

    /// Ends the open page.
    fn seal(&mut self) {
        self.coder = ResidentCoder::default();
        if self.open.is_empty() {
            return;
        }
        put_page(self.open_at(), &self.open, &mut self.sealed);
        self.open.clear();
    }

    fn write_sealed(&mut self) -> io::Result<()> {
        while !self.sealed.is_empty() {
            let (number, offset) = (self.written / FILE_BYTES, self.written % FILE_BYTES);
            let n = self.sealed.len().min((FILE_BYTES - offset) as usize);
            let file = self.file(number, OpenMode::Create)?;
            let part = self.sealed.get(..n).unwrap_or_default();
            file.write_all_at(&[IoSlice::new(part)], offset)?;
            if let Some(entry) = self.files.get_mut(&number) {
                entry.1 = true;
            }
            self.written += n as u64;
            self.sealed.drain(..n);
        }
        Ok(())
    }

    /// Writes pages whose earlier write failed.
    pub fn write_late(&mut self) -> io::Result<()> {
        if self.sealed.len() >= WRITE_BYTES { self.write_sealed() } else { Ok(()) }
    }

    /// Ends the open page and writes all pages.
    pub fn write_out(&mut self) -> io::Result<()> {
        self.seal();
        self.write_sealed()
    }

    fn file(&mut self, number: u64, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if let Some((file, _)) = self.files.get(&number) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&self.dir.join(file_name(number)), how)?;
        self.files.insert(number, (file.clone(), false));
        Ok(file)
    }

    /// Returns the entries of a page, from memory or disk.
    pub fn entries(&mut self, at: u64) -> io::Result<&[u8]> {
        if at >= self.open_at() {
            return Ok(&self.open);
        }
        if at >= self.written {
            let start = (at - self.written) as usize;
            return self
                .sealed
                .get(start..start + PAGE_BYTES as usize)
                .and_then(entries_of)
                .ok_or_else(damaged);
        }
        if self.cached.as_ref().is_none_or(|(cached, _)| *cached != at) {
            let page = self.check(at)?;
            self.cached = Some((at, page));
        }
        self.cached.as_ref().and_then(|(_, page)| entries_of(page)).ok_or_else(damaged)
    }

    /// Reads a page; `InvalidData` if it is not as it was written.
    pub fn check(&mut self, at: u64) -> io::Result<Vec<u8>> {
        if at >= self.written {
            return Ok(Vec::new());
        }
        let mut page = self.cached.take().map(|(_, page)| page).unwrap_or_default();
        page.resize(PAGE_BYTES as usize, 0);
        let file = self.file(at / FILE_BYTES, OpenMode::Existing)?;
        // An unreadable page is treated as damaged.
        file.read_exact_at(&mut page, at % FILE_BYTES).map_err(|_| damaged())?;
        let crc = page.first_chunk::<4>().map(|c| u32::from_le_bytes(*c));
        let whole =
            crc == Some(checksum(at, page.get(4..).unwrap_or_default())) && entries_of(&page).is_some();
        if whole { Ok(page) } else { Err(damaged()) }
    }

    /// Overwrites pages on disk with other entries, each durable before the next, so that no entry is missing
    /// whichever of the old pages a crash leaves readable. `InvalidData`, and nothing is written, if the
    /// entries do not fit.
    pub fn rewrite(&mut self, run: Range<u64>, entries: &VecDeque<Resident>) -> io::Result<()> {
        let mut entries = entries.iter().peekable();
        let mut bytes = Vec::new();
        for at in run.clone().step_by(PAGE_BYTES as usize) {
            let (mut coder, mut page) = (ResidentCoder::default(), Vec::new());
            while let Some(entry) = entries.peek() {
                let len = page.len();
                coder.put(&entry.entry(), &mut page);
                if HEAD_BYTES + page.len() > PAGE_BYTES as usize {
                    page.truncate(len);
                    break;
                }
                entries.next();
            }
            put_page(at, &page, &mut bytes);
        }
        if entries.next().is_some() {
            return Err(damaged());
        }
        self.cached = None;
        for (at, page) in run.step_by(PAGE_BYTES as usize).zip(bytes.chunks(PAGE_BYTES as usize)) {
            let file = self.file(at / FILE_BYTES, OpenMode::Existing)?;
            file.write_all_at(&[IoSlice::new(page)], at % FILE_BYTES)?;
            file.sync()?;
        }
        Ok(())
    }

    pub fn take_dirty(&mut self) -> Vec<Arc<dyn DiskFile>> {
        let dirty = self.files.values_mut().filter(|(_, dirty)| *dirty);
        dirty.map(|(file, dirty)| (file.clone(), *dirty = false).0).collect()
    }

    /// Takes the files before a position, to be removed.
    pub fn take_dead(&mut self, before: u64) -> Vec<PathBuf> {
        let keep = self.files.split_off(&(before / FILE_BYTES));
        let names = std::mem::replace(&mut self.files, keep);
        names.keys().map(|n| self.dir.join(file_name(*n))).collect()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Adds a page with these entries to `out`.
fn put_page(at: u64, entries: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    out.extend_from_slice(entries);
    out.resize(start + PAGE_BYTES as usize, 0);
    let crc = checksum(at, out.get(start + 4..).unwrap_or_default());
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Returns the checksum of the page's position and everything after the checksum.
fn checksum(at: u64, rest: &[u8]) -> u32 {
    disk::crc::crc32c_of_two(&at.to_le_bytes(), rest)
}

fn entries_of(page: &[u8]) -> Option<&[u8]> {
    let len = u16::from_le_bytes(*page.get(4..HEAD_BYTES)?.first_chunk()?);
    page.get(HEAD_BYTES..HEAD_BYTES + usize::from(len))
}

fn file_name(number: u64) -> String {
    format!("{number:010}.res")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".res")?.parse().ok()
}
