//! One simulated file: its current contents, what certainly survives a power cut, and the writes in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

use super::memory::{FILE_BYTES_MAX, PAGE_BYTES, SimMemory};
use super::random::{SimRandom, Survival};

/// Unit in which writes reach the disk: a write over several may be torn between them.
const SECTOR_BYTES: u64 = 512;

/// A write since the last sync.
#[derive(Debug, Clone)]
enum PendingWrite {
    /// Bytes at an offset.
    Bytes(u64, Vec<u8>),
    /// Zeros at an offset, this many, where a file was truncated.
    Zeros(u64, u64),
}

impl PendingWrite {
    fn sectors(&self) -> std::ops::Range<u64> {
        let (offset, len) = match self {
            Self::Bytes(offset, bytes) => (*offset, bytes.len() as u64),
            Self::Zeros(offset, len) => (*offset, *len),
        };
        offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES)
    }

    fn apply(&self, memory: &SimMemory) {
        match self {
            Self::Bytes(offset, bytes) => memory.write(bytes, *offset),
            Self::Zeros(offset, len) => memory.zero(*offset, *len),
        }
    }

    /// Applies the part of the write in one sector.
    fn apply_sector(&self, memory: &SimMemory, sector: u64) {
        let (start, end) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
        match self {
            Self::Bytes(offset, bytes) => {
                let from = start.saturating_sub(*offset) as usize;
                let to = (end.saturating_sub(*offset) as usize).min(bytes.len());
                memory.write(bytes.get(from..to).unwrap_or_default(), start.max(*offset));
            }
            Self::Zeros(offset, len) => {
                let start = start.max(*offset);
                memory.zero(start, end.min(offset + len).saturating_sub(start));
            }
        }
    }
}

/// A file, with or without name.
#[derive(Debug)]
pub(super) struct SimNode {
    pub live: SimMemory,
    pub len: u64,
    /// End of the space that has been written or reserved.
    pub space: u64,
    durable: SimMemory,
    durable_len: u64,
    writes: Vec<PendingWrite>,
    /// Pages that may have been changed through mappings, also of processes that were killed: sorted, apart.
    by_maps: Vec<Range<u64>>,
    /// Bytes that cannot be read.
    unreadable: Vec<Range<u64>>,
    /// Pages of mappings that met such bytes; they are now zeros.
    pub lost: BTreeSet<u64>,
    /// Mapped page ranges.
    mapped_pages: Vec<Range<u64>>,
    /// Ranges that were written back early, and those released from memory.
    pub written_back: Vec<Range<u64>>,
    pub released: Vec<Range<u64>>,
}

impl SimNode {
    pub fn new() -> io::Result<Self> {
        let (live, durable) = (SimMemory::new()?, SimMemory::new()?);
        Ok(Self {
            live,
            len: 0,
            space: 0,
            durable,
            durable_len: 0,
            writes: Vec::new(),
            by_maps: Vec::new(),
            unreadable: Vec::new(),
            lost: BTreeSet::new(),
            mapped_pages: Vec::new(),
            written_back: Vec::new(),
            released: Vec::new(),
        })
    }

    pub fn write(&mut self, bytes: Vec<u8>, offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        check_len(end)?;
        if !bytes.is_empty() {
            self.live.write(&bytes, offset);
            self.make_readable(offset..end);
            self.writes.push(PendingWrite::Bytes(offset, bytes));
            self.len = self.len.max(end);
            self.space = self.space.max(end);
        }
        Ok(())
    }

    pub fn set_len(&mut self, len: u64) -> io::Result<()> {
        check_len(len)?;
        if len < self.len {
            let cut = PendingWrite::Zeros(len, self.len - len);
            cut.apply(&self.live);
            self.writes.push(cut);
        }
        self.len = len;
        self.space = self.space.min(len);
        Ok(())
    }

    pub fn allocate(&mut self, len: u64) -> io::Result<()> {
        check_len(len)?;
        self.len = self.len.max(len);
        self.space = self.space.max(len);
        Ok(())
    }

    /// Makes these bytes unreadable until they are written: reads fail, and mappings lose the pages.
    pub fn spoil(&mut self, bytes: Range<u64>) {
        self.unreadable.push(bytes);
        for pages in self.mapped_pages.clone() {
            self.lose(pages);
        }
    }

    /// Reports whether any of these bytes cannot be read.
    pub fn is_unreadable(&self, bytes: &Range<u64>) -> bool {
        self.unreadable.iter().any(|r| r.start < bytes.end && bytes.start < r.end)
    }

    fn make_readable(&mut self, written: Range<u64>) {
        let rest = |r: &Range<u64>| {
            let (before, after) = (r.start..r.end.min(written.start), r.start.max(written.end)..r.end);
            [before, after].into_iter().filter(|r| r.start < r.end)
        };
        self.unreadable = self.unreadable.iter().flat_map(rest).collect();
    }

    /// Replaces the unreadable pages among these by zeros, as the kernel does when a mapping touches them.
    fn lose(&mut self, pages: Range<u64>) {
        for page in pages {
            if self.is_unreadable(&(page * PAGE_BYTES..(page + 1) * PAGE_BYTES)) && self.lost.insert(page) {
                self.live.zero(page * PAGE_BYTES, PAGE_BYTES);
            }
        }
    }

    /// Returns the memory, for a mapping of these pages.
    pub fn map(&mut self, pages: Range<u64>) -> SimMemory {
        add_range(&mut self.by_maps, pages.clone());
        self.live.touch(pages.end.saturating_mul(PAGE_BYTES));
        self.mapped_pages.push(pages.clone());
        self.lose(pages);
        self.live.clone()
    }

    /// Returns the pages that may have been changed through mappings, as far as the file reaches.
    fn pages_by_maps(&self) -> impl Iterator<Item = u64> {
        let end = self.len.max(self.durable_len).div_ceil(PAGE_BYTES);
        self.by_maps.iter().flat_map(move |pages| pages.start..pages.end.min(end))
    }

    pub fn sync(&mut self) {
        self.writes.iter().for_each(|write| write.apply(&self.durable));
        self.pages_by_maps().for_each(|page| self.durable.copy_page(&self.live, page));
        self.writes.clear();
        self.durable_len = self.len;
    }

    /// Returns the file after the process dies while the machine keeps running: unsynced writes are still
    /// pending.
    pub fn after_kill(&self) -> io::Result<Self> {
        let copy = Self {
            len: self.len,
            space: self.space,
            durable_len: self.durable_len,
            writes: self.writes.clone(),
            by_maps: self.by_maps.clone(),
            unreadable: self.unreadable.clone(),
            ..Self::new()?
        };
        copy.live.copy_from(&self.live, self.len);
        copy.durable.copy_from(&self.durable, self.durable_len);
        Ok(copy)
    }

    /// Returns the file as of the last sync.
    pub fn as_synced(&self) -> io::Result<Self> {
        let copy = Self {
            len: self.durable_len,
            space: self.durable_len,
            durable_len: self.durable_len,
            unreadable: self.unreadable.clone(),
            ..Self::new()?
        };
        copy.live.copy_from(&self.durable, self.durable_len);
        copy.durable.copy_from(&self.durable, self.durable_len);
        Ok(copy)
    }

    /// Returns the file as of the last sync, with some of the later changes: each sector has seen any number
    /// of its writes, in their order; each page changed through a mapping is old or new; the length too.
    pub fn after_power_cut(&self, random: &mut SimRandom) -> io::Result<Self> {
        let mut node = self.as_synced()?;
        let survival = random.survival();
        self.apply_surviving_writes(&node.live, survival, random);
        if !self.by_maps.is_empty() {
            let written = self.as_synced()?.live;
            self.writes.iter().for_each(|write| write.apply(&written));
            let end = self.len.div_ceil(PAGE_BYTES);
            for page in self.pages_by_maps().take_while(|page| *page < end) {
                if !self.live.page_equals(&written, page) && survival.of(random) {
                    node.live.copy_page(&self.live, page);
                }
            }
        }
        if self.len != self.durable_len && survival.of(random) {
            node.len = self.len;
        }
        node.live.zero(node.len, self.len.max(self.durable_len).saturating_sub(node.len));
        node.durable_len = node.len;
        node.durable.copy_from(&node.live, self.len.max(self.durable_len));
        Ok(node)
    }

    fn apply_surviving_writes(&self, to: &SimMemory, survival: Survival, random: &mut SimRandom) {
        let mut writes_of: BTreeMap<u64, Vec<&PendingWrite>> = BTreeMap::new();
        for write in &self.writes {
            write.sectors().for_each(|sector| writes_of.entry(sector).or_default().push(write));
        }
        for (sector, writes) in writes_of {
            let surviving = survival.count_of(writes.len(), random);
            writes.into_iter().take(surviving).for_each(|write| write.apply_sector(to, sector));
        }
    }
}

fn check_len(len: u64) -> io::Result<()> {
    if len > FILE_BYTES_MAX { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

/// Adds a range to sorted ones that do not touch each other, and joins those that it connects.
fn add_range(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    let mut joined = new;
    ranges.retain(|range| {
        let is_apart = range.end < joined.start || joined.end < range.start;
        if !is_apart {
            joined = joined.start.min(range.start)..joined.end.max(range.end);
        }
        is_apart
    });
    let at = ranges.partition_point(|range| range.start < joined.start);
    ranges.insert(at, joined);
}
