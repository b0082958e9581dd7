//! Articles without a journal row (`docs/states.md`, state 5).
//!
//! A crash between the two writes of an article leaves only part of them; a journal that lost its last rows,
//! or an older one that was restored, lacks all later ones. Every record contains its place, its arrival and
//! its numbers, so articles newer than the journal receive their missing rows: in buffers the records at the
//! write position, in trees the files that no index knows. Called once per opening, after the replay.

use crate::index::fold::Folds;
use crate::open::rebuild::{Region, ScannedRecord, group_named, newer_numbers, record_at};
use disk::Progress;
use spool_base::facts::TaggedFields;
use spool_base::ids::GroupId;
use spool_base::token::{MethodKind, Token};
use spool_history::HistoryLookup;
use spool_journal::{ArticleRow, JournalRow, JournalWriter, put_numbers};
use spool_methods::{Retained, StrayKind, Volume, VolumeKind};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Size of accumulated rows, in bytes, at which they are written.
const ROWS_BYTES: u64 = 1 << 20;

/// A volume with the record at its write position or, for a tree, with the next article that no index knows.
struct UnjournaledFront {
    volume: Arc<dyn Volume>,
    found: Option<(Region, ScannedRecord)>,
    /// Places of a tree, in the order of the articles.
    places: Option<std::vec::IntoIter<u64>>,
}

impl UnjournaledFront {
    /// Looks for the record at the write position.
    fn look(&mut self, folds: &Folds) {
        let Some(places) = &mut self.places else {
            let head = self.volume.head();
            let next = match self.volume.kind() {
                VolumeKind::Cyclic(volume) => Some(volume.next_cycle(head)),
                VolumeKind::Retained(volume) => volume.next_file(head),
            };
            self.found = record_at(&folds.shared, &*self.volume, [head].into_iter().chain(next));
            return;
        };
        self.found = places.find_map(|place| {
            let region = Region::of_places(&folds.shared, &*self.volume, &[place]);
            let record = region.records.first().cloned()?;
            Some((region, record))
        });
    }

    fn sequence(&self) -> Option<u64> {
        self.found.as_ref().map(|(_, record)| record.header.sequence)
    }
}

/// Sequence and place of articles in a tree.
type Places = Vec<(u64, u64)>;

/// Returns the articles of a tree that may be newer than the journal, which ends at `end`. All names are
/// examined if the journal is an older one, or may be; after a crash only those after the assigned numbers,
/// or all if names have no order.
fn newer_places(
    folds: &mut Folds,
    index: usize,
    volume: &dyn Retained,
    end: u64,
    crashed: bool,
    progress: &dyn Progress,
) -> io::Result<Places> {
    let is_numbered = matches!(volume.method(), MethodKind::Tradspool | MethodKind::Bucketed);
    let look_at_all = match volume.recorded_position() {
        Some(position) => position > end || crashed && !is_numbered,
        None => !is_numbered || !next_places(folds, volume)?.is_empty(),
    };
    match (look_at_all, crashed) {
        (true, _) => unknown_places(folds, index, volume, progress),
        (false, true) => next_places(folds, volume),
        (false, false) => Ok(Places::new()),
    }
}

/// Returns the articles in a tree whose numbers follow the assigned ones.
fn next_places(folds: &Folds, volume: &dyn Retained) -> io::Result<Places> {
    let shared = &folds.shared;
    let mut found = Places::new();
    for group in shared.groups.snapshot().sorted().iter() {
        let assigned = folds.numbers.get(group.id.0 as usize).map_or(0, |n| n.assigned);
        for number in assigned + 1.. {
            let Some(place) = volume.place_of_number(group.id, number)? else { break };
            let region = Region::of_places(shared, volume, &[place]);
            found.extend(region.records.first().map(|record| (record.header.sequence, place)));
        }
    }
    Ok(found)
}

/// Returns the articles in a tree that no index knows. Reads only files without a living article.
fn unknown_places(
    folds: &mut Folds,
    index: usize,
    volume: &dyn Retained,
    progress: &dyn Progress,
) -> io::Result<Places> {
    progress.start(&format!("looking through the files of class {}", volume.name()), 0);
    let mut listed = HashMap::new();
    if let Some(list) = folds.kept.get_mut(index).and_then(Option::as_mut) {
        list.verify(&mut |e| _ = listed.insert(e.place, e.key))?;
    }
    let mut unknown = Vec::new();
    folds.shared.with_living(volume, &listed, |living| {
        volume.strays(living, &mut |stray| {
            if let StrayKind::Unknown { sequence } = stray.kind {
                unknown.push((sequence, stray.path));
            }
        })
    })?;
    let mut found = Places::new();
    for (sequence, path) in unknown {
        let place = volume.place_of_file(&path, &mut |name| group_named(folds, name))?;
        found.extend(place.map(|place| (sequence, place)));
    }
    progress.finish();
    Ok(found)
}

/// Writer of missing rows.
struct MissingRows<'a> {
    journal: &'a mut JournalWriter,
    /// Number of groups that have rows.
    groups: usize,
    /// Whether the journal durably records that it is no longer closed.
    is_open: bool,
}

impl MissingRows<'_> {
    /// Adds a row to the journal, after those of groups that are known from articles only, and applies it.
    fn put(&mut self, folds: &mut Folds, row: &JournalRow<'_>) -> io::Result<()> {
        if !self.is_open {
            // The indexes change from here on. If the journal still seemed properly closed after a power cut,
            // indexes with half of these changes would be trusted.
            self.journal.push(&JournalRow::Opened { boot_id: folds.shared.disk.boot_id() });
            self.journal.write()?;
            self.journal.sync_set().sync()?;
            self.is_open = true;
        }
        let table = folds.shared.groups.snapshot();
        let new = (self.groups..folds.numbers.len()).filter_map(|id| table.get(GroupId(id as u32)));
        new.for_each(|group| self.journal.push(&JournalRow::Group(folds.group_row(group))));
        self.groups = folds.numbers.len();
        self.journal.push(row);
        if self.journal.pushed_end() - self.journal.end() >= ROWS_BYTES {
            self.journal.write()?;
        }
        folds.apply(row)
    }
}

/// Writes rows for the articles that are newer than the journal, which ends at `end`, oldest first; returns
/// how many were recovered.
pub(super) fn take_in(
    folds: &mut Folds,
    journal: &mut JournalWriter,
    end: u64,
    crashed: bool,
    progress: &dyn Progress,
) -> io::Result<u64> {
    let mut rows = MissingRows { journal, groups: folds.numbers.len(), is_open: false };
    let volumes = folds.shared.volumes.load();
    let (mut fronts, mut sequence) = (Vec::new(), 0);
    for (index, volume) in volumes.all().iter().enumerate() {
        let places = match volume.method() {
            MethodKind::Cnfs | MethodKind::AppendOnly => None,
            method if method.is_file_per_article() => {
                let Some(tree) = volume.retained() else { continue };
                let mut places = newer_places(folds, index, tree, end, crashed, progress)?;
                places.sort_unstable();
                sequence = places.last().map_or(sequence, |(last, _)| sequence.max(last + 1));
                let places: Vec<u64> = places.into_iter().map(|(_, place)| place).collect();
                Some(places.into_iter())
            }
            _ => continue,
        };
        fronts.push(UnjournaledFront { volume: volume.clone(), found: None, places });
    }
    fronts.iter_mut().for_each(|front| front.look(folds));
    let mut taken = 0;
    loop {
        let oldest = fronts.iter_mut().filter(|f| f.sequence().is_some()).min_by_key(|f| f.sequence());
        let Some(front) = oldest else { break };
        match take(folds, &mut rows, front)? {
            Some(lives) => {
                taken += u64::from(lives);
                front.look(folds);
            }
            None if front.places.is_some() => front.look(folds),
            // No later record can be newer.
            None => front.found = None,
        }
    }
    // Articles that could not be recovered keep their sequence numbers.
    folds.next_sequence = folds.next_sequence.max(sequence);
    Ok(taken)
}

/// Writes the row of one record and returns whether its article lives; `None` if it is older than the
/// journal.
fn take(folds: &mut Folds, rows: &mut MissingRows<'_>, front: &UnjournaledFront) -> io::Result<Option<bool>> {
    let Some((region, record)) = &front.found else { return Ok(None) };
    take_record(folds, &*front.volume, region, record, &mut |folds, row| rows.put(folds, row))
}

/// Like [`take`]; `put` adds a row to the journal and applies it.
pub(crate) fn take_record<E>(
    folds: &mut Folds,
    volume: &dyn Volume,
    region: &Region,
    record: &ScannedRecord,
    put: &mut dyn FnMut(&mut Folds, &JournalRow<'_>) -> Result<(), E>,
) -> Result<Option<bool>, E> {
    let header = &record.header;
    if folds.shared.history.lookup(&header.key) != HistoryLookup::None {
        return Ok(None);
    }
    let Some(numbers) = newer_numbers(folds, region, record) else { return Ok(None) };
    let token =
        Token { method: volume.method(), class: header.class, volume: volume.id(), place: header.place };
    let fields = region.fields(record);
    let mut encoded = Vec::new();
    put_numbers(&numbers, &mut encoded);
    let row = ArticleRow {
        sequence: header.sequence,
        key: header.key,
        token,
        stored_bytes: volume.padded(header.record_bytes()),
        arrived: header.arrived,
        expires: header.expires,
        message_id: fields.split(|b| *b == b'\t').nth(3).unwrap_or_default(),
        fields,
        numbers: &encoded,
        tagged: TaggedFields::default(),
    };
    put(folds, &JournalRow::Article(row))?;
    if !record.live {
        put(folds, &JournalRow::Cancel { key: header.key, token, numbers })?;
    }
    Ok(Some(record.live))
}
