//! Rebuilding all indexes: one pass over the buffers (`docs/states.md`), read by several threads ([`regions`]).
//!
//! Every record carries its Xref, arrival time, sequence and Message-ID hash, so nothing else is needed; what is left
//! of journal and checkpoint adds groups' flags, promised numbers and remembered ids. Records of several buffers are taken in the
//! order of their sequence, so that the folds see the articles as they came.

mod leftovers;
mod regions;

use crate::checkpoint::Checkpoint;
use crate::clock::unix_now;
use crate::commit::PART_BYTES_MAX;
use crate::config::SpoolConfig;
use crate::disk::Disk;
use crate::error::SpoolError;
use crate::fold::{Folds, Moment, Published, Shared};
use crate::groups::{Flag, GroupId, GroupsFound};
use crate::history::OldLog;
use crate::journal::GroupRow;
use crate::key::Key;
use crate::method::cnfs::record::{HEADER_BYTES, RecordHeader, is_whole};
use crate::method::{Inventory, Volume};
use crate::progress::Progress;
use crate::reading::Patience;
use crate::recovery::{self, Paths};
use crate::residents::Resident;
use crate::token::{MethodKind, Token};
use leftovers::Leftovers;
pub(crate) use leftovers::volumes_told;
use regions::Regions;
pub(crate) use regions::{Record, Region};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes read at a time: they stay in the processor's cache until they are looked at.
const CHUNK_BYTES: usize = 256 << 10;
/// Threads that read.
const THREADS_MAX: usize = 16;
/// Records whose places in history are fetched from memory together.
const TOUCHED_TOGETHER: usize = 32;
/// Articles of a volume that keeps, read together.
const KEPT_TOGETHER: usize = 256;

/// What a rebuild found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Living articles found.
    pub articles: u64,
    /// Groups carried.
    pub groups: u64,
}

/// Makes all indexes anew from the buffers. The spool must not be open.
pub fn rebuild(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<RebuildReport, SpoolError> {
    let paths = Paths::new(&config.dir);
    let _lock = recovery::lock(&*disk, &config.dir)?;
    let (mut writer, recovery) = recovery::recover_from_buffers(disk, config, progress)?;
    let shared = writer.folds.shared.clone();
    writer.close().map_err(SpoolError::io("write indexes in", &paths.index))?;
    writer.sync.end();
    writer.sync.run(&shared);
    if let Some(trouble) = writer.sync.trouble() {
        return Err(SpoolError::Unfit(format!("the rebuilt indexes could not be written: {trouble}")));
    }
    let groups = shared.groups.snapshot().sorted().len() as u64;
    Ok(RebuildReport { articles: recovery.rebuilt.unwrap_or(0), groups })
}

/// Group:number pairs of the Xref line that a stored article begins with; groups not carried are left out.
pub(crate) fn xref_numbers(shared: &Shared, head: &[u8]) -> Vec<(GroupId, u64)> {
    let table = shared.groups.table();
    let pairs = xref_pairs(head);
    pairs.filter_map(|(name, number)| Some((table.id(name)?, number))).collect()
}

pub(crate) fn xref_pairs(head: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let line = head.split(|b| *b == b'\r').next().and_then(|l| l.strip_prefix(b"Xref: ")).unwrap_or_default();
    pairs_of(line)
}

/// The pairs in the value of an Xref header.
fn pairs_of(value: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let pair = |p: &'_ [u8]| {
        let colon = memchr::memrchr(b':', p)?;
        Some((p.get(..colon)?.len(), netnews::decimal::parse_decimal(p.get(colon + 1..)?)?))
    };
    value.split(|b| *b == b' ').skip(1).filter_map(move |p| {
        let (len, number) = pair(p)?;
        Some((p.get(..len)?, number))
    })
}

/// The articles that lie in a volume from one place on and before another, as residents; for when their own entries are
/// damaged. Without a place it is the volume's end on that side.
pub(crate) fn residents_between(
    shared: &Shared,
    volume: &dyn Volume,
    from: Option<u64>,
    to: Option<u64>,
) -> VecDeque<Resident> {
    let mut scan = Scan::new(volume);
    scan.at = scan.at.max(from.unwrap_or(0).next_multiple_of(volume.block()));
    scan.end = to.unwrap_or(scan.end).min(scan.end);
    let mut found = VecDeque::new();
    while let Some(header) = scan.next() {
        let data = scan.record().get(HEADER_BYTES..).unwrap_or_default();
        let line = if header.packed { crate::packing::xref_line(data) } else { data };
        let numbers = xref_numbers(shared, line);
        found.push_back(Resident { place: header.place, arrived: header.arrived, numbers });
    }
    found
}

/// Fills empty folds from the buffers; returns the number of living articles and where the journal goes on. A checkpoint
/// that cannot be opened from and the groups file still tell the groups, and the old history what it remembers without an article.
pub(crate) fn from_buffers(
    folds: &mut Folds,
    journal: &Path,
    (checkpoint, groups, history): (Option<&Checkpoint>, &GroupsFound, &OldLog),
    progress: &dyn Progress,
) -> Result<(u64, u64), SpoolError> {
    let io = |doing: &'static str| SpoolError::io(doing, journal);
    let shared = folds.shared.clone();
    let mut leftovers =
        Leftovers::collect(folds, journal, checkpoint, groups).map_err(io("read journal in"))?;
    let loaded = shared.volumes.load();
    let cnfs = || loaded.all().iter().filter(|v| v.method() == MethodKind::Cnfs);
    let known = |volume: &dyn Volume| leftovers.heads.get(&volume.id()).copied();
    leftovers.whole &= !cnfs().any(|v| known(&**v).is_some_and(|head| is_overwritten(&shared, &**v, head)));
    let end = leftovers.end(&shared.disk, journal).map_err(io("read journal in"))?;
    let mut volumes: Vec<&dyn Volume> = Vec::new();
    for volume in cnfs() {
        let known = leftovers.heads.get(&volume.id()).copied();
        let head = match known.filter(|head| leftovers.whole && *head >= volume.head()) {
            Some(head) => walk_newer(folds, &**volume, head),
            None => walk_to_head(&**volume, known.unwrap_or(0)),
        };
        // Clears the usage bitmap; publishing sets it again.
        volume.advance(volume.head() + 2 * volume.area());
        volume.reset_head(head);
        volumes.push(&**volume);
    }
    let kept = kept_fronts(folds).map_err(io("go through the articles for"))?;
    let regions = Regions::new(&shared, volumes);
    progress.start("reading the buffers", regions.total_bytes());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(THREADS_MAX);
    let (articles, mut newest) = std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(|| regions.work())));
        let published = publish_all(folds, &regions, kept, progress);
        regions.stop();
        published
    });
    let mut remember = |key, arrived| {
        if matches!(shared.history.lookup(&key), crate::history::Found::None) {
            // History takes arrivals to ascend, and these come last.
            newest = newest.max(arrived);
            folds.remember(key, newest);
        }
    };
    leftovers.remembered.iter().for_each(|(key, arrived)| remember(*key, *arrived));
    history.for_each(&mut |record| {
        // An article that should be in its volume and was not found is lost: peers may send it again.
        let lost = |token: Token| {
            let volume = loaded.get(token.volume).filter(|v| v.method() != MethodKind::Memory);
            volume.is_some_and(|v| token.place >= v.tail())
        };
        if !record.token.is_some_and(lost) {
            remember(Key(record.key_bits), record.arrived);
        }
    });
    if !leftovers.whole {
        // Of the numbers given out since the last row that is left only the promises tell.
        folds.power_lost();
    }
    progress.finish();
    Ok((articles, end))
}

/// Publishes the records of all volumes in the order of their sequence; returns how many articles live, and the last arrival.
fn publish_all(
    folds: &mut Folds,
    regions: &Regions<'_>,
    mut kept: Vec<Front>,
    progress: &dyn Progress,
) -> (u64, u32) {
    let mut fronts: Vec<Front> = regions.fronts();
    kept.iter_mut().for_each(|front| front.go_on(regions));
    fronts.extend(kept);
    let (mut articles, mut newest) = (0, 0);
    while let Some(front) = oldest(&mut fronts) {
        let (arrived, live) = front.publish(folds);
        newest = newest.max(arrived);
        articles += u64::from(live);
        if front.is_used_up() {
            front.go_on(regions);
            progress.step(regions.taken_bytes());
        }
    }
    (articles, newest)
}

/// The volume whose record comes first in the spool's order.
fn oldest(fronts: &mut [Front]) -> Option<&mut Front> {
    fronts.iter_mut().filter(|f| !f.is_used_up()).min_by_key(|f| f.sequence())
}

/// A volume's region at turn, and how far it is published.
struct Front {
    volume: u16,
    index: usize,
    region: Option<Region>,
    at: usize,
    keys: Vec<Key>,
    method: MethodKind,
    kept: Option<KeptPlaces>,
}

/// The places of a volume that keeps, in the order of their articles.
struct KeptPlaces {
    volume: Arc<dyn Volume>,
    places: std::vec::IntoIter<u64>,
}

impl KeptPlaces {
    fn next_region(&mut self, regions: &Regions<'_>) -> Option<Region> {
        let places: Vec<u64> = self.places.by_ref().take(KEPT_TOGETHER).collect();
        (!places.is_empty()).then(|| regions.of_places(&*self.volume, &places))
    }
}

/// The articles of volumes that keep, found by going through them.
fn kept_fronts(folds: &mut Folds) -> io::Result<Vec<Front>> {
    let shared = folds.shared.clone();
    let volumes = shared.volumes.load();
    let mut fronts = Vec::new();
    for volume in volumes.all().iter().filter(|v| v.keeps()) {
        let mut found = Vec::new();
        volume.inventory(&mut Inventory {
            group: &mut |name| group_named(folds, name),
            visit: &mut |sequence, place| found.push((sequence, place)),
        })?;
        found.sort_unstable();
        let places: Vec<u64> = found.into_iter().map(|(_, place)| place).collect();
        let kept = Some(KeptPlaces { volume: volume.clone(), places: places.into_iter() });
        let (id, method) = (volume.id(), volume.method());
        fronts.push(Front { volume: id, index: 0, region: None, at: 0, keys: Vec::new(), method, kept });
    }
    Ok(fronts)
}

impl Front {
    fn record(&self) -> Option<&Record> {
        self.region.as_ref()?.records.get(self.at)
    }

    /// No record is left in any of the volume's regions, or the next is not taken yet.
    fn is_used_up(&self) -> bool {
        self.record().is_none()
    }

    fn sequence(&self) -> u64 {
        self.record().map_or(u64::MAX, |r| r.header.sequence)
    }

    /// Takes the volume's next region that has a record.
    fn go_on(&mut self, regions: &Regions<'_>) {
        while self.is_used_up() {
            self.at = 0;
            self.region = match &mut self.kept {
                Some(kept) => kept.next_region(regions),
                None => regions.take(self.index, self.region.take()),
            };
            if self.region.is_none() {
                return;
            }
        }
    }

    /// Publishes the record at turn; a cancelled one only tells its numbers and is remembered. Returns its arrival, and whether
    /// it lives.
    fn publish(&mut self, folds: &mut Folds) -> (u32, bool) {
        let Some((region, record)) = self.region.as_ref().and_then(|r| Some((r, r.records.get(self.at)?)))
        else {
            return (0, false);
        };
        if self.at.is_multiple_of(TOUCHED_TOGETHER) {
            self.keys.clear();
            let next = region.records.iter().skip(self.at).take(TOUCHED_TOGETHER);
            self.keys.extend(next.map(|r| r.header.key));
            folds.shared.history.touch(&self.keys);
        }
        self.at += 1;
        let header = record.header;
        let found;
        let numbers = if record.resolved {
            region.numbers(record)
        } else {
            found = numbers_of(folds, region, record);
            &found
        };
        numbers.iter().for_each(|(group, number)| folds.number_was_used(*group, *number));
        folds.next_sequence = folds.next_sequence.max(header.sequence + 1);
        let shared = folds.shared.clone();
        let table = shared.groups.table();
        if !record.live {
            folds.remember(header.key, header.arrived);
            return (header.arrived, false);
        }
        let (volume, place) = (self.volume, header.place);
        let token = Token { method: self.method, class: header.class, volume, place };
        let published = Published {
            key: header.key,
            token,
            arrived: header.arrived,
            expires: header.expires,
            stored_bytes: header.record_bytes() as u64,
            numbers,
            xref: region.xref(record),
            fields: region.fields(record),
        };
        let moment = Moment { groups: &table, volumes: &shared.volumes.load(), now: unix_now() };
        let lives = folds.publish(&moment, &published);
        folds.came(u64::from(lives));
        if numbers.len() > 1 {
            folds.end_lost_names(token, numbers);
        }
        (header.arrived, true)
    }
}

/// Where no journal tells the write position: behind the records that follow each other from there on where journal or
/// header last knew it; if there are none, behind the latest of all.
fn walk_to_head(volume: &dyn Volume, known: u64) -> u64 {
    let from = volume.head().max(known);
    let head = walk(volume, from);
    if head > from || is_older(volume, from) {
        return head;
    }
    // The buffer has wrapped since: any record may lie here.
    let start = volume.next_cycle(volume.head()) - volume.area();
    let mut scan = Scan { at: start, end: start + volume.area(), any_cycle: true, ..Scan::new(volume) };
    let mut latest = from;
    while let Some(header) = scan.next() {
        latest = latest.max(header.place + volume.padded(header.record_bytes()));
    }
    walk(volume, latest)
}

/// The header that can be read at a place, whichever cycle it is of.
pub(crate) fn header_at(volume: &dyn Volume, place: u64) -> Option<RecordHeader> {
    let mut raw = [0; HEADER_BYTES];
    let n = volume.read_at(place, Patience::Wait, &mut raw).ok()?;
    RecordHeader::parse(raw.get(..n)?).map(|(header, _)| header)
}

/// Follows records that are newer than all the journal knows.
fn walk_newer(folds: &mut Folds, volume: &dyn Volume, mut head: u64) -> u64 {
    while let Some((region, record)) = record_at_head(&folds.shared, volume, head) {
        if newer_numbers(folds, &region, &record).is_none() {
            break;
        }
        head = record.header.place + volume.padded(record.header.record_bytes());
    }
    head
}

/// The whole record at a write position: there, or where the next cycle or file begins.
pub(crate) fn record_at_head(shared: &Shared, volume: &dyn Volume, head: u64) -> Option<(Region, Record)> {
    [head, volume.next_cycle(head)].into_iter().find_map(|place| {
        let region = Region::of_places(shared, volume, &[place]);
        let record = region.records.first().cloned()?;
        Some((region, record))
    })
}

/// The numbers of a record that came after all that the folds know. One left by a run before the last crash has numbers that
/// are used up.
pub(crate) fn newer_numbers(
    folds: &mut Folds,
    region: &Region,
    record: &Record,
) -> Option<Vec<(GroupId, u64)>> {
    if record.header.sequence < folds.next_sequence {
        return None;
    }
    let numbers = numbers_of(folds, region, record);
    let is_new = |(group, number): &(GroupId, u64)| {
        folds.numbers.get(group.0 as usize).is_none_or(|n| *number > n.assigned)
    };
    (!numbers.is_empty() && numbers.iter().all(is_new)).then_some(numbers)
}

/// Follows records that lie one behind the other.
fn walk(volume: &dyn Volume, mut head: u64) -> u64 {
    let at = |place: u64| header_at(volume, place).filter(|h| h.place == place);
    while let Some(h) = at(head).or_else(|| at(volume.next_cycle(head))) {
        head = h.place + volume.padded(h.record_bytes());
    }
    head
}

/// Whether a record of the cycle before lies at a place: nothing was written over it.
fn is_older(volume: &dyn Volume, place: u64) -> bool {
    header_at(volume, place).is_some_and(|h| {
        volume.cycle(h.place) + 1 == volume.cycle(place) && volume.offset(h.place) == volume.offset(place)
    })
}

/// Whether a volume has been written over from a write position on for more than a whole cycle: then the journal that ends
/// there lacks rows. Bytes without a row that a crash leaves never reach as far (`fence.rs`).
pub(crate) fn is_overwritten(shared: &Shared, volume: &dyn Volume, head: u64) -> bool {
    if is_older(volume, head) {
        return false;
    }
    // Records lie no farther apart than the longest of them.
    let within = 2 * (PART_BYTES_MAX + shared.config.article_bytes_max);
    let end = head + within.min(volume.room(head));
    let mut scan = Scan { at: head, end, any_cycle: true, ..Scan::new(volume) };
    std::iter::from_fn(|| scan.next()).any(|h| h.place >= head + volume.area())
}

/// Reads a volume's records in place order. What the disk cannot read is passed over.
pub(crate) struct Scan<'a> {
    volume: &'a dyn Volume,
    /// Where it stands.
    pub at: u64,
    /// Records that begin before are found.
    pub end: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
    /// Up to here no more is read at a time than is asked for: the disk failed near.
    careful_to: u64,
    /// Takes records of whatever cycle; `at` then tells no more than where in the area they are.
    any_cycle: bool,
    /// Whether the record found last is not cancelled.
    pub live: bool,
    record: std::ops::Range<usize>,
}

impl<'a> Scan<'a> {
    /// Over everything that may live.
    pub fn new(volume: &'a dyn Volume) -> Self {
        Self {
            volume,
            at: volume.tail().max(volume.first()),
            end: volume.head(),
            chunk: Vec::new(),
            chunk_at: 0,
            careful_to: 0,
            any_cycle: false,
            live: false,
            record: 0..0,
        }
    }

    /// Makes `len` bytes from `self.at` on available; fewer at the area's end, none where the disk fails.
    fn fill(&mut self, len: usize) -> &[u8] {
        let have = (self.chunk_at + self.chunk.len() as u64).saturating_sub(self.at) as usize;
        if self.at < self.chunk_at || have < len {
            let careful = self.at < self.careful_to;
            let n = match self.read(if careful { len } else { len.max(CHUNK_BYTES) }) {
                Err(_) if !careful => {
                    self.careful_to = self.at + CHUNK_BYTES as u64;
                    self.read(len)
                }
                read => read,
            };
            self.chunk.truncate(n.unwrap_or(0));
            self.chunk_at = self.at;
        }
        let from = (self.at - self.chunk_at) as usize;
        self.chunk.get(from..(from + len).min(self.chunk.len())).unwrap_or_default()
    }

    fn read(&mut self, len: usize) -> io::Result<usize> {
        self.chunk.resize(len, 0);
        self.volume.read_at(self.at, Patience::Wait, &mut self.chunk)
    }

    /// Goes to the next record that is whole; `None` at the end.
    pub fn next(&mut self) -> Option<RecordHeader> {
        while self.at < self.end {
            let (place, any_cycle, volume) = (self.at, self.any_cycle, self.volume);
            let here = |h: &RecordHeader| {
                h.place == place || any_cycle && volume.offset(h.place) == volume.offset(place)
            };
            // No record goes over the end of the area; a damaged length may say so.
            let room = self.volume.room(place);
            let found = RecordHeader::parse(self.fill(HEADER_BYTES))
                .filter(|(h, _)| here(h) && h.record_bytes() as u64 <= room);
            if let Some((header, live)) = found {
                let record = self.fill(header.record_bytes());
                if record.len() == header.record_bytes() && is_whole(record) {
                    self.live = live;
                    let from = (place - self.chunk_at) as usize;
                    self.record = from..from + header.record_bytes();
                    self.at += self.volume.padded(header.record_bytes());
                    return Some(header);
                }
            }
            self.at += self.volume.block();
        }
        None
    }

    /// Header and data of the record found last.
    fn record(&self) -> &[u8] {
        self.chunk.get(self.record.clone()).unwrap_or_default()
    }
}

/// Groups and numbers of a record; groups that only the articles know are made.
fn numbers_of(folds: &mut Folds, region: &Region, record: &Record) -> Vec<(GroupId, u64)> {
    pairs_of(region.xref(record)).filter_map(|(name, n)| Some((group_named(folds, name)?, n))).collect()
}

/// A group by name; one that only the articles know is made, open for posting.
fn group_named(folds: &mut Folds, name: &[u8]) -> Option<GroupId> {
    if let Some(id) = folds.shared.groups.table().id(name) {
        return Some(id);
    }
    let name = std::str::from_utf8(name).ok()?;
    if folds.retired.contains_key(name) || !netnews::newsgroups::valid_name(name.as_bytes()) {
        return None;
    }
    let id = folds.numbers.len() as u32;
    let row = GroupRow {
        id,
        name: name.into(),
        flag: Flag::Open,
        creator: "rebuild".into(),
        ..GroupRow::default()
    };
    folds.add_groups(&[row]);
    Some(GroupId(id))
}
