//! [`ChangeMaker`]: makes changes of what operators, peers and articles ask for.

use super::Spool;
use crate::care::purge::{Purge, PurgeReport};
use crate::index::change::{ArticleIdent, Change, ChangeOutcome, CommitTicket, GroupUpdate, none_refused};
use crate::index::groups::{GroupChange, NewGroup};
use disk::Progress;
use disk::clock::unix_secs;
use netnews::wildmat::Wildmat;
use spool_base::error::SpoolTrouble;
use spool_base::key::ArticleKey;

/// Result of hiding an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HideOutcome {
    /// The article is now hidden.
    Hidden,
    /// The article was already hidden.
    Already,
    /// The article is not stored here.
    NotHere,
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

/// A way by which changes come to a spool, with methods that make them.
pub trait ChangeMaker {
    /// Returns the spool that the changes come to.
    fn spool(&self) -> &Spool;

    /// Has changes applied, in order and as of now; blocks. For the outcomes and errors see [`Spool::apply`].
    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble>;

    /// Has one change applied; returns its outcome, or an error if it is refused.
    fn commit_one(&self, change: Change<'_>) -> Result<ChangeOutcome, SpoolTrouble> {
        let mut outcomes = Vec::with_capacity(1);
        self.commit(&[change], &mut outcomes)?;
        none_refused(&outcomes)?;
        Ok(outcomes.pop().unwrap_or(ChangeOutcome::Changed(0)))
    }

    /// Cancels an article (CNFS-12); returns false if it does not exist.
    fn cancel(&self, message_id: &[u8]) -> Result<bool, SpoolTrouble> {
        Ok(self.commit_one(Change::Cancel { id: ArticleIdent::Id(message_id) })?.changed() > 0)
    }

    /// Cancels articles; returns for each whether it existed. An unreadable article causes an error after the
    /// others are cancelled.
    fn cancel_all(&self, keys: &[ArticleKey]) -> Result<Vec<bool>, SpoolTrouble> {
        self.change_each(keys.iter().map(|key| Change::Cancel { id: ArticleIdent::Key(*key) }))
    }

    /// Has changes applied; returns for each whether it changed anything.
    fn change_each<'c>(&self, changes: impl Iterator<Item = Change<'c>>) -> Result<Vec<bool>, SpoolTrouble> {
        let changes: Vec<Change<'_>> = changes.collect();
        let mut outcomes = Vec::with_capacity(changes.len());
        self.commit(&changes, &mut outcomes)?;
        Ok(outcomes.iter().map(|outcome| outcome.changed() > 0).collect())
    }

    /// Enters a Message-ID without an article into history, as of now: the article is refused when it
    /// arrives.
    fn remember(&self, id: ArticleIdent<'_>) -> Result<ChangeOutcome, SpoolTrouble> {
        self.commit_one(Change::Remember { id, arrived: unix_secs() })
    }

    /// Forgets a Message-ID that was remembered at this time (Unix seconds) without an article, durably;
    /// returns false if it was not. See [`Change::Forget`].
    fn forget(&self, key: &ArticleKey, arrived: u32) -> Result<bool, SpoolTrouble> {
        let id = ArticleIdent::Key(*key);
        Ok(self.commit_one(Change::Forget { id, arrived })?.changed() > 0)
    }

    /// Removes all articles from the groups whose names match, for good; a dry run only counts them. Articles
    /// that arrive meanwhile stay.
    fn purge(
        &self,
        groups: &Wildmat,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<PurgeReport, SpoolTrouble> {
        let withdraw = |changes: &[Change<'_>]| {
            let withdrawn = self.change_each(changes.iter().copied())?;
            Ok(withdrawn.into_iter().map(u64::from).sum())
        };
        let Spool { shared, writer, .. } = self.spool();
        Purge::new(shared, writer, &withdraw, groups, dry_run).run(progress)
    }

    /// Hides articles by Message-ID, durably; `by` is the name of the hider. Returns the result for each
    /// article, or an error if one of them is refused.
    fn hide_all(&self, ids: &[&[u8]], by: &str, reason: &str) -> Result<Vec<HideOutcome>, SpoolTrouble> {
        let since = unix_secs();
        let mut changes = Vec::with_capacity(ids.len());
        changes.extend(ids.iter().map(|message_id| Change::Hide { message_id, by, reason, since }));
        let mut outcomes = Vec::with_capacity(ids.len());
        self.commit(&changes, &mut outcomes)?;
        none_refused(&outcomes)?;
        let outcome = |outcome: &ChangeOutcome| match outcome {
            ChangeOutcome::NotHere => HideOutcome::NotHere,
            other if other.changed() > 0 => HideOutcome::Hidden,
            _ => HideOutcome::Already,
        };
        Ok(outcomes.iter().map(outcome).collect())
    }

    /// Shows hidden articles again, under their old numbers. Returns for each whether it was hidden.
    fn unhide_all(&self, keys: &[ArticleKey]) -> Result<Vec<bool>, SpoolTrouble> {
        self.change_each(keys.iter().map(|key| Change::Unhide { id: ArticleIdent::Key(*key) }))
    }

    /// Creates groups, leaving existing ones unchanged. Returns how many were created.
    fn add_groups(&self, new: &[NewGroup]) -> Result<usize, SpoolTrouble> {
        self.update_groups(new.iter().cloned().map(GroupUpdate::Add))
    }

    /// Changes a group's flag or description; returns false if the group does not exist.
    fn change_group(&self, name: &str, change: &GroupChange) -> Result<bool, SpoolTrouble> {
        Ok(self.update_groups([GroupUpdate::Change(name.into(), change.clone())])? > 0)
    }

    /// Removes a group; returns false if it does not exist. See [`GroupUpdate::Remove`].
    fn remove_group(&self, name: &str) -> Result<bool, SpoolTrouble> {
        Ok(self.update_groups([GroupUpdate::Remove(name.into())])? > 0)
    }

    /// Raises groups' high water marks; see [`GroupUpdate::RaiseHigh`]. Returns how many were raised.
    fn raise_high(&self, marks: &[(String, u64)]) -> Result<usize, SpoolTrouble> {
        self.update_groups(marks.iter().map(|(name, high)| GroupUpdate::RaiseHigh(name.clone(), *high)))
    }

    /// Creates, changes and removes groups in one commit; of several updates of one group the first counts.
    /// Returns how many took effect. A group that cannot be created fails all updates.
    fn update_groups(&self, updates: impl IntoIterator<Item = GroupUpdate>) -> Result<usize, SpoolTrouble> {
        let updates: Vec<GroupUpdate> = updates.into_iter().collect();
        Ok(self.commit_one(Change::Groups(&updates))?.changed())
    }

    /// Returns the number that stands for a site in [`crate::RowFacts::sites`], assigning the next one if
    /// necessary. It is durable before it is returned, and never stands for another site.
    fn site(&self, name: &str) -> Result<u32, SpoolTrouble> {
        loop {
            if let Some(number) = self.spool().known_site(name) {
                return Ok(number);
            }
            self.commit_one(Change::Site { name })?;
        }
    }

    /// Remembers ids of another server, with the Unix seconds of their arrival there, skipping those old
    /// enough to be forgotten. Each is remembered at least as long as if it had arrived here.
    fn remember_moved(
        &self,
        ids: &[(ArticleIdent<'_>, u64)],
    ) -> Result<Vec<ImportedIdOutcome>, SpoolTrouble> {
        let now = unix_secs();
        let oldest = now.saturating_sub(self.spool().remember_secs());
        // Arrivals ascend in history, whose oldest records are forgotten first.
        let mut last = u64::from(self.spool().last_arrival());
        let mut changes = Vec::with_capacity(ids.len());
        for (id, arrived) in ids.iter().filter(|(_, arrived)| *arrived >= oldest) {
            last = (*arrived).min(now).max(last);
            changes.push(Change::Remember { id: *id, arrived: last });
        }
        let mut outcomes = Vec::with_capacity(changes.len());
        self.commit(&changes, &mut outcomes)?;
        let mut outcomes = outcomes.into_iter();
        let fate = |arrived: u64| match (arrived >= oldest).then(|| outcomes.next()) {
            None => ImportedIdOutcome::Old,
            Some(Some(ChangeOutcome::Remembered)) => ImportedIdOutcome::Remembered,
            Some(_) => ImportedIdOutcome::Known,
        };
        Ok(ids.iter().map(|(_, arrived)| *arrived).map(fate).collect())
    }
}

/// Tests commit to a spool directly; a site has a log before it.
#[cfg(any(test, feature = "testing"))]
impl ChangeMaker for Spool {
    fn spool(&self) -> &Spool {
        self
    }

    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        self.apply(unix_secs(), changes, outcomes)
    }
}
