//! Forgetting Message-IDs, so that their articles are accepted if they arrive after all.

use super::Spool;
use super::hide::commit_rows;
use crate::base::error::Trouble;
use crate::base::key::Key;
use crate::index::history::Found;
use crate::journal::Row;

impl Spool {
    /// Forgets a Message-ID that was remembered at this time (Unix seconds) without an article, durably;
    /// returns false if it was not. The time distinguishes it from one whose article was withdrawn, which
    /// must not be forgotten: the record may still be in a buffer.
    pub fn forget(&self, key: &Key, arrived: u32) -> Result<bool, Trouble> {
        let mut writer = self.writer.lock();
        let is_remembered = self.shared.history.lookup(key) == Found::Remembered { arrived };
        let row = Row::Forget { key: *key };
        commit_rows(&mut writer, if is_remembered { std::slice::from_ref(&row) } else { &[] })?;
        if is_remembered {
            writer.folds.forget(*key);
        }
        Ok(is_remembered)
    }
}
