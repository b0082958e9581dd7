//! Records at a volume's write position that no journal row speaks of (`docs/states.md`, state 5).
//!
//! A crash between the two writes of an article leaves one part of them; a journal that lost its last rows
//! leaves all that came after the loss. Every record contains its place, its arrival and its numbers, so
//! those that are newer than the journal get the rows they lack. Called once per opening, after the replay.

use crate::base::facts::Tagged;
use crate::base::token::{MethodKind, Token};
use crate::index::fold::Folds;
use crate::index::history::Found;
use crate::journal::{ArticleRow, JournalWriter, Row, put_numbers};
use crate::method::Volume;
use crate::open::rebuild::{Record, Region, newer_numbers, record_at_head};
use std::io;
use std::sync::Arc;

/// Rows are written when this many bytes of them have accumulated.
const ROWS_BYTES: u64 = 1 << 20;

/// A volume, and the record at its write position.
struct Front {
    volume: Arc<dyn Volume>,
    found: Option<(Region, Record)>,
}

impl Front {
    /// Looks for the record at the write position.
    fn look(&mut self, folds: &Folds) {
        self.found = record_at_head(&folds.shared, &*self.volume, self.volume.head());
    }

    fn sequence(&self) -> Option<u64> {
        self.found.as_ref().map(|(_, record)| record.header.sequence)
    }
}

/// Gives the records that follow each other from each write position on their rows, oldest first; returns how
/// many articles came back.
pub(super) fn take_in(folds: &mut Folds, journal: &mut JournalWriter) -> io::Result<u64> {
    let in_places = |v: &&Arc<dyn Volume>| matches!(v.method(), MethodKind::Cnfs | MethodKind::AppendOnly);
    let volumes: Vec<_> = folds.shared.volumes.load().all().iter().filter(in_places).cloned().collect();
    let front = |volume| Front { volume, found: None };
    let mut fronts: Vec<Front> = volumes.into_iter().map(front).collect();
    fronts.iter_mut().for_each(|front| front.look(folds));
    let mut taken = 0;
    loop {
        let oldest = fronts.iter_mut().filter(|f| f.sequence().is_some()).min_by_key(|f| f.sequence());
        let Some(front) = oldest else { break };
        match take(folds, journal, front)? {
            Some(lives) => {
                taken += u64::from(lives);
                front.look(folds);
            }
            // Nothing that follows it can be newer.
            None => front.found = None,
        }
    }
    Ok(taken)
}

/// Gives one record its row and returns whether its article lives; `None` if it is older than what the
/// journal knows.
fn take(folds: &mut Folds, journal: &mut JournalWriter, front: &Front) -> io::Result<Option<bool>> {
    let volume = &front.volume;
    let Some((region, record)) = &front.found else { return Ok(None) };
    let header = &record.header;
    if folds.shared.history.lookup(&header.key) != Found::None {
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
        tagged: Tagged::default(),
    };
    put(folds, journal, &Row::Article(row))?;
    if !record.live {
        put(folds, journal, &Row::Cancel { key: header.key, token, numbers })?;
    }
    Ok(Some(record.live))
}

fn put(folds: &mut Folds, journal: &mut JournalWriter, row: &Row<'_>) -> io::Result<()> {
    journal.push(row);
    if journal.pushed_end() - journal.end() >= ROWS_BYTES {
        journal.write()?;
    }
    folds.apply(row)
}
