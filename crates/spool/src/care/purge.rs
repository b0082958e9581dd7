//! Purging: the operator removes all articles from groups, permanently.
//!
//! Works from overview rows and reads no article. A batch of rows is durable, by one sync, before anything of
//! it goes, so that a crash leaves the purge done in part and the indexes whole. An article that also lives
//! in other groups stays there and loses its numbers in the purged ones. Called by `newsreel purge`.

use crate::base::error::{ReadError, Trouble, TroubleKind};
use crate::base::ids::GroupId;
use crate::base::key::Key;
use crate::base::progress::Progress;
use crate::base::read_mode::Patience;
use crate::base::token::Token;
use crate::index::groups::Group;
use crate::index::withdrawing::RemoveFiles;
use crate::journal::Row;
use crate::read::{Lookup, Which};
use crate::spool::Spool;
use netnews::overview_row::{field, index};
use netnews::wildmat::Wildmat;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes of overview rows read, and articles removed, in one batch: some 500 articles.
const ROWS_BYTES_PER_BATCH: usize = 128 << 10;

/// What a purge did, or would do.
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
struct Target {
    key: Key,
    token: Token,
    /// No other group has it.
    gone: bool,
    /// With `gone` all its numbers, else its living ones in purged groups.
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
    ) -> Result<PurgeReport, Trouble> {
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
                let which = (Which::Stored, ROWS_BYTES_PER_BATCH);
                next = self
                    .shared
                    .over(group.id, from..=high, which, Patience::Wait, &mut rows)
                    .map_err(|error| unreadable(&error))?;
                let rows: Vec<&[u8]> = rows.split_inclusive(|b| *b == b'\n').collect();
                seen += rows.len() as u64;
                self.purge_rows(group.id, &rows, (&purged, dry_run), &mut report)?;
                progress.step(seen);
            }
        }
        progress.finish();
        if !dry_run {
            self.writer.lock().end_freeing();
        }
        Ok(report)
    }

    fn purge_rows(
        &self,
        group: GroupId,
        rows: &[&[u8]],
        (purged, dry_run): (&HashSet<GroupId>, bool),
        report: &mut PurgeReport,
    ) -> Result<(), Trouble> {
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
        for Target { key, token, gone, numbers } in &targets {
            let (key, token, numbers) = (*key, *token, numbers.clone());
            writer.journal.push(&match gone {
                true => Row::Cancel { key, token, numbers },
                false => Row::Expire { key, token, gone: false, numbers },
            });
        }
        if let Err(trouble) = writer.write_now() {
            writer.journal.discard();
            return Err(trouble);
        }
        for Target { key, token, gone, numbers } in &targets {
            match gone {
                true => writer.folds.cancel(*key, *token, numbers, RemoveFiles::Later),
                false => writer.folds.expire((*key, *token), false, numbers, RemoveFiles::Later),
            }
        }
        writer.freed()?;
        drop(writer);
        self.remove_files()
    }

    /// What to do with the article of an overview row; `None` if it has been removed already, or is handled
    /// in another purged group.
    fn target(&self, group: GroupId, row: &[u8], purged: &HashSet<GroupId>) -> Option<Target> {
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
        is_first.then_some(Target { key, token, gone, numbers: if gone { all } else { inside } })
    }
}

fn unreadable(error: &ReadError) -> Trouble {
    Trouble::new(TroubleKind::Io, format!("cannot read overview: {error}"))
}
