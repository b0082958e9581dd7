//! The log of a site: everything that alters the site's news comes through it to the spool.
//!
//! On one machine the spool's journal is the log, and a change is applied at once, with the time of this
//! machine. Nothing else applies changes (`tidy` checks that), so a log that several machines share takes
//! this place and no other. Owned by `ingest`'s filer, which all others ask for it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod old_file;
mod turn;

pub use turn::TurnGuard;

use site_base::clock::unix_secs;
use site_base::patiently::patiently;
use spool::{Change, ChangeMaker, ChangeOutcome, CommitTicket, Spool, SpoolTrouble};
use std::sync::Arc;
use turn::CommitTurn;

/// The log of a site on one machine.
#[derive(Debug)]
pub struct SiteLog {
    spool: Arc<Spool>,
    /// Queue of the sessions that commit.
    turn: CommitTurn,
}

impl SiteLog {
    /// Creates the log of a spool.
    pub fn new(spool: Arc<Spool>) -> Self {
        Self { spool, turn: CommitTurn::default() }
    }

    /// Waits asynchronously for the turn to commit. Returns its guard, or `None` if it took too long, and
    /// whether another session had the turn. Only sessions that commit continuously take turns: each blocked
    /// thread would cost two wake-ups a batch.
    pub async fn turn(&self) -> (Option<TurnGuard<'_>>, bool) {
        self.turn.take().await
    }
}

impl ChangeMaker for SiteLog {
    fn spool(&self) -> &Spool {
        &self.spool
    }

    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let time = unix_secs();
        match self.spool.try_apply(time, changes, outcomes) {
            Some(result) => result,
            None => patiently(|| self.spool.apply(time, changes, outcomes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use spool::{ArticleIdent, Lookup, NewGroup, SpoolConfig};

    #[test]
    fn changes_are_applied_at_once_with_the_time_of_this_machine() {
        let config = SpoolConfig::new(std::path::Path::new("/s"));
        let (spool, _) = Spool::open(Arc::new(SimDisk::new()), config, &()).unwrap();
        let log = SiteLog::new(Arc::new(spool));
        let before = unix_secs();
        assert_eq!(log.add_groups(&[NewGroup { name: "a.b".into(), ..NewGroup::default() }]).unwrap(), 1);
        let group = log.spool().group(log.spool().group_id(b"a.b").unwrap()).unwrap();
        assert!((before..=unix_secs()).contains(&group.changed()));
        let id = ArticleIdent::Id(b"<a@b>");
        assert_eq!(log.remember(id).unwrap(), ChangeOutcome::Remembered);
        assert_eq!(log.remember(id).unwrap(), ChangeOutcome::Duplicate);
        assert_eq!(log.spool().lookup(&log.spool().key(b"<a@b>")), Lookup::Remembered);
        assert_eq!(log.site("peer").unwrap(), 0);
        assert_eq!(log.site("other").unwrap(), 1);
        assert_eq!(log.site("peer").unwrap(), 0);
    }
}
