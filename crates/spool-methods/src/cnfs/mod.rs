//! `cnfs`: articles in cyclic buffers (CNFS-01 to CNFS-14; `docs/formats/cnfs.md`).
//!
//! File: two header slots, usage bitmap, article area. Records are appended at the write position; a record
//! that does not fit before the end goes to the beginning, and the cycle number increases (CNFS-02). A place
//! is cycle x area + offset.

mod foreign;
mod geometry;
pub mod header;
mod moving;
pub mod record;

use super::volume::{Cyclic, Volume, VolumeBase, VolumeKind, begin_record, fetch_record};
use disk::{Disk, DiskFile, Mapping, OpenMode, ReadMode, ZeroFill, about_size, touch};
pub use geometry::Geometry;
use header::{BufferHeader, GrownLayout, HEADERS_BYTES, SLOT_BYTES};
use record::RecordHeader;
use spool_base::config::BufferConfig;
use spool_base::error::{ReadError, SpoolError};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::ordered::{Ordered, rank};
use spool_base::token::MethodKind;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One cyclic buffer.
#[derive(Debug, Clone)]
pub struct Cycbuff {
    path: String,
    len: u64,
    geometry: Geometry,
    file: Arc<dyn DiskFile>,
    /// One bit per block: a living record starts here (CNFS-08).
    bitmap: Arc<dyn Mapping>,
    state: Arc<CycbuffState>,
    secret: String,
}

/// Returns the error for a file that another process has open.
pub fn in_use(path: &Path) -> SpoolError {
    SpoolError::Unfit(format!(
        "{} is in use: it is mounted, or another newsreel process or another [[buffer]] of this \
            configuration has it; a buffer \
         belongs to one alone",
        path.display()
    ))
}

fn too_small(config: &BufferConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "buffer \"{}\" is too small: {} bytes; give it 64 KiB or more, and clearly more than \
            site.article_bytes_max",
        config.name, config.size_bytes
    ))
}

/// Returns the size of a new buffer: as configured, else that of the existing file or device.
fn size_of_new(disk: &dyn Disk, config: &BufferConfig) -> Result<u64, SpoolError> {
    let path = config.path.display();
    let there = match disk.open(&config.path, OpenMode::ReadOnly) {
        Ok(file) => file.len().map_err(SpoolError::io("look at buffer", &config.path))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(SpoolError::io("open buffer", &config.path)(e)),
    };
    match (config.size_bytes, there) {
        (0, 0) => Err(SpoolError::Unfit(format!(
            "buffer \"{}\" has no size, and there is no file {path} to take it from; set size, for example: \
                size = \"20 GiB\"",
            config.name
        ))),
        (0, there) => Ok(there),
        (size, _) => Ok(size),
    }
}

/// Returns the geometry in a buffer's header, or that of a new buffer.
fn geometry_of(config: &BufferConfig, header: Option<&BufferHeader>) -> Option<Geometry> {
    let (len, block) = (header.map_or(config.size_bytes, |h| h.len), u64::from(config.block_bytes));
    match header.and_then(|h| h.grown) {
        Some(grown) => grown.geometry(len, block),
        None => Geometry::new(len, block),
    }
}

/// State of a buffer, most of which changes while serving; one that grows or moves keeps it.
#[derive(Debug)]
struct CycbuffState {
    base: VolumeBase,
    dirty: AtomicBool,
    headers_written: AtomicU64,
    /// Length of the longest run of records written, in bytes.
    longest: AtomicU64,
    /// End of what has been written ahead.
    ahead: ZeroFill,
    /// Places cancelled while the buffer is being copied.
    cancelled: Ordered<Option<Vec<u64>>, { rank::TABLES }>,
    /// Held during a sync: a sync that finds the buffer clean must know that the previous one has finished.
    syncing: Ordered<(), { rank::PLACE_SYNCING }>,
    /// Place before which every article has left its class's ring.
    left_to: AtomicU64,
}

/// Amount of a usage bitmap that is read at once.
const READ_BYTES: usize = 64 << 10;

/// A buffer found on disk, before its journal is consulted.
pub struct FoundBuffer {
    /// The file.
    pub file: Arc<dyn DiskFile>,
    /// Its newer readable header.
    pub header: Option<BufferHeader>,
    /// One of the two copies of the header is damaged.
    pub is_alone: bool,
}

/// Reads the two header slots, each by itself, and returns the errors met: an unreadable sector costs one of
/// the slots, which is then zeros.
fn read_slots(file: &dyn DiskFile) -> (Vec<u8>, Vec<io::Error>) {
    let (mut slots, mut errors, mut len) = (vec![0; HEADERS_BYTES as usize], Vec::new(), 0);
    for (slot, at) in slots.chunks_mut(SLOT_BYTES as usize).zip((0..).step_by(SLOT_BYTES as usize)) {
        match file.read_at(slot, at) {
            Ok(0) => {}
            Ok(n) => len = at as usize + n,
            Err(error) => {
                slot.fill(0);
                len = at as usize + slot.len();
                errors.push(error);
            }
        }
    }
    slots.truncate(len);
    (slots, errors)
}

impl FoundBuffer {
    /// Opens a buffer's file for use and reads its headers; `Ok(None)` if the file does not exist, is empty,
    /// or its creation was cut off.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, SpoolError> {
        Self::open_as(disk, path, OpenMode::Existing)
    }

    /// Like [`FoundBuffer::open`], for inspection only: the file is neither locked nor writable.
    pub fn look(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, SpoolError> {
        Self::open_as(disk, path, OpenMode::ReadOnly)
    }

    fn open_as(disk: &dyn Disk, path: &Path, how: OpenMode) -> Result<Option<Self>, SpoolError> {
        let file = match disk.open(path, how) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(in_use(path)),
            Err(e) => return Err(SpoolError::io("open buffer", path)(e)),
        };
        if how != OpenMode::ReadOnly {
            match file.try_lock() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(in_use(path)),
                locked => locked.map_err(SpoolError::io("lock buffer", path))?,
            }
        }
        let (slots, mut unreadable) = read_slots(&*file);
        let header = BufferHeader::newest(&slots);
        let blank =
            unreadable.is_empty() && (slots.iter().all(|b| *b == 0) || BufferHeader::is_unfinished(&slots));
        if let Some(text) = header::retracted(&slots) {
            return Err(SpoolError::Unfit(format!(
                "{} was a buffer of newsreel and is no longer: {text}; set path to where it is now, or \
                    empty this one to use it again",
                path.display()
            )));
        }
        // If both slots of a file are unreadable, only the configuration says that it is a buffer.
        let ours = BufferHeader::claims(&slots)
            || slots.get(SLOT_BYTES as usize..).is_some_and(BufferHeader::claims)
            || unreadable.len() == 2;
        if header.is_none() && !blank && !ours {
            if let Some(error) = unreadable.pop() {
                return Err(SpoolError::io("read a header of buffer", path)(error));
            }
            return Err(SpoolError::Unfit(format!(
                "{} holds {} and is left alone; name another path, or empty it first",
                path.display(),
                foreign::describe(&slots)
            )));
        }
        let is_alone = !BufferHeader::both(&slots);
        Ok((!blank).then_some(Self { file, header, is_alone }))
    }

    /// Returns the length of the area for articles, in bytes; `None` if the headers are damaged.
    pub fn area(&self, config: &BufferConfig) -> Option<u64> {
        let header = self.header.as_ref()?;
        geometry_of(&BufferConfig { block_bytes: header.block, ..config.clone() }, Some(header))
            .map(|g| g.area)
    }

    /// Returns the layout according to the header alone; `None` if that is damaged.
    pub fn geometry(&self) -> Option<Geometry> {
        let header = self.header.as_ref()?;
        let block = Some(header.block).filter(|b| b.is_power_of_two() && (64..=16_384).contains(b))?;
        let config = BufferConfig {
            name: header.name.clone(),
            path: header.path.clone().into(),
            size_bytes: header.len,
            block_bytes: block,
            retired: false,
        };
        geometry_of(&config, Some(header))
    }

    /// Reports whether the buffer holds no article: it was just created, or emptied to be removed. Then its
    /// write position is the start of a cycle, and no usage bit is set.
    pub fn is_empty(&self, config: &BufferConfig) -> io::Result<bool> {
        let Some(header) = self.header.as_ref().filter(|header| header.free == 0) else { return Ok(false) };
        let config = &BufferConfig { block_bytes: header.block, ..config.clone() };
        let Some(geometry) = geometry_of(config, Some(header)) else { return Ok(false) };
        let (mut at, mut bytes) = (geometry.bitmap_at, vec![0; READ_BYTES]);
        let end = at + geometry.bitmap_words as u64 * 8;
        while at < end {
            let part = bytes.get_mut(..READ_BYTES.min((end - at) as usize)).unwrap_or_default();
            self.file.read_exact_at(part, at)?;
            if part.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += part.len() as u64;
        }
        Ok(true)
    }

    /// Checks the buffer against the configuration.
    pub fn check(&self, config: &BufferConfig) -> Result<(), SpoolError> {
        let path = config.path.display();
        let Some(h) = &self.header else {
            return Err(SpoolError::Unfit(format!(
                "both headers of {path} are damaged; `newsreel rebuild` reconstructs them"
            )));
        };
        if h.name != config.name {
            return Err(SpoolError::Unfit(format!(
                "{path} is buffer \"{}\", not \"{}\"",
                h.name, config.name
            )));
        }
        let len = self.file.len().map_err(SpoolError::io("look at buffer", &config.path))?;
        if len < h.len {
            return Err(SpoolError::Unfit(format!(
                "buffer \"{0}\" is cut off: {path} has {len} bytes, but was made with {1}; put the whole \
                 file back, or take the buffer out of the configuration and run `newsreel rebuild --without \
                 {0}` to go on without its articles",
                h.name, h.len
            )));
        }
        if h.block != config.block_bytes {
            return Err(SpoolError::Unfit(format!(
                "buffer \"{}\" was made with blocks of {} bytes, but the configuration says {}; set block = \
                    {}",
                h.name, h.block, config.block_bytes, h.block
            )));
        }
        if h.len > config.size_bytes && config.size_bytes > 0 {
            return Err(SpoolError::Unfit(format!(
                "buffer \"{}\" has {} bytes, but the configuration says {}; a buffer cannot be made \
                    smaller: set size = {}, \
                 or leave size out, or add another buffer and retire this one",
                h.name, h.len, config.size_bytes, h.len
            )));
        }
        Ok(())
    }
}

impl Cycbuff {
    /// Creates an empty buffer and reserves its space.
    pub fn create(disk: &dyn Disk, config: &BufferConfig, id: u16, secret: &str) -> Result<Self, SpoolError> {
        let path = &config.path;
        if let Some(parent) = path.parent() {
            disk.create_dir(parent).map_err(SpoolError::io("make directory", parent))?;
        }
        let config = &BufferConfig { size_bytes: size_of_new(disk, config)?, ..config.clone() };
        if geometry_of(config, None).is_none() {
            return Err(too_small(config));
        }
        // A blank file or device may already exist.
        let before = disk.open(path, OpenMode::ReadOnly).and_then(|file| file.len()).ok();
        let file = disk.open(path, OpenMode::CreatePrivate).map_err(SpoolError::io("make buffer", path))?;
        match file.try_lock() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(in_use(path)),
            locked => locked.map_err(SpoolError::io("lock buffer", path))?,
        }
        Self::fill(disk, file.clone(), config, id, secret).inspect_err(|_| {
            // The error from `fill` is reported even if the space cannot be released.
            let _left = match before {
                None => disk.remove(path),
                Some(len) => file.set_len(len),
            };
        })
    }

    /// Reserves a new buffer's space and initializes it.
    fn fill(
        disk: &dyn Disk,
        file: Arc<dyn DiskFile>,
        config: &BufferConfig,
        id: u16,
        secret: &str,
    ) -> Result<Self, SpoolError> {
        let path = &config.path;
        let free_bytes = disk.file_system(path).ok().map(|system| system.free_bytes);
        file.allocate(config.size_bytes).map_err(|error| match error.raw_os_error() {
            Some(_) if error.kind() == io::ErrorKind::StorageFull => exhausted(config, free_bytes, &error),
            _ => SpoolError::io("reserve space for buffer", path)(error),
        })?;
        let buffer = Self::with_file(file, config, id, secret, None)?;
        buffer.bitmap.words().iter().for_each(|w| w.store(0, Ordering::Relaxed));
        buffer.write_both_headers(0).map_err(SpoolError::io("write header of buffer", path))?;
        if let Some(parent) = path.parent() {
            disk.sync_dir(parent).map_err(SpoolError::io("sync directory", parent))?;
        }
        Ok(buffer)
    }

    /// Opens a found buffer at the journal's write position `head`, else at that of the header.
    pub fn open(found: &FoundBuffer, config: &BufferConfig, head: Option<u64>) -> Result<Self, SpoolError> {
        found.check(config)?;
        let Some(header) = &found.header else {
            return Err(SpoolError::Unfit(format!("{} has no header", config.path.display())));
        };
        let buffer =
            Self::with_file(found.file.clone(), config, header.volume, &header.secret, Some(header))?;
        if let Some(head) = head {
            buffer.reset_head(head);
        }
        Ok(buffer)
    }

    /// Opens a buffer whose headers are both damaged: name, size and block come from the configuration, and a
    /// rebuild finds the write position.
    pub fn reconstruct(
        found: &FoundBuffer,
        config: &BufferConfig,
        id: u16,
        secret: &str,
    ) -> Result<Self, SpoolError> {
        let len = found.file.len().map_err(SpoolError::io("look at buffer", &config.path))?;
        let wanted = if config.size_bytes == 0 { len } else { config.size_bytes };
        let config = &BufferConfig { size_bytes: wanted, ..config.clone() };
        if len < config.size_bytes {
            return Err(SpoolError::Unfit(format!(
                "both headers of {} are damaged, and it has {len} bytes where the configuration says {}; \
                    set size to what \
                 it was when the buffer was made",
                config.path.display(),
                config.size_bytes
            )));
        }
        // A buffer that has grown has a third copy, which describes its layout.
        let mut slot = vec![0; SLOT_BYTES as usize];
        let last = Geometry::last_slot(config.size_bytes).unwrap_or_default();
        let n = found.file.read_at(&mut slot, last).unwrap_or(0);
        let header = slot.get(..n).and_then(BufferHeader::decode);
        let header = header.filter(|h| h.grown.is_some() && h.len == config.size_bytes && h.secret == secret);
        Self::with_file(found.file.clone(), config, id, secret, header.as_ref())
    }

    fn with_file(
        file: Arc<dyn DiskFile>,
        config: &BufferConfig,
        id: u16,
        secret: &str,
        header: Option<&BufferHeader>,
    ) -> Result<Self, SpoolError> {
        let geometry = geometry_of(config, header).ok_or_else(|| too_small(config))?;
        let bitmap = file
            .map_words(geometry.bitmap_at, geometry.bitmap_words)
            .map_err(SpoolError::io("map buffer", &config.path))?;
        let head = header.map_or(geometry.area, |h| h.head);
        let state = CycbuffState {
            base: VolumeBase::new(id, &config.name, MethodKind::Cnfs, head),
            dirty: AtomicBool::new(true),
            headers_written: AtomicU64::new(header.map_or(0, |h| h.written)),
            longest: AtomicU64::new(0),
            ahead: ZeroFill::default(),
            cancelled: Ordered::default(),
            syncing: Ordered::default(),
            left_to: AtomicU64::new(0),
        };
        Ok(Self {
            path: config.path.display().to_string(),
            len: header.map_or(config.size_bytes, |h| h.len),
            geometry,
            file,
            bitmap,
            state: Arc::new(state),
            secret: secret.to_owned(),
        })
    }

    fn bit(&self, place: u64) -> Option<(&AtomicU64, u64)> {
        let (word, mask) = self.geometry.bit(place)?;
        Some((self.bitmap.words().get(word)?, mask))
    }

    /// Returns the offset of a place in the file.
    fn file_offset(&self, place: u64) -> io::Result<u64> {
        let offset = self.geometry.offset(place).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.geometry.area_start + offset)
    }

    /// Returns the parts of the area, as offsets, whose usage bits could not be read.
    pub fn lost_bits(&self) -> Vec<Range<u64>> {
        let offset = |word: usize| (word as u64 * 64 * self.geometry.block).min(self.geometry.area);
        self.bitmap.lost().into_iter().map(|words| offset(words.start)..offset(words.end)).collect()
    }

    /// Writes the unreadable usage bits as they are in memory now.
    pub fn restore_bitmap(&self) -> io::Result<()> {
        self.state.dirty.store(true, Ordering::Release);
        self.bitmap.restore()
    }

    /// Reads all usage bits.
    pub fn touch_bitmap(&self) {
        touch(&*self.bitmap);
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
    fn base(&self) -> &VolumeBase {
        &self.state.base
    }

    fn kind(&self) -> VolumeKind<'_> {
        VolumeKind::Cyclic(self)
    }

    fn advance(&self, head: u64) {
        let old = self.state.base.head.swap(head, Ordering::AcqRel);
        if head <= old {
            return;
        }
        let g = &self.geometry;
        let blocks = g.area / g.block;
        let (Some(from), Some(to)) = (g.offset(old), g.offset(head)) else {
            return self.clear_bits(0, blocks);
        };
        if head - old >= g.area {
            return self.clear_bits(0, blocks);
        }
        let (from, to) = (from / g.block, to / g.block);
        if from < to {
            self.clear_bits(from, to);
        } else {
            self.clear_bits(from, blocks);
            self.clear_bits(0, to);
        }
    }

    fn padded(&self, len: usize) -> u64 {
        (len as u64).next_multiple_of(self.geometry.block)
    }

    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.state.longest.fetch_max(bytes.len() as u64, Ordering::AcqRel);
        let (offset, end) = (self.file_offset(place)?, place + bytes.len() as u64);
        // Nothing lives before the end of the step.
        let room = self.geometry.step_end(end.saturating_sub(1)).saturating_sub(end);
        let spare = self.state.ahead.spare(offset, bytes.len() as u64, room, self.geometry.step());
        let written = self.file.write_all_at(&[IoSlice::new(bytes), IoSlice::new(spare)], offset);
        if written.is_err() {
            self.state.ahead.reset();
        }
        // Set after the write: a sync in progress may have missed it.
        self.state.dirty.store(true, Ordering::Release);
        written
    }

    fn is_alive(&self, place: u64) -> bool {
        let head = self.head();
        place < head
            && place >= self.geometry.tail_at(head)
            && self.bit(place).is_some_and(|(word, mask)| word.load(Ordering::Acquire) & mask.to_le() != 0)
            && place >= self.left_to()
    }

    fn mark_alive(&self, place: u64) {
        if let Some((word, mask)) = self.bit(place) {
            word.fetch_or(mask.to_le(), Ordering::AcqRel);
        }
    }

    fn cancel(&self, place: u64, _key: ArticleKey, _numbers: &[(GroupId, u64)]) -> io::Result<()> {
        if !self.is_alive(place) {
            return Ok(());
        }
        // During a replay, later articles may already have overwritten this one.
        let mut raw = [0; record::HEADER_BYTES];
        let read = self.read_at(place, ReadMode::Wait, &mut raw);
        if let Ok(n) = read
            && RecordHeader::parse(raw.get(..n).unwrap_or_default()).is_none_or(|(h, _)| h.place != place)
        {
            return Ok(());
        }
        if let Some((word, mask)) = self.bit(place) {
            word.fetch_and(!mask.to_le(), Ordering::AcqRel);
        }
        if let Some(cancelled) = &mut *self.state.cancelled.lock() {
            cancelled.push(place);
        }
        if read.is_err() {
            // The bytes there cannot be read, so nothing needs to be overwritten.
            return Ok(());
        }
        let written = record::cancel(&*self.file, self.file_offset(place)?);
        self.state.dirty.store(true, Ordering::Release);
        written
    }

    fn fetch(
        &self,
        place: u64,
        patience: ReadMode,
        buf: &mut Vec<u8>,
    ) -> Result<Option<(RecordHeader, bool)>, ReadError> {
        fetch_record(place, self.room(place), buf, |place, buf| self.read_at(place, patience, buf))
    }

    fn begin_read(&self, place: u64) -> bool {
        begin_record(|buf| self.read_at(place, ReadMode::CacheOnly, buf))
    }

    fn explain_place(&self, place: u64) -> String {
        self.explain_cycle(place)
    }

    fn sync(&self) -> io::Result<()> {
        let _one_at_a_time = self.state.syncing.lock();
        if self.state.dirty.swap(false, Ordering::AcqRel) {
            self.file.sync().inspect_err(|_| self.state.dirty.store(true, Ordering::Release))?;
        }
        Ok(())
    }
}

impl Cyclic for Cycbuff {
    fn area(&self) -> u64 {
        self.geometry.area
    }

    fn block(&self) -> u64 {
        self.geometry.block
    }

    fn tail(&self) -> u64 {
        self.tail_at(self.head()).max(self.left_to())
    }

    fn tail_at(&self, head: u64) -> u64 {
        self.geometry.tail_at(head)
    }

    fn left_to(&self) -> u64 {
        self.state.left_to.load(Ordering::Acquire)
    }

    fn leave_to(&self, place: u64) {
        self.state.left_to.fetch_max(place, Ordering::AcqRel);
    }

    fn offset(&self, place: u64) -> Option<u64> {
        self.geometry.offset(place)
    }

    fn room(&self, place: u64) -> u64 {
        self.geometry.room(place)
    }

    fn cycle(&self, place: u64) -> u64 {
        self.geometry.cycle(place)
    }

    fn place_in(&self, cycle: u64, offset: u64) -> Option<u64> {
        self.geometry.place_in(cycle, offset)
    }

    fn first(&self) -> u64 {
        self.geometry.first()
    }

    fn mark_dead(&self, place: u64) {
        if let Some((word, mask)) = self.bit(place).filter(|_| self.is_alive(place)) {
            word.fetch_and(!mask.to_le(), Ordering::AcqRel);
        }
    }

    fn read_at(&self, place: u64, patience: ReadMode, buf: &mut [u8]) -> io::Result<usize> {
        // A place whose offset is no longer known holds no article.
        let Ok(offset) = self.file_offset(place) else { return Ok(0) };
        let n = buf.len().min(usize::try_from(self.room(place)).unwrap_or(usize::MAX));
        let buf = buf.get_mut(..n).unwrap_or_default();
        match patience {
            ReadMode::CacheOnly => self.file.read_at_cached(buf, offset),
            ReadMode::Wait => self.file.read_at(buf, offset),
        }
    }

    fn next_living(&self, place: u64) -> Option<u64> {
        let (head, block) = (self.head(), self.geometry.block);
        let mut at = place.max(self.tail()).max(self.first()).next_multiple_of(block);
        while at < head {
            let (word, mask) = self.geometry.bit(at)?;
            let bits = u64::from_le(self.bitmap.words().get(word)?.load(Ordering::Acquire));
            let bits = bits & !(mask - 1);
            // Bytes to the end of the word, or of the cycle.
            let here = self.geometry.offset(at)? / block % 64;
            let left = ((64 - here) * block).min(self.room(at));
            let ahead = u64::from(bits.trailing_zeros()).saturating_sub(here) * block;
            if bits != 0 && ahead < left {
                return Some(at + ahead).filter(|place| *place < head);
            }
            at += left;
        }
        None
    }

    fn as_cycbuff(&self) -> Option<&Cycbuff> {
        Some(self)
    }
}

impl Cycbuff {
    /// Calls `found` with each problem of the buffer's own state on disk.
    pub fn verify(&self, found: &mut dyn FnMut(String)) {
        let last = Geometry::last_slot(self.len).filter(|_| self.geometry.has_grown());
        for (slot, at) in [0, SLOT_BYTES].into_iter().chain(last).enumerate() {
            let mut bytes = vec![0; SLOT_BYTES as usize];
            let whole = |bytes: &mut [u8]| {
                self.file.read_exact_at(bytes, at).is_ok()
                    && BufferHeader::decode(bytes).is_some_and(|h| h.encode() == bytes)
            };
            // The slot may be being written; the second read decides.
            if !whole(&mut bytes) && !whole(&mut bytes) {
                found(format!("copy {slot} of its header is damaged; another one serves as well"));
            }
        }
    }

    /// Returns the file and the offset at which the records up to a write position end.
    pub fn file_at(&self, head: u64) -> Option<(&Arc<dyn DiskFile>, u64)> {
        Some((&self.file, self.file_offset(head).ok()?))
    }

    /// Reports whether [`Cycbuff::grow`] to `len` bytes is possible.
    pub fn can_grow(&self, len: u64) -> bool {
        self.geometry.grown(self.head(), len).is_some()
    }

    /// Reserves space in the file without using it yet.
    pub fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    /// Returns the length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.len
    }

    /// Writes the state header.
    pub fn write_header(&self, now: u64) -> io::Result<()> {
        let written = self.state.headers_written.fetch_add(1, Ordering::AcqRel) + 1;
        let header = self.header(written, now);
        let done = self.file.write_all_at(&[IoSlice::new(&header.encode())], (written % 2) * SLOT_BYTES);
        let done = done.and_then(|()| self.write_last_copy(now));
        self.state.dirty.store(true, Ordering::Release);
        done
    }

    /// Writes both copies of the header. One is durable before the other is begun: a power cut may leave both
    /// incomplete otherwise.
    fn write_both_headers(&self, now: u64) -> io::Result<()> {
        (0..2).try_for_each(|_| self.write_header(now).and_then(|()| self.file.sync()))
    }

    /// Returns this buffer in a file of `len` bytes, whose last part becomes the usage bitmap; every record
    /// keeps its place. `None` if that is no growth. The file stays the old buffer until the first new header
    /// is written, which is the last step.
    pub fn grow(&self, len: u64, now: u64) -> io::Result<Option<Self>> {
        let Some(geometry) = self.geometry.grown(self.head(), len) else { return Ok(None) };
        self.file.allocate(len)?;
        let bitmap = self.file.map_words(geometry.bitmap_at, geometry.bitmap_words)?;
        let old = self.bitmap.words().iter().map(|w| w.load(Ordering::Acquire));
        let area_words = (self.geometry.area / self.geometry.block).div_ceil(64);
        let old = old.take(usize::try_from(area_words).unwrap_or(usize::MAX)).chain(std::iter::repeat(0));
        bitmap.words().iter().zip(old).for_each(|(new, old)| new.store(old, Ordering::Release));
        let grown = Self { len, geometry, bitmap, ..self.clone() };
        grown.write_last_copy(now)?;
        grown.file.sync()?;
        grown.write_both_headers(now)?;
        Ok(Some(grown))
    }

    /// Writes the third copy of the header, which only a grown buffer has.
    fn write_last_copy(&self, now: u64) -> io::Result<()> {
        let Some(at) = Geometry::last_slot(self.len).filter(|_| self.geometry.has_grown()) else {
            return Ok(());
        };
        let written = self.state.headers_written.load(Ordering::Acquire);
        self.file.write_all_at(&[IoSlice::new(&self.header(written, now).encode())], at)
    }

    fn header(&self, written: u64, now: u64) -> BufferHeader {
        let head = self.head();
        BufferHeader {
            name: self.name().to_owned(),
            path: self.path.clone(),
            volume: self.id(),
            len: self.len,
            block: self.geometry.block as u32,
            head,
            free: self.geometry.offset(head).unwrap_or_default(),
            cycle: self.geometry.cycle(head),
            written,
            updated: now,
            secret: self.secret.clone(),
            grown: GrownLayout::of(&self.geometry),
        }
    }
}

/// Returns the error for a disk that was full although `free_bytes` had seemed to be free before the attempt.
fn exhausted(buffer: &BufferConfig, free_bytes: Option<u64>, error: &io::Error) -> SpoolError {
    let free = free_bytes.map_or_else(|| "an unknown amount".to_owned(), about_size);
    SpoolError::Unfit(format!(
        "cannot reserve space for buffer {}: {error}; {} needed, {free} free; choose a smaller size or a \
         larger disk",
        buffer.path.display(),
        about_size(buffer.size_bytes),
    ))
}
