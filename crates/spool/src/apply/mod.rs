//! Applying changes: [`Filing`](filing::Filing) files articles and remembers Message-IDs, [`Applier`] applies
//! the others.
//!
//! Each change is looked up, its rows are written and made durable, and the rows are applied to the indexes.

pub(crate) mod filing;
pub(crate) mod forgetting;
mod groups;
pub(crate) mod hashes;
mod hide;
pub(crate) mod withdraw;

use crate::index::change::{Change, ChangeKind, ChangeOutcome};
use crate::index::fold::SharedIndexes;
use crate::index::refusal::{ChangeRefusal, SITES_MAX};
use crate::write::locked::LockedWriter;
use groups::GroupRows;
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::limits::POSITION_BYTES_MAX;
use spool_journal::JournalRow;

/// Applies changes as of one time, in Unix seconds.
pub(crate) struct Applier<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    time: u64,
    /// Outcomes of the changes so far.
    pub outcomes: &'s mut Vec<ChangeOutcome>,
}

impl<'s> Applier<'s> {
    pub fn new(
        shared: &'s SharedIndexes,
        writer: &'s LockedWriter,
        time: u64,
        outcomes: &'s mut Vec<ChangeOutcome>,
    ) -> Self {
        Self { shared, writer, time, outcomes }
    }

    /// Forgets Message-IDs that were remembered, at the time that is named, without an article. One whose
    /// article was withdrawn or has expired must not be forgotten: its record may still be in a buffer, and
    /// rows of the journal and entries of lists name the place, which in `hashed` its article would have
    /// again.
    pub fn forget(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer.lock_at(self.time);
        writer.accepting()?;
        for change in run {
            let Change::Forget { arrived, .. } = change else { continue };
            let (key, arrived) = (change.key(&self.shared.hasher), *arrived);
            let is_remembered = self.shared.history.is_without_article(&key, arrived);
            if is_remembered {
                writer.commit_rows(&[JournalRow::Forget { key }])?;
                writer.folds.forget(key);
            }
            self.outcomes.push(ChangeOutcome::Changed(usize::from(is_remembered)));
        }
        Ok(())
    }

    /// Creates, changes and removes groups; each set of updates is one commit. One with a group that cannot
    /// be created or changed is refused as a whole.
    pub fn change_groups(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        for change in run {
            let Change::Groups(updates) = change else { continue };
            self.writer.sync().sync_journal()?;
            let mut writer = self.writer.lock_at(self.time);
            writer.accepting()?;
            let outcome = match GroupRows::of(updates, &writer, &self.shared.groups.snapshot()) {
                Ok(rows) => ChangeOutcome::Changed(rows.commit(&mut writer)?),
                Err(refusal) => ChangeOutcome::Refused(refusal),
            };
            self.outcomes.push(outcome);
        }
        Ok(())
    }

    /// Makes and removes notes. They are durable with the journal's next sync.
    pub fn note(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer.lock_at(self.time);
        writer.accepting()?;
        for change in run {
            let Change::Note { kind, key, value, since } = *change else { continue };
            if let Some(refusal) = change.refusal() {
                self.outcomes.push(ChangeOutcome::Refused(refusal));
                continue;
            }
            let known = self.shared.notes.get(kind, key);
            let is_new = known.as_ref().map(|note| &*note.value) != value;
            if is_new {
                let since = u32::try_from(since).unwrap_or(u32::MAX);
                writer.journal.push(&JournalRow::Note { kind, since, key, value });
                writer.write_unsynced().inspect_err(|_| writer.journal.discard())?;
                self.shared.notes.put(kind, key, since, value);
            }
            self.outcomes.push(ChangeOutcome::Changed(usize::from(is_new)));
        }
        Ok(())
    }

    /// Assigns the next numbers to sites that have none, durably.
    pub fn name_sites(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer.lock_at(self.time);
        for change in run {
            let Change::Site { name } = change else { continue };
            let is_known = writer.folds.sites.iter().any(|site| site == name);
            let number = writer.folds.sites.len();
            let is_one_too_many = !is_known && number >= SITES_MAX;
            let refusal = change.refusal().or(is_one_too_many.then_some(ChangeRefusal::SitesMax));
            if let Some(refusal) = refusal {
                self.outcomes.push(ChangeOutcome::Refused(refusal));
                continue;
            }
            if !is_known {
                let number = number as u32;
                writer.commit_now(&JournalRow::Site { number, name: (*name).to_owned() })?;
                writer.folds.site(number, name);
            }
            self.outcomes.push(ChangeOutcome::Changed(usize::from(!is_known)));
        }
        Ok(())
    }

    /// Lets the row of a position be written with those of the changes that lead to it, if these change bytes
    /// in place, which a recovery cannot take back.
    pub fn announce(&self, run: &[Change<'_>], next: Option<&Change<'_>>) {
        let is_in_place =
            |change: &Change<'_>| matches!(change.kind(), ChangeKind::Withdrawing | ChangeKind::Forgetting);
        if let Some(Change::Position { record }) = next
            && run.first().is_some_and(is_in_place)
        {
            self.writer.lock().next_position = Some(record.to_vec());
        }
    }

    /// Records positions in a shared log.
    pub fn reach(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        for change in run {
            let Change::Position { record } = change else { continue };
            if record.len() > POSITION_BYTES_MAX {
                let text = format!("the record of a position has {} bytes", record.len());
                return Err(SpoolTrouble::new(TroubleKind::Refused, text));
            }
            self.writer.lock_at(self.time).reach(record)?;
            self.outcomes.push(ChangeOutcome::Changed(1));
        }
        Ok(())
    }
}
