//! Forgetting Message-IDs, so that their articles are accepted if they arrive after all.

use super::Spool;
use crate::base::error::SpoolTrouble;
use crate::index::change::{Change, ChangeOutcome};
use crate::index::history::HistoryLookup;
use crate::journal::JournalRow;

impl Spool {
    /// Forgets Message-IDs that were remembered, at the time that is named, without an article.
    pub(super) fn forget(
        &self,
        time: u64,
        run: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer_at(time);
        writer.accepting()?;
        for change in run {
            let Change::Forget { arrived, .. } = change else { continue };
            let (key, arrived) = (change.key(&self.shared.hasher), *arrived);
            let is_remembered = self.shared.history.lookup(&key) == HistoryLookup::Remembered { arrived };
            if is_remembered {
                writer.commit_rows(&[JournalRow::Forget { key }])?;
                writer.folds.forget(key);
            }
            outcomes.push(ChangeOutcome::Changed(usize::from(is_remembered)));
        }
        Ok(())
    }
}
