//! The log that several machines share, as the spool of one of them sees it: changes go to it, and come back
//! in its order. Made by the crate `cluster`, asked by `site-log`.

use crate::index::change::{Change, ChangeOutcome, CommitTicket};
use spool_base::error::SpoolTrouble;
use std::fmt::Debug;
use std::time::Duration;

/// State of a member that applies a shared log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLogStatus {
    /// Name of the member.
    pub member: String,
    /// Number of the member.
    pub number: u16,
    /// State, in a few words.
    pub state: String,
    /// Whether changes can be proposed at the moment.
    pub is_accepting: bool,
    /// Last message of the log that is applied.
    pub position: u64,
    /// Time of the log there, in Unix seconds: what is applied from here on has this time or a later one.
    pub time: u64,
    /// First message that the log still has, as known last.
    pub log_first: u64,
    /// Last message of the log, as known last.
    pub log_last: u64,
    /// Time since the log had something that is not applied yet, or since it answered last, whichever is
    /// longer, in milliseconds.
    pub behind_ms: u64,
    /// Messages on their way to the log.
    pub in_flight: usize,
    /// Messages that were sent again, since the start.
    pub retries: u64,
    /// Answers to readers since the start that were to be fresh, and may not have been.
    pub stale_reads: u64,
}

/// What a member knows of its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedLogOverview {
    /// Members that have not left.
    pub members: Vec<MemberOverview>,
    /// Machines that keep the log.
    pub nodes: Vec<LogNodeOverview>,
    /// Time for which a member may be away until the log has overtaken it, in seconds; `None` if it is not
    /// known yet.
    pub reach_secs: Option<u64>,
}

/// A member, as it has said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberOverview {
    /// Name of the member.
    pub name: String,
    /// Number of the member.
    pub number: u16,
    /// Whether it has reported lately, and has not stopped.
    pub may_run: bool,
    /// Seconds since its last report; `None` if it never made one.
    pub silent_secs: Option<u64>,
    /// Version of its program.
    pub version: String,
    /// State, in a few words.
    pub state: String,
    /// Last message that it has applied.
    pub position: u64,
    /// Messages that it has not applied yet.
    pub lag: u64,
    /// Whether it has the news of the others at its position; `None` if there are none to compare with.
    pub agrees: Option<bool>,
    /// Jobs that it does.
    pub jobs: Vec<String>,
}

/// A machine that keeps the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogNodeOverview {
    /// Name of the machine.
    pub name: String,
    /// Whether it leads the log.
    pub leads: bool,
    /// Whether it has everything.
    pub is_current: bool,
}

/// Whether this member does a job that one member does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobLead {
    /// It does, as before.
    Held,
    /// It does from now on.
    Taken {
        /// How far another member had come; `None` if this member did it last, or no one did.
        reached: Option<u64>,
    },
    /// It does not.
    Elsewhere {
        /// How far the member that does it had come lately; `None` if that is not known.
        reached: Option<u64>,
    },
}

/// Returns the time before which everything is done of a job along the journal, which was `before` the last
/// time: that of the log, or the arrival of the oldest article that is not settled. Times are those that the
/// log gives to articles, never those of a clock, and `log_time` is read before it is seen what is settled.
pub fn settled_time(before: u64, log_time: u64, oldest_unsettled: Option<u64>) -> u64 {
    before.max(oldest_unsettled.map_or(log_time, |oldest| oldest.min(log_time)))
}

/// Another member of a cluster, as this one sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherMember {
    /// Name of the member.
    pub name: String,
    /// Number of the member.
    pub number: u16,
    /// Time since it was last heard of, or since this member looks for it.
    pub silent: Duration,
}

/// A log that several machines share. Calls wait for it.
pub trait SharedLog: Debug + Send + Sync {
    /// Proposes changes, and returns once they are applied here, with an outcome for each. An error says that
    /// they were not applied, as far as is known: to be tried again later.
    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble>;

    /// Reports whether changes can be proposed at the moment.
    fn is_accepting(&self) -> bool;

    /// Reports whether changes may still be applied of which [`SharedLog::commit`] has said that they are in
    /// doubt. Once it returns false, those that were applied are in the journal.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Waits until readers here see what readers elsewhere may have seen, as far as that is wanted.
    fn freshen(&self);

    /// Returns the state of the member.
    fn status(&self) -> SharedLogStatus;

    /// Returns what is known of the whole cluster, without waiting.
    fn overview(&self) -> SharedLogOverview {
        SharedLogOverview::default()
    }

    /// Says that this member would do a job, and how far it has come; returns whether it is to do it. To be
    /// called again before each piece of work. Does not wait: the first answer to a question about a job is
    /// that it is done elsewhere.
    fn lead(&self, job: &str, reached: u64) -> JobLead;

    /// Returns the other members that have not left, as last seen.
    fn others(&self) -> Vec<OtherMember>;

    /// Says to the other members that this one takes no new connections any more, as it is to stop.
    fn retire(&self) {}

    /// Takes no changes from here on, for this reason, or takes them again. The log is applied in any case.
    fn halt(&self, why: Option<String>);

    /// Ends it: nothing more is proposed, or applied. Called before the spool is closed.
    fn end(&self);
}
