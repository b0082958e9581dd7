//! Message-IDs without an article in a rebuild: no record has them, so they are taken from the rows of the
//! journal and from the old history.
//!
//! An id is remembered if a replay of the rows would know it, except that of an article whose place should
//! still have it: such an article is lost, and peers may send it again. What has been forgotten stays so.

use super::OldIndexes;
use super::leftovers::Leftovers;
use crate::index::fold::Folds;
use crate::open::recovery::GivenUp;
use spool_base::key::ArticleKey;
use spool_base::token::{MethodKind, Token};
use spool_history::HistoryLookup;
use spool_journal::JournalRow;
use spool_methods::VolumeTable;
use std::io;
use std::path::Path;

/// Remembers the ids that journal and history had without an article, or with an article that is left out;
/// returns the number of the latter.
pub(super) fn remember_old(
    folds: &mut Folds,
    journal: &Path,
    leftovers: &Leftovers,
    old: &OldIndexes<'_>,
) -> io::Result<GivenUp> {
    let shared = folds.shared.clone();
    let loaded = shared.volumes.load();
    let later = leftovers.left_out.iter().filter(|(key, arrived)| remember(folds, **key, **arrived)).count();
    let is_exact = old.without.is_known && leftovers.left_out.is_empty() && old.history.lost_records() == 0;
    let mut left_out = GivenUp { articles: later as u64, is_exact };
    let damaged = old.history.for_each(&mut |record, in_order| {
        let is_left_out =
            |token: Token| old.without.tails.get(&token.volume).is_some_and(|tail| token.place >= *tail);
        let is_lost = record.token.is_some_and(|token| is_lost(&loaded, token));
        let is_known = !is_lost && in_order >= leftovers.forgotten_before;
        if is_known && remember(folds, ArticleKey(record.key_bits), record.arrived) {
            left_out.articles += u64::from(record.token.is_some_and(is_left_out));
        }
    });
    drop(loaded);
    let is_whole = damaged + old.history.lost_records() == 0;
    let known_to = old.checkpoint.filter(|_| is_whole).map_or(0, |checkpoint| checkpoint.position);
    remember_rows(folds, journal, leftovers, known_to)?;
    Ok(left_out)
}

/// Remembers the ids in the rows of the journal. Rows of withdrawn articles have no arrival, so before
/// `known_to`, where a whole history has all that was known, they are passed over.
fn remember_rows(folds: &mut Folds, journal: &Path, leftovers: &Leftovers, known_to: u64) -> io::Result<()> {
    let shared = folds.shared.clone();
    let loaded = shared.volumes.load();
    let mut now = 0;
    Leftovers::default().each_row(&shared.disk, journal, &mut |position, row| {
        match row {
            JournalRow::Article(a) => {
                now = a.arrived.max(now);
                let is_lost = is_lost(&loaded, a.token) && !leftovers.has_given_up(a.token);
                if a.arrived >= leftovers.forgotten_before && !is_lost && !leftovers.is_void(position) {
                    remember(folds, a.key, a.arrived);
                    if let Some(key) = a.tagged.stands_for() {
                        remember(folds, key, a.arrived);
                    }
                }
            }
            JournalRow::Remember { key, arrived } => {
                // Forgotten with the records around it, even if it arrived before them.
                now = arrived.max(now);
                if now >= leftovers.forgotten_before {
                    remember(folds, key, arrived);
                }
            }
            JournalRow::Cancel { key, .. } | JournalRow::Expire { key, gone: true, .. }
                if position >= known_to && now >= leftovers.forgotten_before =>
            {
                remember(folds, key, now);
            }
            JournalRow::Forget { key } => {
                if matches!(shared.history.lookup(&key), HistoryLookup::Remembered { .. }) {
                    folds.forget(key);
                }
            }
            _ => {}
        }
        Ok(())
    })
}

/// Remembers an id; returns whether it was unknown.
fn remember(folds: &mut Folds, key: ArticleKey, arrived: u32) -> bool {
    let is_new = folds.shared.history.lookup(&key) == HistoryLookup::None;
    if is_new {
        folds.remember(key, arrived);
    }
    is_new
}

/// Reports whether an article that the rebuild has not found should be in its volume.
fn is_lost(volumes: &VolumeTable, token: Token) -> bool {
    let volume = volumes.get(token.volume).filter(|v| v.method() != MethodKind::Memory);
    volume.is_some_and(|v| v.cyclic().is_none_or(|v| token.place >= v.tail()))
}
