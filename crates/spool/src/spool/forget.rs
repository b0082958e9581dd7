//! Forgetting Message-IDs, so that their articles are accepted if they arrive after all.

use super::Spool;
use crate::base::error::SpoolTrouble;
use crate::index::change::{Change, ChangeOutcome};
use crate::journal::JournalRow;

impl Spool {
    /// Forgets Message-IDs that were remembered, at the time that is named, without an article. One whose
    /// article was withdrawn or has expired must not be forgotten: its record may still be in a buffer, and
    /// rows of the journal and entries of lists name the place, which in `hashed` its article would have
    /// again.
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
            let is_remembered = self.shared.history.is_without_article(&key, arrived);
            if is_remembered {
                writer.commit_rows(&[JournalRow::Forget { key }])?;
                writer.folds.forget(key);
            }
            outcomes.push(ChangeOutcome::Changed(usize::from(is_remembered)));
        }
        Ok(())
    }
}
