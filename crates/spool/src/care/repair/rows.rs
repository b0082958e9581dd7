//! Overview rows rebuilt from the articles, for damaged blocks.

use crate::base::ids::GroupId;
use crate::base::progress::Progress;
use crate::base::token::{MethodKind, Token};
use crate::index::overview::{RowEntry, Rows};
use crate::method::Volume;
use crate::method::scan::Scan;
use crate::open::rebuild::Region;
use crate::spool::Spool;
use netnews::overview_row::append_row;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The numbers whose rows are needed.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    ranges: BTreeMap<GroupId, Vec<RangeInclusive<u64>>>,
}

impl Wanted {
    pub fn add(&mut self, group: GroupId, range: RangeInclusive<u64>) {
        self.ranges.entry(group).or_default().push(range);
    }

    fn contains(&self, group: GroupId, number: u64) -> bool {
        self.ranges.get(&group).is_some_and(|ranges| ranges.iter().any(|r| r.contains(&number)))
    }
}

/// Rows by group and number.
pub(super) type Found = BTreeMap<(GroupId, u64), (RowEntry, Vec<u8>)>;

impl Spool {
    /// Reads the rows wanted from the buffers.
    pub(super) fn read_rows(&self, wanted: &Wanted, progress: &dyn Progress) -> Found {
        let mut found = Found::new();
        if wanted.ranges.is_empty() {
            return found;
        }
        let volumes = self.shared.volumes.load();
        let mut region = Region::default();
        for volume in volumes.cycbuffs() {
            let mut scan = Scan::new(volume);
            let (start, end) = (scan.at, scan.end);
            progress.start(&format!("reading buffer {}", volume.name()), end - start);
            let mut at = start;
            while at < end {
                at = region.read(&self.shared, &mut scan, at..(at + Region::BYTES_MAX).min(end));
                progress.step(at.min(end) - start);
                for record in region.records.iter().filter(|r| r.live && volume.is_alive(r.header.place)) {
                    let header = &record.header;
                    let (place, volume) = (header.place, volume.id());
                    let token = Token { method: MethodKind::Cnfs, class: header.class, volume, place };
                    for (group, number) in region.numbers(record) {
                        if !wanted.contains(*group, *number) {
                            continue;
                        }
                        let mut text = Vec::new();
                        append_row(*number, region.fields(record), region.xref(record), &mut text);
                        let entry = RowEntry { number: *number, end: 0, token, arrived: header.arrived };
                        found.insert((*group, *number), (entry, text));
                    }
                }
            }
            progress.finish();
        }
        found
    }

    /// Replaces the damaged rows of a block. Numbers without a readable article are removed.
    pub(super) fn renew_block(&self, group: GroupId, first: u64, found: &Found) -> Result<(), String> {
        let mut writer = self.writer().lock();
        let Some(group) = self.group(group) else { return Ok(()) };
        let state = &mut *group.state();
        let block = state.overview.blocks.iter().find(|b| b.first == first && b.live > 0);
        let Some(last) = block.map(|b| b.last) else { return Ok(()) };
        let mut rows = Rows::default();
        for ((_, number), (entry, text)) in found.range((group.id, first)..=(group.id, last)) {
            if state.live.contains(*number) {
                rows.text.extend_from_slice(text);
                rows.entries.push(RowEntry { end: rows.text.len() as u32, ..*entry });
            }
        }
        let lost: Vec<u64> = state.live.range(first..=last).filter(|n| rows.find(*n).is_none()).collect();
        for number in lost {
            state.end(number);
        }
        self.shared.generation.fetch_add(1, std::sync::atomic::Ordering::Release);
        if rows.entries.is_empty() {
            return Ok(());
        }
        let (id, segments) = (group.id, &mut writer.folds.segments);
        state.overview.renew(id, first, &rows, segments).map_err(|e| e.to_string())
    }
}
