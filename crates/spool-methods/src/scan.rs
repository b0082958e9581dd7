//! Iteration over the records of a volume in the order of their places.
//!
//! Reads whole chunks, checks every record, and skips unreadable parts. Used when no index knows the contents
//! of a volume: by a rebuild, by `verify` and `repair`, and for residents whose own entries are damaged.

use crate::cnfs::record::{HEADER_BYTES, RecordHeader, is_whole};
use crate::volume::Cyclic;
use disk::ReadMode;
use std::io;
use std::ops::Range;

/// Bytes read at a time: they stay in the processor's cache until they are processed.
const CHUNK_BYTES: usize = 256 << 10;

/// Reader of a volume's records in place order. Unreadable parts are skipped.
pub struct Scan<'a> {
    volume: &'a dyn Cyclic,
    /// The current position.
    pub at: u64,
    /// End of the places at which records may begin.
    pub end: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
    /// Before this place, reads are no longer than requested: the disk failed nearby.
    careful_to: u64,
    /// Accepts records of any cycle; `at` is then only their position in the area.
    any_cycle: bool,
    /// Whether the record found last is not cancelled.
    pub live: bool,
    record: Range<usize>,
}

impl<'a> Scan<'a> {
    /// Creates a scan of everything that may live.
    pub fn new(volume: &'a dyn Cyclic) -> Self {
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

    /// Creates a scan of a range of places, with records of any cycle.
    pub fn of_any_cycle(volume: &'a dyn Cyclic, places: Range<u64>) -> Self {
        Self { at: places.start, end: places.end, any_cycle: true, ..Self::new(volume) }
    }

    /// Makes `len` bytes from `self.at` on available; fewer at the area's end, none if the disk fails.
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
        self.volume.read_at(self.at, ReadMode::Wait, &mut self.chunk)
    }

    /// Advances to the next record that is whole; `None` at the end.
    pub fn next_record(&mut self) -> Option<RecordHeader> {
        while self.at < self.end {
            let (place, any_cycle, volume) = (self.at, self.any_cycle, self.volume);
            let here = |h: &RecordHeader| {
                h.place == place || any_cycle && volume.offset(h.place) == volume.offset(place)
            };
            // No record crosses the end of the area, but a damaged length may.
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

    /// Returns header and data of the record found last.
    pub fn record(&self) -> &[u8] {
        self.chunk.get(self.record.clone()).unwrap_or_default()
    }
}

/// Returns the header that can be read at a place, of any cycle.
pub fn header_at(volume: &dyn Cyclic, place: u64) -> Option<RecordHeader> {
    let mut raw = [0; HEADER_BYTES];
    let n = volume.read_at(place, ReadMode::Wait, &mut raw).ok()?;
    RecordHeader::parse(raw.get(..n)?).map(|(header, _)| header)
}
