//! Interface between volumes and the floors above: [`Volume`], the part that all have in common, and then
//! either [`Cyclic`] or [`Retained`].
//!
//! The kind of a volume decides which methods exist ([`Volume::kind`]): a tree of files has no write cycle,
//! and a cyclic buffer does not know when its articles are due.

use super::cnfs::Cycbuff;
use super::cnfs::record::{HEADER_BYTES, RecordHeader};
use disk::ReadMode;
use spool_base::config::TreeConfig;
use spool_base::error::ReadError;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::MethodKind;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the first read: most text articles fit.
const FIRST_READ_BYTES: usize = 4096;
/// Bytes of each further read, so that a damaged length takes no memory for what is not there.
const PIECE_BYTES: usize = 4 << 20;

/// Properties that each volume has.
#[derive(Debug)]
pub struct VolumeBase {
    pub(crate) id: u16,
    pub(crate) name: String,
    pub(crate) method: MethodKind,
    pub(crate) head: AtomicU64,
}

impl VolumeBase {
    pub(crate) fn new(id: u16, name: &str, method: MethodKind, head: u64) -> Self {
        Self { id, name: name.into(), method, head: AtomicU64::new(head) }
    }
}

/// A container of articles. The writer alone plans, advances and writes; any thread reads.
///
/// Order of one filing: `plan`, `settle` if articles are retained, `advance` (from here on the displaced
/// articles are dead for every reader), `write`. The new places become visible only after the journal row is
/// written.
pub trait Volume: Send + Sync + Debug {
    /// Returns the properties that each volume has.
    fn base(&self) -> &VolumeBase;
    /// Returns the volume's number in tokens.
    fn id(&self) -> u16 {
        self.base().id
    }
    /// Returns the volume's name in tokens' text form.
    fn name(&self) -> &str {
        &self.base().name
    }
    /// Returns the volume's storage method.
    fn method(&self) -> MethodKind {
        self.base().method
    }
    /// Returns the rest of the interface, which depends on how articles leave the volume.
    fn kind(&self) -> VolumeKind<'_>;
    /// Returns the write position: places below are taken.
    fn head(&self) -> u64 {
        self.base().head.load(Ordering::Acquire)
    }
    /// Moves the write position; in a cyclic volume everything one area before it is dead at once (CNFS-11).
    fn advance(&self, head: u64) {
        self.base().head.fetch_max(head, Ordering::AcqRel);
    }
    /// Sets the write position as found by a rebuild; nothing is displaced.
    fn reset_head(&self, head: u64) {
        self.base().head.store(head, Ordering::Release);
    }
    /// Returns the length of a record on the volume: whole blocks.
    fn padded(&self, len: usize) -> u64;
    /// Returns the place of a record of `len` bytes with the write position at `head`; `None` if it cannot be
    /// stored. In a cyclic volume an article is never split (CNFS-02).
    fn plan(&self, head: u64, len: usize) -> Option<u64> {
        match self.kind() {
            VolumeKind::Cyclic(volume) => volume.plan_in_cycle(head, len),
            VolumeKind::Retained(_) => Some(head),
        }
    }
    /// Reports whether a record that begins here may be written in one call with the one before it.
    fn joins(&self, place: u64) -> bool {
        matches!(self.kind(), VolumeKind::Cyclic(volume) if volume.offset(place) != Some(0))
    }
    /// Returns the write position after an article.
    fn end_of(&self, place: u64, stored_bytes: u64) -> u64 {
        place + stored_bytes
    }
    /// Writes consecutive records.
    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reports whether a record at this place lives, without I/O (CNFS-11, CNFS-12). For retained articles
    /// only history and numbers know that, and this just checks that the place could be one of the volume's.
    fn is_alive(&self, place: u64) -> bool;
    /// Records that the article written here lives.
    fn mark_alive(&self, place: u64);
    /// Removes a cancelled article: marks its record (CNFS-12) or removes its files. Its row is durable.
    fn cancel(&self, place: u64, key: ArticleKey, numbers: &[(GroupId, u64)]) -> io::Result<()>;
    /// Reads the article at a place into `buf` as a record, living or not; the flag is false for a cancelled
    /// one. The caller must verify the checksum.
    fn fetch(
        &self,
        place: u64,
        patience: ReadMode,
        buf: &mut Vec<u8>,
    ) -> Result<Option<(RecordHeader, bool)>, ReadError>;
    /// Has the disk begin to read the article at a place, without waiting; true if it is not in memory.
    fn begin_read(&self, _place: u64) -> bool {
        false
    }
    /// Makes all written data durable.
    fn sync(&self) -> io::Result<()>;
    /// Returns the second part of a token's text form.
    fn place_text(&self, place: u64) -> String {
        match self.kind() {
            VolumeKind::Cyclic(volume) => volume.cycle_text(place),
            VolumeKind::Retained(_) => format!("{place:x}"),
        }
    }
    /// Reads what [`Volume::place_text`] wrote.
    fn parse_place(&self, text: &str) -> Option<u64> {
        match self.kind() {
            VolumeKind::Cyclic(volume) => volume.parse_cycle(text),
            VolumeKind::Retained(_) => u64::from_str_radix(text, 16).ok(),
        }
    }
    /// Describes the location of a place for operators.
    fn explain_place(&self, place: u64) -> String;
}

/// The two kinds of volumes.
#[derive(Debug, Clone, Copy)]
pub enum VolumeKind<'a> {
    /// New articles displace the oldest ones.
    Cyclic(&'a dyn Cyclic),
    /// Articles stay until they are due.
    Retained(&'a dyn Retained),
}

impl<'a> dyn Volume + 'a {
    /// Returns the volume as [`Cyclic`], if its articles are displaced.
    pub fn cyclic(&self) -> Option<&dyn Cyclic> {
        match self.kind() {
            VolumeKind::Cyclic(volume) => Some(volume),
            VolumeKind::Retained(_) => None,
        }
    }

    /// Returns the volume as [`Retained`], if its articles stay until they are due.
    pub fn retained(&self) -> Option<&dyn Retained> {
        match self.kind() {
            VolumeKind::Cyclic(_) => None,
            VolumeKind::Retained(volume) => Some(volume),
        }
    }

    /// Returns the volume as a [`Cycbuff`], if it is a cyclic buffer in a file.
    pub fn cycbuff(&self) -> Option<&Cycbuff> {
        self.cyclic().and_then(|volume| volume.as_cycbuff())
    }
}

/// A volume whose oldest articles are displaced by new ones. Places always grow: they count the bytes written
/// since the beginning of the first cycle, and each has an offset in the area and a cycle.
pub trait Cyclic: Volume {
    /// Returns the space for records, in bytes.
    fn area(&self) -> u64;
    /// Returns the unit in which records start.
    fn block(&self) -> u64;
    /// Reads up to `buf.len()` bytes from a place on, not past the end of the area.
    fn read_at(&self, place: u64, patience: ReadMode, buf: &mut [u8]) -> io::Result<usize>;
    /// Returns the first place from this one on at which a living record starts; `None` if there is none.
    fn next_living(&self, place: u64) -> Option<u64>;
    /// Records that no record lives here.
    fn mark_dead(&self, place: u64);

    /// Returns the volume as a [`Cycbuff`], if it is a cyclic buffer in a file.
    fn as_cycbuff(&self) -> Option<&Cycbuff> {
        None
    }

    /// Returns the oldest place that may live.
    fn tail(&self) -> u64 {
        self.tail_at(self.head())
    }

    /// Returns the place before which every article has left its class's ring; 0: none has.
    fn left_to(&self) -> u64 {
        0
    }

    /// Records that the articles before this place have left their class's ring.
    fn leave_to(&self, _place: u64) {}

    /// Returns the oldest place that is not overwritten once the write position is `head`.
    fn tail_at(&self, head: u64) -> u64 {
        head.saturating_sub(self.area())
    }

    /// Returns the offset of a place in the area; `None` if it is so old that this is no longer known.
    fn offset(&self, place: u64) -> Option<u64> {
        Some(place % self.area())
    }

    /// Returns the number of the cycle of a place, from 1 (CNFS cycle number).
    fn cycle(&self, place: u64) -> u64 {
        place / self.area()
    }

    /// Returns the place at an offset in a cycle.
    fn place_in(&self, cycle: u64, offset: u64) -> Option<u64> {
        cycle.checked_mul(self.area())?.checked_add(offset).filter(|_| offset < self.area())
    }

    /// Returns the first place that may ever have been written.
    fn first(&self) -> u64 {
        self.area()
    }

    /// Returns the bytes from a place to the end of its cycle; no record extends past that.
    fn room(&self, place: u64) -> u64 {
        self.offset(place).map_or(0, |offset| self.area().saturating_sub(offset))
    }

    /// Returns the first place of the next cycle.
    fn next_cycle(&self, place: u64) -> u64 {
        place + self.room(place)
    }

    /// Implements [`Volume::plan`] for cyclic volumes.
    fn plan_in_cycle(&self, head: u64, len: usize) -> Option<u64> {
        let len = self.padded(len);
        if len > self.area() {
            return None;
        }
        Some(if len > self.room(head) { self.next_cycle(head) } else { head })
    }

    /// Implements [`Volume::place_text`] for cyclic volumes: offset and cycle.
    fn cycle_text(&self, place: u64) -> String {
        let offset = self.offset(place).unwrap_or(place % self.area());
        format!("{offset:x}:{:x}", self.cycle(place))
    }

    /// Reads what [`Cyclic::cycle_text`] wrote.
    fn parse_cycle(&self, text: &str) -> Option<u64> {
        let (offset, cycle) = text.split_once(':')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        self.place_in(hex(cycle)?, hex(offset)?)
    }

    /// Implements [`Volume::explain_place`] for cyclic volumes.
    fn explain_cycle(&self, place: u64) -> String {
        let (head, area, tail) = (self.head(), self.area(), self.tail());
        let offset = |place| self.offset(place).unwrap_or_default();
        let at = format!("offset {} of {area} in cycle {}", offset(place), self.cycle(place));
        match head.checked_sub(place) {
            None => format!(
                "{at}; not written yet (the write position is {} in cycle {})",
                offset(head),
                self.cycle(head)
            ),
            Some(0) => format!("{at}; the write position"),
            Some(_) if place < tail => format!("{at}; overwritten {} bytes ago", tail - place),
            Some(_) => format!("{at}; {} bytes until it is overwritten", place - tail),
        }
    }
}

/// A volume whose articles stay until they are due: append-only files, or a tree with a file for each
/// article. In some trees an article also has a name for each of its numbers; in the other volumes the
/// methods about names do nothing.
pub trait Retained: Volume {
    /// Returns the capacity in bytes, if limited.
    fn bytes_max(&self) -> Option<u64> {
        None
    }

    /// Reports whether the volume accepts no more articles until some are due or an operator makes room.
    fn is_full(&self, _head: u64) -> bool {
        false
    }

    /// Applies new settings of the class to articles stored from now on.
    fn configure(&self, tree: &TreeConfig);

    /// Returns the final place of an article, when everything is known about it; no two articles ever get the
    /// same.
    fn settle(&self, placing: &PlacementRequest<'_>) -> u64 {
        placing.planned
    }

    /// Returns the start of the next file, if a record may begin there instead of at the write position.
    fn next_file(&self, _head: u64) -> Option<u64> {
        None
    }

    /// Returns the start of the next file if no article in the last one lives, and removing that one is worth
    /// a new file: for any amount of space if the disk is full.
    fn after_spent_file(&self, _is_disk_full: bool) -> Option<u64> {
        None
    }

    /// Removes an expired article, as [`Volume::cancel`] does a cancelled one.
    fn expire(&self, place: u64, key: ArticleKey, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        self.cancel(place, key, numbers)
    }

    /// Removes the files of expired or cancelled articles, and names of others. Called by one thread at a
    /// time, concurrently with the writer. Idempotent.
    fn remove_files(&self, removals: &[&ArticleRemoval]) -> io::Result<()> {
        removals.iter().try_for_each(|ArticleRemoval { place, key, is_whole, numbers }| match is_whole {
            true => self.expire(*place, *key, numbers),
            false => self.end_names(*place, numbers),
        })
    }

    /// Removes an article whose writing failed before any row named it.
    fn take_back(&self, _place: u64, _key: ArticleKey, _numbers: &[(GroupId, u64)]) {}

    /// Removes files without living articles; all removals are already durable.
    fn sweep(&self) -> io::Result<()> {
        Ok(())
    }

    /// Records, for the next sync, that the journal is durable up to a position.
    fn record_position(&self, _position: u64) -> io::Result<()> {
        Ok(())
    }

    /// Returns the position recorded last; `None` if there is none. A journal that ends before it is older
    /// than the articles.
    fn recorded_position(&self) -> Option<u64> {
        None
    }

    /// Appends the volume's part of a checkpoint, other than the write position.
    fn save(&self, _out: &mut Vec<u8>) {}

    /// Loads the volume's part of a checkpoint; returns false if it is invalid.
    fn load(&self, _saved: &[u8]) -> bool {
        true
    }

    /// Walks all articles, and sets the write position after them.
    fn inventory(&self, found: &mut Inventory<'_>) -> io::Result<()>;

    /// Calls `found` with each file that belongs to no living article.
    fn strays(&self, living: &LivingLookup<'_>, found: &mut dyn FnMut(Stray)) -> io::Result<()>;

    /// Reports whether a file holds an article that this method wrote and that is no longer alive.
    fn is_stray(&self, _path: &Path, _living: &LivingLookup<'_>) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns the file of the article at a place, if it has one of its own.
    fn file_of(&self, _place: u64) -> Option<PathBuf> {
        None
    }

    /// Returns the place of the article in a file, if it is where it belongs; `group` finds groups by name.
    fn place_of_file(
        &self,
        _path: &Path,
        _group: &mut dyn FnMut(&[u8]) -> Option<GroupId>,
    ) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the first number of a group, from `number` on, whose name no other file has, for the article
    /// with a key. If that is the article's first number, its file may be created at once: [`Volume::write`]
    /// or [`Retained::take_back`] follows.
    fn free_number(
        &self,
        _group: GroupId,
        number: u64,
        _key: ArticleKey,
        _is_first: bool,
    ) -> io::Result<u64> {
        Ok(number)
    }

    /// Returns the place of the article under the name of a number; `None` if that file does not exist.
    fn place_of_number(&self, _group: GroupId, _number: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Reports whether a rebuild finds the article at a place under this number; always true without names.
    fn is_found_as(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// Reports whether the article at a place has the name of a number as well; always true without names.
    fn has_name(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// Restores the name of a number.
    fn restore_name(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<()> {
        Ok(())
    }

    /// Removes the names of numbers that are due while their article stays. Their row is durable. Idempotent.
    fn end_names(&self, _place: u64, _numbers: &[(GroupId, u64)]) -> io::Result<()> {
        Ok(())
    }

    /// Reports whether an article that cannot be read in its place is whole under the name of one of its
    /// numbers; unless this is a dry run, it is restored in its place.
    fn restore(
        &self,
        _place: u64,
        _key: ArticleKey,
        _numbers: &[(GroupId, u64)],
        _dry_run: bool,
    ) -> io::Result<bool> {
        Ok(false)
    }
}

/// Removal of an article from its volume, or of some of its names.
#[derive(Debug)]
pub struct ArticleRemoval {
    /// Place of the article.
    pub place: u64,
    /// Hash of its Message-ID.
    pub key: ArticleKey,
    /// Whether the whole article is removed; else only its names under `numbers`.
    pub is_whole: bool,
    /// Groups that it leaves, with its numbers there.
    pub numbers: Vec<(GroupId, u64)>,
}

/// Properties of an article from which a method chooses its place.
#[derive(Clone, Copy)]
pub struct PlacementRequest<'a> {
    /// Planned place.
    pub planned: u64,
    /// Message-ID.
    pub message_id: &'a [u8],
    /// Its hash.
    pub key: ArticleKey,
    /// Arrival time in Unix seconds.
    pub arrived: u32,
    /// First group of the article and its number there.
    pub first: Option<(GroupId, u64)>,
    /// Reports whether the article with this key is at a place, or will be at the end of this part.
    pub lives: &'a dyn Fn(u64, ArticleKey) -> bool,
}

/// Callbacks with which a rebuild takes stock of a volume of retained articles.
pub struct Inventory<'a> {
    /// Number of a group by name.
    pub group: &'a mut dyn FnMut(&[u8]) -> Option<GroupId>,
    /// Called with sequence and place of each article found, in any order.
    pub visit: &'a mut dyn FnMut(u64, u64),
}

/// Look-ups of living articles, for a check of files.
pub struct LivingLookup<'a> {
    /// Reports whether a number of a group is alive.
    pub number: &'a dyn Fn(&str, u64) -> bool,
    /// Reports whether a retained article lives at a place.
    pub place: &'a dyn Fn(u64) -> bool,
    /// Reports whether the article with a key is in this volume.
    pub key: &'a dyn Fn(ArticleKey) -> bool,
    /// Reports whether any index knows the Message-ID.
    pub known: &'a dyn Fn(ArticleKey) -> bool,
}

/// A file that belongs to no living article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Path of the file.
    pub path: PathBuf,
    /// Kind of the file.
    pub kind: StrayKind,
}

/// Kind of a file that belongs to no living article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrayKind {
    /// Left by a crash, or by an article that was withdrawn or expired.
    Left,
    /// A whole article that no index knows.
    Unknown {
        /// Sequence number of the article.
        sequence: u64,
    },
    /// Not written by this method.
    Foreign,
    /// Cannot be read.
    Unreadable,
}

/// Implements [`Volume::begin_read`] for volumes of consecutive records: `read` is asked for bytes in memory,
/// and has the disk begin to read them if they are not there.
pub(crate) fn begin_record(read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> bool {
    read(&mut [0; FIRST_READ_BYTES]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Implements [`Volume::fetch`] for volumes of consecutive records: fetches the record at a place, with
/// `room` bytes from there to the end of the area or file. `read` reads as much as it can from a place on.
pub(crate) fn fetch_record(
    place: u64,
    room: u64,
    buf: &mut Vec<u8>,
    read: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
) -> Result<Option<(RecordHeader, bool)>, ReadError> {
    buf.resize(FIRST_READ_BYTES, 0);
    let mut have = match read(place, buf) {
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
            // The unreadable part may belong to the next record.
            buf.truncate(HEADER_BYTES);
            read(place, buf)?
        }
        read => read?,
    };
    let Some((header, live)) = RecordHeader::parse(buf.get(..have).unwrap_or_default()) else {
        return Ok(None);
    };
    let len = header.record_bytes();
    if header.place != place || len as u64 > room {
        return Ok(None);
    }
    buf.resize(have.min(len), 0);
    while have < len {
        let end = len.min(have + PIECE_BYTES);
        buf.resize(end, 0);
        have += read(place + have as u64, buf.get_mut(have..).unwrap_or_default())?;
        if have < end {
            return Ok(None);
        }
    }
    Ok(Some((header, live)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cnfs::record::{RECORD_BYTES_MAX, is_whole, seal};

    /// Returns a record of this many bytes, of which the header names `len`.
    fn record_of(bytes: usize, len: usize) -> Vec<u8> {
        let header = RecordHeader {
            data_bytes: (len - HEADER_BYTES) as u32,
            header_bytes: 0,
            place: 0,
            sequence: 0,
            key: ArticleKey(1),
            arrived: 0,
            expires: 0,
            message_id_at: 0,
            message_id_bytes: 0,
            class: 0,
            packed: false,
        };
        let mut record = Vec::new();
        header.put(&mut record);
        record.extend((HEADER_BYTES..bytes).map(|n| n as u8));
        seal(&mut record);
        record
    }

    /// Fetches the record at the start of a file; returns whether it is whole, and how much memory that took.
    fn fetch_from(file: &[u8]) -> (bool, usize) {
        let mut buf = Vec::new();
        let read = |place: u64, mut buf: &mut [u8]| {
            io::Write::write(&mut buf, file.get(place as usize..).unwrap_or_default())
        };
        let fetched = fetch_record(0, u64::MAX, &mut buf, read).unwrap();
        (fetched.is_some() && is_whole(&buf), buf.capacity())
    }

    #[test]
    fn records_are_read_in_pieces() {
        let sizes =
            [HEADER_BYTES + 3, FIRST_READ_BYTES, FIRST_READ_BYTES + 1, FIRST_READ_BYTES + PIECE_BYTES];
        for bytes in sizes.into_iter().chain([FIRST_READ_BYTES + PIECE_BYTES + 1, 3 * PIECE_BYTES]) {
            let mut file = record_of(bytes, bytes);
            assert!(fetch_from(&file).0, "{bytes}");
            file.extend_from_slice(b"another");
            assert!(fetch_from(&file).0, "{bytes}");
            assert!(!fetch_from(&file[..bytes - 1]).0, "{bytes}");
        }
    }

    /// Each read of such a record took as much memory as its header named, up to 4 GiB.
    #[test]
    fn a_damaged_length_takes_little_memory() {
        let bytes = 10_000;
        for bit in 14..32 {
            let file = record_of(bytes, bytes + (1 << bit));
            let (is_whole, memory) = fetch_from(&file);
            assert!(!is_whole && memory <= 2 * PIECE_BYTES, "bit {bit}: {memory}");
        }
        assert!(RecordHeader::parse(&record_of(bytes, RECORD_BYTES_MAX)).is_some());
        assert_eq!(RecordHeader::parse(&record_of(bytes, RECORD_BYTES_MAX + 1)), None);
    }
}
