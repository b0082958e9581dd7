//! Old articles that bytes without a row may have overwritten in a crash (`docs/states.md`, states 4 and 5).
//!
//! Such bytes begin at the write position (whole records there have received rows by now,
//! [`super::unjournaled`]) and end within its cycle, since the next one is entered only durably (`fence.rs`).
//! After a kill they are consecutive records, the last perhaps cut off; after a power cut any part of up to
//! [`UNSYNCED_BYTES_MAX`] may be there. A damaged old article is given up if they reached it; damage
//! elsewhere comes from the medium, affects no other article, and is left to `newsreel verify`. Called once
//! per opening, after the replay.

use crate::index::fold::Folds;
use crate::index::residents::Resident;
use crate::write::syncer::UNSYNCED_BYTES_MAX;
use disk::ReadMode;
use spool_base::error::SpoolError;
use spool_base::ids::GroupId;
use spool_base::limits::PART_BYTES_MAX;
use spool_journal::{JournalRow, JournalWriter};
use spool_methods::cnfs::record::{self, HEADER_BYTES, RecordHeader};
use spool_methods::scan::header_at;
use spool_methods::{Cyclic, Volume};
use std::collections::HashSet;
use std::io;
use std::ops::Range;

/// Bytes searched at a time for records without a row: whole blocks of any size.
const CHUNK_BYTES: u64 = 256 << 10;
/// Bytes searched at a time near an unreadable sector: no less than the largest block.
const PIECE_BYTES: u64 = 16 << 10;

/// An indexed old article that is not whole.
struct SuspectArticle {
    resident: Resident,
    /// Place of a record that would have been written over its beginning.
    over: u64,
}

/// Area that an interrupted run may have written to.
#[derive(Debug, Clone, Copy)]
struct UnjournaledArea {
    /// Write position according to the rows.
    head: u64,
    /// Place at or after which no record begins.
    end: u64,
    /// Lowest sequence of a record without a row.
    first_sequence: u64,
}

/// Gives up the old articles that were partly overwritten, and marks the whole ones in that area as alive.
/// Rows cover articles before `first_sequence`. Returns the number of articles given up.
pub(super) fn give_up_damaged(
    folds: &mut Folds,
    journal: &mut JournalWriter,
    first_sequence: u64,
    power_lost: bool,
) -> Result<u64, SpoolError> {
    let shared = folds.shared.clone();
    let slack = 2 * (PART_BYTES_MAX + shared.config.article_bytes_max);
    let reach = slack + if power_lost { UNSYNCED_BYTES_MAX } else { 0 };
    let mut given_up = 0;
    let volumes = shared.volumes.load();
    for (index, volume) in volumes.all().iter().enumerate() {
        let Some(volume) = volume.cycbuff() else { continue };
        let head = volume.head();
        let end = head + reach.min(volume.room(head));
        let written = UnjournaledArea { head, end, first_sequence };
        let suspects = damaged(folds, index, volume, &written)?;
        if suspects.is_empty() {
            continue;
        }
        let lost: Vec<Resident> = if power_lost {
            let upto = last_record_end(volume, &written);
            let near = |s: &SuspectArticle| s.over < upto + slack && !is_rotten(volume, s.resident.place);
            let reached = suspects.into_iter().filter(|s| s.over < upto || near(s));
            reached.map(|s| s.resident).collect()
        } else {
            let upto = records_end(volume, &written);
            // Zeros may follow the records, or an unfinished header.
            let reaches = |s: &SuspectArticle| {
                s.resident.place < volume.tail_at(upto) || s.over < upto + HEADER_BYTES as u64
            };
            suspects.into_iter().filter(reaches).map(|s| s.resident).collect()
        };
        given_up += lost.len() as u64;
        for Resident { place, numbers, .. } in lost {
            folds.lost(volume.id(), place, &numbers);
            journal.push(&JournalRow::Lost { volume: volume.id(), place, numbers });
        }
    }
    Ok(given_up)
}

/// Returns the indexed articles that lie where unjournaled bytes may, and are not whole. The others there are
/// marked alive: the interrupted run may have declared them overwritten.
fn damaged(
    folds: &mut Folds,
    index: usize,
    volume: &dyn Cyclic,
    written: &UnjournaledArea,
) -> Result<Vec<SuspectArticle>, SpoolError> {
    let Some(residents) = folds.residents.get_mut(index) else { return Ok(Vec::new()) };
    let table = folds.shared.groups.table();
    let cycle_start = written.head - volume.offset(written.head).unwrap_or_default();
    let (mut suspects, mut buf) = (Vec::new(), Vec::new());
    let named = |(id, number): &(GroupId, u64)| {
        table.get(*id).is_some_and(|group| group.state().live.contains(*number))
    };
    let mut seen = HashSet::new();
    let is_count_vague = &mut folds.is_count_vague;
    let mut look_at = |resident: &Resident| {
        // The interrupted run may have changed its usage bit.
        *is_count_vague |= resident.numbers.is_empty();
        match volume.fetch(resident.place, ReadMode::Wait, &mut buf) {
            Ok(Some((_, live))) if record::is_whole(&buf) => {
                seen.insert(resident.place);
                if live {
                    volume.mark_alive(resident.place);
                }
            }
            _ if volume.is_alive(resident.place) || resident.numbers.iter().any(named) => {
                let over = cycle_start + volume.offset(resident.place).unwrap_or_default();
                seen.insert(resident.place);
                suspects.push(SuspectArticle { resident: resident.clone(), over });
            }
            _ => {}
        }
    };
    let end = volume.tail_at(written.end.saturating_sub(1));
    residents.peek_before(end, &mut look_at).map_err(SpoolError::io("look at buffer", volume.name()))?;
    clear_strays(volume, end, written, |place| seen.contains(&place));
    Ok(suspects)
}

/// Clears the usage bits, up to a place, of articles whose rows a power cut took, or a recovery has cut off:
/// bits at which no old article begins.
fn clear_strays(volume: &dyn Cyclic, end: u64, written: &UnjournaledArea, is_old: impl Fn(u64) -> bool) {
    let mut buf = Vec::new();
    let mut at = 0;
    while let Some(place) = volume.next_living(at).filter(|place| *place < end) {
        at = place + 1;
        // Articles missing from the residents may be on a damaged page of them.
        let mut is_whole =
            || matches!(volume.fetch(place, ReadMode::Wait, &mut buf), Ok(Some(_))) && record::is_whole(&buf);
        let is_cut =
            || header_at(volume, place).is_some_and(|header| header.sequence >= written.first_sequence);
        if !is_old(place) && (is_cut() || !is_whole()) {
            volume.mark_dead(place);
        }
    }
}

/// Returns the end of the consecutive records from the write position on.
fn records_end(volume: &dyn Cyclic, written: &UnjournaledArea) -> u64 {
    let mut at = written.head;
    while at < written.end
        && let Some(header) = header_at(volume, at).filter(|h| written.is_record(h, at))
    {
        at += volume.padded(header.record_bytes());
    }
    at
}

/// Reports whether one flipped bit explains why the article at a place is not whole.
fn is_rotten(volume: &dyn Cyclic, place: u64) -> bool {
    let mut buf = Vec::new();
    matches!(volume.fetch(place, ReadMode::Wait, &mut buf), Ok(Some(_))) && record::is_rotten(&buf)
}

/// Returns the end of the last record whose header reached the disk.
fn last_record_end(volume: &dyn Cyclic, written: &UnjournaledArea) -> u64 {
    let mut last = written.head;
    let mut bytes = Vec::new();
    let mut at = written.head;
    while at < written.end {
        let upto = written.end.min(at + CHUNK_BYTES);
        match last_end_between(volume, written, at..upto, &mut bytes) {
            Ok(end) => last = last.max(end),
            // Only the surroundings of the unreadable sector are skipped.
            Err(_) => {
                for piece in (at..upto).step_by(PIECE_BYTES as usize) {
                    let range = piece..upto.min(piece + PIECE_BYTES);
                    last = last_end_between(volume, written, range, &mut bytes)
                        .map_or(last, |end| last.max(end));
                }
            }
        }
        at = upto;
    }
    last
}

fn last_end_between(
    volume: &dyn Cyclic,
    written: &UnjournaledArea,
    places: Range<u64>,
    bytes: &mut Vec<u8>,
) -> io::Result<u64> {
    bytes.resize((places.end - places.start) as usize, 0);
    let read = volume.read_at(places.start, ReadMode::Wait, bytes)?;
    let block = volume.block() as usize;
    let blocks = bytes.get(..read).unwrap_or_default().chunks(block);
    let ends = blocks.zip(places.step_by(block)).filter_map(|(bytes, place)| {
        let (header, _) = RecordHeader::parse(bytes).filter(|(h, _)| written.is_record(h, place))?;
        Some(place + volume.padded(header.record_bytes()))
    });
    Ok(ends.max().unwrap_or(0))
}

impl UnjournaledArea {
    /// Reports whether a header found at a place belongs to a record without a row.
    fn is_record(&self, header: &RecordHeader, place: u64) -> bool {
        header.place == place && header.sequence >= self.first_sequence
    }
}
