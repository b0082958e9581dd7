//! The log of a history that is about to be rebuilt: information that exists only there is copied to the new
//! one.
//!
//! Rejected, cancelled, expired and overwritten Message-IDs are in no buffer, and the journal has only the
//! last of them. The files are opened before the indexes are cleared, and read once the articles are found.
//! Each record is self-validating (its check depends on its number); a checkpoint says which records exist.
//! Used by recovery.

use super::log;
use super::record::{HistoryRecord, RECORD_BYTES, RECORD_WORDS, RecordRange, decode, raw_arrived};
use disk::{Disk, DiskFile, OpenMode, read_around};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The files of the old log.
#[derive(Debug, Default, Clone)]
pub struct OldLog {
    /// Number of the first record of each file, and the file.
    files: Vec<(u64, Arc<dyn DiskFile>)>,
    living: Range<u64>,
    segment_records: u64,
}

impl OldLog {
    /// Opens the readable files; records outside of the checkpoint may be remnants of a crash.
    pub fn open(disk: &dyn Disk, dir: &Path, segment_bits: u32, known: RecordRange) -> Self {
        let mut files = Vec::new();
        for name in disk.list(dir).unwrap_or_default() {
            let opened = log::segment_number(&name).and_then(|number| {
                Some((number << segment_bits, disk.open(&dir.join(&name), OpenMode::ReadOnly).ok()?))
            });
            files.extend(opened);
        }
        Self { files, living: known.first_record..known.next_record, segment_records: 1 << segment_bits }
    }

    /// Returns how many records are missing because their files are.
    pub fn lost_records(&self) -> u64 {
        let held = |(first, _): &(u64, _)| {
            let (from, to) =
                (self.living.start.max(*first), self.living.end.min(first + self.segment_records));
            to.saturating_sub(from)
        };
        (self.living.end - self.living.start).saturating_sub(self.files.iter().map(held).sum())
    }

    /// Returns the arrival before which everything had been forgotten, in Unix seconds: that of the first
    /// record, 0 if it cannot be read.
    pub fn forgotten_before(&self) -> u32 {
        let first = self.living.start..self.living.end.min(self.living.start + 1);
        let mut arrived = 0;
        Self { living: first, ..self.clone() }.for_each(&mut |_, in_order| arrived = in_order);
        arrived
    }

    /// Visits the whole records, in order, each with the arrival by which it is forgotten (Unix seconds):
    /// that of the newest record before it, if that is later than its own. Returns how many could not be read
    /// or are damaged.
    pub fn for_each(&self, visit: &mut dyn FnMut(HistoryRecord, u32)) -> u64 {
        let mut whole = 0;
        for (first, file) in &self.files {
            let mut number = self.living.start.max(*first);
            let end = self.living.end.min(first + self.segment_records);
            while number < end {
                let wanted = ((end - number) * RECORD_BYTES).min(CHUNK_BYTES as u64) as usize;
                let mut bytes = vec![0; wanted];
                // Unreadable records are skipped.
                let read = read_around(&**file, &mut bytes, (number - first) * RECORD_BYTES).unwrap_or(0);
                let records =
                    bytes.get(..read).unwrap_or_default().as_chunks::<{ RECORD_BYTES as usize }>().0;
                for (at, record) in records.iter().enumerate() {
                    let halves = record.as_chunks::<8>().0;
                    let words: [u64; RECORD_WORDS] =
                        std::array::from_fn(|i| halves.get(i).map_or(0, |w| u64::from_le_bytes(*w)));
                    let Some(record) = decode(&words, number + at as u64) else { continue };
                    whole += 1;
                    // An emptied entry has no Message-ID.
                    if record.key_bits != 0 {
                        visit(record, raw_arrived(&words));
                    }
                }
                number += (wanted as u64) / RECORD_BYTES;
            }
        }
        (self.living.end - self.living.start).saturating_sub(self.lost_records() + whole)
    }
}
