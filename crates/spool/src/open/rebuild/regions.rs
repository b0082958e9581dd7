//! Parallel reading of the buffers: each thread takes a region of a volume, finds the records that begin in
//! it, checks them and extracts the data for the indexes. The calling thread processes the regions in order.
//!
//! Invariants: [`Regions::take`] returns what one pass from the tail to the write position would find. A
//! region may begin within a record, so the records found in it count only if the previous region ends where
//! they begin; bytes within an article that look like a record are skipped in the same way. At most [`AHEAD`]
//! regions of a volume wait to be taken.

use crate::index::fold::SharedIndexes;
use disk::ReadMode;
use netnews::Article;
use netnews::overview_row::{OverviewFields, append_fields, append_headers};
use parking_lot::Condvar;
use spool_base::ids::GroupId;
use spool_base::ordered::{Ordered, rank};
use spool_base::xref::{XREF_NAME, pairs_of};
use spool_methods::cnfs::record::{END, HEADER_BYTES, RecordHeader, is_whole};
use spool_methods::scan::Scan;
use spool_methods::{Cyclic, Volume};
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum length of a region.
const REGION_BYTES_MAX: u64 = 8 << 20;
/// Minimum length of a region, of which all lengths are multiples: the largest possible block.
const REGION_BYTES_MIN: u64 = 16 << 10;
/// Minimum number of regions in a small volume.
const REGIONS_MIN: u64 = 16;
/// Maximum number of regions of one volume that are being read or wait to be taken.
const AHEAD: usize = 4;

/// A record found, with ranges in its region's buffers.
#[derive(Debug, Clone)]
pub(crate) struct ScannedRecord {
    pub header: RecordHeader,
    /// Whether the record is not cancelled, and valid.
    pub live: bool,
    /// Whether all its groups were known, and are in `numbers`.
    pub resolved: bool,
    numbers: Range<u32>,
    xref: Range<u32>,
    fields: Range<u32>,
}

/// Records of a region.
#[derive(Debug, Default)]
pub(crate) struct Region {
    pub records: Vec<ScannedRecord>,
    /// End of the last record, or of the region if that is later.
    end: u64,
    numbers: Vec<(GroupId, u64)>,
    text: Vec<u8>,
    raw: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Region {
    /// Suitable length of a single read.
    pub const BYTES_MAX: u64 = REGION_BYTES_MAX;

    /// Returns groups and numbers of a record.
    pub fn numbers(&self, record: &ScannedRecord) -> &[(GroupId, u64)] {
        self.numbers.get(record.numbers.start as usize..record.numbers.end as usize).unwrap_or_default()
    }

    /// Returns the value of its Xref header.
    pub fn xref(&self, record: &ScannedRecord) -> &[u8] {
        self.text.get(record.xref.start as usize..record.xref.end as usize).unwrap_or_default()
    }

    /// Returns its overview fields.
    pub fn fields(&self, record: &ScannedRecord) -> &[u8] {
        self.text.get(record.fields.start as usize..record.fields.end as usize).unwrap_or_default()
    }

    /// Reads the whole records at these places of a volume.
    pub fn of_places(shared: &SharedIndexes, volume: &dyn Volume, places: &[u64]) -> Self {
        let mut region = Self::default();
        let mut buf = Vec::new();
        for place in places {
            let found = volume.fetch(*place, ReadMode::Wait, &mut buf);
            if let Ok(Some((header, live))) = found
                && is_whole(&buf)
            {
                region.add(shared, header, live, &buf);
            }
        }
        region
    }

    /// Reads the records that begin in a range of places; returns the end of the last one, or of the range if
    /// that is later.
    pub fn read(&mut self, shared: &SharedIndexes, scan: &mut Scan<'_>, range: Range<u64>) -> u64 {
        self.records.clear();
        self.numbers.clear();
        self.text.clear();
        (scan.at, scan.end) = (range.start, range.end);
        while let Some(header) = scan.next_record() {
            self.add(shared, header, scan.live, scan.record());
        }
        self.end = scan.at;
        self.end
    }

    fn add(&mut self, shared: &SharedIndexes, header: RecordHeader, live: bool, record: &[u8]) {
        let data = record.get(HEADER_BYTES..).unwrap_or_default();
        let line = if header.packed { spool_methods::packing::xref_line(data) } else { data };
        let xref_start = self.text.len() as u32;
        self.text.extend_from_slice(xref_value(line));
        let xref = xref_start..self.text.len() as u32;
        let first_number = self.numbers.len();
        let mut resolved = true;
        for (name, number) in pairs_of(xref_value(line)) {
            match shared.groups.table().id(name) {
                Some(id) => self.numbers.push((id, number)),
                None => resolved = false,
            }
        }
        let fields_start = self.text.len() as u32;
        let live = self.put_fields(shared, &header, record) && live;
        self.records.push(ScannedRecord {
            header,
            live,
            resolved,
            numbers: first_number as u32..self.numbers.len() as u32,
            xref,
            fields: fields_start..self.text.len() as u32,
        });
    }

    /// Appends the OVER fields of an article; returns false if it is invalid, or its dictionary is lost.
    fn put_fields(&mut self, shared: &SharedIndexes, header: &RecordHeader, record: &[u8]) -> bool {
        let data = if header.packed {
            self.raw.clear();
            self.raw.extend_from_slice(record);
            if shared.packing.unpack(header, &mut self.raw, &mut self.unpacked).is_err() {
                return false;
            }
            self.unpacked.get(HEADER_BYTES..).unwrap_or_default()
        } else {
            record.get(HEADER_BYTES..).unwrap_or_default()
        };
        let Some(article) = data.strip_suffix(END).and_then(|wire| Article::parse(wire).ok()) else {
            return false;
        };
        append_fields(&OverviewFields::of(&article, header.message_id(data)), &mut self.text);
        append_headers(article.head(), &shared.current.load().overview_headers, &mut self.text);
        true
    }

    /// Drops records that begin before `expected`, where the previous region ended. Returns false if a record
    /// crosses that place: then the records found began within another one, and the region must be read again
    /// from there.
    fn begin_at(&mut self, expected: u64, padded: impl Fn(&RecordHeader) -> u64) -> bool {
        let before = self.records.iter().take_while(|r| r.header.place < expected).count();
        let over = |r: &ScannedRecord| r.header.place + padded(&r.header) > expected;
        let fits = !self.records.iter().take(before).any(over);
        self.records.drain(..before);
        fits
    }
}

/// Returns the value of the Xref line that data begins with.
fn xref_value(data: &[u8]) -> &[u8] {
    let line = memchr::memchr(b'\r', data).and_then(|end| data.get(..end)).unwrap_or_default();
    line.strip_prefix(XREF_NAME).unwrap_or_default()
}

/// Reading progress in a volume.
#[derive(Debug)]
struct VolumeProgress {
    range: Range<u64>,
    region_bytes: u64,
    /// Start of the next region to be read.
    next: u64,
    /// Regions being read, or read already, in order.
    regions: VecDeque<Option<Region>>,
    /// Number of the first of `regions`.
    first: u64,
    /// End of the regions taken so far.
    expected: u64,
}

#[derive(Debug)]
struct RegionsState {
    volumes: Vec<VolumeProgress>,
    /// Regions whose memory can be reused.
    spare: Vec<Region>,
    stop: bool,
}

/// Regions of all volumes, handed from the reading threads to the calling one.
#[derive(Debug)]
pub(super) struct Regions<'a> {
    shared: &'a SharedIndexes,
    volumes: Vec<&'a dyn Cyclic>,
    state: Ordered<RegionsState, { rank::REBUILDING }>,
    /// Signalled when a region has been read.
    done: Condvar,
    /// Signalled when a region was taken.
    taken: Condvar,
}

impl<'a> Regions<'a> {
    /// Creates the regions of everything that may live in `volumes`.
    pub fn new(shared: &'a SharedIndexes, volumes: Vec<&'a dyn Cyclic>) -> Self {
        let start = |volume: &&dyn Cyclic| {
            let Scan { at, end, .. } = Scan::new(*volume);
            let range = at..end.max(at);
            let region_bytes = ((range.end - range.start) / REGIONS_MIN).next_multiple_of(REGION_BYTES_MIN);
            let region_bytes = region_bytes.clamp(REGION_BYTES_MIN, REGION_BYTES_MAX);
            let (next, expected, regions) = (range.start, range.start, VecDeque::new());
            VolumeProgress { range, region_bytes, next, regions, first: 0, expected }
        };
        let state =
            RegionsState { volumes: volumes.iter().map(start).collect(), spare: Vec::new(), stop: false };
        Self { shared, volumes, state: Ordered::new(state), done: Condvar::new(), taken: Condvar::new() }
    }

    /// Returns the volumes in the order of their indexes here.
    pub fn volumes(&self) -> impl Iterator<Item = &'a dyn Cyclic> {
        self.volumes.iter().copied()
    }

    /// Returns the total number of bytes to be read.
    pub fn total_bytes(&self) -> u64 {
        self.state.lock().volumes.iter().map(|v| v.range.end - v.range.start).sum()
    }

    /// Returns the number of bytes in the regions taken so far.
    pub fn taken_bytes(&self) -> u64 {
        self.state.lock().volumes.iter().map(|v| v.expected.min(v.range.end) - v.range.start).sum()
    }

    /// Reads regions until none are left; run by each of the threads.
    pub fn work(&self) {
        let mut scans: Vec<Scan<'_>> = self.volumes.iter().map(|v| Scan::new(*v)).collect();
        let mut state = self.state.lock();
        while !state.stop && state.volumes.iter().any(|v| v.next < v.range.end) {
            let open = |(_, v): &(usize, &VolumeProgress)| v.next < v.range.end && v.regions.len() < AHEAD;
            let least = state.volumes.iter().enumerate().filter(open).min_by_key(|(_, v)| v.regions.len());
            let Some((index, _)) = least else {
                state.wait(&self.taken);
                continue;
            };
            let mut region = state.spare.pop().unwrap_or_default();
            let Some(v) = state.volumes.get_mut(index) else { break };
            let range = v.next..(v.next + v.region_bytes).min(v.range.end);
            v.next = range.end;
            let number = v.first + v.regions.len() as u64;
            v.regions.push_back(None);
            state.unlocked(|| {
                if let Some(scan) = scans.get_mut(index) {
                    region.read(self.shared, scan, range);
                }
            });
            if let Some(v) = state.volumes.get_mut(index)
                && let Some(slot) = v.regions.get_mut((number - v.first) as usize)
            {
                *slot = Some(region);
            }
            self.done.notify_all();
        }
    }

    /// Waits for the next region of a volume and takes it; `None` at the end. `used` is the previous one.
    pub fn take(&self, index: usize, used: Option<Region>) -> Option<Region> {
        let mut state = self.state.lock();
        state.spare.extend(used);
        loop {
            let v = state.volumes.get_mut(index)?;
            if v.regions.is_empty() && v.next >= v.range.end {
                return None;
            }
            if v.regions.front().is_some_and(Option::is_some) {
                break;
            }
            state.wait(&self.done);
        }
        let v = state.volumes.get_mut(index)?;
        let mut region = v.regions.pop_front().flatten()?;
        let number = v.first;
        v.first += 1;
        let expected = v.expected;
        let region_end = (v.range.start + (number + 1) * v.region_bytes).min(v.range.end);
        let volume = *self.volumes.get(index)?;
        if !region.begin_at(expected, |h| volume.padded(h.record_bytes())) {
            // The region begins within a record whose data looks like a record.
            region.read(self.shared, &mut Scan::new(volume), expected..region_end.max(expected));
        }
        v.expected = region.end.max(expected);
        self.taken.notify_all();
        Some(region)
    }

    /// Reads the articles at these places of a volume of retained articles.
    pub fn of_places(&self, volume: &dyn Volume, places: &[u64]) -> Region {
        Region::of_places(self.shared, volume, places)
    }

    /// Ends the threads; regions that were not taken are dropped.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.taken.notify_all();
    }
}
