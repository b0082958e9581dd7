//! Orders of operators to a feed, and the journal positions they name.

use spool::{JournalBatch, JournalEvent, JournalMark, Spool, TailStart};
use std::io;

/// An order to a feed, by an operator or as jobs move between the members of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorOrder {
    /// Send.
    Start,
    /// Send nothing until the feed, or the server, is started again.
    Stop,
    /// Retry everything that waits for another attempt now.
    Flush,
    /// Continue at another position.
    From(FeedStartPoint),
    /// Send, as far as no operator has stopped the feed: this member of a cluster feeds the peer from now on.
    Here,
    /// Send nothing: another member of the cluster feeds the peer.
    Elsewhere,
}

/// A position to continue at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStartPoint {
    /// At the end: articles that arrive from now on.
    Now,
    /// At the oldest row of the journal, leaving out articles that arrived before this time (Unix seconds).
    Since(u64),
    /// At this position of the journal, or the row after it.
    Position(u64),
}

/// Returns the journal mark of a position.
pub(crate) fn place_of(spool: &Spool, place: FeedStartPoint) -> io::Result<JournalMark> {
    let FeedStartPoint::Position(position) = place else {
        return spool.journal().mark(if place == FeedStartPoint::Now {
            TailStart::Now
        } else {
            TailStart::Oldest
        });
    };
    let mut tail = spool.journal().tail("feed", TailStart::Oldest)?;
    let mut batch = JournalBatch::default();
    loop {
        let mut mark = tail.mark();
        tail.next(&mut batch)?;
        if batch.is_empty() || mark.position >= position {
            return Ok(mark);
        }
        for (at, event) in batch.events() {
            if let JournalEvent::Article(row) = event {
                mark = JournalMark { position: at, sequence: Some(row.sequence) };
                if at >= position {
                    return Ok(mark);
                }
            }
        }
    }
}
