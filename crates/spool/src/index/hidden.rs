//! Hidden articles: stored, but not shown to any reader (`docs/hiding.md`).
//!
//! A fold of the rows `Hide` and `Unhide`. An entry is removed with its article, so that exactly the hidden
//! articles have one. The hidden numbers are kept in the groups ([`super::groups`]); a number stays alive
//! while it is hidden, so overwriting, expiry and repair treat hidden articles like any others. While nothing
//! is hidden, readers pay for one load of a counter.

use lock_order::{INNERMOST, OrderedRw};
use spool_base::digest::{SetSum, of_id, of_parts};
use spool_base::hidden::{HIDDEN_MAX, HiddenArticle};
use spool_base::ids::GroupId;
use spool_base::key::{ArticleKey, KeyHasher};
use spool_base::token::{MethodKind, Token};
use spool_journal::ArticleRow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of hidden articles.
pub(crate) const COUNT_MAX: usize = if cfg!(test) { 8 } else { HIDDEN_MAX };

/// The hidden articles.
#[derive(Debug, Default)]
pub(crate) struct HiddenIndex {
    count: AtomicUsize,
    table: OrderedRw<HiddenTable, INNERMOST>,
}

/// Articles to be hidden as they are filed, during a replay: a durable row records that before the article is
/// stored.
#[derive(Debug, Default)]
pub(crate) struct PendingHides(HashMap<ArticleKey, (String, String)>);

impl PendingHides {
    /// Records that the next article of this Message-ID is hidden.
    pub fn put(&mut self, key: ArticleKey, by: &str, reason: &str) {
        self.0.insert(key, (by.to_owned(), reason.to_owned()));
    }

    /// Returns an entry, without a location, for each Message-ID that no article row has followed.
    pub fn rest(self, since: u32) -> impl Iterator<Item = HiddenArticle> {
        let token = Token { method: MethodKind::Trash, class: 0, volume: 0, place: 0 };
        self.0.into_iter().map(move |(key, (by, reason))| HiddenArticle {
            key,
            token,
            since,
            message_id: String::new(),
            by,
            reason,
            numbers: Vec::new(),
        })
    }

    /// Returns the entry of an article that was hidden as it was filed. Rows written by recovery do not
    /// record that themselves.
    pub fn entry(&mut self, a: &ArticleRow<'_>, numbers: &[(GroupId, u64)]) -> Option<HiddenArticle> {
        let ahead = self.0.remove(&a.key).filter(|_| a.tagged.as_bytes().is_empty());
        let said = a.tagged.hidden().map(|(by, reason)| (by.to_owned(), reason.to_owned()));
        let (by, reason) = said.or(ahead)?;
        Some(HiddenArticle {
            key: a.key,
            token: a.token,
            since: a.arrived,
            message_id: String::from_utf8_lossy(a.message_id).into_owned(),
            by,
            reason,
            numbers: numbers.to_vec(),
        })
    }
}

#[derive(Debug, Default)]
struct HiddenTable {
    sum: SetSum,
    by_key: HashMap<ArticleKey, Arc<HiddenArticle>>,
    /// Keys by volume and place: overwritten articles are identified by their place.
    by_place: HashMap<(u16, u64), ArticleKey>,
}

impl HiddenIndex {
    /// Returns the number of hidden articles.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the entry of an article, if it is hidden.
    pub fn get(&self, key: &ArticleKey) -> Option<Arc<HiddenArticle>> {
        if self.count() == 0 {
            return None;
        }
        self.table.read().by_key.get(key).cloned()
    }

    /// Reports whether the article of this Message-ID, at this place, is hidden.
    pub fn covers(&self, key: &ArticleKey, token: &Token) -> bool {
        self.count() > 0
            && self.table.read().by_key.get(key).is_some_and(|hidden| is_same_place(&hidden.token, token))
    }

    /// Returns the sum of all entries.
    pub fn sum(&self) -> SetSum {
        self.table.read().sum
    }

    /// Returns all entries, oldest first.
    pub fn all(&self) -> Vec<Arc<HiddenArticle>> {
        let mut all: Vec<_> = self.table.read().by_key.values().cloned().collect();
        all.sort_unstable_by_key(|hidden| (hidden.since, hidden.key));
        all
    }

    /// Adds or replaces an entry.
    pub fn put(&self, hidden: HiddenArticle) {
        let mut table = self.table.write();
        table.remove(&hidden.key);
        table.by_place.insert((hidden.token.volume, hidden.token.place), hidden.key);
        table.sum.add(member(&hidden));
        table.by_key.insert(hidden.key, Arc::new(hidden));
        self.count.store(table.by_key.len(), Ordering::Release);
    }

    /// Removes the entry of an article.
    pub fn remove(&self, key: &ArticleKey) -> Option<Arc<HiddenArticle>> {
        if self.count() == 0 {
            return None;
        }
        let mut table = self.table.write();
        let removed = table.remove(key);
        self.count.store(table.by_key.len(), Ordering::Release);
        removed
    }

    /// Removes the entry of the article at a place of a volume.
    pub fn remove_at(&self, volume: u16, place: u64) {
        if self.count() == 0 {
            return;
        }
        let mut table = self.table.write();
        if let Some(key) = table.by_place.get(&(volume, place)).copied() {
            table.remove(&key);
            self.count.store(table.by_key.len(), Ordering::Release);
        }
    }
}

impl HiddenTable {
    fn remove(&mut self, key: &ArticleKey) -> Option<Arc<HiddenArticle>> {
        let removed = self.by_key.remove(key)?;
        self.by_place.remove(&(removed.token.volume, removed.token.place));
        self.sum.take(member(&removed));
        Some(removed)
    }
}

/// Returns the hash of an entry: of its article, its hider and the reason. The key is secret.
fn member(hidden: &HiddenArticle) -> u128 {
    let hasher = KeyHasher::new(of_id(hidden.key).to_le_bytes());
    of_parts(&hasher, &[hidden.by.as_bytes(), hidden.reason.as_bytes()])
}

/// Compares locations only: the class in a token is that of the configuration when the article arrived.
pub(crate) fn is_same_place(a: &Token, b: &Token) -> bool {
    (a.volume, a.place) == (b.volume, b.place)
}
