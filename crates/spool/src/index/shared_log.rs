//! The log that several machines share, as the spool of one of them sees it: changes go to it, and come back
//! in its order. Made by the crate `cluster`, asked by `site-log`.

use crate::base::error::SpoolTrouble;
use crate::index::change::{Change, ChangeOutcome, CommitTicket};
use std::fmt::Debug;

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

    /// Waits until readers here see what readers elsewhere may have seen, as far as that is wanted.
    fn freshen(&self);
}
