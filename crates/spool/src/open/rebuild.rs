//! Rebuilds all indexes in one pass over the buffers (`docs/states.md`), which several threads read
//! ([`regions`]).
//!
//! Every record carries its Xref, arrival time, sequence and Message-ID hash, so nothing else is needed; the
//! remains of journal and checkpoint add groups' flags, promised numbers and remembered ids. Records of
//! several buffers are taken in the order of their sequence, so that the folds see the articles in order of
//! arrival.

mod ended;
mod front;
pub(crate) mod hidden;
mod ids;
mod leftovers;
mod regions;

use crate::index::checkpoint::Checkpoint;
use crate::index::fold::{Folds, SharedIndexes};
use crate::open::recovery::GivenUp;
use disk::Progress;
use ended::EndedNumbers;
pub(crate) use front::group_named;
use front::{RebuildFront, cyclic_fronts, kept_fronts, numbers_of, oldest};
use leftovers::Leftovers;
pub(crate) use leftovers::{LeftOutVolumes, VolumesNamed, volumes_named};
use regions::Regions;
pub(crate) use regions::{Region, ScannedRecord};
use spool_base::error::SpoolError;
use spool_base::ids::GroupId;
use spool_base::limits::PART_BYTES_MAX;
use spool_history::OldLog;
use spool_journal::GroupsFound;
use spool_methods::scan::{Scan, header_at};
use spool_methods::{Cyclic, Volume};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Maximum number of reading threads.
const THREADS_MAX: usize = 16;

/// Remains of the old indexes.
pub(crate) struct OldIndexes<'a> {
    /// Checkpoint that is otherwise unusable.
    pub checkpoint: Option<&'a Checkpoint>,
    /// State according to a checkpoint.
    pub kept: &'a hidden::CheckpointRemains,
    pub groups: &'a GroupsFound,
    pub history: &'a OldLog,
    pub without: &'a LeftOutVolumes,
}

/// Result of a rebuild.
pub(crate) struct RebuildResult {
    /// Number of living articles.
    pub articles: u64,
    /// Position at which the journal continues.
    pub position: u64,
    /// Lost articles of the volumes that were left out.
    pub left_out: GivenUp,
}

/// Fills empty folds from the buffers. Groups are taken from an otherwise unusable checkpoint and the groups
/// file, and ids without an article from the journal and the old history.
pub(crate) fn from_buffers(
    folds: &mut Folds,
    journal: &Path,
    old: &OldIndexes<'_>,
    progress: &dyn Progress,
) -> Result<RebuildResult, SpoolError> {
    let io = |doing: &'static str| SpoolError::io(doing, journal);
    let shared = folds.shared.clone();
    let mut leftovers = Leftovers::collect(folds, journal, old).map_err(io("read journal in"))?;
    let loaded = shared.volumes.load();
    let known = |volume: &dyn Cyclic| leftovers.heads.get(&volume.id()).copied();
    leftovers.whole &=
        !loaded.cycbuffs().any(|v| known(v).is_some_and(|head| is_overwritten(&shared, v, head)));
    let end = leftovers.end(&shared.disk, journal).map_err(io("read journal in"))?;
    let mut volumes: Vec<&dyn Cyclic> = Vec::new();
    for volume in loaded.cycbuffs() {
        let known = leftovers.heads.get(&volume.id()).copied();
        let head = match known.filter(|head| leftovers.whole && *head >= volume.head()) {
            Some(head) => walk_newer(folds, volume, head),
            None => walk_to_head(volume, known.unwrap_or(0)),
        };
        // This clears the usage bitmap; publishing sets the bits again.
        volume.advance(volume.head() + 2 * volume.area());
        volume.reset_head(head);
        volumes.push(volume);
    }
    let rows = std::mem::take(&mut leftovers.ended);
    let ended = EndedNumbers::new(rows, old.checkpoint, &shared.groups.snapshot());
    let kept = kept_fronts(folds).map_err(io("go through the articles for"))?;
    let regions = Regions::new(&shared, volumes);
    // Records before these places are read all the same, for their Message-IDs.
    for (id, place) in &old.kept.left_to {
        if let Some(volume) = loaded.get(*id).and_then(|volume| volume.cyclic()) {
            volume.leave_to(*place);
        }
    }
    progress.start("reading the buffers", regions.total_bytes());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(THREADS_MAX);
    let articles = std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(|| regions.work())));
        let published = publish_all(folds, &regions, kept, &ended, leftovers.forgotten_before, progress);
        regions.stop();
        published
    });
    let published = shared.articles.load(Ordering::Relaxed);
    folds.turn_rings(false);
    let articles = articles - (published - shared.articles.load(Ordering::Relaxed));
    let left_out = ids::remember_old(folds, journal, &leftovers, old).map_err(io("read journal in"))?;
    hidden::hide_again(folds, std::mem::take(&mut leftovers.hidden));
    if !leftovers.whole {
        // Only the promises show which numbers were assigned after the last surviving row.
        folds.power_lost();
    }
    progress.finish();
    Ok(RebuildResult { articles, position: end, left_out })
}

/// Publishes the records of all volumes in the order of their sequence; returns the number of living
/// articles.
fn publish_all(
    folds: &mut Folds,
    regions: &Regions<'_>,
    mut kept: Vec<RebuildFront>,
    ended: &EndedNumbers<'_>,
    forgotten_before: u32,
    progress: &dyn Progress,
) -> u64 {
    let mut fronts = cyclic_fronts(regions);
    kept.iter_mut().for_each(|front| front.next_region(regions));
    fronts.extend(kept);
    let mut articles = 0;
    while let Some(front) = oldest(&mut fronts) {
        articles += u64::from(front.publish(folds, ended, forgotten_before));
        if front.is_used_up() {
            front.next_region(regions);
            progress.step(regions.taken_bytes());
        }
    }
    articles
}

/// Finds the write position without a journal: after the consecutive records that begin at the last position
/// in journal or header, or, if there are none, after the latest of all records.
fn walk_to_head(volume: &dyn Cyclic, known: u64) -> u64 {
    let from = volume.head().max(known);
    let head = walk(volume, from);
    if head > from || is_older(volume, from) {
        return head;
    }
    // The buffer has wrapped since: records of any cycle may lie here.
    let start = volume.next_cycle(volume.head()) - volume.area();
    let mut scan = Scan::of_any_cycle(volume, start..start + volume.area());
    let mut latest = from;
    while let Some(header) = scan.next_record() {
        latest = latest.max(header.place + volume.padded(header.record_bytes()));
    }
    walk(volume, latest)
}

/// Follows records that are newer than the journal; returns the write position after them.
fn walk_newer(folds: &mut Folds, volume: &dyn Cyclic, mut head: u64) -> u64 {
    while let Some((region, record)) = record_at(&folds.shared, volume, [head, volume.next_cycle(head)]) {
        if newer_numbers(folds, &region, &record).is_none() {
            break;
        }
        head = record.header.place + volume.padded(record.header.record_bytes());
    }
    head
}

/// Returns the whole record at the first of these places that has one.
pub(crate) fn record_at(
    shared: &SharedIndexes,
    volume: &dyn Volume,
    places: impl IntoIterator<Item = u64>,
) -> Option<(Region, ScannedRecord)> {
    places.into_iter().find_map(|place| {
        let region = Region::of_places(shared, volume, &[place]);
        let record = region.records.first().cloned()?;
        Some((region, record))
    })
}

/// Returns the numbers of a record that is newer than everything the folds know. A remnant of a run before
/// the last crash has numbers that are already used.
pub(crate) fn newer_numbers(
    folds: &mut Folds,
    region: &Region,
    record: &ScannedRecord,
) -> Option<Vec<(GroupId, u64)>> {
    if record.header.sequence < folds.next_sequence {
        return None;
    }
    let numbers = numbers_of(folds, region, record);
    let is_new = |(group, number): &(GroupId, u64)| {
        folds.numbers.get(group.0 as usize).is_none_or(|n| *number > n.assigned)
    };
    numbers.iter().all(is_new).then_some(numbers)
}

/// Follows consecutive records; returns the place after them.
fn walk(volume: &dyn Cyclic, mut head: u64) -> u64 {
    let at = |place: u64| header_at(volume, place).filter(|h| h.place == place);
    while let Some(h) = at(head).or_else(|| at(volume.next_cycle(head))) {
        head = h.place + volume.padded(h.record_bytes());
    }
    head
}

/// Reports whether a place still has a record of the previous cycle, and so was not overwritten.
fn is_older(volume: &dyn Cyclic, place: u64) -> bool {
    header_at(volume, place).is_some_and(|h| {
        volume.cycle(h.place) + 1 == volume.cycle(place) && volume.offset(h.place) == volume.offset(place)
    })
}

/// Reports whether a volume has been overwritten from a write position on for more than a whole cycle, so
/// that the journal that ends there lacks rows. Bytes without a row that a crash leaves never reach as far
/// (`fence.rs`).
pub(crate) fn is_overwritten(shared: &SharedIndexes, volume: &dyn Cyclic, head: u64) -> bool {
    if is_older(volume, head) {
        return false;
    }
    // The distance of records is limited by the length of the longest.
    let within = 2 * (PART_BYTES_MAX + shared.config.article_bytes_max);
    let end = head + within.min(volume.room(head));
    let mut scan = Scan::of_any_cycle(volume, head..end);
    std::iter::from_fn(|| scan.next_record()).any(|h| h.place >= head + volume.area())
}
