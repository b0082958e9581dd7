//! Message-IDs that another server has seen, from its history file: remembered here without an article.
//!
//! Some are known only as INN's hashes, with marks that show whether any is remembered
//! ([`crate::base::moved`]): only while marks exist are unknown Message-IDs looked up by hash as well.

use super::Spool;
use crate::base::key::{ArticleKey, inn_hash};
use crate::base::moved::{MARK_SECS, PERIOD_HOURS, hash_key, mark_key, period_key};
use crate::index::fold::SharedIndexes;
use crate::index::history::HistoryLookup;
use disk::clock::unix_now;
use std::sync::atomic::Ordering;

/// Returns an upper bound on the arrival of the newest remembered hash, in Unix seconds; 0: there is none.
pub(super) fn newest_hash(shared: &SharedIndexes) -> u64 {
    let now = unix_now();
    let oldest = now.saturating_sub(shared.current.load().remember_secs) / MARK_SECS;
    let (first, last) = (oldest / PERIOD_HOURS, (now / MARK_SECS + 1) / PERIOD_HOURS);
    let is_known = |key: ArticleKey| shared.history.lookup(&key) != HistoryLookup::None;
    // The mark of a period came with its first hash, so only that of the oldest period may already be
    // forgotten.
    let periods = (first..=last).rev().filter(|p| *p == first || is_known(period_key(&shared.hasher, *p)));
    let mut hours = periods.flat_map(|p| (p * PERIOD_HOURS..(p + 1) * PERIOD_HOURS).rev());
    hours.find(|hour| is_known(mark_key(&shared.hasher, *hour))).map_or(0, |hour| (hour + 1) * MARK_SECS)
}

impl Spool {
    /// Reports whether INN's hash of this Message-ID was imported, and is still remembered.
    pub fn is_hash_known(&self, message_id: &[u8]) -> bool {
        let newest = self.newest_hash.load(Ordering::Relaxed);
        newest != 0
            && newest.saturating_add(self.shared.current.load().remember_secs) > unix_now()
            && self.shared.history.lookup(&hash_key(&self.shared.hasher, inn_hash(message_id)))
                != HistoryLookup::None
    }

    /// Returns for how long Message-IDs without an article are remembered, in seconds.
    pub fn remember_secs(&self) -> u64 {
        self.shared.current.load().remember_secs
    }

    /// Returns when an article arrived (Unix seconds), and whether it is still stored; `None` if its
    /// Message-ID is unknown.
    pub fn seen(&self, key: &ArticleKey) -> Option<(u32, bool)> {
        match self.shared.history.lookup(key) {
            HistoryLookup::None => None,
            HistoryLookup::Remembered { arrived } => Some((arrived, false)),
            HistoryLookup::At(token, arrived) => Some((arrived, self.shared.volumes.load().is_alive(&token))),
        }
    }

    /// Returns the number of Message-IDs in history, with and without articles, including imported hashes and
    /// their marks.
    pub fn history_entries(&self) -> u64 {
        self.shared.history.entries()
    }
}
