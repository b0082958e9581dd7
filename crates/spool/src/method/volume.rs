//! What the layers above know of a volume: [`Volume`], the part that all have in common, and then either
//! [`Cyclic`] or [`Retained`].
//!
//! Which of the two a volume is decides what may be asked of it ([`Volume::kind`]), so nobody can ask a tree
//! of files for its write cycle, or a cyclic buffer when its articles are due.

use super::cnfs::Cycbuff;
use super::cnfs::record::{HEADER_BYTES, RecordHeader};
use crate::base::config::Tree;
use crate::base::error::ReadError;
use crate::base::ids::GroupId;
use crate::base::key::Key;
use crate::base::token::MethodKind;
use disk::Patience;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes read in the first go: most text articles fit.
const FIRST_READ_BYTES: usize = 4096;

/// A container of articles. The writer alone plans, advances and writes; any thread reads.
///
/// Order of one filing: `plan`, `settle` where articles are retained, `advance` (from here on the displaced
/// are dead for every reader), `write`, and only after the journal row the new places become known to
/// anybody.
pub(crate) trait Volume: Send + Sync + Debug {
    /// Its number in tokens.
    fn id(&self) -> u16;
    /// Its name in tokens' text form.
    fn name(&self) -> &str;
    /// The method it serves.
    fn method(&self) -> MethodKind;
    /// What else it can do, by how its articles leave it.
    fn kind(&self) -> Kind<'_>;
    /// The write position: places below are taken.
    fn head(&self) -> u64;
    /// Moves the write position; in a cyclic volume anything one area before it is dead at once (CNFS-11).
    fn advance(&self, head: u64);
    /// Sets the write position as found by a rebuild; nothing is displaced.
    fn reset_head(&self, head: u64);
    /// Length of a record on the volume: whole blocks.
    fn padded(&self, len: usize) -> u64;
    /// Where a record of `len` bytes goes when the write position is `head`; `None` if it cannot be stored.
    fn plan(&self, head: u64, len: usize) -> Option<u64>;
    /// Whether a record that begins here may be written in one call with the one before it.
    fn joins(&self, place: u64) -> bool;
    /// The write position after an article.
    fn end_of(&self, place: u64, stored_bytes: u64) -> u64 {
        place + stored_bytes
    }
    /// Writes consecutive records.
    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()>;
    /// Whether a record at this place lives; no I/O (CNFS-11, CNFS-12). Where articles are retained, history
    /// and numbers alone know that, and this says no more than that the place could be one of the volume's.
    fn is_alive(&self, place: u64) -> bool;
    /// Records that the article written here lives.
    fn mark_alive(&self, place: u64);
    /// Removes a cancelled article: marks its record (CNFS-12) or removes its files. Its row is durable.
    fn cancel(&self, place: u64, key: Key, numbers: &[(GroupId, u64)]) -> io::Result<()>;
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
    /// Second part of a token's text form.
    fn place_text(&self, place: u64) -> String;
    /// Reads what [`Volume::place_text`] wrote.
    fn parse_place(&self, text: &str) -> Option<u64>;
    /// Where the article at a place is, for people.
    fn explain_place(&self, place: u64) -> String;
}

/// The two kinds of volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// Its oldest articles are displaced by new ones.
    Cyclic(&'a dyn Cyclic),
    /// Its articles stay until they are due.
    Retained(&'a dyn Retained),
}

impl<'a> dyn Volume + 'a {
    /// Itself, if its articles are displaced.
    pub fn cyclic(&self) -> Option<&dyn Cyclic> {
        match self.kind() {
            Kind::Cyclic(volume) => Some(volume),
            Kind::Retained(_) => None,
        }
    }

    /// Itself, if its articles stay until they are due.
    pub fn retained(&self) -> Option<&dyn Retained> {
        match self.kind() {
            Kind::Cyclic(_) => None,
            Kind::Retained(volume) => Some(volume),
        }
    }

    /// Itself, if it is a cyclic buffer in a file.
    pub fn cycbuff(&self) -> Option<&Cycbuff> {
        self.cyclic().and_then(|volume| volume.as_cycbuff())
    }
}

/// A volume whose oldest articles are displaced by new ones. Places ever grow: they count the bytes written
/// since the beginning of the first cycle, and each has an offset in the area and a cycle.
pub(crate) trait Cyclic: Volume {
    /// Room for records, in bytes.
    fn area(&self) -> u64;
    /// Unit in which records start.
    fn block(&self) -> u64;
    /// Reads up to `buf.len()` bytes from a place on, not past the end of the area.
    fn read_at(&self, place: u64, patience: Patience, buf: &mut [u8]) -> io::Result<usize>;
    /// The first place from this one on at which a living record starts; `None` if there is none.
    fn next_living(&self, place: u64) -> Option<u64>;
    /// Records that no record lives here.
    fn mark_dead(&self, place: u64);

    /// Itself, if it is a cyclic buffer in a file.
    fn as_cycbuff(&self) -> Option<&Cycbuff> {
        None
    }

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

    /// Bytes from a place to where its cycle ends; no record extends past that.
    fn room(&self, place: u64) -> u64 {
        self.offset(place).map_or(0, |offset| self.area().saturating_sub(offset))
    }

    /// The first place of the next cycle.
    fn next_cycle(&self, place: u64) -> u64 {
        place + self.room(place)
    }

    /// [`Volume::plan`] of cyclic volumes: an article is never split (CNFS-02).
    fn plan_in_cycle(&self, head: u64, len: usize) -> Option<u64> {
        let len = self.padded(len);
        if len > self.area() {
            return None;
        }
        Some(if len > self.room(head) { self.next_cycle(head) } else { head })
    }

    /// [`Volume::place_text`] of cyclic volumes: offset and cycle.
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

    /// [`Volume::explain_place`] of cyclic volumes.
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
/// article. In some trees an article also has a name for each of its numbers; the methods about names do
/// nothing in the others.
pub(crate) trait Retained: Volume {
    /// Most bytes that it may ever hold, if that is limited.
    fn bytes_max(&self) -> Option<u64> {
        None
    }

    /// Whether it accepts no more articles until some are due or an operator makes room.
    fn is_full(&self, _head: u64) -> bool {
        false
    }

    /// Applies other settings of its class to what it stores from now on.
    fn configure(&self, tree: &Tree);

    /// The place an article finally gets, when everything is known about it; no two articles ever get the
    /// same.
    fn settle(&self, placing: &Placing<'_>) -> u64 {
        placing.planned
    }

    /// Where the next record may begin if none does at the write position: in the next file.
    fn next_file(&self, _head: u64) -> Option<u64> {
        None
    }

    /// Removes an expired article, as [`Volume::cancel`] does a cancelled one.
    fn expire(&self, place: u64, key: Key, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        self.cancel(place, key, numbers)
    }

    /// Removes the files of expired or cancelled articles, and names of others. Called by one thread at a
    /// time, beside the writer. Doing so twice changes nothing.
    fn remove_files(&self, removals: &[&ArticleRemoval]) -> io::Result<()> {
        removals.iter().try_for_each(|ArticleRemoval { place, key, is_whole, numbers }| match is_whole {
            true => self.expire(*place, *key, numbers),
            false => self.end_names(*place, numbers),
        })
    }

    /// Forgets an article whose writing failed before any row named it.
    fn take_back(&self, _place: u64, _key: Key, _numbers: &[(GroupId, u64)]) {}

    /// Removes what no longer holds a living article; all removals are durable already.
    fn sweep(&self) -> io::Result<()> {
        Ok(())
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

    /// What a checkpoint must contain of it besides the write position.
    fn save(&self, _out: &mut Vec<u8>) {}

    /// Loads its part of a checkpoint; false if that makes no sense.
    fn load(&self, _saved: &[u8]) -> bool {
        true
    }

    /// Walks all articles, and sets the write position after them.
    fn inventory(&self, found: &mut Inventory<'_>) -> io::Result<()>;

    /// Calls `found` with each file that no living article has.
    fn strays(&self, living: &Living<'_>, found: &mut dyn FnMut(Stray)) -> io::Result<()>;

    /// Whether a file holds an article that this method wrote and that does not live.
    fn is_stray(&self, _path: &Path, _living: &Living<'_>) -> io::Result<bool> {
        Ok(false)
    }

    /// The file of the article at a place, if it has one of its own.
    fn file_of(&self, _place: u64) -> Option<PathBuf> {
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

    /// The first number of a group, from `number` on, whose name no other file has; for the article with a
    /// key. If that is the article's first number, its file may be made at once: [`Volume::write`] or
    /// [`Retained::take_back`] follows.
    fn free_number(&self, _group: GroupId, number: u64, _key: Key, _is_first: bool) -> io::Result<u64> {
        Ok(number)
    }

    /// The place of the article under the name of a number; `None` if there is no file of that name.
    fn place_of_number(&self, _group: GroupId, _number: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Whether a rebuild finds the article at a place under this number; without names it does.
    fn is_found_as(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// Whether the article at a place is also found under the name of a number; without names it is.
    fn has_name(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// Restores that name.
    fn restore_name(&self, _place: u64, _group: GroupId, _number: u64) -> io::Result<()> {
        Ok(())
    }

    /// Removes the names of numbers that are due while their article stays. Their row is durable; doing so
    /// twice changes nothing.
    fn end_names(&self, _place: u64, _numbers: &[(GroupId, u64)]) -> io::Result<()> {
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
}

/// An article that has left the indexes, or some of its numbers have.
#[derive(Debug)]
pub(crate) struct ArticleRemoval {
    pub place: u64,
    pub key: Key,
    /// The article is to be removed; else only its names under `numbers`.
    pub is_whole: bool,
    pub numbers: Vec<(GroupId, u64)>,
}

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

/// What a rebuild asks of a volume whose articles are retained.
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
    /// Whether an article that is retained at a place does.
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

/// [`Volume::fetch`] where records lie one after another: the record at a place, with `room` bytes from there
/// to the end of the area or file. `read` reads what it can from a place on.
pub(crate) fn fetch_record(
    (place, room): (u64, u64),
    buf: &mut Vec<u8>,
    read: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
) -> Result<Option<(RecordHeader, bool)>, ReadError> {
    buf.resize(FIRST_READ_BYTES, 0);
    let mut have = match read(place, buf) {
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
            // What the disk cannot read may belong to the next record.
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
    buf.resize(len, 0);
    if have < len {
        have += read(place + have as u64, buf.get_mut(have..).unwrap_or_default())?;
    }
    Ok((have >= len).then_some((header, live)))
}
