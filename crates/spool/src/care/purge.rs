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
use crate::index::change::{ArticleIdent, Change, LocatedArticle};
use crate::index::groups::{Group, GroupTable};
use crate::read::article::ArticleBuf;
use crate::read::{Lookup, RowSelection};
use crate::spool::Spool;
use crate::spool::withdraw::living_numbers;
use disk::Progress;
use disk::ReadMode;
use disk::clock::unix_now;
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

impl Spool {
    /// Removes all articles from the groups whose names match, or reports which would be removed. Articles
    /// that arrive meanwhile stay.
    pub fn purge(
        &self,
        wildmat: &Wildmat,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<PurgeReport, SpoolTrouble> {
        if !dry_run && self.position().is_some() {
            let text =
                "members of a cluster cannot purge groups; cancel their articles, or remove the groups";
            return Err(SpoolTrouble::new(TroubleKind::Refused, text));
        }
        let groups: Vec<Arc<Group>> =
            self.groups().iter().filter(|group| wildmat.matches(group.name.as_bytes())).cloned().collect();
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
                self.purge_rows(group.id, &rows, wildmat, dry_run, &mut report)?;
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
        let cancel = |key: &ArticleKey| Change::Cancel { id: ArticleIdent::Key(*key) };
        report.articles += match dry_run {
            true => keys.len() as u64,
            false => self.withdraw_all(&keys.iter().map(cancel).collect::<Vec<_>>())?,
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
        wildmat: &Wildmat,
        dry_run: bool,
        report: &mut PurgeReport,
    ) -> Result<(), SpoolTrouble> {
        let targets: Vec<LocatedArticle> = {
            // Nothing is withdrawn while they are counted.
            let _writer = self.writer.lock();
            let table = self.group_table();
            rows.iter().filter_map(|row| self.target(group, row, wildmat, &table, report)).collect()
        };
        if dry_run || targets.is_empty() {
            return Ok(());
        }
        let purge = |article| Change::Purge { id: ArticleIdent::Located(article), groups: wildmat };
        self.withdraw_all(&targets.iter().map(purge).collect::<Vec<_>>()).map(drop)
    }

    /// Applies changes that withdraw articles; returns how many did.
    fn withdraw_all(&self, changes: &[Change<'_>]) -> Result<u64, SpoolTrouble> {
        let mut outcomes = Vec::with_capacity(changes.len());
        self.apply(unix_now(), changes, &mut outcomes)?;
        Ok(outcomes.iter().map(|outcome| outcome.changed() as u64).sum())
    }

    /// Returns the article of an overview row, and counts what becomes of it; `None` if it has already been
    /// removed, or is handled in another purged group.
    fn target(
        &self,
        group: GroupId,
        row: &[u8],
        wildmat: &Wildmat,
        table: &GroupTable,
        report: &mut PurgeReport,
    ) -> Option<LocatedArticle> {
        let key = self.key(field(row, index::MESSAGE_ID)?);
        let Lookup::Present(token) = self.shared.lookup(&key) else { return None };
        let article = LocatedArticle { key, token, numbers: table.numbers_in(field(row, index::XREF)?) };
        let (inside, outside) = living_numbers(&article, table, |name| wildmat.matches(name));
        let own = netnews::decimal::parse_decimal(field(row, index::NUMBER)?)?;
        (inside.first() == Some(&(group, own))).then_some(())?;
        let is_whole = outside.is_empty();
        report.numbers += if is_whole { article.numbers.len() } else { inside.len() } as u64;
        report.articles += u64::from(is_whole);
        report.crossposts += u64::from(!is_whole);
        Some(article)
    }
}

fn unreadable(error: &ReadError) -> SpoolTrouble {
    SpoolTrouble::new(TroubleKind::Io, format!("cannot read overview: {error}"))
}
