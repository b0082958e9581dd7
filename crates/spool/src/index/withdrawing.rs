//! Removal of articles from the indexes: cancelled, expired, lost; and hiding, which is reversible.
//!
//! The row of each change is durable before it is applied here, by the writer or by the replay. If an article
//! has a file of its own, that is removed at once, or later without the writer's lock
//! ([`crate::index::removals`]). Invariant: a removal is postponed only if a number still led to the article,
//! so that a replay, which has the numbers as of the row, removes the file too.

use crate::index::fold::Folds;
use crate::index::groups::GroupState;
use crate::index::hidden::is_same_place;
use crate::index::removals::Removal;
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_journal::JournalRow;
use spool_methods::{Volume, VolumeKind};
use std::io;
use std::sync::atomic::Ordering;

/// Time at which the files of a removed article are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoveFiles {
    /// With the writer held: in a replay, and if few files are removed.
    Now,
    /// After the writer is released.
    Later,
}

impl Folds {
    /// Applies the row of an article that is cancelled or due, which must be durable.
    pub fn end(&mut self, row: &JournalRow<'_>, when: RemoveFiles) {
        match row {
            JournalRow::Cancel { key, token, numbers } => self.cancel(*key, *token, numbers, when),
            JournalRow::Expire { key, token, gone, numbers } => {
                self.expire(*key, *token, *gone, numbers, when);
            }
            _ => {}
        }
    }

    /// Removes an article from all indexes and marks its bytes (CNFS-12). Its row must be durable.
    pub fn cancel(&mut self, key: ArticleKey, token: Token, numbers: &[(GroupId, u64)], when: RemoveFiles) {
        self.take_out(key, token, numbers, when, |v| v.cancel(token.place, key, numbers));
    }

    /// Removes numbers of a retained article; with `gone`, removes the article too. Its row must be durable.
    pub fn expire(
        &mut self,
        key: ArticleKey,
        token: Token,
        gone: bool,
        numbers: &[(GroupId, u64)],
        when: RemoveFiles,
    ) {
        if gone {
            self.take_out(key, token, numbers, when, |volume| match volume.kind() {
                VolumeKind::Retained(volume) => volume.expire(token.place, key, numbers),
                VolumeKind::Cyclic(volume) => volume.cancel(token.place, key, numbers),
            });
            return;
        }
        self.end_numbers(key, numbers);
        let volumes = self.shared.volumes.load();
        let Some(volume) = volumes.get(token.volume).and_then(|v| v.retained()) else { return };
        if when == RemoveFiles::Later && volume.method().is_file_per_article() {
            self.shared.removals.put(Removal::new(key, token, false, numbers));
            return;
        }
        let ended = volume.end_names(token.place, numbers);
        self.note("the names of an article", ended);
    }

    /// Ends numbers of an article that a rebuild has published: those that are known to have ended, and those
    /// under which it is not found, since they were due.
    pub fn end_lost_names(
        &mut self,
        key: ArticleKey,
        token: Token,
        numbers: &[(GroupId, u64)],
        ended: &[(GroupId, u64)],
    ) {
        let volumes = self.shared.volumes.load();
        let volume = volumes.get(token.volume).and_then(|v| v.retained());
        let is_lost = |number: &&(GroupId, u64)| {
            let found = volume.map(|volume| volume.is_found_as(token.place, number.0, number.1));
            ended.contains(number) || matches!(found, Some(Ok(false)))
        };
        let lost: Vec<_> = numbers.iter().filter(is_lost).copied().collect();
        if !lost.is_empty() {
            self.end_numbers(key, &lost);
        }
    }

    /// Removes an article that a crash damaged. Its Message-ID stays known, like that of an overwritten one.
    pub fn lost(&mut self, volume: u16, place: u64, numbers: &[(GroupId, u64)]) {
        let shared = self.shared.clone();
        let volumes = shared.volumes.load();
        let Some(volume) = volumes.get(volume) else { return };
        shared.hidden.remove_at(volume.id(), place);
        let lived = match shared.history.key_of_place(volume.id(), place) {
            Some(key) => self.end_numbers(key, numbers),
            None => {
                shared.is_digest_vague.store(true, Ordering::Release);
                self.with_numbers(numbers, |state, number| state.end(number))
            }
        };
        let lived = lived || volume.is_alive(place);
        self.is_count_vague |= numbers.is_empty();
        shared.articles.fetch_sub(u64::from(lived), Ordering::Relaxed);
        if let Some(volume) = volume.cyclic() {
            volume.mark_dead(place);
        }
    }

    /// Ends numbers of an article; returns whether any of them lived.
    fn end_numbers(&mut self, key: ArticleKey, numbers: &[(GroupId, u64)]) -> bool {
        self.with_numbers(numbers, |state, number| state.end_of(number, key))
    }

    fn take_out(
        &mut self,
        key: ArticleKey,
        token: Token,
        numbers: &[(GroupId, u64)],
        when: RemoveFiles,
        mark: impl FnOnce(&dyn Volume) -> io::Result<()>,
    ) {
        let shared = self.shared.clone();
        let volumes = shared.volumes.load();
        let was_named = self.end_numbers(key, numbers);
        self.is_count_vague |= numbers.is_empty();
        // A retained article lives while a number or history leads to it. History may be ahead of the replay.
        let keeps = volumes.get(token.volume).is_some_and(|v| v.retained().is_some());
        let is_here = || matches!(shared.history.lookup(&key), HistoryLookup::At(t, _) if t == token);
        let lived = was_named || if keeps { is_here() } else { volumes.is_alive(&token) };
        shared.articles.fetch_sub(u64::from(lived), Ordering::Relaxed);
        shared.withdrawals.fetch_add(1, Ordering::Release);
        shared.history.replace(&key, None);
        shared.hidden.remove(&key);
        // A missing article was declared void; its place may belong to another one.
        let Some(volume) = volumes.get(token.volume).filter(|_| lived || !keeps) else { return };
        if when == RemoveFiles::Later && was_named && volume.method().is_file_per_article() {
            shared.removals.put(Removal::new(key, token, true, numbers));
            return;
        }
        let marked = mark(volume);
        self.note("buffer", marked);
    }

    /// Hides an article, if it still exists. Its row must be durable.
    pub fn hide(&mut self, hidden: HiddenArticle) {
        let shared = self.shared.clone();
        // In a replay the article may already have been displaced, and history may reflect that.
        let is_named = || {
            let table = shared.groups.table();
            let lives =
                |(id, n): &(GroupId, u64)| table.get(*id).is_some_and(|g| g.state().live.contains(*n));
            hidden.numbers.iter().any(lives)
        };
        let lives = match shared.history.lookup(&hidden.key) {
            HistoryLookup::At(token, _) if is_same_place(&token, &hidden.token) => {
                is_named() || shared.volumes.load().is_alive(&token)
            }
            HistoryLookup::At(..) | HistoryLookup::Remembered { .. } => false,
            // Its record is damaged, or its row is void: then no number leads to it.
            HistoryLookup::None => is_named(),
        };
        if lives {
            self.load_hidden(hidden);
        }
    }

    /// Hides an article that a checkpoint has as hidden. History is not asked, which may have lost its
    /// record: an article that ended later is removed by its row.
    pub fn load_hidden(&mut self, hidden: HiddenArticle) {
        let numbers = hidden.numbers.clone();
        self.shared.hidden.put(hidden);
        self.with_numbers(&numbers, |state, number| state.hide(number));
    }

    /// Shows a hidden article again. Its row must be durable.
    pub fn unhide(&mut self, key: ArticleKey) {
        if let Some(hidden) = self.shared.hidden.remove(&key) {
            self.with_numbers(&hidden.numbers, |state, number| state.unhide(number));
        }
    }

    /// Changes numbers of an article; returns whether any changed.
    fn with_numbers(
        &mut self,
        numbers: &[(GroupId, u64)],
        mut change: impl FnMut(&mut GroupState, u64) -> bool,
    ) -> bool {
        let mut changed = false;
        let (table, now) = (self.shared.groups.snapshot(), self.time);
        for (id, number) in numbers {
            let Some(group) = table.get(*id) else { continue };
            let mut state = group.state();
            if change(&mut state, *number) {
                state.changed = now;
                changed = true;
            }
        }
        self.shared.generation.fetch_add(1, Ordering::Release);
        self.shared.withdrawals.fetch_add(1, Ordering::Release);
        changed
    }
}
