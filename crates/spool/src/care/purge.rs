//! Purging: permanent removal of all articles from groups by the operator.
//!
//! Uses overview rows and reads no article. A batch of them is withdrawn together, so that a crash leaves the
//! purge partly done and the indexes whole. An article that also lives in
//! other groups stays there and loses its numbers in the purged ones. Removed groups can be purged as well.
//! Called by `newsreel purge`.

use crate::apply::withdraw::living_numbers;
use crate::index::change::{ArticleIdent, Change, LocatedArticle};
use crate::index::fold::SharedIndexes;
use crate::index::groups::GroupTable;
use crate::read::article::ArticleBuf;
use crate::read::{Lookup, RowSelection};
use crate::write::locked::LockedWriter;
use disk::{Progress, ReadMode};
use netnews::overview_row::{field, index};
use netnews::wildmat::Wildmat;
use spool_base::error::{ReadError, SpoolTrouble, TroubleKind};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_base::xref::pairs_of_line;
use std::collections::HashSet;

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

/// Has changes applied that withdraw articles; returns how many did.
type Withdraw<'s> = dyn Fn(&[Change<'_>]) -> Result<u64, SpoolTrouble> + 's;

/// A purge of the groups whose names match.
pub(crate) struct Purge<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    withdraw: &'s Withdraw<'s>,
    wildmat: &'s Wildmat,
    dry_run: bool,
    report: PurgeReport,
}

impl<'s> Purge<'s> {
    pub fn new(
        shared: &'s SharedIndexes,
        writer: &'s LockedWriter,
        withdraw: &'s Withdraw<'s>,
        wildmat: &'s Wildmat,
        dry_run: bool,
    ) -> Self {
        Self { shared, writer, withdraw, wildmat, dry_run, report: PurgeReport::default() }
    }

    /// Removes the articles, or counts those that would be removed. Articles that arrive meanwhile stay.
    pub fn run(mut self, progress: &dyn Progress) -> Result<PurgeReport, SpoolTrouble> {
        let (shared, wildmat) = (self.shared, self.wildmat);
        let mut groups = shared.groups.sorted().to_vec();
        groups.retain(|group| wildmat.matches(group.name.as_bytes()));
        self.report.groups = groups.len() as u64;
        progress.start("purging", groups.iter().map(|group| group.marks().count).sum());
        let mut seen = 0;
        for group in &groups {
            let high = group.marks().high;
            let mut next = Some(0);
            let mut rows = Vec::new();
            while let Some(from) = next.filter(|from| *from <= high) {
                rows.clear();
                let (which, most) = (RowSelection::Stored, ROWS_BYTES_PER_BATCH);
                let read = shared.over(group.id, from..=high, which, most, ReadMode::Wait, &mut rows);
                next = read.map_err(|error| unreadable(&error))?;
                let rows: Vec<&[u8]> = rows.split_inclusive(|b| *b == b'\n').collect();
                seen += rows.len() as u64;
                self.purge_rows(group.id, &rows)?;
                progress.step(seen);
            }
        }
        self.purge_removed(progress)?;
        progress.finish();
        if !self.dry_run {
            self.writer.lock().end_freeing();
        }
        Ok(self.report)
    }

    /// Continues for removed groups: they have no overview, so all stored articles are read.
    fn purge_removed(&mut self, progress: &dyn Progress) -> Result<(), SpoolTrouble> {
        let history = &self.shared.history;
        let matches = |name: &str| self.wildmat.matches(name.as_bytes());
        let removed: HashSet<Vec<u8>> = {
            let writer = self.writer.lock();
            writer.folds.retired.keys().filter(|name| matches(name)).map(|name| name.clone().into()).collect()
        };
        if removed.is_empty() {
            return Ok(());
        }
        self.report.groups += removed.len() as u64;
        progress.start("looking for articles of removed groups", history.entries());
        let mut buf = ArticleBuf::default();
        let (mut keys, mut seen, mut outcome) = (Vec::new(), 0, Ok(()));
        history.for_each(0, &mut |_, record| {
            seen += 1;
            if outcome.is_err() {
                return;
            }
            let token = record.and_then(|record| record.token);
            keys.extend(token.and_then(|token| self.left_over(&token, &removed, &mut buf)));
            if keys.len() >= KEYS_PER_BATCH {
                outcome = self.purge_keys(&mut keys);
                progress.step(seen);
            }
        });
        outcome?;
        self.purge_keys(&mut keys)
    }

    fn purge_keys(&mut self, keys: &mut Vec<ArticleKey>) -> Result<(), SpoolTrouble> {
        let cancel = |key: &ArticleKey| Change::Cancel { id: ArticleIdent::Key(*key) };
        self.report.articles += match self.dry_run {
            true => keys.len() as u64,
            false => (self.withdraw)(&keys.iter().map(cancel).collect::<Vec<_>>())?,
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
        let table = self.shared.groups.snapshot();
        let lives = |(id, number): &(GroupId, u64)| {
            table.get(*id).is_some_and(|group| group.state().live.contains(*number))
        };
        let key = self.shared.hasher.key(buf.message_id());
        let is_current = self.shared.lookup(&key) == Lookup::Present(*token);
        (is_current && !table.numbers_in(buf.head()).iter().any(lives)).then_some(key)
    }

    fn purge_rows(&mut self, group: GroupId, rows: &[&[u8]]) -> Result<(), SpoolTrouble> {
        let targets: Vec<PurgedArticle> = {
            // Nothing is withdrawn while they are counted.
            let _writer = self.writer.lock();
            let table = self.shared.groups.snapshot();
            rows.iter().filter_map(|row| self.target(group, row, &table)).collect()
        };
        if !self.dry_run && !targets.is_empty() {
            (self.withdraw)(&targets.iter().map(PurgedArticle::change).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Returns the article of an overview row, and counts what becomes of it; `None` if it has already been
    /// removed, or is handled in another purged group.
    fn target(&mut self, group: GroupId, row: &[u8], table: &GroupTable) -> Option<PurgedArticle> {
        let key = self.shared.hasher.key(field(row, index::MESSAGE_ID)?);
        let Lookup::Present(token) = self.shared.lookup(&key) else { return None };
        let article = LocatedArticle { key, token, numbers: table.numbers_in(field(row, index::XREF)?) };
        let (inside, outside) = living_numbers(&article, table, |name| self.wildmat.matches(name));
        let own = netnews::decimal::parse_decimal(field(row, index::NUMBER)?)?;
        (inside.first() == Some(&(group, own))).then_some(())?;
        let is_whole = outside.is_empty();
        self.report.numbers += if is_whole { article.numbers.len() } else { inside.len() } as u64;
        self.report.articles += u64::from(is_whole);
        self.report.crossposts += u64::from(!is_whole);
        let name = |(id, _): &(GroupId, u64)| Some(table.get(*id)?.name.to_string());
        let leaves = (!is_whole).then(|| inside.iter().filter_map(name).collect());
        Some(PurgedArticle { article, leaves })
    }
}

/// An article that is purged.
struct PurgedArticle {
    article: LocatedArticle,
    /// Names of the groups that it leaves; `None`: all.
    leaves: Option<Vec<String>>,
}

impl PurgedArticle {
    fn change(&self) -> Change<'_> {
        let id = ArticleIdent::Located(&self.article);
        match &self.leaves {
            None => Change::Cancel { id },
            Some(groups) => Change::Expire { id, groups },
        }
    }
}

fn unreadable(error: &ReadError) -> SpoolTrouble {
    SpoolTrouble::new(TroubleKind::Io, format!("cannot read overview: {error}"))
}
