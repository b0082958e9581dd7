//! Orders of operators to a feed, and the journal positions they name.

use spool::{Batch, Event, Mark, Spool, Start};
use std::io;

/// An operator's order to a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Send.
    Start,
    /// Send nothing until the feed, or the server, is started again.
    Stop,
    /// Retry everything that waits for another attempt now.
    Flush,
    /// Continue at another position.
    From(Place),
}

/// A position to continue at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the end: articles that arrive from now on.
    Now,
    /// At the oldest row of the journal, leaving out articles that arrived before this time (Unix seconds).
    Since(u64),
    /// At this position of the journal, or the row after it.
    Position(u64),
}

/// Returns the journal mark of a position.
pub(super) fn place_of(spool: &Spool, place: Place) -> io::Result<Mark> {
    let Place::Position(position) = place else {
        return spool.journal_mark(if place == Place::Now { Start::Now } else { Start::Oldest });
    };
    let mut tail = spool.tail("feed", Start::Oldest)?;
    let mut batch = Batch::default();
    loop {
        let mut mark = tail.mark();
        tail.next(&mut batch)?;
        if batch.is_empty() || mark.position >= position {
            return Ok(mark);
        }
        for (at, event) in batch.events() {
            if let Event::Article(row) = event {
                mark = Mark { position: at, sequence: Some(row.sequence) };
                if at >= position {
                    return Ok(mark);
                }
            }
        }
    }
}
