//! The log of a site: everything that alters the site's news comes through it to the spool.
//!
//! On one machine the spool's journal is the log, and a change is applied at once, with the time of this
//! machine. A spool that follows a log of several machines has its changes proposed there, and applied in
//! the order of that log; nothing else may change it. Nothing else applies changes (`tidy` checks that).
//! Owned by `ingest`'s filer, which all others ask for it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod old_file;
mod turn;

pub use turn::TurnGuard;

use site_base::clock::unix_secs;
use site_base::patiently::patiently;
use spool::{Change, ChangeMaker, ChangeOutcome, CommitTicket, Spool, SpoolTrouble, TroubleKind};
use std::sync::Arc;
use turn::CommitTurn;

/// The log of a site.
#[derive(Debug)]
pub struct SiteLog {
    spool: Arc<Spool>,
    /// Whether the spool belongs to a cluster, so that changes past its log are refused.
    is_of_cluster: bool,
    /// Queue of the sessions that commit.
    turn: CommitTurn,
}

impl SiteLog {
    /// Creates the log of a spool.
    pub fn new(spool: Arc<Spool>) -> Self {
        Self { is_of_cluster: spool.position().is_some(), spool, turn: CommitTurn::default() }
    }

    /// Waits asynchronously for the turn to commit. Returns its guard, or `None` if it took too long, and
    /// whether another session had the turn. Only sessions that commit continuously take turns: each blocked
    /// thread would cost two wake-ups a batch.
    pub async fn turn(&self) -> (Option<TurnGuard<'_>>, bool) {
        // A shared log takes from many at a time.
        if self.spool.shared_log().is_some() { (None, false) } else { self.turn.take().await }
    }

    /// Reports whether changes can be made at the moment, as far as a shared log has a say in that.
    pub fn is_accepting(&self) -> bool {
        self.spool.shared_log().is_none_or(|log| log.is_accepting())
    }

    /// Reports whether changes may still be applied of which a shared log has said that they are in doubt.
    pub fn is_in_doubt(&self) -> bool {
        self.spool.shared_log().is_some_and(|log| log.is_in_doubt())
    }
}

/// Reason why a spool of a cluster is not changed alone.
const OF_CLUSTER: &str = "the spool belongs to a cluster, and only the log of the cluster changes it";

impl ChangeMaker for SiteLog {
    fn spool(&self) -> &Spool {
        &self.spool
    }

    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        if let Some(refusal) = changes.iter().find_map(Change::refusal) {
            return Err(refusal.into());
        }
        if let Some(log) = self.spool.shared_log() {
            return patiently(|| log.commit(changes, outcomes));
        }
        if self.is_of_cluster {
            return Err(SpoolTrouble::new(TroubleKind::Refused, OF_CLUSTER));
        }
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
    use spool::{
        ArticleIdent, JobLead, Lookup, NewGroup, OtherMember, SharedLog, SharedLogStatus, SpoolConfig,
    };

    /// A log that several machines share, which refuses everything.
    #[derive(Debug)]
    struct Refusing;

    impl SharedLog for Refusing {
        fn commit(&self, _: &[Change<'_>], _: &mut Vec<ChangeOutcome>) -> Result<CommitTicket, SpoolTrouble> {
            Err(SpoolTrouble::new(TroubleKind::Io, "no quorum"))
        }

        fn is_accepting(&self) -> bool {
            false
        }

        fn freshen(&self) {}

        fn status(&self) -> SharedLogStatus {
            unreachable!()
        }

        fn lead(&self, _: &str, _: u64) -> JobLead {
            JobLead::Elsewhere { reached: None }
        }

        fn others(&self) -> Vec<OtherMember> {
            Vec::new()
        }

        fn halt(&self, _: Option<String>) {}

        fn end(&self) {}
    }

    #[test]
    fn a_spool_of_a_cluster_is_changed_by_its_log_alone() {
        let config = SpoolConfig::new(std::path::Path::new("/s"));
        let (spool, _) = Spool::open(Arc::new(SimDisk::new()), config, &()).unwrap();
        spool.apply(1, &[Change::Position { record: b"here" }], &mut Vec::new()).unwrap();
        let spool = Arc::new(spool);
        let log = SiteLog::new(spool.clone());
        let id = ArticleIdent::Id(b"<a@b>");
        assert_eq!(log.remember(id).unwrap_err().text, OF_CLUSTER);
        assert!(log.is_accepting() && spool.leads("expiry"));
        spool.follow(Arc::new(Refusing));
        assert_eq!(log.remember(id).unwrap_err().text, "no quorum");
        assert!(!log.is_accepting() && !spool.leads("expiry"));
        assert_eq!(spool.lookup(&spool.key(b"<a@b>")), Lookup::Unknown);
    }

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
