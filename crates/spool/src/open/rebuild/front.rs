//! Progress of a rebuild in each volume: the region whose records are published next.

use super::ended::EndedNumbers;
use super::regions::{Region, Regions, ScannedRecord};
use crate::index::fold::{Folds, PublishContext, PublishedArticle};
use crate::index::promise::GroupNumbers;
use spool_base::facts::TaggedFields;
use spool_base::ids::{GroupFlag, GroupId};
use spool_base::key::ArticleKey;
use spool_base::token::{MethodKind, Token};
use spool_base::xref::pairs_of;
use spool_journal::{ArticleRow, GroupRow};
use spool_methods::{Inventory, Volume};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Number of records whose places in history are prefetched together.
const TOUCHED_TOGETHER: usize = 32;
/// Number of retained articles that are read together.
const KEPT_TOGETHER: usize = 256;

/// Current region of a volume, and the progress in it.
pub(super) struct RebuildFront {
    volume: u16,
    index: usize,
    region: Option<Region>,
    at: usize,
    keys: Vec<ArticleKey>,
    method: MethodKind,
    kept: Option<KeptPlaces>,
    /// Place before which everything has left its ring.
    left_to: u64,
}

/// Places of a volume of retained articles, in the order of the articles.
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

/// Returns the fronts of the cyclic volumes, each at its first region that has a record.
pub(super) fn cyclic_fronts(regions: &Regions<'_>) -> Vec<RebuildFront> {
    let volumes = regions.volumes().enumerate();
    volumes
        .map(|(index, volume)| {
            let mut front = RebuildFront::new(volume, index, None);
            front.next_region(regions);
            front
        })
        .collect()
}

/// Returns the fronts of the volumes of retained articles, after listing their articles.
pub(super) fn kept_fronts(folds: &mut Folds) -> io::Result<Vec<RebuildFront>> {
    let shared = folds.shared.clone();
    let volumes = shared.volumes.load();
    let table = shared.groups.snapshot();
    let removed = folds.names.gone(|id| table.get(id).is_none());
    let mut removed = removed.into_iter().map(|(id, name)| (name, GroupId(id))).collect();
    let mut fronts = Vec::new();
    for volume in volumes.all() {
        let Some(retained) = volume.retained() else { continue };
        let mut found = Vec::new();
        retained.inventory(&mut Inventory {
            group: &mut |name| group_named(folds, name).or_else(|| removed_group(folds, &mut removed, name)),
            visit: &mut |sequence, place| found.push((sequence, place)),
        })?;
        found.sort_unstable();
        let places: Vec<u64> = found.into_iter().map(|(_, place)| place).collect();
        let kept = Some(KeptPlaces { volume: volume.clone(), places: places.into_iter() });
        fronts.push(RebuildFront::new(&**volume, 0, kept));
    }
    Ok(fronts)
}

/// Returns the front whose record comes first in the spool's order.
pub(super) fn oldest(fronts: &mut [RebuildFront]) -> Option<&mut RebuildFront> {
    fronts.iter_mut().filter(|f| !f.is_used_up()).min_by_key(|f| f.sequence())
}

impl RebuildFront {
    fn new(volume: &dyn Volume, index: usize, kept: Option<KeptPlaces>) -> Self {
        let left_to = volume.cyclic().map_or(0, |volume| volume.left_to());
        let (volume, method) = (volume.id(), volume.method());
        Self { volume, index, region: None, at: 0, keys: Vec::new(), method, kept, left_to }
    }

    fn record(&self) -> Option<&ScannedRecord> {
        self.region.as_ref()?.records.get(self.at)
    }

    /// Reports whether no record is left in the current region: it must be replaced, or was the last.
    pub fn is_used_up(&self) -> bool {
        self.record().is_none()
    }

    fn sequence(&self) -> u64 {
        self.record().map_or(u64::MAX, |r| r.header.sequence)
    }

    /// Advances to the volume's next region that has a record.
    pub fn next_region(&mut self, regions: &Regions<'_>) {
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

    /// Publishes the next record, without numbers of earlier groups. Of one that was cancelled or has left
    /// its ring only the numbers are kept, and the Message-ID, unless it had arrived before
    /// `forgotten_before` (Unix seconds). One whose numbers do not follow those published is skipped. Returns
    /// whether it lives.
    pub fn publish(&mut self, folds: &mut Folds, ended: &EndedNumbers<'_>, forgotten_before: u32) -> bool {
        let Some((region, record)) = self.region.as_ref().and_then(|r| Some((r, r.records.get(self.at)?)))
        else {
            return false;
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
        if !record.live || header.place < self.left_to {
            if header.arrived >= forgotten_before {
                folds.remember(header.key, header.arrived);
            }
            folds.rings.file(self.volume, region.fields(record));
            return false;
        }
        let is_own = |(group, number): &&(GroupId, u64)| {
            folds.numbers.get(group.0 as usize).is_none_or(|numbers| *number > numbers.earlier)
        };
        let own: Vec<(GroupId, u64)>;
        let numbers = if numbers.iter().all(|number| is_own(&number)) {
            numbers
        } else {
            own = numbers.iter().filter(is_own).copied().collect();
            &own
        };
        let follows = |(group, number): &(GroupId, u64)| {
            table.get(*group).is_none_or(|group| group.state().overview.is_followed_by(*number))
        };
        if !numbers.iter().all(follows) {
            // The number, or a later one, belongs to another article: files of another spool were put here.
            return false;
        }
        let (volume, place) = (self.volume, header.place);
        let token = Token { method: self.method, class: header.class, volume, place };
        let row = ArticleRow {
            sequence: header.sequence,
            key: header.key,
            token,
            stored_bytes: header.record_bytes() as u64,
            arrived: header.arrived,
            expires: header.expires,
            message_id: &[],
            fields: region.fields(record),
            numbers: &[],
            tagged: TaggedFields::default(),
        };
        let published = PublishedArticle { row, numbers, xref: region.xref(record), hidden: None };
        let context = PublishContext { groups: &table, volumes: &shared.volumes.load(), now: folds.time };
        let lives = folds.publish(&context, &published);
        folds.count_published(u64::from(lives));
        if numbers.len() > 1 {
            folds.end_lost_names(header.key, token, numbers, &ended.among(header.sequence, numbers));
        }
        true
    }
}

/// Returns groups and numbers of a record, creating groups that are known from articles only.
pub(super) fn numbers_of(folds: &mut Folds, region: &Region, record: &ScannedRecord) -> Vec<(GroupId, u64)> {
    pairs_of(region.xref(record)).filter_map(|(name, n)| Some((group_named(folds, name)?, n))).collect()
}

/// Returns the number of a removed group, whose articles are in files under its name; `known` are the numbers
/// of such groups.
fn removed_group(folds: &mut Folds, known: &mut HashMap<Arc<str>, GroupId>, name: &[u8]) -> Option<GroupId> {
    let name = std::str::from_utf8(name).ok().filter(|name| folds.retired.contains_key(*name))?;
    if let Some(id) = known.get(name) {
        return Some(*id);
    }
    let id = GroupId(folds.numbers.len() as u32);
    folds.numbers.push(GroupNumbers::default());
    folds.names.put(id, name);
    known.insert(name.into(), id);
    Some(id)
}

/// Returns a group by name; one that is known from articles only is created, open for posting.
pub(crate) fn group_named(folds: &mut Folds, name: &[u8]) -> Option<GroupId> {
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
        flag: GroupFlag::Open,
        creator: "rebuild".into(),
        ..GroupRow::default()
    };
    folds.add_groups(&[row]);
    Some(GroupId(id))
}
