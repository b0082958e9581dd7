//! The journal at opening: a first pass that surveys it, and the replay.
//!
//! Invariant: if the survey reports the journal as whole, the replay applies it row by row up to the same
//! end.

use super::report::RecoveryReport;
use crate::index::fold::{Folds, SharedIndexes};
use crate::open::paths::SpoolPaths;
use crate::open::rebuild::is_overwritten;
use disk::Disk;
use disk::Progress;
use disk::ReadMode;
use spool_base::error::ReadError;
use spool_base::token::{MethodKind, Token};
use spool_journal::{ArticleRow, GroupsFound, JournalReader, JournalRow, JournalWriter};
use spool_methods::Volume;
use spool_methods::cnfs::Cycbuff;
use spool_methods::cnfs::record;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of positions in one `Void` row, which keeps it far below the longest possible row.
const VOIDS_PER_ROW_MAX: usize = 10_000;

/// Result of a first pass over the journal.
#[derive(Debug, Default, Clone)]
pub(super) struct JournalSurvey {
    pub end: u64,
    pub rows: u64,
    /// Position before which everything is durable, including articles.
    pub durable: u64,
    pub boot_id: [u8; 16],
    pub closed: bool,
    /// Whether the last run was during another boot of the machine.
    pub rebooted: bool,
    /// Whether unsynced data of the last run may be lost.
    pub power_lost: bool,
    /// Whether the journal contains the position at which the survey began.
    pub reached: bool,
    /// Whether files follow the end that no power cut explains: existing rows are lost.
    pub broken: bool,
    /// Last write positions by volume.
    pub heads: BTreeMap<u16, u64>,
    /// Whether the last position in the journal is one in a shared log; `None` without any.
    has_position: Option<bool>,
    /// Whether rows that may alter news follow it.
    is_amid: bool,
    /// Whether the rows so far begin a file or a run, and restate what is known.
    restates: bool,
    /// Positions of void article rows.
    voids: HashSet<u64>,
    /// Articles that were cancelled or expired: their missing files prove no loss.
    withdrawn: HashSet<Token>,
}

/// Surveys the journal from `from` on; without rows about them, boot id and orderly closing are as in the
/// folds. `lost`: unsynced data may be lost although the machine kept running.
pub(super) fn survey(
    disk: &Arc<dyn Disk>,
    paths: &SpoolPaths,
    from: u64,
    folds: &Folds,
    lost: bool,
) -> io::Result<JournalSurvey> {
    let mut reader = JournalReader::open(disk, &paths.journal, Some(from))?;
    let mut survey = JournalSurvey {
        durable: from,
        boot_id: folds.boot_id,
        closed: folds.closed,
        ..JournalSurvey::default()
    };
    while let Some((position, payload)) = reader.next_row()? {
        // Comes before any change: a newer version may have written the row.
        survey.note(&JournalRow::read(position, payload)?);
    }
    survey.end = reader.position();
    survey.reached = reader.is_open();
    let remembers = |boot_id: &[u8; 16]| *boot_id == disk.boot_id() && !lost;
    survey.rebooted = survey.boot_id != disk.boot_id();
    survey.power_lost = !survey.closed && !remembers(&survey.boot_id);
    let hole = reader.row_follows()? || reader.successor_is_damaged()?;
    let mut later = JournalSurvey { rows: 0, ..survey.clone() };
    let mut follows = false;
    while let Some(start) = reader.start_after(survey.end.max(reader.position())) {
        follows = true;
        reader = JournalReader::open(disk, &paths.journal, Some(start))?;
        while let Some((position, payload)) = reader.next_row()? {
            later.note(&JournalRow::read(position, payload)?);
        }
    }
    // A power cut leaves holes only in data that was not durable yet.
    survey.broken = follows && (later.closed || remembers(&later.boot_id) || later.durable > survey.end)
        || hole && !survey.power_lost;
    Ok(survey)
}

impl JournalSurvey {
    /// Reports whether the journal contains all events since the beginning of the survey, as far as the
    /// journal, the groups file and the buffers show.
    pub fn is_whole(&self, folds: &Folds, groups: &GroupsFound) -> bool {
        let shared = &folds.shared;
        let head = |v: &Cycbuff| self.heads.get(&v.id()).copied().unwrap_or_else(|| v.head());
        let volumes = shared.volumes.load();
        self.reached
            && !self.broken
            // The journal of a shared log's spool is cut off after a crash, also before what was durable.
            // Only after a power cut is everything looked at again that the rows had changed.
            && (self.end >= groups.synced || self.power_lost && self.is_of_shared_log(folds))
            && !volumes.cycbuffs().any(|v| is_overwritten(shared, v, head(v)))
    }

    /// Reports whether a later row withdrew an article, so that its missing bytes prove nothing and its
    /// Message-ID is to be remembered. After a power cut this holds only where a withdrawal removes files,
    /// since bytes in a buffer may belong to others.
    fn is_withdrawn(&self, folds: &Folds, token: &Token) -> bool {
        let keeps = || folds.shared.volumes.load().get(token.volume).is_some_and(|v| v.retained().is_some());
        self.withdrawn.contains(token) && (!self.power_lost || keeps())
    }

    /// Reports whether all changes come from a shared log.
    pub fn is_of_shared_log(&self, folds: &Folds) -> bool {
        self.has_position.unwrap_or(!folds.position.is_empty())
    }

    /// Notes whether changes after the last position in a shared log were applied.
    fn note_positions(&mut self, row: &JournalRow<'_>) {
        match row {
            JournalRow::Position { record } => {
                (self.has_position, self.is_amid) = (Some(!record.is_empty()), false);
            }
            row => self.is_amid |= row.may_alter_news() && !(self.restates && row.may_restate()),
        }
        self.restates = match row {
            JournalRow::Begun { .. } => true,
            JournalRow::Probe => false,
            row => self.restates && (row.may_restate() || !row.may_alter_news()),
        };
    }

    fn note(&mut self, row: &JournalRow<'_>) {
        self.rows += 1;
        self.closed = false;
        self.note_positions(row);
        match row {
            JournalRow::Synced { upto } => self.durable = self.durable.max(*upto),
            JournalRow::Opened { boot_id } => self.boot_id = *boot_id,
            JournalRow::Closed => self.closed = true,
            JournalRow::Void(positions) => self.voids.extend(positions),
            JournalRow::Article(a) => {
                self.heads.insert(a.token.volume, a.token.place.saturating_add(a.stored_bytes));
            }
            JournalRow::Cancel { token, .. } | JournalRow::Expire { token, gone: true, .. } => {
                self.withdrawn.insert(*token);
            }
            JournalRow::Skip { volume, head } => {
                self.heads.insert(*volume, *head);
            }
            _ => {}
        }
    }
}

/// Returns where the journal of a shared log's spool is to be cut off: after the last position before which
/// every article is whole, or at its end if all are and no change follows. A checkpoint is always at such a
/// position.
pub(super) fn cut_of(
    folds: &Folds,
    paths: &SpoolPaths,
    from: u64,
    survey: &JournalSurvey,
) -> io::Result<u64> {
    let shared = &folds.shared;
    let mut reader = JournalReader::open(&shared.disk, &paths.journal, Some(from))?;
    let (mut cut, mut buf) = (from, Vec::new());
    while let Some((position, payload)) = reader.next_row()? {
        match JournalRow::read(position, payload)? {
            JournalRow::Article(a)
                if position >= survey.durable
                    && !survey.is_withdrawn(folds, &a.token)
                    && !is_whole(shared, &a, &mut buf) =>
            {
                return Ok(cut);
            }
            JournalRow::Position { .. } => cut = reader.position(),
            _ => {}
        }
    }
    Ok(if survey.is_amid { cut } else { survey.end })
}

/// Applies the rows in a range of positions, as far as there are any; returns the end of the journal, and the
/// positions of rows whose articles are not whole.
pub(super) fn replay(
    folds: &mut Folds,
    paths: &SpoolPaths,
    rows: Range<u64>,
    survey: &JournalSurvey,
    check_from: u64,
    recovery: &mut RecoveryReport,
    progress: &dyn Progress,
) -> io::Result<(u64, Vec<u64>)> {
    let disk = folds.shared.disk.clone();
    let mut reader = JournalReader::open(&disk, &paths.journal, Some(rows.start))?;
    let shown = survey.rows > 100_000;
    if shown {
        progress.start("replaying the journal", survey.rows);
    }
    let mut buf = Vec::new();
    let mut torn = Vec::new();
    reader.extend_to(rows.end);
    while let Some((position, payload)) = reader.next_row()? {
        let row = JournalRow::read(position, payload)?;
        match &row {
            JournalRow::Article(a) if survey.voids.contains(&position) => folds.apply_void(a)?,
            JournalRow::Article(a)
                if position >= check_from
                    && !survey.is_withdrawn(folds, &a.token)
                    && !is_whole(&folds.shared, a, &mut buf) =>
            {
                folds.apply_void(a)?;
                torn.push(position);
            }
            row => folds.apply(row)?,
        }
        recovery.rows += 1;
        if shown && recovery.rows.is_multiple_of(65_536) {
            progress.step(recovery.rows);
        }
    }
    if shown {
        progress.finish();
    }
    recovery.torn = torn.len() as u64;
    Ok((reader.position(), torn))
}

/// Pushes rows that declare the article rows at these positions void.
pub(super) fn push_voids(journal: &mut JournalWriter, torn: &[u64]) {
    torn.chunks(VOIDS_PER_ROW_MAX).for_each(|chunk| journal.push(&JournalRow::Void(chunk.to_vec())));
}

/// Reports whether an article's bytes are on the disk as they were written. Articles that the survey does not
/// know to be durable have not been overwritten (`fence.rs`).
fn is_whole(shared: &SharedIndexes, a: &ArticleRow<'_>, buf: &mut Vec<u8>) -> bool {
    let volumes = shared.volumes.load();
    let Some(volume) = volumes.get(a.token.volume).filter(|v| v.method() != MethodKind::Memory) else {
        return true;
    };
    match volume.fetch(a.token.place, ReadMode::Wait, buf) {
        Ok(Some((header, _))) => header.key == a.key && record::is_whole(buf),
        // An unreadable article is lost.
        Ok(None) | Err(ReadError::WouldBlock | ReadError::Failed(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use std::path::Path;

    #[test]
    fn any_number_of_void_positions_round_trips() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut journal = JournalWriter::open(&disk, Path::new("/j"), 0, 1 << 20).unwrap();
        let torn: Vec<u64> = (0..250_000).map(|n| (1 << 30) + n * 300).collect();
        push_voids(&mut journal, &torn);
        journal.write().unwrap();
        let mut reader = JournalReader::open(&disk, Path::new("/j"), None).unwrap();
        let mut read = Vec::new();
        while let Some((_, payload)) = reader.next_row().unwrap() {
            let Some(JournalRow::Void(positions)) = JournalRow::decode(payload) else { panic!() };
            read.extend(positions);
        }
        assert_eq!(read, torn);
    }
}
