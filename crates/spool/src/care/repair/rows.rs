//! Overview rows rebuilt from the articles, for damaged blocks.
//!
//! The lists of the volumes' articles (residents, and lists of retained articles) show which articles have
//! the wanted numbers. If rows of living numbers are missing after that, all articles that may have them are
//! read: whole buffers, and all other articles that history leads to.

use super::error::RepairError;
use crate::index::fold::SharedIndexes;
use crate::index::overview::{BlockRows, RowEntry};
use crate::open::rebuild::Region;
use crate::write::locked::LockedWriter;
use disk::Progress;
use netnews::overview_row::append_row;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_methods::Volume;
use spool_methods::scan::Scan;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Number of articles read together.
const READ_TOGETHER: usize = 256;

/// Whether a repair may end numbers that no readable article has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossPolicy {
    /// A block with such numbers stays as it is.
    Refused,
    /// Such numbers end.
    Accepted,
}

/// Numbers whose rows are needed.
#[derive(Debug, Default)]
struct WantedRows {
    ranges: BTreeMap<GroupId, Vec<RangeInclusive<u64>>>,
}

impl WantedRows {
    fn contains(&self, (group, number): &(GroupId, u64)) -> bool {
        self.ranges.get(group).is_some_and(|ranges| ranges.iter().any(|r| r.contains(number)))
    }

    fn has_any_of(&self, numbers: &[(GroupId, u64)]) -> bool {
        numbers.iter().any(|number| self.contains(number))
    }
}

/// Rows by group and number.
#[derive(Debug, Default)]
struct RowsFound(BTreeMap<(GroupId, u64), (RowEntry, Vec<u8>)>);

impl RowsFound {
    /// Adds the wanted rows of the articles in a region of a volume.
    fn add(&mut self, region: &Region, volume: &dyn Volume, wanted: &WantedRows) {
        for record in region.records.iter().filter(|r| r.live && volume.is_alive(r.header.place)) {
            let header = &record.header;
            let (class, place) = (header.class, header.place);
            let token = Token { method: volume.method(), class, volume: volume.id(), place };
            for at in region.numbers(record).iter().filter(|at| wanted.contains(at)) {
                let (mut text, number) = (Vec::new(), at.1);
                append_row(number, region.fields(record), region.xref(record), &mut text);
                self.0.insert(*at, (RowEntry { number, end: 0, token, arrived: header.arrived }, text));
            }
        }
    }
}

/// Search for the rows of damaged blocks.
pub(super) struct RowSearch<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    loss: LossPolicy,
    wanted: WantedRows,
    found: RowsFound,
}

impl<'s> RowSearch<'s> {
    pub fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter, loss: LossPolicy) -> Self {
        Self { shared, writer, loss, wanted: WantedRows::default(), found: RowsFound::default() }
    }

    /// Adds numbers to those whose rows are wanted.
    pub fn want(&mut self, group: GroupId, range: RangeInclusive<u64>) {
        self.wanted.ranges.entry(group).or_default().push(range);
    }

    /// Reads the wanted rows from the articles; if losses are accepted, from all articles if necessary.
    pub fn find(&mut self, progress: &dyn Progress) {
        if self.wanted.ranges.is_empty() {
            return;
        }
        for (volume, places) in self.places_listed() {
            self.read_places(volume, &places);
        }
        if self.loss == LossPolicy::Accepted && self.lacks_rows() {
            self.read_buffers(progress);
            for (volume, places) in self.places_in_history() {
                self.read_places(volume, &places);
            }
        }
    }

    /// Returns the places, by volume, of the articles that have wanted numbers according to the volumes'
    /// lists, except for damaged pages.
    fn places_listed(&self) -> BTreeMap<u16, Vec<u64>> {
        let mut listed = BTreeMap::<u16, Vec<u64>>::new();
        let volumes = self.shared.volumes.load();
        let mut writer = self.writer.lock();
        let folds = &mut writer.folds;
        for ((volume, residents), kept) in volumes.all().iter().zip(&mut folds.residents).zip(&mut folds.kept)
        {
            let mut enter = |place: u64, numbers: &[(GroupId, u64)]| {
                if self.wanted.has_any_of(numbers) {
                    listed.entry(volume.id()).or_default().push(place);
                }
            };
            // Unreadable entries are noticed later as missing rows.
            _ = match kept {
                Some(list) => list.verify(&mut |entry| enter(entry.place, &entry.numbers)).map(drop),
                None => residents.peek_before(u64::MAX, &mut |r| enter(r.place, &r.numbers)),
            };
        }
        listed
    }

    /// Returns the places, by volume, of all articles outside of the buffers that history leads to.
    fn places_in_history(&self) -> BTreeMap<u16, Vec<u64>> {
        let mut places = BTreeMap::<u16, Vec<u64>>::new();
        let (history, volumes) = (&self.shared.history, self.shared.volumes.load());
        history.for_each(0, &mut |_, record| {
            let Some((key_bits, token)) = record.and_then(|r| Some((r.key_bits, r.token?))) else { return };
            let is_buffer = volumes.get(token.volume).is_none_or(|volume| volume.cycbuff().is_some());
            let leads =
                || matches!(history.lookup(&ArticleKey(key_bits)), HistoryLookup::At(t, _) if t == token);
            if !is_buffer && leads() {
                places.entry(token.volume).or_default().push(token.place);
            }
        });
        places
    }

    fn read_places(&mut self, volume: u16, places: &[u64]) {
        let volumes = self.shared.volumes.load();
        let Some(volume) = volumes.get(volume) else { return };
        for places in places.chunks(READ_TOGETHER) {
            self.found.add(&Region::of_places(self.shared, volume, places), volume, &self.wanted);
        }
    }

    fn read_buffers(&mut self, progress: &dyn Progress) {
        let volumes = self.shared.volumes.load();
        let mut region = Region::default();
        for volume in volumes.cycbuffs() {
            let mut scan = Scan::new(volume);
            let (start, end) = (scan.at, scan.end);
            progress.start(&format!("reading buffer {}", volume.name()), end - start);
            let mut at = start;
            while at < end {
                at = region.read(self.shared, &mut scan, at..(at + Region::BYTES_MAX).min(end));
                progress.step(at.min(end) - start);
                self.found.add(&region, volume, &self.wanted);
            }
            progress.finish();
        }
    }

    /// Reports whether living numbers have no row among those found.
    fn lacks_rows(&self) -> bool {
        self.wanted.ranges.iter().any(|(id, ranges)| {
            let Some(group) = self.shared.groups.get(*id) else { return false };
            let state = group.state();
            let mut living = ranges.iter().flat_map(|range| state.live.range(range.clone()));
            living.any(|number| !self.found.0.contains_key(&(*id, number)))
        })
    }

    /// Replaces the damaged rows of a block. Numbers without a readable article are removed, or the block
    /// stays as it is.
    pub fn renew_block(&self, group: GroupId, first: u64) -> Result<(), RepairError> {
        let mut writer = self.writer.lock();
        let Some(group) = self.shared.groups.get(group) else { return Ok(()) };
        let state = &mut *group.state();
        let block = state.overview.blocks.iter().find(|b| b.first == first && b.live > 0);
        let Some(last) = block.map(|b| b.last) else { return Ok(()) };
        let mut rows = BlockRows::default();
        for ((_, number), (entry, text)) in self.found.0.range((group.id, first)..=(group.id, last)) {
            if state.live.contains(*number) {
                rows.text.extend_from_slice(text);
                rows.entries.push(RowEntry { end: rows.text.len() as u32, ..*entry });
            }
        }
        let lost: Vec<u64> = state.live.range(first..=last).filter(|n| rows.find(*n).is_none()).collect();
        if self.loss == LossPolicy::Refused && !lost.is_empty() {
            return Err(RepairError::MissingArticles { numbers: lost.len() });
        }
        for number in lost {
            state.end(number);
            self.shared.is_digest_vague.store(true, std::sync::atomic::Ordering::Release);
        }
        self.shared.generation.fetch_add(1, std::sync::atomic::Ordering::Release);
        if rows.entries.is_empty() {
            return Ok(());
        }
        let (id, segments) = (group.id, &mut writer.folds.segments);
        Ok(state.overview.renew(id, first, &rows, segments)?)
    }
}
