//! Purging: permanent removal of all articles from groups by the operator.
//!
//! Uses overview rows and reads no article. A batch of rows is durable, by one sync, before its articles are
//! removed, so that a crash leaves the purge partly done and the indexes whole. An article that also lives in
//! other groups stays there and loses its numbers in the purged ones. Removed groups can be purged as well.
//! Called by `newsreel purge`.

use crate::base::error::{ReadError, SpoolTrouble, TroubleKind};
use crate::base::ids::GroupId;
use crate::base::key::ArticleKey;
use crate::base::token::Token;
use crate::base::xref::pairs_of_line;
use crate::index::groups::Group;
use crate::index::withdrawing::RemoveFiles;
use crate::journal::JournalRow;
use crate::read::article::ArticleBuf;
use crate::read::{Lookup, RowSelection};
use crate::spool::Spool;
use disk::Progress;
use disk::ReadMode;
use netnews::overview_row::{field, index};
use netnews::wildmat::Wildmat;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes of overview rows read, and articles removed, in one batch: some 500 articles.
const ROWS_BYTES_PER_BATCH: usize = 128 << 10;
/// Number of articles of removed groups that are withdrawn at once.
const KEYS_PER_BATCH: usize = 1_024;

/// Results of a purge, or of a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Groups that matched.
    pub groups: u64,
    /// Articles that were removed, or would be.
    pub articles: u64,
    /// Articles that live on in groups that did not match.
    pub crossposts: u64,
    /// Article numbers that were removed, or would be.
    pub numbers: u64,
}

/// An article of a purged group.
struct PurgeTarget {
    key: ArticleKey,
    token: Token,
    /// Whether no other group has the article.
    gone: bool,
    /// All its numbers if `gone`, otherwise its living ones in purged groups.
    numbers: Vec<(GroupId, u64)>,
}

impl Spool {
    /// Removes all articles from the groups whose names match, or reports which would be removed. Articles
    /// that arrive meanwhile stay.
    pub fn purge(
        &self,
        wildmat: &Wildmat,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<PurgeReport, SpoolTrouble> {
        let groups: Vec<Arc<Group>> =
            self.groups().iter().filter(|group| wildmat.matches(group.name.as_bytes())).cloned().collect();
        let purged: HashSet<GroupId> = groups.iter().map(|group| group.id).collect();
        let mut report = PurgeReport { groups: groups.len() as u64, ..PurgeReport::default() };
        progress.start("purging", groups.iter().map(|group| group.marks().count).sum());
        let mut seen = 0;
        for group in &groups {
            let high = group.marks().high;
            let mut next = Some(0);
            let mut rows = Vec::new();
            while let Some(from) = next.filter(|from| *from <= high) {
                rows.clear();
                let (which, most) = (RowSelection::Stored, ROWS_BYTES_PER_BATCH);
                next = self
                    .shared
                    .over(group.id, from..=high, which, most, ReadMode::Wait, &mut rows)
                    .map_err(|error| unreadable(&error))?;
                let rows: Vec<&[u8]> = rows.split_inclusive(|b| *b == b'\n').collect();
                seen += rows.len() as u64;
                self.purge_rows(group.id, &rows, &purged, dry_run, &mut report)?;
                progress.step(seen);
            }
        }
        self.purge_removed(wildmat, dry_run, progress, &mut report)?;
        progress.finish();
        if !dry_run {
            self.writer.lock().end_freeing();
        }
        Ok(report)
    }

    /// Continues [`purge`](Self::purge) for removed groups: they have no overview, so all stored articles are
    /// read.
    fn purge_removed(
        &self,
        wildmat: &Wildmat,
        dry_run: bool,
        progress: &dyn Progress,
        report: &mut PurgeReport,
    ) -> Result<(), SpoolTrouble> {
        let matches = |name: &str| wildmat.matches(name.as_bytes());
        let removed: HashSet<Vec<u8>> = {
            let writer = self.writer.lock();
            writer.folds.retired.keys().filter(|name| matches(name)).map(|name| name.clone().into()).collect()
        };
        if removed.is_empty() {
            return Ok(());
        }
        report.groups += removed.len() as u64;
        progress.start("looking for articles of removed groups", self.shared.history.entries());
        let mut buf = ArticleBuf::default();
        let (mut keys, mut seen, mut outcome) = (Vec::new(), 0, Ok(()));
        self.shared.history.for_each(0, &mut |_, record| {
            seen += 1;
            if outcome.is_err() {
                return;
            }
            let token = record.and_then(|record| record.token);
            keys.extend(token.and_then(|token| self.left_over(&token, &removed, &mut buf)));
            if keys.len() >= KEYS_PER_BATCH {
                outcome = self.purge_keys(&mut keys, dry_run, report);
                progress.step(seen);
            }
        });
        outcome?;
        self.purge_keys(&mut keys, dry_run, report)
    }

    fn purge_keys(
        &self,
        keys: &mut Vec<ArticleKey>,
        dry_run: bool,
        report: &mut PurgeReport,
    ) -> Result<(), SpoolTrouble> {
        report.articles += match dry_run {
            true => keys.len() as u64,
            false => self.cancel_all(keys)?.iter().filter(|cancelled| **cancelled).count() as u64,
        };
        keys.clear();
        Ok(())
    }

    /// Returns the key of a stored article that was filed in a removed group, and that no group shows.
    fn left_over(
        &self,
        token: &Token,
        removed: &HashSet<Vec<u8>>,
        buf: &mut ArticleBuf,
    ) -> Option<ArticleKey> {
        // Unreadable articles are reported by `verify`.
        self.shared.read(token, None, ReadMode::Wait, buf).ok().filter(|is_there| *is_there)?;
        pairs_of_line(buf.head()).any(|(name, _)| removed.contains(name)).then_some(())?;
        let table = self.group_table();
        let lives = |(id, number): &(GroupId, u64)| {
            table.get(*id).is_some_and(|group| group.state().live.contains(*number))
        };
        let key = self.key(buf.message_id());
        let is_current = self.shared.lookup(&key) == Lookup::Present(*token);
        (is_current && !table.numbers_in(buf.head()).iter().any(lives)).then_some(key)
    }

    fn purge_rows(
        &self,
        group: GroupId,
        rows: &[&[u8]],
        purged: &HashSet<GroupId>,
        dry_run: bool,
        report: &mut PurgeReport,
    ) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer.lock();
        let mut targets = Vec::new();
        for row in rows {
            let Some(target) = self.target(group, row, purged) else { continue };
            report.numbers += target.numbers.len() as u64;
            report.articles += u64::from(target.gone);
            report.crossposts += u64::from(!target.gone);
            targets.push(target);
        }
        if dry_run || targets.is_empty() {
            return Ok(());
        }
        writer.may_free()?;
        for PurgeTarget { key, token, gone, numbers } in &targets {
            let (key, token, numbers) = (*key, *token, numbers.clone());
            writer.journal.push(&match gone {
                true => JournalRow::Cancel { key, token, numbers },
                false => JournalRow::Expire { key, token, gone: false, numbers },
            });
        }
        if let Err(trouble) = writer.write_now() {
            writer.journal.discard();
            return Err(trouble);
        }
        for PurgeTarget { key, token, gone, numbers } in &targets {
            match gone {
                true => writer.folds.cancel(*key, *token, numbers, RemoveFiles::Later),
                false => writer.folds.expire(*key, *token, false, numbers, RemoveFiles::Later),
            }
        }
        writer.freed()?;
        drop(writer);
        self.remove_files()
    }

    /// Returns what to do with the article of an overview row; `None` if it has already been removed, or is
    /// handled in another purged group.
    fn target(&self, group: GroupId, row: &[u8], purged: &HashSet<GroupId>) -> Option<PurgeTarget> {
        let key = self.key(field(row, index::MESSAGE_ID)?);
        let Lookup::Present(token) = self.shared.lookup(&key) else { return None };
        let all = self.shared.groups.table().numbers_in(field(row, index::XREF)?);
        let table = self.group_table();
        let lives = |(id, number): &(GroupId, u64)| {
            table.get(*id).is_some_and(|group| group.state().live.contains(*number))
        };
        let (inside, outside): (Vec<_>, Vec<_>) =
            all.iter().copied().filter(lives).partition(|(id, _)| purged.contains(id));
        let own = netnews::decimal::parse_decimal(field(row, index::NUMBER)?)?;
        let gone = outside.is_empty();
        let is_first = inside.first() == Some(&(group, own));
        is_first.then_some(PurgeTarget { key, token, gone, numbers: if gone { all } else { inside } })
    }
}

fn unreadable(error: &ReadError) -> SpoolTrouble {
    SpoolTrouble::new(TroubleKind::Io, format!("cannot read overview: {error}"))
}
