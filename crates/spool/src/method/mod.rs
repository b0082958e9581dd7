//! Storage methods: how article bytes are kept.
//!
//! All but `trash`, which keeps nothing, have *volumes*. `cnfs` and `memory` displace their oldest articles
//! when they are full; the others *keep* theirs until they are due ([`Volume::keeps`]). Which class and
//! volume an article goes to is the storage manager's choice; a method does not know the policy, and nothing
//! above depends on which method it is.

mod appendonly;
pub(crate) mod cnfs;
mod memory;
pub(crate) mod packing;
pub(crate) mod rates;
pub(crate) mod scan;
mod tree;
pub(crate) mod tree_header;

pub(crate) use appendonly::AppendOnly;
pub(crate) use memory::MemoryVolume;
pub(crate) use tree::{FileTree, file_again as tree_file_again, files_of as tree_files_of};

use crate::base::config::Tree;
use crate::base::error::ReadError;
use crate::base::ids::GroupId;
use crate::base::key::Key;
use crate::base::read_mode::Patience;
use crate::base::token::{MethodKind, Token};
use arc_swap::ArcSwap;
use cnfs::record::RecordHeader;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The write position's bound in volumes that displace nothing.
pub(crate) const ENDLESS: u64 = 1 << 63;

/// What a method may need to know about an article to choose its place.
#[derive(Clone, Copy)]
pub(crate) struct Placing<'a> {
    /// The place planned.
    pub planned: u64,
    pub message_id: &'a [u8],
    pub key: Key,
    /// Unix seconds.
    pub arrived: u32,
    /// The first group it is filed in and its number there.
    pub first: Option<(GroupId, u64)>,
    /// Whether the article with this key is at a place, or will be at the end of this part.
    pub lives: &'a dyn Fn(u64, Key) -> bool,
}

/// What a rebuild asks of a volume that keeps.
pub(crate) struct Inventory<'a> {
    /// Number of a group by name.
    pub group: &'a mut dyn FnMut(&[u8]) -> Option<GroupId>,
    /// Called with sequence and place of each article found, in any order.
    pub visit: &'a mut dyn FnMut(u64, u64),
}

/// The living articles, for a check of files.
pub(crate) struct Living<'a> {
    /// Whether a number of a group does.
    pub number: &'a dyn Fn(&str, u64) -> bool,
    /// Whether an article that is kept at a place does.
    pub place: &'a dyn Fn(u64) -> bool,
    /// Whether the article with a key is in this volume.
    pub key: &'a dyn Fn(Key) -> bool,
    /// Whether any index knows its Message-ID.
    pub known: &'a dyn Fn(Key) -> bool,
}

/// A file that no living article has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stray {
    pub path: PathBuf,
    pub kind: StrayKind,
}

/// What a file is that no living article has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrayKind {
    /// Left by a crash, or of an article that was withdrawn or expired.
    Left,
    /// A whole article that no index knows, with its sequence.
    Unknown { sequence: u64 },
    /// This method did not write it.
    Foreign,
    /// It cannot be read.
    Unreadable,
}

/// A container of articles. The writer alone plans, advances and writes; any thread reads.
///
/// Order of one filing: `plan`, `settle`, `advance` (from here on the displaced are dead for every reader),
/// `write`, and only after the journal row the new places become known to anybody.
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
    /// Moves the write position; anything one area before it is dead at once (CNFS-11).
    fn advance(&self, head: u64);
    /// Sets the write position as found by a rebuild; nothing is displaced.
    fn reset_head(&self, head: u64);
    /// Writes consecutive records.
    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()>;
    /// Whether a record at this place lives; no I/O (CNFS-11, CNFS-12).
    fn is_alive(&self, place: u64) -> bool;
    /// Says that a record written here lives.
    fn mark_alive(&self, place: u64);
    /// Says that no record lives here.
    fn mark_dead(&self, place: u64) -> io::Result<()> {
        let _ = place;
        Ok(())
    }
    /// Calls `found` with what is wrong with its own state on disk.
    fn verify(&self, found: &mut dyn FnMut(String)) {
        let _ = found;
    }
    /// Removes a cancelled or expired article: marks its record (CNFS-12) or removes its files. Its row is
    /// durable.
    fn cancel(&self, place: u64, key: Key, numbers: &[(GroupId, u64)]) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes from a place on, not past the end of the area. Methods without records
    /// have none.
    fn read_at(&self, place: u64, patience: Patience, buf: &mut [u8]) -> io::Result<usize>;
    /// Reads the article at a place into `buf` as a record, whether it lives or not; the flag is true for one
    /// that is not cancelled. The checksum is the caller's to check.
    fn fetch(
        &self,
        place: u64,
        patience: Patience,
        buf: &mut Vec<u8>,
    ) -> Result<Option<(RecordHeader, bool)>, ReadError>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Writes the state header, where there is one.
    fn write_header(&self, now: u64) -> io::Result<()>;

    /// The same volume with room for more: its file gets `len` bytes, and every record keeps its place.
    /// `None` where that is not possible. The writer replaces this one with it.
    fn grown(&self, len: u64, now: u64) -> io::Result<Option<Arc<dyn Volume>>> {
        let _ = (len, now);
        Ok(None)
    }

    /// The first place from this one on at which a living record starts; `None` if there is none, or it is
    /// not known.
    fn next_living(&self, place: u64) -> Option<u64> {
        let _ = place;
        None
    }

    /// Whether [`Volume::grown`] to so many bytes is possible.
    fn can_grow(&self, len: u64) -> bool {
        let _ = len;
        false
    }

    /// Reserves space in its file, of which nothing is used yet.
    fn reserve(&self, len: u64) -> io::Result<()> {
        let _ = len;
        Ok(())
    }

    /// Itself, if it is a cyclic buffer in a file.
    fn as_cycbuff(&self) -> Option<&cnfs::Cycbuff> {
        None
    }

    /// Length of its file, in bytes; 0 if it has none.
    fn file_bytes(&self) -> u64 {
        0
    }

    /// Whether articles stay until they are due, and are known to live by history and numbers alone: then
    /// `is_alive` says no more than that a place could be one of its.
    fn keeps(&self) -> bool {
        false
    }

    /// Most bytes that one which keeps may ever hold, if that is limited.
    fn bytes_max(&self) -> Option<u64> {
        None
    }

    /// Goes by other settings of its class, as far as they concern what it stores from now on.
    fn configure(&self, _tree: &Tree) {}

    /// Whether it accepts no more articles until some are due or an operator makes room; only volumes that
    /// keep say so.
    fn is_full(&self, _head: u64) -> bool {
        false
    }

    /// The place an article finally gets, when everything is known about it; no two articles ever get the
    /// same.
    fn settle(&self, placing: &Placing<'_>) -> u64 {
        placing.planned
    }

    /// The first number of a group, from `number` on, whose name no other file has; for the article with a
    /// key.
    fn free_number(&self, _group: GroupId, number: u64, _key: Key) -> io::Result<u64> {
        Ok(number)
    }

    /// The place of the article under the name of a number; `None` if there is no file of that name, or the
    /// method has no names.
    fn place_of_number(&self, _group: GroupId, _number: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Records, for the next sync, that the journal is durable up to a position.
    fn record_position(&self, _position: u64) -> io::Result<()> {
        Ok(())
    }

    /// The position recorded last; `None` if there is none. A journal that ends before it is older than the
    /// articles.
    fn recorded_position(&self) -> Option<u64> {
        None
    }

    /// The place of the article in a file, if it is where it belongs; `group` finds groups by name.
    fn place_of_file(
        &self,
        _path: &Path,
        _group: &mut dyn FnMut(&[u8]) -> Option<GroupId>,
    ) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Whether a record that begins here may be written in one call with the one before it.
    fn joins(&self, place: u64) -> bool {
        self.offset(place) != Some(0)
    }

    /// The write position after an article.
    fn behind(&self, place: u64, stored_bytes: u64) -> u64 {
        place + stored_bytes
    }

    /// Removes an expired article, as [`Volume::cancel`] does a cancelled one.
    fn expire(&self, place: u64, key: Key, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        self.cancel(place, key, numbers)
    }

    /// Removes the names of numbers that are due while their article stays. Their row is durable; doing so
    /// twice changes nothing.
    fn end_names(&self, place: u64, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        let _ = (place, numbers);
        Ok(())
    }

    /// Whether a rebuild finds the article at a place under this number; methods without names say yes.
    fn is_found_as(&self, place: u64, group: GroupId, number: u64) -> io::Result<bool> {
        let _ = (place, group, number);
        Ok(true)
    }

    /// Walks all articles of a volume that keeps, and sets its write position after them.
    fn inventory(&self, _found: &mut Inventory<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Whether the article at a place is also found under the name of a number; methods without names say
    /// yes.
    fn has_name(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// Restores that name.
    fn give_name(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether an article that cannot be read in its place is whole under the name of one of its numbers;
    /// unless it is a dry run, it is restored in its place.
    fn restore(
        &self,
        _place: u64,
        _key: Key,
        _numbers: &[(GroupId, u64)],
        _dry_run: bool,
    ) -> io::Result<bool> {
        Ok(false)
    }

    /// Calls `found` with each file that no living article has.
    fn strays(&self, _living: &Living<'_>, _found: &mut dyn FnMut(Stray)) -> io::Result<()> {
        Ok(())
    }

    /// Whether a file holds an article that this method wrote and that does not live.
    fn is_stray(&self, _path: &Path, _living: &Living<'_>) -> io::Result<bool> {
        Ok(false)
    }

    /// Forgets an article whose writing failed before any row spoke of it.
    fn take_back(&self, _place: u64, _key: Key, _numbers: &[(GroupId, u64)]) {}

    /// Removes what no longer holds a living article; all removals are durable already.
    fn sweep(&self) -> io::Result<()> {
        Ok(())
    }

    /// What a checkpoint must contain of it besides the write position.
    fn save(&self, _out: &mut Vec<u8>) {}

    /// Loads its part of a checkpoint; false if that makes no sense.
    fn load(&self, _saved: &[u8]) -> bool {
        true
    }

    /// Second part of a token's text form.
    fn place_text(&self, place: u64) -> String {
        let offset = self.offset(place).unwrap_or(place % self.area());
        format!("{offset:x}:{:x}", self.cycle(place))
    }

    /// Reads what [`Volume::place_text`] wrote.
    fn parse_place(&self, text: &str) -> Option<u64> {
        let (offset, cycle) = text.split_once(':')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        self.place_in(hex(cycle)?, hex(offset)?)
    }

    /// The file of the article at a place, if it has one of its own.
    fn file_of(&self, _place: u64) -> Option<PathBuf> {
        None
    }
    /// Where the article at a place is, for people.
    fn explain_place(&self, place: u64) -> String;

    /// The oldest place that may live.
    fn tail(&self) -> u64 {
        self.tail_at(self.head())
    }

    /// The oldest place that may live once the write position is `head`.
    fn tail_at(&self, head: u64) -> u64 {
        head.saturating_sub(self.area())
    }

    /// Where a place is in the area; `None` if it is so old that this is no longer known.
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

    /// Where a record of `len` bytes goes when the write position is `head`; an article is never split
    /// (CNFS-02). `None` if it can never fit.
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

/// Reads a whole living record into `buf` and checks it: place, checksum, and that it was not displaced
/// meanwhile. `None`: no such article (any more).
pub(crate) fn read_record(
    volume: &dyn Volume,
    place: u64,
    patience: Patience,
    buf: &mut Vec<u8>,
) -> Result<Option<RecordHeader>, ReadError> {
    if !volume.is_alive(place) {
        return Ok(None);
    }
    let header = match volume.fetch(place, patience, buf)? {
        Some((header, true)) => header,
        _ => return Ok(None),
    };
    // The bytes may have been overwritten while they were read; then the place is dead by now.
    Ok((volume.is_alive(place) && cnfs::record::is_whole(buf)).then_some(header))
}

/// [`Volume::fetch`] of volumes that are one stretch of records.
pub(crate) fn fetch_record(
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

/// [`Volume::explain_place`] of cyclic volumes.
pub(crate) fn explain_cycle(volume: &dyn Volume, place: u64) -> String {
    let (head, area, tail) = (volume.head(), volume.area(), volume.tail());
    let offset = |place| volume.offset(place).unwrap_or_default();
    let at = format!("offset {} of {area} in cycle {}", offset(place), volume.cycle(place));
    match head.checked_sub(place) {
        None => format!(
            "{at}; not written yet (the write position is {} in cycle {})",
            offset(head),
            volume.cycle(head)
        ),
        Some(0) => format!("{at}; the write position"),
        Some(_) if place < tail => format!("{at}; overwritten {} bytes ago", tail - place),
        Some(_) => format!("{at}; {} bytes until it is overwritten", place - tail),
    }
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

/// The volumes, shared by writer and readers. The writer puts another table in their place when buffers come,
/// grow, move or go; who has loaded the old one goes on with it to the end of what it does.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    table: ArcSwap<VolumeTable>,
}

impl Volumes {
    pub fn new(all: Vec<Arc<dyn Volume>>) -> Self {
        Self { table: ArcSwap::from_pointee(VolumeTable::new(all)) }
    }

    /// Replaces the volume with its number, or appends it to the others. Called by the one writer only.
    pub fn put(&self, volume: Arc<dyn Volume>) {
        let old = self.table.load();
        let mut all = old.all.clone();
        match old.index(volume.id()).and_then(|index| all.get_mut(index)) {
            Some(place) => *place = volume,
            None => all.push(volume),
        }
        self.table.store(Arc::new(VolumeTable::new(all)));
    }

    /// Removes a volume. Called by the one writer only.
    pub fn take(&self, id: u16) {
        let all = self.table.load().all.iter().filter(|v| v.id() != id).cloned().collect();
        self.table.store(Arc::new(VolumeTable::new(all)));
    }

    /// The volumes now, to keep for a while.
    pub fn load_full(&self) -> Arc<VolumeTable> {
        self.table.load_full()
    }

    /// The volumes now. Cheap, and not to be kept while serving goes on.
    pub fn load(&self) -> arc_swap::Guard<Arc<VolumeTable>> {
        self.table.load()
    }
}
