//! `cnfs`: articles in cyclic buffers (CNFS-01 to CNFS-14; `docs/formats/cnfs.md`).
//!
//! File: two header slots, usage bitmap, article area. Records are appended at the write position; what does not fit
//! before the end goes to the beginning and the cycle number rises (CNFS-02). A place is cycle x area + offset.

pub(crate) mod header;
pub(crate) mod record;

use super::Volume;
use crate::config::BufferConfig;
use crate::disk::{Disk, DiskFile, Mapping, Open};
use crate::error::SpoolError;
use crate::reading::Patience;
use crate::token::MethodKind;
use header::{BufferHeader, HEADERS_BYTES, SLOT_BYTES};
use record::RecordHeader;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Smallest article area: room for a few articles.
const AREA_BYTES_MIN: u64 = 8 << 10;

/// One cyclic buffer.
#[derive(Debug)]
pub(crate) struct Cycbuff {
    id: u16,
    name: String,
    path: String,
    len: u64,
    block: u64,
    area_start: u64,
    area: u64,
    file: Arc<dyn DiskFile>,
    /// One bit a block: a living record starts here (CNFS-08).
    bitmap: Arc<dyn Mapping>,
    head: AtomicU64,
    dirty: AtomicBool,
    headers_written: AtomicU64,
    secret: String,
}

/// Where bitmap and area lie in a buffer of `len` bytes: (area start, area length).
fn geometry(len: u64, block: u64) -> Option<(u64, u64)> {
    let rest = len.checked_sub(HEADERS_BYTES)?;
    let bitmap = (rest / block).div_ceil(8).next_multiple_of(4096);
    let start = (HEADERS_BYTES + bitmap).next_multiple_of(block.max(4096));
    let area = len.checked_sub(start)? / block * block;
    (area >= AREA_BYTES_MIN).then_some((start, area))
}

/// A buffer found on disk, before it is known what the journal says about it.
pub(crate) struct Found {
    file: Arc<dyn DiskFile>,
    pub header: Option<BufferHeader>,
}

impl Found {
    /// Opens a buffer's file and reads its headers; `Ok(None)` if there is no file, or it is empty or not wholly made.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, SpoolError> {
        let file = match disk.open(path, Open::Existing) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(SpoolError::io("open buffer", path)(e)),
        };
        let mut slots = vec![0; HEADERS_BYTES as usize];
        let n = file.read_at(&mut slots, 0).map_err(SpoolError::io("read buffer", path))?;
        slots.truncate(n);
        let header = BufferHeader::newest(&slots);
        let blank = slots.iter().all(|b| *b == 0) || BufferHeader::is_unfinished(&slots);
        let ours = BufferHeader::claims(&slots)
            || slots.get(SLOT_BYTES as usize..).is_some_and(BufferHeader::claims);
        if header.is_none() && !blank && !ours {
            return Err(SpoolError::Unfit(format!(
                "{} holds something that is not a newsreel buffer and is left alone; name another path, or empty it first",
                path.display()
            )));
        }
        Ok((!blank).then_some(Self { file, header }))
    }

    /// Checks it against the configuration.
    pub fn check(&self, config: &BufferConfig) -> Result<(), SpoolError> {
        let path = config.path.display();
        let Some(h) = &self.header else {
            return Err(SpoolError::Unfit(format!(
                "both headers of {path} are damaged; `newsreel rebuild` makes them anew"
            )));
        };
        if h.name != config.name {
            return Err(SpoolError::Unfit(format!(
                "{path} is buffer \"{}\", not \"{}\"",
                h.name, config.name
            )));
        }
        if h.len != config.size_bytes || h.block != config.block_bytes {
            return Err(SpoolError::Unfit(format!(
                "buffer \"{}\" has {} bytes in blocks of {}, but the configuration says {} in blocks of {}; \
                 set size = {} and block = {}",
                h.name, h.len, h.block, config.size_bytes, config.block_bytes, h.len, h.block
            )));
        }
        Ok(())
    }
}

impl Cycbuff {
    /// Makes a new, empty buffer and reserves its space.
    pub fn create(disk: &dyn Disk, config: &BufferConfig, id: u16, secret: &str) -> Result<Self, SpoolError> {
        let path = &config.path;
        if let Some(parent) = path.parent() {
            disk.create_dir(parent).map_err(SpoolError::io("make directory", parent))?;
        }
        let file = disk.open(path, Open::CreatePrivate).map_err(SpoolError::io("make buffer", path))?;
        file.allocate(config.size_bytes).map_err(SpoolError::io("reserve space for buffer", path))?;
        let buffer = Self::with_file(file, config, id, secret, None)?;
        buffer.bitmap.words().iter().for_each(|w| w.store(0, Ordering::Relaxed));
        let made =
            buffer.write_header(0).and_then(|()| buffer.write_header(0)).and_then(|()| buffer.file.sync());
        made.map_err(SpoolError::io("write header of buffer", path))?;
        if let Some(parent) = path.parent() {
            disk.sync_dir(parent).map_err(SpoolError::io("sync directory", parent))?;
        }
        Ok(buffer)
    }

    /// Takes a found buffer into use; `head` is what the journal says, else the header's is taken.
    pub fn open(found: &Found, config: &BufferConfig, head: Option<u64>) -> Result<Self, SpoolError> {
        found.check(config)?;
        let Some(header) = &found.header else {
            return Err(SpoolError::Unfit(format!("{} has no header", config.path.display())));
        };
        let buffer =
            Self::with_file(found.file.clone(), config, header.volume, &header.secret, Some(header))?;
        if let Some(head) = head {
            buffer.head.store(head, Ordering::Release);
        }
        Ok(buffer)
    }

    /// Takes a buffer into use whose headers are both damaged: name, size and block are what the configuration says,
    /// and a rebuild finds the write position.
    pub fn reconstruct(
        found: &Found,
        config: &BufferConfig,
        id: u16,
        secret: &str,
    ) -> Result<Self, SpoolError> {
        let len = found.file.len().map_err(SpoolError::io("look at buffer", &config.path))?;
        if len < config.size_bytes {
            return Err(SpoolError::Unfit(format!(
                "both headers of {} are damaged, and it has {len} bytes where the configuration says {}; set size to what \
                 it was when the buffer was made",
                config.path.display(),
                config.size_bytes
            )));
        }
        Self::with_file(found.file.clone(), config, id, secret, None)
    }

    fn with_file(
        file: Arc<dyn DiskFile>,
        config: &BufferConfig,
        id: u16,
        secret: &str,
        header: Option<&BufferHeader>,
    ) -> Result<Self, SpoolError> {
        let block = u64::from(config.block_bytes);
        let (area_start, area) = geometry(config.size_bytes, block).ok_or_else(|| {
            SpoolError::Unfit(format!("buffer \"{}\" is too small: {} bytes", config.name, config.size_bytes))
        })?;
        let words = ((area_start - HEADERS_BYTES) / 8) as usize;
        let bitmap =
            file.map_words(HEADERS_BYTES, words).map_err(SpoolError::io("map buffer", &config.path))?;
        Ok(Self {
            id,
            name: config.name.clone(),
            path: config.path.display().to_string(),
            len: config.size_bytes,
            block,
            area_start,
            area,
            file,
            bitmap,
            head: AtomicU64::new(header.map_or(area, |h| h.head)),
            dirty: AtomicBool::new(true),
            headers_written: AtomicU64::new(header.map_or(0, |h| h.written)),
            secret: secret.to_owned(),
        })
    }

    fn bit(&self, place: u64) -> Option<(&AtomicU64, u64)> {
        let block = place % self.area / self.block;
        Some((self.bitmap.words().get((block / 64) as usize)?, 1 << (block % 64)))
    }

    /// Clears the bits of blocks `from..to` of the area.
    fn clear_bits(&self, from: u64, to: u64) {
        let words = self.bitmap.words();
        let mut at = from;
        while at < to {
            let run = (64 - at % 64).min(to - at);
            let mask = (u64::MAX >> (64 - run)) << (at % 64);
            if let Some(word) = words.get((at / 64) as usize) {
                word.fetch_and((!mask).to_le(), Ordering::AcqRel);
            }
            at += run;
        }
    }
}

impl Volume for Cycbuff {
    fn id(&self) -> u16 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn method(&self) -> MethodKind {
        MethodKind::Cnfs
    }

    fn area(&self) -> u64 {
        self.area
    }

    fn block(&self) -> u64 {
        self.block
    }

    fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    fn advance(&self, head: u64) {
        let old = self.head.swap(head, Ordering::AcqRel);
        if head <= old {
            return;
        }
        let blocks = self.area / self.block;
        if head - old >= self.area {
            return self.clear_bits(0, blocks);
        }
        let (from, to) = (old % self.area / self.block, head % self.area / self.block);
        if from < to {
            self.clear_bits(from, to);
        } else {
            self.clear_bits(from, blocks);
            self.clear_bits(0, to);
        }
    }

    fn reset_head(&self, head: u64) {
        self.head.store(head, Ordering::Release);
    }

    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(&[IoSlice::new(bytes)], self.area_start + place % self.area);
        // After the write: a sync going on meanwhile may have missed it.
        self.dirty.store(true, Ordering::Release);
        written
    }

    fn is_alive(&self, place: u64) -> bool {
        let head = self.head();
        place < head
            && place + self.area >= head
            && self.bit(place).is_some_and(|(word, mask)| word.load(Ordering::Acquire) & mask.to_le() != 0)
    }

    fn mark_alive(&self, place: u64) {
        if let Some((word, mask)) = self.bit(place) {
            word.fetch_or(mask.to_le(), Ordering::AcqRel);
        }
    }

    fn cancel(&self, place: u64) -> io::Result<()> {
        if !self.is_alive(place) {
            return Ok(());
        }
        // A replay may come here when later articles lie over this one already.
        let mut raw = [0; record::HEADER_BYTES];
        let read = self.read_at(place, Patience::Wait, &mut raw);
        if let Ok(n) = read
            && RecordHeader::parse(raw.get(..n).unwrap_or_default()).is_none_or(|(h, _)| h.place != place)
        {
            return Ok(());
        }
        if let Some((word, mask)) = self.bit(place) {
            word.fetch_and(!mask.to_le(), Ordering::AcqRel);
        }
        if read.is_err() {
            // Whatever lies there cannot be read, so nothing need be written over it.
            return Ok(());
        }
        let written = self
            .file
            .write_all_at(&[IoSlice::new(record::MAGIC_CANCELLED)], self.area_start + place % self.area);
        self.dirty.store(true, Ordering::Release);
        written
    }

    fn read_at(&self, place: u64, patience: Patience, buf: &mut [u8]) -> io::Result<usize> {
        let offset = place % self.area;
        let n = buf.len().min((self.area - offset) as usize);
        let buf = buf.get_mut(..n).unwrap_or_default();
        match patience {
            Patience::CacheOnly => self.file.read_at_cached(buf, self.area_start + offset),
            Patience::Wait => self.file.read_at(buf, self.area_start + offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.dirty.swap(false, Ordering::AcqRel) {
            self.file.sync().inspect_err(|_| self.dirty.store(true, Ordering::Release))?;
        }
        Ok(())
    }

    fn write_header(&self, now: u64) -> io::Result<()> {
        let written = self.headers_written.fetch_add(1, Ordering::AcqRel) + 1;
        let head = self.head();
        let header = BufferHeader {
            name: self.name.clone(),
            path: self.path.clone(),
            volume: self.id,
            len: self.len,
            block: self.block as u32,
            head,
            free: head % self.area,
            cycle: head / self.area,
            written,
            updated: now,
            secret: self.secret.clone(),
        };
        let done = self.file.write_all_at(&[IoSlice::new(&header.encode())], (written % 2) * SLOT_BYTES);
        self.dirty.store(true, Ordering::Release);
        done
    }
}
