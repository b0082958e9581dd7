//! Withdrawals that a judged batch requests, or that arrived while it was filed: queued as follow-ups of its
//! commit.
//!
//! Called by [`Filer`](super::Filer), before and after the commit.

use super::follow_ups::{FollowUps, PendingWithdrawals, PositionHold};
use super::judging::JudgedBatch;
use super::withdraw::{BatchWithdrawal, FollowUpTask, WithdrawalRequest};
use super::{Disposition, Origin};
use spool::{ArticleKey, MethodKind, Token};

/// Obeys articles that no group takes, before the commit: after a crash nothing would be left of them.
pub(super) fn obey_unfiled(
    follow_ups: &FollowUps,
    hold: &PositionHold<'_>,
    judged: &JudgedBatch<'_>,
    dispositions: &[Disposition],
) -> Option<PendingWithdrawals> {
    let unfiled = judged.drafts.withdrawing.iter().filter(|withdrawing| {
        !withdrawing.is_filed && dispositions.get(withdrawing.at) == Some(&Disposition::TryLater)
    });
    let pending = hold.queue(unfiled.map(|withdrawing| task(follow_ups, judged.origin, withdrawing)))?;
    follow_ups.settle_all(&pending);
    Some(pending)
}

/// Queues what follows a commit: withdrawals of its articles that arrived while they were filed, and
/// withdrawals that its articles request.
pub(super) fn follow_up(
    follow_ups: &FollowUps,
    hold: &PositionHold<'_>,
    judged: &JudgedBatch<'_>,
    dispositions: &[Disposition],
) -> Option<PendingWithdrawals> {
    let drafts = &judged.drafts;
    let mut late = None;
    if follow_ups.withdrawals.epoch() != judged.epoch {
        let is_late = |key: &ArticleKey| follow_ups.withdrawals.is_awaited(*key);
        late = hold.queue(drafts.keys().filter(is_late).map(|key| (FollowUpTask::Late(key), None)));
    }
    let accepted = |withdrawing: &BatchWithdrawal<'_>| match dispositions.get(withdrawing.at) {
        Some(Disposition::Accepted(token)) if withdrawing.is_filed => Some(*token),
        _ => None,
    };
    let filed = drafts.withdrawing.iter().filter(|withdrawing| accepted(withdrawing).is_some());
    let filed = filed.map(|withdrawing| task(follow_ups, judged.origin, withdrawing));
    let pending = hold.queue(filed).or(late)?;
    // An article that is not on disk cannot be obeyed after a crash, and is therefore obeyed before the
    // answer.
    let outlives = |token: Token| !matches!(token.method, MethodKind::Trash | MethodKind::Memory);
    let mut tokens = drafts.withdrawing.iter().filter_map(accepted);
    if !tokens.all(|token| token.is_some_and(outlives)) {
        follow_ups.settle_all(&pending);
    }
    Some(pending)
}

/// Returns the task of an article of the batch, with the key of the article that it withdraws.
fn task(
    follow_ups: &FollowUps,
    origin: &Origin,
    withdrawing: &BatchWithdrawal<'_>,
) -> (FollowUpTask, Option<ArticleKey>) {
    let obey = WithdrawalRequest::of(withdrawing.kept.clone(), origin.reads().cloned());
    (FollowUpTask::Obey(obey), Some(follow_ups.spool.key(withdrawing.target.as_bytes())))
}
