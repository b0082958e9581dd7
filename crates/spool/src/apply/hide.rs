//! Hiding articles, and showing them again (`docs/hiding.md`).
//!
//! As for cancels, articles are looked up without the writer's lock and one sync makes many rows durable
//! before anything is hidden. Unlike cancelling, this frees no space, so it is refused on a full disk.

use super::Applier;
use crate::index::change::{Change, ChangeOutcome, LocatedArticle};
use crate::index::hidden::COUNT_MAX;
use crate::index::refusal::ChangeRefusal;
use crate::read::Lookup;
use crate::write::commit::SpoolWriter;
use spool_base::error::{ReadError, SpoolTrouble, TroubleKind};
use spool_base::hidden::HiddenArticle;
use spool_base::key::ArticleKey;
use spool_journal::JournalRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of rows made durable by one sync.
const AT_ONCE_MAX: usize = 1_024;

impl Applier<'_> {
    /// Hides articles, durably.
    pub fn hide(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        run.chunks(AT_ONCE_MAX).try_for_each(|some| self.hide_some(some))
    }

    fn hide_some(&mut self, changes: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        loop {
            let table = self.shared.groups.snapshot();
            let mut unreadable = None;
            let living = self.living(&table, changes, &mut unreadable);
            if let Some(e) = unreadable {
                return Err(cannot_read(&e));
            }
            let mut writer = self.writer.lock_at(self.time);
            // The numbers belong to the groups in `table`.
            if Arc::ptr_eq(&table, &self.shared.groups.snapshot()) {
                return self.hide_now(&mut writer, changes, living);
            }
        }
    }

    fn hide_now(
        &mut self,
        writer: &mut SpoolWriter,
        changes: &[Change<'_>],
        mut living: BTreeMap<ArticleKey, LocatedArticle>,
    ) -> Result<(), SpoolTrouble> {
        let shared = self.shared;
        let (mut hides, mut new) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            let Change::Hide { message_id, by, reason, since } = change else { continue };
            if let Some(refusal) = change.refusal() {
                hides.push(ChangeOutcome::Refused(refusal));
                continue;
            }
            let since = u32::try_from(*since).unwrap_or(u32::MAX);
            let key = change.key(&shared.hasher);
            let here = match shared.lookup(&key) {
                Lookup::Present(token) => {
                    shared.hidden.covers(&key, &token).then_some(ChangeOutcome::Changed(0))
                }
                _ => Some(ChangeOutcome::NotHere),
            };
            let found = living.remove(&key).filter(|at| shared.lookup(&key) == Lookup::Present(at.token));
            hides.push(match (here, found) {
                (Some(outcome), _) => outcome,
                // Counted one by one, as what is proposed together comes apart in a log.
                (None, Some(_)) if shared.hidden.count() + new.len() >= COUNT_MAX => {
                    ChangeOutcome::Refused(ChangeRefusal::HiddenMax)
                }
                (None, Some(LocatedArticle { key, token, numbers })) => {
                    new.push(HiddenArticle {
                        key,
                        token,
                        since,
                        message_id: String::from_utf8_lossy(message_id).into_owned(),
                        by: (*by).to_owned(),
                        reason: (*reason).to_owned(),
                        numbers,
                    });
                    ChangeOutcome::Changed(1)
                }
                // Occurs twice, or has just been replaced.
                (None, None) => ChangeOutcome::Changed(0),
            });
        }
        let rows: Vec<JournalRow<'_>> = new.iter().cloned().map(JournalRow::Hide).collect();
        writer.accepting()?;
        writer.commit_rows(&rows)?;
        new.into_iter().for_each(|hidden| writer.folds.hide(hidden));
        self.outcomes.append(&mut hides);
        Ok(())
    }

    /// Shows hidden articles again, under their old numbers.
    pub fn unhide(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        for some in run.chunks(AT_ONCE_MAX) {
            let mut writer = self.writer.lock_at(self.time);
            writer.accepting()?;
            let mut seen = BTreeSet::new();
            let hidden: Vec<_> = some
                .iter()
                .map(|change| self.shared.hidden.get(&change.key(&self.shared.hasher)))
                .map(|hidden| hidden.filter(|hidden| seen.insert(hidden.key)))
                .collect();
            let rows: Vec<JournalRow<'_>> = hidden
                .iter()
                .flatten()
                .map(|hidden| JournalRow::Unhide { key: hidden.key, token: hidden.token })
                .collect();
            writer.commit_rows(&rows)?;
            hidden.iter().flatten().for_each(|hidden| writer.folds.unhide(hidden.key));
            self.outcomes
                .extend(hidden.iter().map(|hidden| ChangeOutcome::Changed(usize::from(hidden.is_some()))));
        }
        Ok(())
    }
}

fn cannot_read(e: &ReadError) -> SpoolTrouble {
    SpoolTrouble::new(TroubleKind::Io, format!("cannot read what is to be hidden: {e}"))
}
