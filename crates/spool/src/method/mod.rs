//! Storage methods: how article bytes are kept.
//!
//! `cnfs` and `memory` keep them in *volumes*: containers with ever-growing places that displace their oldest articles
//! when they are full. `trash` keeps nothing. Which class and volume an article goes to is the storage manager's choice.

pub(crate) mod cnfs;
mod memory;

pub(crate) use memory::MemoryVolume;

use crate::error::ReadError;
use crate::reading::Patience;
use crate::token::{MethodKind, Token};
use arc_swap::ArcSwap;
use cnfs::record::RecordHeader;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A container of records. The writer alone plans, advances and writes; any thread reads.
///
/// Order of one filing: `plan` places, `advance` (from here on the displaced are dead for every reader), `write`,
/// and only after the journal row the new places become known to anybody.
pub(crate) trait Volume: Send + Sync + Debug {
    /// Its number in tokens.
    fn id(&self) -> u16;
    /// Its name in tokens' text form.
    fn name(&self) -> &str;
    /// The method it serves.
    fn method(&self) -> MethodKind;
    /// Room for records, in bytes.
    fn area(&self) -> u64;
    /// Unit in which records start.
    fn block(&self) -> u64;
    /// The write position: places below are taken.
    fn head(&self) -> u64;
    /// Moves the write position; what lies an area behind it is dead at once (CNFS-11).
    fn advance(&self, head: u64);
    /// Sets the write position as found by a rebuild; nothing is displaced.
    fn reset_head(&self, head: u64);
    /// Writes records that lie one behind the other.
    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()>;
    /// Whether a record at this place lives; no I/O (CNFS-11, CNFS-12).
    fn is_alive(&self, place: u64) -> bool;
    /// Says that a record written here lives.
    fn mark_alive(&self, place: u64);
    /// Marks a record as cancelled (CNFS-12).
    fn cancel(&self, place: u64) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes from a place on, not past the end of the area.
    fn read_at(&self, place: u64, patience: Patience, buf: &mut [u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Writes the state header, where there is one.
    fn write_header(&self, now: u64) -> io::Result<()>;

    /// The same volume with room for more: its file gets `len` bytes, and every record keeps its place. `None` where that
    /// is not possible. The writer puts it in the place of this one.
    fn grown(&self, len: u64, now: u64) -> io::Result<Option<Arc<dyn Volume>>> {
        let _ = (len, now);
        Ok(None)
    }

    /// Length of its file, in bytes; 0 if it has none.
    fn file_bytes(&self) -> u64 {
        0
    }

    /// The oldest place that may live.
    fn tail(&self) -> u64 {
        self.tail_at(self.head())
    }

    /// The oldest place that may live once the write position is `head`.
    fn tail_at(&self, head: u64) -> u64 {
        head.saturating_sub(self.area())
    }

    /// Where a place lies in the area; `None` if it is so old that this is no longer known.
    fn offset(&self, place: u64) -> Option<u64> {
        Some(place % self.area())
    }

    /// Times the write position had wrapped at a place, from 1 (CNFS cycle number).
    fn cycle(&self, place: u64) -> u64 {
        place / self.area()
    }

    /// The place at an offset in a cycle.
    fn place_in(&self, cycle: u64, offset: u64) -> Option<u64> {
        cycle.checked_mul(self.area())?.checked_add(offset).filter(|_| offset < self.area())
    }

    /// The write position at which all before `place` is displaced.
    fn head_behind(&self, place: u64) -> u64 {
        place.saturating_add(self.area())
    }

    /// The first place that may ever have been written.
    fn first(&self) -> u64 {
        self.area()
    }

    /// Bytes from a place to where its cycle ends; no record reaches farther.
    fn room(&self, place: u64) -> u64 {
        self.offset(place).map_or(0, |offset| self.area().saturating_sub(offset))
    }

    /// The first place of the next cycle.
    fn next_cycle(&self, place: u64) -> u64 {
        place + self.room(place)
    }

    /// Length of a record on the volume: whole blocks.
    fn padded(&self, len: usize) -> u64 {
        (len as u64).next_multiple_of(self.block())
    }

    /// Where a record of `len` bytes goes when the write position is `head`; an article is never split (CNFS-02).
    /// `None` if it can never fit.
    fn plan(&self, head: u64, len: usize) -> Option<u64> {
        let len = self.padded(len);
        if len > self.area() {
            return None;
        }
        Some(if len > self.room(head) { self.next_cycle(head) } else { head })
    }
}

/// Bytes read in the first go: most text articles fit.
const FIRST_READ_BYTES: usize = 4096;

/// Reads a whole living record into `buf` and checks it: place, checksum, and that it was not displaced meanwhile.
/// `None`: no such article (any more).
pub(crate) fn read_record(
    volume: &dyn Volume,
    place: u64,
    patience: Patience,
    buf: &mut Vec<u8>,
) -> Result<Option<RecordHeader>, ReadError> {
    if !volume.is_alive(place) {
        return Ok(None);
    }
    let header = match read_bytes(volume, place, patience, buf)? {
        Some((header, true)) => header,
        _ => return Ok(None),
    };
    // The bytes may have been overwritten while they were read; then the place is dead by now.
    Ok((volume.is_alive(place) && cnfs::record::is_whole(buf)).then_some(header))
}

/// Reads header and data at a place into `buf`, whether they live or not; the flag is true for a record that is
/// not cancelled.
pub(crate) fn read_bytes(
    volume: &dyn Volume,
    place: u64,
    patience: Patience,
    buf: &mut Vec<u8>,
) -> Result<Option<(RecordHeader, bool)>, ReadError> {
    buf.resize(FIRST_READ_BYTES, 0);
    let mut have = match volume.read_at(place, patience, buf) {
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
            // What the disk cannot read may belong to the next record.
            buf.truncate(cnfs::record::HEADER_BYTES);
            volume.read_at(place, patience, buf)?
        }
        read => read?,
    };
    let Some((header, live)) = RecordHeader::parse(buf.get(..have).unwrap_or_default()) else {
        return Ok(None);
    };
    let len = header.record_bytes();
    if header.place != place || len as u64 > volume.room(place) {
        return Ok(None);
    }
    buf.resize(len, 0);
    if have < len {
        have += volume.read_at(place + have as u64, patience, buf.get_mut(have..).unwrap_or_default())?;
    }
    Ok((have >= len).then_some((header, live)))
}

/// All volumes by number, as of one moment.
#[derive(Debug, Default)]
pub(crate) struct VolumeTable {
    all: Vec<Arc<dyn Volume>>,
    /// Index in `all` by volume number.
    by_id: Vec<Option<usize>>,
}

impl VolumeTable {
    fn new(all: Vec<Arc<dyn Volume>>) -> Self {
        let mut by_id = Vec::new();
        for (i, volume) in all.iter().enumerate() {
            let id = usize::from(volume.id());
            if by_id.len() <= id {
                by_id.resize(id + 1, None);
            }
            by_id[id] = Some(i);
        }
        Self { all, by_id }
    }

    pub fn all(&self) -> &[Arc<dyn Volume>] {
        &self.all
    }

    pub fn index(&self, id: u16) -> Option<usize> {
        self.by_id.get(usize::from(id)).copied().flatten()
    }

    pub fn get(&self, id: u16) -> Option<&dyn Volume> {
        self.all.get(self.index(id)?).map(|v| &**v)
    }

    pub fn named(&self, name: &str) -> Option<&dyn Volume> {
        self.all.iter().map(|v| &**v).find(|v| v.name() == name)
    }

    pub fn is_alive(&self, token: &Token) -> bool {
        self.get(token.volume).is_some_and(|v| v.method() == token.method && v.is_alive(token.place))
    }
}

/// The volumes, shared by writer and readers. The writer puts another table in their place when buffers come, grow, move
/// or go; who has loaded the old one goes on with it to the end of what it does.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    table: ArcSwap<VolumeTable>,
}

impl Volumes {
    pub fn new(all: Vec<Arc<dyn Volume>>) -> Self {
        Self { table: ArcSwap::from_pointee(VolumeTable::new(all)) }
    }

    /// Puts a volume in the place of the one with its number, or behind all others. Called by the one writer only.
    pub fn put(&self, volume: Arc<dyn Volume>) {
        let old = self.table.load();
        let mut all = old.all.clone();
        match old.index(volume.id()).and_then(|index| all.get_mut(index)) {
            Some(place) => *place = volume,
            None => all.push(volume),
        }
        self.table.store(Arc::new(VolumeTable::new(all)));
    }

    /// The volumes now. Cheap, and not to be kept while serving goes on.
    pub fn load(&self) -> arc_swap::Guard<Arc<VolumeTable>> {
        self.table.load()
    }
}
