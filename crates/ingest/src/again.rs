//! Withdrawals that a crash left undone: the process may have died after a cancel was filed and before it was
//! obeyed, and peers do not send it a second time.
//!
//! Called once, by `server`, before anything else is filed. All rows after the position up to which
//! everything was carried out (`follow_ups`) are read; obeying an article twice changes nothing. Batches of
//! which a shared log does not say in time whether they are filed are read so, too, once that is known.

use super::follow_ups::{FollowUps, PositionHold};
use super::withdraw::{FollowUpTask, WithdrawalRequest, kept, target};
use disk::ReadMode;
use netnews::Article;
use spool::{ArticleBuf, ArticleKey, ArticleKind, ArticleRow, Cursor, JournalBatch, JournalEvent, TailStart};
use std::io;

/// Name of the cursor.
const CURSOR: &str = "withdrawals";
/// Origin of imported articles, whose cancels are not obeyed.
const IMPORT: &[u8] = b"import";

/// Obeys articles that were filed and not obeyed before a crash; keeps the position up to which all is
/// carried out from then on. Returns how many articles were examined that withdraw others, or arrived
/// during their own withdrawal. Blocks.
pub(super) fn obey_again(follow_ups: &FollowUps) -> io::Result<usize> {
    let mut cursor = follow_ups.spool.journal().cursor(CURSOR, TailStart::Now)?;
    let hold = follow_ups.hold_from(cursor.mark());
    let looked_at = queue_all(follow_ups, &hold, |batch| cursor.next(batch))?;
    while follow_ups.carry_out() {}
    drop(hold);
    follow_ups.keep_position(cursor);
    Ok(looked_at)
}

/// Obeys the articles after a cursor that are here and withdraw others, by whichever member of a cluster they
/// were filed. Returns how many were examined. Blocks.
pub(super) fn obey_from(follow_ups: &FollowUps, cursor: &mut Cursor) -> io::Result<usize> {
    let hold = follow_ups.hold();
    let looked_at = queue_all(follow_ups, &hold, |batch| cursor.next(batch))?;
    while follow_ups.carry_out() {}
    Ok(looked_at)
}

/// Queues the tasks of the articles that were filed since a held position, whose batches were in doubt.
pub(super) fn obey_after(
    follow_ups: &FollowUps,
    hold: &PositionHold<'_>,
    cursor: &mut Cursor,
) -> io::Result<()> {
    hold.mark().into_iter().for_each(|mark| cursor.seek(mark));
    queue_all(follow_ups, hold, |batch| cursor.next(batch)).map(drop)
}

/// Queues the tasks of all articles that a reader of the journal finds; returns their number.
fn queue_all(
    follow_ups: &FollowUps,
    hold: &PositionHold<'_>,
    mut next: impl FnMut(&mut JournalBatch) -> io::Result<()>,
) -> io::Result<usize> {
    let (mut looked_at, mut batch) = (0, JournalBatch::default());
    loop {
        next(&mut batch)?;
        if batch.is_empty() {
            return Ok(looked_at);
        }
        for (_, event) in batch.events() {
            let JournalEvent::Article(row) = event else { continue };
            let task = task_of(follow_ups, &row);
            looked_at += task.iter().count();
            hold.queue(task.into_iter());
        }
    }
}

/// Returns the task of an article and the key it withdraws, if the article is still present.
fn task_of(follow_ups: &FollowUps, row: &ArticleRow<'_>) -> Option<(FollowUpTask, Option<ArticleKey>)> {
    if row.tagged.origin() == Some(IMPORT) {
        return None;
    }
    if follow_ups.withdrawals.is_awaited(row.key) {
        return Some((FollowUpTask::Late(row.key), None));
    }
    let withdraws = |kind: ArticleKind| kind.has(ArticleKind::CANCEL) || kind.has(ArticleKind::SUPERSEDES);
    // Rows written by recovery have no kind.
    if !row.tagged.kind().is_none_or(withdraws) {
        return None;
    }
    let mut buf = ArticleBuf::default();
    // An unreadable article has been overwritten or withdrawn itself.
    let Ok(true) = follow_ups.spool.read(&row.token, Some(&row.key), ReadMode::Wait, &mut buf) else {
        return None;
    };
    let stored = buf.article();
    let wire = stored.strip_suffix(b".\r\n").unwrap_or(stored);
    let article = Article::parse(wire).ok()?;
    let target = target(&article)?;
    let target = follow_ups.spool.key(target.as_bytes());
    // The poster is no longer known.
    Some((FollowUpTask::Obey(WithdrawalRequest::of(kept(&article), None)), Some(target)))
}
