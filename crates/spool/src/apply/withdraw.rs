//! Withdrawing articles: cancels, purges and what is due.
//!
//! Articles are looked up without the writer's lock, and one sync makes many rows durable before anything is
//! withdrawn.

use super::Applier;
use crate::index::change::{ArticleIdent, Change, ChangeOutcome, LocatedArticle};
use crate::index::fold::SharedIndexes;
use crate::index::groups::GroupTable;
use crate::index::withdrawing::RemoveFiles;
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::write::commit::{SpoolWriter, trouble};
use crate::write::locked::LockedWriter;
use disk::ReadMode;
use spool_base::error::{ReadError, SpoolTrouble, TroubleKind};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_journal::JournalRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of rows made durable by one sync.
const AT_ONCE_MAX: usize = 1_024;
/// Maximum on a full disk, so that the rows fit into the reserved space.
const AT_ONCE_FULL_MAX: usize = 64;

impl Applier<'_> {
    /// Withdraws articles. One sync of the journal makes up to 1,024 rows durable. An unreadable article
    /// causes an error after the others are withdrawn.
    pub fn withdraw(&mut self, run: &[Change<'_>]) -> Result<(), SpoolTrouble> {
        let mut unreadable = None;
        let mut at_once = if self.writer.sync().trouble().is_some() { AT_ONCE_FULL_MAX } else { AT_ONCE_MAX };
        let mut rest = run;
        while !rest.is_empty() {
            let (some, later) = rest.split_at(rest.len().min(at_once));
            match self.withdraw_some(some, &mut unreadable) {
                // The disk has just become full.
                Err(trouble) if trouble.kind == TroubleKind::Full && at_once > AT_ONCE_FULL_MAX => {
                    at_once = AT_ONCE_FULL_MAX;
                }
                withdrawn => {
                    let mut withdrawn = withdrawn?;
                    // For an article that occurs twice, only the first change has found it.
                    let hasher = &self.shared.hasher;
                    let found = |change: &Change<'_>| withdrawn.remove(&change.key(hasher));
                    let found = some.iter().map(found);
                    self.outcomes.extend(found.map(|found| ChangeOutcome::Changed(usize::from(found))));
                    rest = later;
                }
            }
        }
        match unreadable {
            None => Ok(()),
            Some(e) => Err(SpoolTrouble::new(TroubleKind::Io, format!("cannot read what is cancelled: {e}"))),
        }
    }

    /// Withdraws articles; returns those that existed.
    fn withdraw_some(
        &self,
        changes: &[Change<'_>],
        unreadable: &mut Option<ReadError>,
    ) -> Result<BTreeSet<ArticleKey>, SpoolTrouble> {
        loop {
            let table = self.shared.groups.snapshot();
            let mut living = self.living(&table, changes, unreadable);
            if living.is_empty() {
                return Ok(BTreeSet::new());
            }
            self.writer.sync().sync_journal()?;
            let mut writer = self.writer.lock_at(self.time);
            // The numbers belong to the groups in `table`.
            if !Arc::ptr_eq(&table, &self.shared.groups.snapshot()) {
                continue;
            }
            living.retain(|key, at| self.shared.lookup(key) == Lookup::Present(at.token));
            let (mut withdrawn, mut rows) = (BTreeSet::new(), Vec::with_capacity(living.len()));
            for change in changes {
                let article = living.remove(&change.key(&self.shared.hasher));
                if let Some((article, row)) = article.and_then(|a| Some((a.key, row_of(change, &a, &table)?)))
                {
                    withdrawn.insert(article);
                    rows.push(row);
                }
            }
            if !rows.is_empty() {
                end_now(&mut writer, &rows)?;
            }
            drop(writer);
            remove_files(self.shared, self.writer)?;
            if self.writer.sync().trouble().is_some() {
                self.writer.lock().end_freeing();
            }
            return Ok(withdrawn);
        }
    }

    /// Returns the living ones of the articles that these changes name, each once.
    pub(super) fn living(
        &self,
        table: &GroupTable,
        changes: &[Change<'_>],
        unreadable: &mut Option<ReadError>,
    ) -> BTreeMap<ArticleKey, LocatedArticle> {
        let mut living = BTreeMap::new();
        let mut buf = ArticleBuf::default();
        for change in changes {
            if let Change::Cancel { id: ArticleIdent::Located(article) }
            | Change::Expire { id: ArticleIdent::Located(article), .. } = change
            {
                living.insert(article.key, (*article).clone());
                continue;
            }
            let key = change.key(&self.shared.hasher);
            let Lookup::Present(token) = self.shared.lookup(&key) else { continue };
            match self.shared.read(&token, Some(&key), ReadMode::Wait, &mut buf) {
                Ok(true) => {
                    let numbers = table.numbers_in(buf.head());
                    living.insert(key, LocatedArticle { key, token, numbers });
                }
                Ok(false) => {}
                Err(e) => *unreadable = Some(e),
            }
        }
        living
    }
}

/// Removes the files of articles that have left the indexes. Called without the writer's lock.
pub(crate) fn remove_files(shared: &SharedIndexes, writer: &LockedWriter) -> Result<(), SpoolTrouble> {
    let removed = shared.removals.finish(&shared.volumes.load_full());
    removed.map_err(|e| writer.sync().stop(trouble("remove the file of an article", &e)))
}

/// Returns the row by which a living article is withdrawn; `None` if it is in none of the groups that it is
/// to leave.
fn row_of(change: &Change<'_>, article: &LocatedArticle, table: &GroupTable) -> Option<JournalRow<'static>> {
    let LocatedArticle { key, token, numbers } = article;
    let (key, token) = (*key, *token);
    let (inside, outside) = match change {
        Change::Expire { groups, .. } => {
            living_numbers(article, table, |name| groups.iter().any(|group| group.as_bytes() == name))
        }
        _ => return Some(JournalRow::Cancel { key, token, numbers: numbers.clone() }),
    };
    if !outside.is_empty() {
        let is_in = !inside.is_empty();
        return is_in.then_some(JournalRow::Expire { key, token, gone: false, numbers: inside });
    }
    Some(match change {
        Change::Expire { .. } => JournalRow::Expire { key, token, gone: true, numbers: numbers.clone() },
        _ => JournalRow::Cancel { key, token, numbers: numbers.clone() },
    })
}

/// Numbers of an article in its groups.
type ArticleNumbers = Vec<(GroupId, u64)>;

/// Returns the living numbers of an article in groups that match, and in others.
pub(crate) fn living_numbers(
    article: &LocatedArticle,
    table: &GroupTable,
    groups: impl Fn(&[u8]) -> bool,
) -> (ArticleNumbers, ArticleNumbers) {
    let group = |id: GroupId| table.get(id);
    let lives = |(id, n): &(GroupId, u64)| group(*id).is_some_and(|group| group.state().live.contains(*n));
    let matches = |(id, _): &(GroupId, u64)| group(*id).is_some_and(|group| groups(group.name.as_bytes()));
    article.numbers.iter().copied().filter(lives).partition(matches)
}

/// Commits rows that withdraw articles, and applies them.
fn end_now(writer: &mut SpoolWriter, rows: &[JournalRow<'_>]) -> Result<(), SpoolTrouble> {
    writer.may_free()?;
    writer.commit_rows(rows)?;
    rows.iter().for_each(|row| writer.folds.end(row, RemoveFiles::Later));
    writer.freed()
}
