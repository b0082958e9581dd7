//! Compaction of a group's files: the live half of a file is copied when the other half is dead.
//!
//! Live records are appended to the group's newest file, then the old one is removed; a crash between the two
//! leaves both, with the same content. Called by `group` and `purge`, with the group's index locked.

use std::io;

use disk::read_small;

use crate::base::record::{self, CacheRecord, RecordKind};
use crate::books::bookkeeping::CacheFile;
use crate::cache::CacheInner;
use crate::index::cells::GroupCell;
use crate::index::loaded::{GroupIndex, lines};

/// Maximum size of a group's file.
const FILE_BYTES_MAX: u64 = 64 << 20;

impl CacheInner {
    /// Compacts the group's wasteful files.
    pub fn compact(&self, cell: &GroupCell, loaded: &mut GroupIndex) -> io::Result<()> {
        while let Some(seq) = loaded.wasteful.pop() {
            self.rewrite(cell, loaded, seq)?;
        }
        Ok(())
    }

    /// Writes what counts in a file to the newest one, and removes the file; it stays if there is no room.
    pub fn rewrite(&self, cell: &GroupCell, loaded: &mut GroupIndex, seq: u32) -> io::Result<()> {
        let Some(segment) = loaded.segment_mut(seq) else { return Ok(()) };
        // The copies go to another file.
        segment.is_sealed = true;
        let unit = segment.unit;
        let file = CacheFile::Segment { key: cell.key, generation: loaded.generation, seq };
        let Some(known) = self.books.lock().unit(unit).filter(|known| known.file == file) else {
            return Ok(());
        };
        let Some(bytes) = read_small(&*self.disk, &file.path(&self.dir), FILE_BYTES_MAX)? else {
            return Ok(());
        };
        let mut records = Vec::new();
        record::scan(&bytes, |record, at| records.push((record, at)));
        for (record, at) in records {
            for (number, last, payload) in living(loaded, &record, seq, at) {
                let copy = CacheRecord { number, last, payload: &payload, ..record };
                if !self.append(cell, loaded, &copy, known.expires, known.used)? {
                    return Ok(());
                }
            }
        }
        let gone = {
            let mut books = self.books.lock();
            if books.is_file(unit, file) { books.remove(unit) } else { None }
        };
        self.discard(&gone.map(|file| (unit, file)).into_iter().collect::<Vec<_>>());
        loaded.remove_segment(seq);
        Ok(())
    }
}

/// Returns the live parts of a record: numbers and payload of each.
fn living(loaded: &GroupIndex, record: &CacheRecord<'_>, seq: u32, at: usize) -> Vec<(u64, u64, Vec<u8>)> {
    let is_here = |place: crate::index::loaded::RecordPosition| place.seq == seq && place.at as usize == at;
    match record.kind {
        RecordKind::Article | RecordKind::Link => {
            let entry = loaded.articles.get(record.number).filter(|entry| is_here(entry.place()));
            entry.map(|_| (record.number, record.last, record.payload.to_vec())).into_iter().collect()
        }
        RecordKind::Rows => {
            let pieces = loaded.blocks(record.number..=record.last).filter(|(_, block)| is_here(block.place));
            let text = |first: u64, last: u64| {
                let inside = lines(record.payload).filter(|line| (first..=last).contains(&line.number));
                inside.flat_map(|line| line.text).copied().collect()
            };
            pieces.map(|(first, block)| (first, block.last, text(first, block.last))).collect()
        }
        RecordKind::Gone if loaded.is_forgotten(record.number) => {
            vec![(record.number, record.last, Vec::new())]
        }
        _ => Vec::new(),
    }
}
