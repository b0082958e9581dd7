//! [`ImportedHashes`]: Message-IDs that another server has seen, and that are known only as INN's hashes.
//!
//! Marks in history show whether any is remembered ([`spool_base::moved`]): only while marks exist are
//! unknown Message-IDs looked up by hash as well.

use crate::index::change::{ArticleIdent, Change};
use crate::index::fold::SharedIndexes;
use disk::clock::unix_secs;
use spool_base::key::{ArticleKey, inn_hash};
use spool_base::moved::{MARK_SECS, PERIOD_HOURS, hash_key, mark_key, period_key};
use spool_history::HistoryLookup;
use std::sync::atomic::{AtomicU64, Ordering};

/// Knowledge of whether there are hashes of another server.
pub(crate) struct ImportedHashes {
    /// Latest possible arrival of a remembered hash, in Unix seconds; 0: there is none.
    newest: AtomicU64,
}

impl ImportedHashes {
    pub fn of(shared: &SharedIndexes) -> Self {
        Self { newest: AtomicU64::new(newest_hash(shared)) }
    }

    /// Reports whether INN's hash of this Message-ID was imported, and is still remembered.
    pub fn is_known(&self, shared: &SharedIndexes, message_id: &[u8]) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        newest != 0
            && newest.saturating_add(shared.current.load().remember_secs) > unix_secs()
            && shared.history.lookup(&hash_key(&shared.hasher, inn_hash(message_id))) != HistoryLookup::None
    }

    /// Notes until when hashes of another server's history may be found.
    pub fn note(&self, batch: &[Change<'_>]) {
        let arrival = |change: &Change<'_>| match change {
            Change::Remember { id: ArticleIdent::InnHash(_), arrived } => Some(*arrived),
            _ => None,
        };
        if let Some(newest) = batch.iter().filter_map(arrival).max() {
            self.newest.fetch_max((newest / MARK_SECS + 1) * MARK_SECS, Ordering::Relaxed);
        }
    }
}

/// Returns an upper bound on the arrival of the newest remembered hash, in Unix seconds; 0: there is none.
fn newest_hash(shared: &SharedIndexes) -> u64 {
    let now = unix_secs();
    let oldest = now.saturating_sub(shared.current.load().remember_secs) / MARK_SECS;
    let (first, last) = (oldest / PERIOD_HOURS, (now / MARK_SECS + 1) / PERIOD_HOURS);
    let is_known = |key: ArticleKey| shared.history.lookup(&key) != HistoryLookup::None;
    // The mark of a period came with its first hash, so only that of the oldest period may already be
    // forgotten.
    let periods = (first..=last).rev().filter(|p| *p == first || is_known(period_key(&shared.hasher, *p)));
    let mut hours = periods.flat_map(|p| (p * PERIOD_HOURS..(p + 1) * PERIOD_HOURS).rev());
    hours.find(|hour| is_known(mark_key(&shared.hasher, *hour))).map_or(0, |hour| (hour + 1) * MARK_SECS)
}
