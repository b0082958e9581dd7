//! Hiding articles, and showing them again (`docs/hiding.md`).
//!
//! As for cancels, articles are looked up without the writer's lock and one sync makes many rows durable
//! before anything is hidden. Unlike cancelling, this frees no space, so it is refused on a full disk.

use super::Spool;
use super::cancel::LivingArticle;
use crate::base::error::{ReadError, SpoolTrouble, TroubleKind};
use crate::base::hidden::{HIDDEN_MAX, HIDER_BYTES_MAX, HiddenArticle, REASON_BYTES_MAX};
use crate::base::key::ArticleKey;
use crate::journal::JournalRow;
use crate::read::Lookup;
use crate::write::commit::SpoolWriter;
use disk::clock::unix_now;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of rows made durable by one sync.
const AT_ONCE_MAX: usize = 1_024;

/// Result of hiding an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HideOutcome {
    /// The article is now hidden.
    Hidden,
    /// The article was already hidden.
    Already,
    /// The article is not stored here.
    NotHere,
}

impl Spool {
    /// Hides articles by Message-ID, durably; `by` is the name of the hider. Returns the result for each
    /// article.
    pub fn hide_all(&self, ids: &[&[u8]], by: &str, reason: &str) -> Result<Vec<HideOutcome>, SpoolTrouble> {
        if by.is_empty() || by.len() > HIDER_BYTES_MAX || reason.len() > REASON_BYTES_MAX {
            let text = format!(
                "who hides must have 1 to {HIDER_BYTES_MAX} bytes, and the reason at most {REASON_BYTES_MAX}"
            );
            return Err(SpoolTrouble::new(TroubleKind::Refused, text));
        }
        let mut all = Vec::with_capacity(ids.len());
        for ids in ids.chunks(AT_ONCE_MAX) {
            all.extend(self.hide_some(ids, by, reason)?);
        }
        Ok(all)
    }

    fn hide_some(&self, ids: &[&[u8]], by: &str, reason: &str) -> Result<Vec<HideOutcome>, SpoolTrouble> {
        let keys: Vec<ArticleKey> = ids.iter().map(|id| self.key(id)).collect();
        loop {
            let table = self.shared.groups.snapshot();
            let mut unreadable = None;
            let living = self.living(&table, &keys, &mut unreadable);
            if let Some(e) = unreadable {
                return Err(cannot_read(&e));
            }
            let mut writer = self.writer.lock();
            // The numbers belong to the groups in `table`.
            if Arc::ptr_eq(&table, &self.shared.groups.snapshot()) {
                return self.hide_now(&mut writer, ids, &keys, living, by, reason);
            }
        }
    }

    fn hide_now(
        &self,
        writer: &mut SpoolWriter,
        ids: &[&[u8]],
        keys: &[ArticleKey],
        mut living: BTreeMap<ArticleKey, LivingArticle>,
        by: &str,
        reason: &str,
    ) -> Result<Vec<HideOutcome>, SpoolTrouble> {
        let shared = &self.shared;
        let (mut outcomes, mut new) = (Vec::with_capacity(ids.len()), Vec::new());
        let since = u32::try_from(unix_now()).unwrap_or(u32::MAX);
        for (id, key) in ids.iter().zip(keys) {
            let here = match shared.lookup(key) {
                Lookup::Present(token) => shared.hidden.covers(key, &token).then_some(HideOutcome::Already),
                _ => Some(HideOutcome::NotHere),
            };
            let found = living.remove(key).filter(|at| shared.lookup(key) == Lookup::Present(at.token));
            outcomes.push(match (here, found) {
                (Some(outcome), _) => outcome,
                (None, Some(LivingArticle { token, numbers })) => {
                    new.push(HiddenArticle {
                        key: *key,
                        token,
                        since,
                        message_id: String::from_utf8_lossy(id).into_owned(),
                        by: by.to_owned(),
                        reason: reason.to_owned(),
                        numbers,
                    });
                    HideOutcome::Hidden
                }
                // Occurs twice, or has just been replaced.
                (None, None) => HideOutcome::Already,
            });
        }
        if shared.hidden.count() + new.len() > HIDDEN_MAX {
            let text = format!("{HIDDEN_MAX} articles are hidden already, which is as many as can be");
            return Err(SpoolTrouble::new(TroubleKind::Refused, text));
        }
        let rows: Vec<JournalRow<'_>> = new.iter().cloned().map(JournalRow::Hide).collect();
        commit_rows(writer, &rows)?;
        new.into_iter().for_each(|hidden| writer.folds.hide(hidden));
        Ok(outcomes)
    }

    /// Shows hidden articles again, under their old numbers. Returns for each whether it was hidden.
    pub fn unhide_all(&self, keys: &[ArticleKey]) -> Result<Vec<bool>, SpoolTrouble> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE_MAX) {
            let mut writer = self.writer.lock();
            let mut seen = BTreeSet::new();
            let hidden: Vec<_> = keys
                .iter()
                .map(|key| self.shared.hidden.get(key).filter(|hidden| seen.insert(hidden.key)))
                .collect();
            let rows: Vec<JournalRow<'_>> = hidden
                .iter()
                .flatten()
                .map(|hidden| JournalRow::Unhide { key: hidden.key, token: hidden.token })
                .collect();
            commit_rows(&mut writer, &rows)?;
            hidden.iter().flatten().for_each(|hidden| writer.folds.unhide(hidden.key));
            all.extend(hidden.iter().map(Option::is_some));
        }
        Ok(all)
    }

    /// Returns all hidden articles, in the order in which they were hidden.
    pub fn hidden(&self) -> Vec<Arc<HiddenArticle>> {
        self.shared.hidden.all()
    }

    /// Returns the entry of a hidden article; `None`: it is not hidden, or no longer stored.
    pub fn hidden_article(&self, key: &ArticleKey) -> Option<Arc<HiddenArticle>> {
        self.shared.hidden.get(key)
    }
}

/// Makes rows durable, if any.
pub(super) fn commit_rows(writer: &mut SpoolWriter, rows: &[JournalRow<'_>]) -> Result<(), SpoolTrouble> {
    writer.accepting()?;
    if rows.is_empty() {
        return Ok(());
    }
    rows.iter().for_each(|row| writer.journal.push(row));
    writer.write_now().inspect_err(|_| writer.journal.discard())
}

fn cannot_read(e: &ReadError) -> SpoolTrouble {
    SpoolTrouble::new(TroubleKind::Io, format!("cannot read what is to be hidden: {e}"))
}
