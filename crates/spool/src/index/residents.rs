//! Residents: the articles of each volume in writing order, so that an overwrite knows which it displaces.
//!
//! A stream of small entries (place, groups and numbers; about 9 bytes per article) in pages with a checksum,
//! in 4 MiB files: the writer appends at one end as it stores, and takes from the other as the volume's write
//! position passes (CNFS-11). The stream is never read as a whole. A fold of the journal: the replay writes
//! again what follows the checkpoint. A damaged page is reported as such; its entries can be recovered from
//! the volume itself ([`Residents::recover`]). Layout: `docs/formats/residents.md`.

mod from_volume;
mod mend;
mod page;

use disk::{Disk, DiskFile};
pub(crate) use from_volume::residents_between;
use page::{PAGE_BYTES, ResidentCoder, ResidentPages};
use spool_base::ids::GroupId;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of one file of the stream in bytes.
const FILE_BYTES: u64 = 4 << 20;

/// One article in a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resident {
    pub place: u64,
    /// Time of arrival, in Unix seconds.
    pub arrived: u32,
    pub numbers: Vec<(GroupId, u64)>,
    /// Count of its class's ring at its end; 0: it has none.
    pub ring_end: u64,
}

impl Resident {
    /// Returns the entry of this article.
    fn entry(&self) -> ResidentEntry<'_> {
        let Self { place, arrived, ref numbers, ring_end } = *self;
        ResidentEntry { place, arrived, numbers, ring_end }
    }
}

/// Entry of an article that is about to be added; fields as in [`Resident`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidentEntry<'a> {
    pub place: u64,
    pub arrived: u32,
    pub numbers: &'a [(GroupId, u64)],
    pub ring_end: u64,
}

/// State of a stream in a checkpoint: byte positions in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResidentsState {
    pub read: u64,
    pub written: u64,
}

/// Read position in a page.
#[derive(Debug, Clone, Copy, Default)]
struct ResidentsPosition {
    /// Stream position of the page.
    page: u64,
    /// Offset in the entries of the page.
    offset: usize,
    coder: ResidentCoder,
}

/// Stream of one volume; owned by the writer.
#[derive(Debug)]
pub(crate) struct Residents {
    pages: ResidentPages,
    at: ResidentsPosition,
    /// Offset at which reading begins in a page that was not read yet.
    skip_to: usize,
    front: Option<Resident>,
    /// Read position after the front.
    behind_front: ResidentsPosition,
    /// Entries of a damaged page, recovered from the volume; followed by the position of that page.
    recovered: VecDeque<Resident>,
    recovered_page: u64,
    /// Where in history the key of the next article to be displaced is looked for.
    pub key_cursor: u64,
    /// Place of the last entry taken.
    last_place: Option<u64>,
    spare: Vec<(GroupId, u64)>,
}

impl Residents {
    /// Opens the stream as of a checkpoint.
    pub fn open(disk: &Arc<dyn Disk>, dir: PathBuf, state: ResidentsState) -> io::Result<Self> {
        if !state.written.is_multiple_of(PAGE_BYTES) || state.read > state.written {
            return Err(damaged());
        }
        let pages = ResidentPages::open(disk, dir, state.read / PAGE_BYTES * PAGE_BYTES, state.written)?;
        let page = state.read / PAGE_BYTES * PAGE_BYTES;
        Ok(Self {
            pages,
            at: ResidentsPosition { page, ..ResidentsPosition::default() },
            skip_to: (state.read - page) as usize,
            front: None,
            behind_front: ResidentsPosition::default(),
            recovered: VecDeque::new(),
            recovered_page: 0,
            key_cursor: 0,
            last_place: None,
            spare: Vec::new(),
        })
    }

    /// Adds an article that was stored after all others.
    pub fn push(&mut self, entry: &ResidentEntry<'_>) -> io::Result<()> {
        self.pages.push(entry)
    }

    /// Writes the data that an earlier push could not write.
    pub fn write_late(&mut self) -> io::Result<()> {
        self.pages.write_late()
    }

    /// Writes out everything in memory.
    pub fn write_out(&mut self) -> io::Result<()> {
        self.pages.write_out()
    }

    /// Finds the first entry to read in the page named by a checkpoint.
    fn catch_up(&mut self) -> io::Result<()> {
        let entries = self.pages.entries(self.at.page)?;
        while self.at.offset < self.skip_to {
            let next = self.at.coder.get(entries, &mut self.at.offset, &mut self.spare);
            self.spare = next.ok_or_else(damaged)?.numbers;
        }
        let there = self.at.offset == self.skip_to;
        self.skip_to = 0;
        if there { Ok(()) } else { Err(damaged()) }
    }

    /// Returns the oldest article of the volume. `InvalidData`: its page is damaged.
    pub fn front(&mut self) -> io::Result<Option<&Resident>> {
        if !self.recovered.is_empty() {
            return Ok(self.recovered.front());
        }
        while self.front.is_none() {
            if self.skip_to > 0 {
                self.catch_up()?;
            }
            let entries = self.pages.entries(self.at.page)?;
            if self.at.offset < entries.len() {
                self.behind_front = self.at;
                let ResidentsPosition { coder, offset, .. } = &mut self.behind_front;
                self.front = Some(coder.get(entries, offset, &mut self.spare).ok_or_else(damaged)?);
            } else if self.at.page < self.pages.open_at() {
                self.at =
                    ResidentsPosition { page: self.at.page + PAGE_BYTES, ..ResidentsPosition::default() };
            } else {
                return Ok(None);
            }
        }
        Ok(self.front.as_ref())
    }

    /// Removes the front if it leaves. `InvalidData`: its page is damaged; see [`Residents::recover`].
    pub fn pop_if(&mut self, leaves: impl FnOnce(&Resident) -> bool) -> io::Result<Option<Resident>> {
        if !self.front()?.is_some_and(leaves) {
            return Ok(None);
        }
        let taken = self.recovered.pop_front().or_else(|| {
            self.at = self.behind_front;
            self.front.take()
        });
        self.last_place = taken.as_ref().map(|r| r.place).or(self.last_place);
        Ok(taken)
    }

    /// Skips the damaged pages at the read position; `read` returns their contents: the articles that lie in
    /// the volume from the first place on (if known) and before the second (likewise).
    pub fn recover(
        &mut self,
        read: impl FnOnce(Option<u64>, Option<u64>) -> VecDeque<Resident>,
    ) -> io::Result<()> {
        let page = self.at.page;
        loop {
            self.skip_to = 0;
            self.at = ResidentsPosition { page: self.at.page + PAGE_BYTES, ..ResidentsPosition::default() };
            let next = match self.front() {
                Err(e) if e.kind() == io::ErrorKind::InvalidData => continue,
                front => front?.map(|r| r.place),
            };
            self.recovered = read(self.last_place.map(|p| p + 1), next);
            self.recovered_page = page;
            return Ok(());
        }
    }

    /// Takes back the memory of a popped value.
    pub fn recycle(&mut self, resident: Resident) {
        self.spare = resident.numbers;
        self.spare.clear();
    }

    /// Calls `visit` for the articles before `end`, oldest first, without removing them. Damaged pages are
    /// skipped.
    pub fn peek_before(&mut self, end: u64, visit: &mut dyn FnMut(&Resident)) -> io::Result<()> {
        self.front()?;
        self.recovered.iter().take_while(|r| r.place < end).for_each(&mut *visit);
        let mut at = self.at;
        let mut spare = Vec::new();
        while at.page <= self.pages.open_at() {
            let entries = match self.pages.entries(at.page) {
                Err(e) if e.kind() == io::ErrorKind::InvalidData => &[],
                entries => entries?,
            };
            while at.offset < entries.len() {
                let Some(resident) = at.coder.get(entries, &mut at.offset, &mut spare) else { break };
                if resident.place >= end {
                    return Ok(());
                }
                visit(&resident);
                spare = resident.numbers;
            }
            at = ResidentsPosition { page: at.page + PAGE_BYTES, ..ResidentsPosition::default() };
        }
        Ok(())
    }

    /// Calls `visit` with the position of each damaged page; returns the number of pages.
    pub fn verify(&mut self, visit: &mut dyn FnMut(u64)) -> u64 {
        let mut pages = 0;
        // Recovered entries are in memory only.
        let mut page = if self.recovered.is_empty() { self.at.page } else { self.recovered_page };
        while page < self.pages.open_at() {
            pages += 1;
            if self.pages.check(page).is_err() {
                visit(page);
            }
            page += PAGE_BYTES;
        }
        pages
    }

    /// Writes out everything in memory and returns the state for a checkpoint.
    pub fn checkpoint(&mut self) -> io::Result<ResidentsState> {
        self.pages.write_out()?;
        // The position must not be after the last entry of a page: a stream without entries has nothing to
        // read.
        let front = self.front().is_ok();
        let read = match (self.recovered.is_empty(), front) {
            (false, _) => self.recovered_page,
            // If a damaged page must be read from the middle, the next start does the same.
            (true, _) => self.at.page + (self.at.offset.max(self.skip_to)) as u64,
        };
        Ok(ResidentsState { read, written: self.pages.open_at() })
    }

    /// Returns the files to sync before a checkpoint may be written.
    pub fn take_dirty(&mut self) -> Vec<Arc<dyn DiskFile>> {
        self.pages.take_dirty()
    }

    /// Returns the files that lie wholly before a checkpoint's read position; to be removed once it is
    /// durable.
    pub fn take_dead(&mut self, state: ResidentsState) -> Vec<PathBuf> {
        self.pages.take_dead(state.read)
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> &Path {
        self.pages.dir()
    }

    /// Returns the number of bytes between the two ends.
    pub fn bytes(&self) -> u64 {
        self.pages.end() - (self.at.page + self.at.offset as u64).min(self.pages.end())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a residents file is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{OpenMode, SimDisk};
    use std::io::IoSlice;

    /// Article `i`; a third of them belong to no ring.
    fn resident(i: u64) -> Resident {
        let numbers = (0..1 + i % 3).map(|k| (GroupId(k as u32), i * 7 + k)).collect();
        let ring_end = if i.is_multiple_of(3) { 0 } else { (1 << 40) + i * 1_000 };
        Resident { place: i * 64, arrived: i as u32, numbers, ring_end }
    }

    #[test]
    fn first_in_first_out_over_files_and_restarts() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let dir = PathBuf::from("/r");
        let mut r = Residents::open(&disk, dir.clone(), ResidentsState::default()).unwrap();
        let (mut pushed, mut popped) = (0u64, 0u64);
        while pushed < 300_000 {
            for _ in 0..1 + pushed % 977 {
                r.push(&resident(pushed).entry()).unwrap();
                pushed += 1;
            }
            let keep = 140_000 + pushed % 1000;
            while let Some(x) = r.pop_if(|x| x.place < pushed.saturating_sub(keep) * 64).unwrap() {
                assert_eq!(x, resident(popped));
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

    #[test]
    fn a_flipped_bit_is_reported_and_the_other_entries_are_read() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let dir = PathBuf::from("/r");
        let mut r = Residents::open(&disk, dir.clone(), ResidentsState::default()).unwrap();
        (0..10_000).for_each(|n| r.push(&resident(n).entry()).unwrap());
        let state = r.checkpoint().unwrap();
        let file = disk.open(&dir.join("0000000000.res"), OpenMode::Existing).unwrap();
        for bit in (0..PAGE_BYTES * 8).step_by(4999) {
            let at = PAGE_BYTES + bit / 8;
            let flip = || {
                let mut byte = [0];
                file.read_at(&mut byte, at).unwrap();
                file.write_all_at(&[IoSlice::new(&[byte[0] ^ 1 << (bit % 8)])], at).unwrap();
            };
            flip();
            let mut r = Residents::open(&disk, dir.clone(), state).unwrap();
            let mut bad = Vec::new();
            r.verify(&mut |page| bad.push(page));
            assert_eq!(bad, [PAGE_BYTES], "bit {bit}");
            let mut next = 0;
            let all = 10_000 * 64;
            while next < 10_000 {
                match r.pop_if(|x| x.place < all) {
                    Ok(x) => {
                        assert_eq!(x.unwrap().place, next * 64);
                        next += 1;
                    }
                    Err(_) => r
                        .recover(|from, to| {
                            assert_eq!(from, Some((next - 1) * 64 + 1));
                            let lost = next..to.unwrap() / 64;
                            lost.map(resident).collect()
                        })
                        .unwrap(),
                }
                // Until all its entries are taken, the page counts as unread.
                if !r.recovered.is_empty() {
                    assert_eq!(r.checkpoint().unwrap().read, PAGE_BYTES);
                }
            }
            flip();
        }
    }
}
