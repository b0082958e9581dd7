//! Residents: per volume the articles in writing order, so that an overwrite knows whom it displaces.
//!
//! A stream of small entries (place, groups and numbers; about 16 bytes an article) in 4 MiB files: the writer appends
//! at one end as it stores, and takes from the other as the volume's write position passes (CNFS-11). Nothing ever
//! iterates over it as a whole. A fold of the journal: what is behind the checkpoint is written again by the replay.
//! Layout: `docs/formats/residents.md`.

use crate::codec::{Reader, put_varint};
use crate::disk::{Disk, DiskFile, Open};
use crate::groups::GroupId;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of one file of the stream.
const FILE_BYTES: u64 = 4 << 20;
/// Unwritten bytes at which the stream is written on.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// One article in a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resident {
    pub place: u64,
    /// Unix seconds.
    pub arrived: u32,
    pub numbers: Vec<(GroupId, u64)>,
}

/// A stream's state in a checkpoint: byte positions in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResidentsState {
    pub read: u64,
    pub written: u64,
}

/// The stream of one volume; owned by the writer.
#[derive(Debug)]
pub(crate) struct Residents {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: BTreeMap<u64, (Arc<dyn DiskFile>, bool)>,
    /// Stream position of `unwritten`.
    written: u64,
    unwritten: Vec<u8>,
    /// Stream position behind `ahead`.
    read: u64,
    /// Bytes read and not yet taken, from `taken` on.
    ahead: Vec<u8>,
    taken: usize,
    front: Option<Resident>,
    /// Length of the front's entry.
    front_bytes: usize,
    spare: Vec<(GroupId, u64)>,
}

impl Residents {
    /// Opens the stream as of a checkpoint.
    pub fn open(disk: &Arc<dyn Disk>, dir: PathBuf, state: ResidentsState) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        let new = Self {
            disk: disk.clone(),
            dir,
            files: BTreeMap::new(),
            written: state.written,
            unwritten: Vec::new(),
            read: state.read,
            ahead: Vec::new(),
            taken: 0,
            front: None,
            front_bytes: 0,
            spare: Vec::new(),
        };
        let (first, end) = (state.read / FILE_BYTES, state.written.div_ceil(FILE_BYTES));
        for name in new.disk.list(&new.dir)? {
            if !number_of(&name).is_some_and(|n| (first..end).contains(&n)) {
                new.disk.remove(&new.dir.join(name))?;
            }
        }
        for number in first..end {
            let end = (state.written - number * FILE_BYTES).min(FILE_BYTES);
            if new.disk.open(&new.dir.join(file_name(number)), Open::Existing)?.len()? < end {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a residents file is too short"));
            }
        }
        Ok(new)
    }

    /// Adds an article that was stored behind all others.
    pub fn push(&mut self, place: u64, arrived: u32, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        put_varint(place, &mut self.unwritten);
        put_varint(u64::from(arrived), &mut self.unwritten);
        put_varint(numbers.len() as u64, &mut self.unwritten);
        for (group, number) in numbers {
            put_varint(u64::from(group.0), &mut self.unwritten);
            put_varint(*number, &mut self.unwritten);
        }
        if self.unwritten.len() >= WRITE_BYTES { self.write_out() } else { Ok(()) }
    }

    fn file(&mut self, number: u64, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        if let Some((file, _)) = self.files.get(&number) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&self.dir.join(file_name(number)), how)?;
        self.files.insert(number, (file.clone(), false));
        Ok(file)
    }

    fn write_out(&mut self) -> io::Result<()> {
        while !self.unwritten.is_empty() {
            let (number, offset) = (self.written / FILE_BYTES, self.written % FILE_BYTES);
            let n = self.unwritten.len().min((FILE_BYTES - offset) as usize);
            let file = self.file(number, Open::Create)?;
            let part = self.unwritten.get(..n).unwrap_or_default();
            file.write_all_at(&[IoSlice::new(part)], offset)?;
            if let Some(entry) = self.files.get_mut(&number) {
                entry.1 = true;
            }
            self.written += n as u64;
            self.unwritten.drain(..n);
        }
        Ok(())
    }

    /// The oldest article of the volume.
    pub fn front(&mut self) -> io::Result<Option<&Resident>> {
        if self.front.is_none() {
            loop {
                if let Some((resident, n)) = decode(&self.ahead[self.taken..], &mut self.spare) {
                    self.front = Some(resident);
                    self.front_bytes = n;
                    break;
                }
                if !self.read_on()? {
                    if self.ahead.len() > self.taken {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "a residents file is damaged",
                        ));
                    }
                    break;
                }
            }
        }
        Ok(self.front.as_ref())
    }

    /// Takes the front away if it lies before `tail`.
    pub fn pop_before(&mut self, tail: u64) -> io::Result<Option<Resident>> {
        if self.front()?.is_none_or(|r| r.place >= tail) {
            return Ok(None);
        }
        self.taken += self.front_bytes;
        Ok(self.front.take())
    }

    /// Gives a popped value's memory back.
    pub fn recycle(&mut self, resident: Resident) {
        self.spare = resident.numbers;
        self.spare.clear();
    }

    /// Reads more into `ahead`; false at the end of the stream.
    fn read_on(&mut self) -> io::Result<bool> {
        self.ahead.drain(..self.taken);
        self.taken = 0;
        if self.read >= self.written {
            let from = (self.read - self.written) as usize;
            let rest = self.unwritten.get(from..).unwrap_or_default();
            self.ahead.extend_from_slice(rest);
            self.read += rest.len() as u64;
            return Ok(!rest.is_empty());
        }
        let (number, offset) = (self.read / FILE_BYTES, self.read % FILE_BYTES);
        let n = (self.written - self.read).min(READ_BYTES as u64).min(FILE_BYTES - offset) as usize;
        let file = self.file(number, Open::Existing)?;
        let start = self.ahead.len();
        self.ahead.resize(start + n, 0);
        let read = file.read_exact_at(&mut self.ahead[start..], offset);
        if read.is_err() {
            self.ahead.truncate(start);
        }
        read?;
        self.read += n as u64;
        Ok(true)
    }

    /// Calls `visit` for the articles before `end`, oldest first, without taking them.
    pub fn peek_before(&mut self, end: u64, visit: &mut dyn FnMut(&Resident)) -> io::Result<()> {
        let mut spare = Vec::new();
        let mut at = self.taken;
        loop {
            match decode(&self.ahead[at..], &mut spare) {
                Some((resident, _)) if resident.place >= end => return Ok(()),
                Some((resident, n)) => {
                    visit(&resident);
                    at += n;
                    spare = resident.numbers;
                    spare.clear();
                }
                None => {
                    let kept = at - self.taken;
                    if !self.read_on()? {
                        return Ok(());
                    }
                    at = kept;
                }
            }
        }
    }

    /// Writes out what is in memory and returns the state for a checkpoint.
    pub fn checkpoint(&mut self) -> io::Result<ResidentsState> {
        self.write_out()?;
        let state = ResidentsState {
            read: self.read - (self.ahead.len() - self.taken) as u64,
            written: self.written,
        };
        Ok(state)
    }

    /// Files to sync before a checkpoint may be written.
    pub fn take_dirty(&mut self) -> Vec<Arc<dyn DiskFile>> {
        let dirty = self.files.values_mut().filter(|(_, dirty)| *dirty);
        dirty.map(|(file, dirty)| (file.clone(), *dirty = false).0).collect()
    }

    /// Files that lie wholly before a checkpoint's read position; to be removed once it is durable.
    pub fn take_dead(&mut self, state: ResidentsState) -> Vec<PathBuf> {
        let first = state.read / FILE_BYTES;
        let keep = self.files.split_off(&first);
        let names = std::mem::replace(&mut self.files, keep);
        names.keys().map(|n| self.dir.join(file_name(*n))).collect()
    }

    /// Directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes between the two ends.
    pub fn bytes(&self) -> u64 {
        self.written + self.unwritten.len() as u64 - self.read + (self.ahead.len() - self.taken) as u64
    }
}

fn decode(bytes: &[u8], spare: &mut Vec<(GroupId, u64)>) -> Option<(Resident, usize)> {
    let mut r = Reader(bytes);
    let place = r.varint()?;
    let arrived = u32::try_from(r.varint()?).ok()?;
    let count = r.varint()?;
    spare.clear();
    for _ in 0..count {
        spare.push((GroupId(u32::try_from(r.varint()?).ok()?), r.varint()?));
    }
    Some((Resident { place, arrived, numbers: std::mem::take(spare) }, bytes.len() - r.0.len()))
}

fn file_name(number: u64) -> String {
    format!("{number:010}.res")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".res")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    fn numbers(i: u64) -> Vec<(GroupId, u64)> {
        (0..1 + i % 3).map(|k| (GroupId(k as u32), i * 7 + k)).collect()
    }

    #[test]
    fn first_in_first_out_over_files_and_restarts() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let dir = PathBuf::from("/r");
        let mut r = Residents::open(&disk, dir.clone(), ResidentsState::default()).unwrap();
        let (mut pushed, mut popped) = (0u64, 0u64);
        while pushed < 300_000 {
            for _ in 0..1 + pushed % 977 {
                r.push(pushed * 64, pushed as u32, &numbers(pushed)).unwrap();
                pushed += 1;
            }
            let keep = 140_000 + pushed % 1000;
            while let Some(x) = r.pop_before(pushed.saturating_sub(keep) * 64).unwrap() {
                let want = Resident { place: popped * 64, arrived: popped as u32, numbers: numbers(popped) };
                assert_eq!(x, want);
                popped += 1;
                r.recycle(x);
            }
            if pushed % 11 == 0 {
                let state = r.checkpoint().unwrap();
                let dead = r.take_dead(state);
                dead.iter().for_each(|p| disk.remove(p).unwrap());
                r = Residents::open(&disk, dir.clone(), state).unwrap();
            }
        }
        assert!(popped > 140_000);
        let mut seen = popped;
        r.peek_before(pushed * 64, &mut |x| {
            assert_eq!(x.place, seen * 64);
            seen += 1;
        })
        .unwrap();
        assert_eq!(seen, pushed);
        assert_eq!(r.front().unwrap().unwrap().place, popped * 64);
        assert!(disk.list(&dir).unwrap().len() < 5);
    }
}
