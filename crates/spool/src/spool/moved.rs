//! Message-IDs that another server has seen, from its history file: remembered here without an article.
//!
//! INN's history has only hashes of Message-IDs, from which no id can be derived. A hash is remembered under
//! the key of the text `[HASH]`, which no Message-ID has, so that journal, history and rebuild treat it like
//! any other. Marks, remembered in the same way, show whether any hash is remembered, one for each hour of
//! arrival and one for each 300 hours: only while marks exist are unknown Message-IDs looked up by hash as
//! well. Used by `newsreel history import`; see docs/formats/history.md.

use super::Spool;
use crate::base::entry::{CommitEntry, CommitOutcome};
use crate::base::error::SpoolTrouble;
use crate::base::key::{ArticleKey, inn_hash};
use crate::index::fold::SharedIndexes;
use crate::index::history::HistoryLookup;
use disk::clock::unix_now;
use std::sync::atomic::Ordering;

/// Seconds covered by the mark of an hour.
const MARK_SECS: u64 = 3600;
/// Hours covered by the mark of a period, so that a start looks for few marks.
const PERIOD_HOURS: u64 = 300;

/// A Message-ID as identified by another server's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedId<'a> {
    /// The id itself, with its angle brackets.
    Id(&'a [u8]),
    /// INN's hash of the id: see [`crate::inn_hash`].
    Hash([u8; 16]),
}

/// Result of importing a Message-ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedIdOutcome {
    /// The id is now remembered.
    Remembered,
    /// The id was already known.
    Known,
    /// The id is old enough to be forgotten.
    Old,
}

/// Returns the key under which a hash is remembered.
fn hash_key(shared: &SharedIndexes, hash: [u8; 16]) -> ArticleKey {
    shared.hasher.key(format!("[{:032X}]", u128::from_be_bytes(hash)).as_bytes())
}

/// Returns the key of the mark for hashes that arrived in an hour since 1970.
fn mark_key(shared: &SharedIndexes, hour: u64) -> ArticleKey {
    shared.hasher.key(format!("[hashes {hour}]").as_bytes())
}

/// Returns the key of the mark for hashes that arrived in a period of [`PERIOD_HOURS`] since 1970.
fn period_key(shared: &SharedIndexes, period: u64) -> ArticleKey {
    shared.hasher.key(format!("[hashes of period {period}]").as_bytes())
}

/// Returns an upper bound on the arrival of the newest remembered hash, in Unix seconds; 0: there is none.
pub(super) fn newest_hash(shared: &SharedIndexes) -> u64 {
    let now = unix_now();
    let oldest = now.saturating_sub(shared.current.load().remember_secs) / MARK_SECS;
    let (first, last) = (oldest / PERIOD_HOURS, (now / MARK_SECS + 1) / PERIOD_HOURS);
    let is_known = |key: ArticleKey| shared.history.lookup(&key) != HistoryLookup::None;
    // The mark of a period came with its first hash, so only that of the oldest period may already be
    // forgotten.
    let periods = (first..=last).rev().filter(|p| *p == first || is_known(period_key(shared, *p)));
    let mut hours = periods.flat_map(|p| (p * PERIOD_HOURS..(p + 1) * PERIOD_HOURS).rev());
    hours.find(|hour| is_known(mark_key(shared, *hour))).map_or(0, |hour| (hour + 1) * MARK_SECS)
}

impl Spool {
    /// Reports whether INN's hash of this Message-ID was imported, and is still remembered.
    pub fn is_hash_known(&self, message_id: &[u8]) -> bool {
        let newest = self.newest_hash.load(Ordering::Relaxed);
        newest != 0
            && newest.saturating_add(self.shared.current.load().remember_secs) > unix_now()
            && self.shared.history.lookup(&hash_key(&self.shared, inn_hash(message_id)))
                != HistoryLookup::None
    }

    /// Remembers ids of another server, with the Unix seconds of their arrival there, skipping those old
    /// enough to be forgotten. Each is remembered at least as long as if it had arrived here.
    pub fn remember_moved(
        &self,
        ids: &[(ImportedId<'_>, u64)],
    ) -> Result<Vec<ImportedIdOutcome>, SpoolTrouble> {
        let (shared, now) = (&self.shared, unix_now());
        let oldest = now.saturating_sub(shared.current.load().remember_secs);
        // Arrivals ascend in history, whose oldest records are forgotten first.
        let mut last = u64::from(shared.history.last_arrival());
        let mut entries = Vec::with_capacity(ids.len());
        let mut places = Vec::with_capacity(ids.len());
        let mut newest = 0;
        for (id, arrived) in ids {
            if *arrived < oldest {
                places.push(None);
                continue;
            }
            last = (*arrived).min(now).max(last);
            let key = match id {
                ImportedId::Id(id) => self.key(id),
                ImportedId::Hash(hash) => {
                    let (old, new) = (newest / MARK_SECS, last / MARK_SECS);
                    if old / PERIOD_HOURS != new / PERIOD_HOURS {
                        let key = period_key(shared, new / PERIOD_HOURS);
                        entries.push(CommitEntry::Remember { key, arrived: last });
                    }
                    if old != new {
                        entries.push(CommitEntry::Remember { key: mark_key(shared, new), arrived: last });
                    }
                    newest = last;
                    hash_key(shared, *hash)
                }
            };
            places.push(Some(entries.len()));
            entries.push(CommitEntry::Remember { key, arrived: last });
        }
        let mut outcomes = Vec::with_capacity(entries.len());
        self.commit(&entries, &mut outcomes)?;
        if newest > 0 {
            self.newest_hash.fetch_max((newest / MARK_SECS + 1) * MARK_SECS, Ordering::Relaxed);
        }
        let fate = |at: usize| match outcomes.get(at) {
            Some(CommitOutcome::Remembered) => ImportedIdOutcome::Remembered,
            _ => ImportedIdOutcome::Known,
        };
        Ok(places.into_iter().map(|place| place.map_or(ImportedIdOutcome::Old, fate)).collect())
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
