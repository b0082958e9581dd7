//! Articles that are hidden from the start (`docs/hiding.md`).
//!
//! The row of such an article records who hides it. A crash may keep the article and lose its row, and an
//! opening then writes another one; a row that is durable before the article is stored therefore records it
//! too.

use super::SpoolWriter;
use super::naming::FilingArticle;
use crate::index::change::Change;
use crate::index::hidden::COUNT_MAX;
use spool_base::error::SpoolTrouble;
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_journal::JournalRow;

impl SpoolWriter {
    /// Records durably which of these articles are hidden as they are filed.
    pub(super) fn hide_ahead<'e>(
        &mut self,
        changes: impl Iterator<Item = &'e Change<'e>>,
    ) -> Result<(), SpoolTrouble> {
        let mut any = false;
        for change in changes {
            let Change::Article(new) = change else { continue };
            let Some((by, reason)) = new.tagged.hidden() else { continue };
            let key = change.key(&self.folds.shared.hasher);
            if self.folds.shared.history.lookup(&key) == HistoryLookup::None {
                let (by, reason) = (by.to_owned(), reason.to_owned());
                self.journal.push(&JournalRow::HideAhead { key, by, reason });
                any = true;
            }
        }
        if any { self.write_now().inspect_err(|_| self.journal.discard()) } else { Ok(()) }
    }

    /// Reports whether there may be too many hidden articles for one that is hidden as it is filed, after so
    /// many entries that are not published yet.
    pub(super) fn hides_too_much(&self, f: &FilingArticle<'_>, coming: usize) -> bool {
        f.new.tagged.hidden().is_some() && self.folds.shared.hidden.count() + coming >= COUNT_MAX
    }

    /// Returns the entry of an article that is hidden as it is filed.
    #[inline]
    pub(super) fn hidden_entry(
        &self,
        f: &FilingArticle<'_>,
        token: Token,
        since: u32,
        numbers: &[(GroupId, u64)],
    ) -> Option<Box<HiddenArticle>> {
        let (by, reason) = f.new.tagged.hidden()?;
        Some(Box::new(HiddenArticle {
            key: f.key,
            token,
            since,
            message_id: String::from_utf8_lossy(f.new.message_id).into_owned(),
            by: by.to_owned(),
            reason: reason.to_owned(),
            numbers: numbers.to_vec(),
        }))
    }
}
