//! Checks of the buffers, record by record, against usage bitmaps and history.

use crate::care::finding::{SpoolDamage, VerifyReport};
use crate::index::fold::SharedIndexes;
use disk::{Progress, ReadMode};
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_methods::cnfs::record::{HEADER_BYTES, RecordHeader};
use spool_methods::scan::Scan;
use spool_methods::{Cyclic, Volume};

/// Progress is reported after this many records.
const RECORDS_PER_STEP: u64 = 16_384;

/// Checks buffers.
pub(super) struct BufferCheck<'s> {
    pub shared: &'s SharedIndexes,
}

impl BufferCheck<'_> {
    /// Checks all buffers.
    pub fn check(&self, progress: &dyn Progress, report: &mut VerifyReport) {
        let volumes = self.shared.volumes.load();
        for volume in volumes.cycbuffs() {
            let mut scan = Scan::new(volume);
            let (start, end) = (scan.at, scan.end);
            progress.start(&format!("checking buffer {}", volume.name()), end - start);
            let mut expected = start;
            while let Some(header) = scan.next_record() {
                self.check_gap(volume, expected, header.place, report);
                expected = scan.at;
                report.records += 1;
                if report.records.is_multiple_of(RECORDS_PER_STEP) {
                    progress.step(header.place - start);
                }
                if scan.live {
                    self.check_record(volume, &header, report);
                }
                self.check_gap(volume, header.place + volume.block(), scan.at, report);
            }
            self.check_gap(volume, expected, end, report);
            progress.finish();
        }
    }

    /// Checks that no record lives between two records, or within one.
    fn check_gap(&self, volume: &dyn Cyclic, from: u64, to: u64, report: &mut VerifyReport) {
        let mut place = from;
        while place < to {
            // The volume may have advanced since. In one that has grown, two places may share a bit for a
            // while.
            let token = token_at(volume, place, 0);
            // The damaged article of a number has been reported, with a repair that clears its bit.
            if volume.is_alive(place) && !report.is_unreadable(&token) && !is_anothers(volume, place) {
                let what = "the buffer's bitmap says that an article lives here, but there is none, or it \
                    is damaged";
                report.found(
                    self.shared.volumes.load().token_text(&token),
                    what,
                    Some(SpoolDamage::StrayBit { token }),
                );
            }
            place += volume.block();
        }
    }

    fn check_record(&self, volume: &dyn Cyclic, header: &RecordHeader, report: &mut VerifyReport) {
        let token = token_at(volume, header.place, header.class);
        let known = match self.shared.history.lookup(&header.key) {
            HistoryLookup::At(at, _) => at.volume == token.volume && at.place == token.place,
            // Cancelled article.
            HistoryLookup::Remembered { .. } => return,
            // If it does not live either, it was never accepted: a crash came between its bytes and its row.
            HistoryLookup::None => false,
        };
        let alive = volume.is_alive(header.place);
        if header.place < volume.tail() {
            return;
        }
        if known && !alive && !report.is_unreadable(&token) {
            let what = "the article is whole, but the buffer's bitmap does not have it";
            report.found(
                self.shared.volumes.load().token_text(&token),
                what,
                Some(SpoolDamage::UsageBit { token }),
            );
        } else if alive && !known {
            let what = "the article is whole, but history does not lead to it: it may be taken again";
            let damage = SpoolDamage::Unknown { key: header.key, token, arrived: header.arrived };
            report.found(self.shared.volumes.load().token_text(&token), what, Some(damage));
        }
    }
}

/// Reports whether a place has the living record of another article.
fn is_anothers(volume: &dyn Cyclic, place: u64) -> bool {
    let mut raw = [0; HEADER_BYTES];
    let read = volume.read_at(place, ReadMode::Wait, &mut raw).unwrap_or(0);
    let header = RecordHeader::parse(raw.get(..read).unwrap_or_default());
    header.is_some_and(|(h, _)| {
        h.place != place && volume.offset(h.place) == volume.offset(place) && volume.is_alive(h.place)
    })
}

fn token_at(volume: &dyn Cyclic, place: u64, class: u8) -> Token {
    Token { method: volume.method(), class, volume: volume.id(), place }
}
