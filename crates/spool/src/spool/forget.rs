//! Forgetting Message-IDs, so that their articles are accepted if they arrive after all.

use super::Spool;
use super::hide::commit_rows;
use crate::base::error::SpoolTrouble;
use crate::base::key::ArticleKey;
use crate::index::history::HistoryLookup;
use crate::journal::JournalRow;

impl Spool {
    /// Forgets a Message-ID that was remembered at this time (Unix seconds) without an article, durably;
    /// returns false if it was not. The time distinguishes it from one whose article was withdrawn, which
    /// must not be forgotten: the record may still be in a buffer.
    pub fn forget(&self, key: &ArticleKey, arrived: u32) -> Result<bool, SpoolTrouble> {
        let mut writer = self.writer.lock();
        let is_remembered = self.shared.history.lookup(key) == HistoryLookup::Remembered { arrived };
        let row = JournalRow::Forget { key: *key };
        commit_rows(&mut writer, if is_remembered { std::slice::from_ref(&row) } else { &[] })?;
        if is_remembered {
            writer.folds.forget(*key);
        }
        Ok(is_remembered)
    }
}
