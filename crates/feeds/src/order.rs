//! What operators ask of a feed, and where in the journal that is.

use spool::{Batch, Event, Mark, Spool, Start};
use std::io;

/// What an operator asks of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Send.
    Start,
    /// Send nothing until it is started again, or the server is.
    Stop,
    /// Try everything now that waits for another attempt.
    Flush,
    /// Continue at another place.
    From(Place),
}

/// A place to continue at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// With what arrives from now on.
    Now,
    /// With the oldest row of the journal, leaving out what arrived before this time (Unix seconds).
    Since(u64),
    /// At this position of the journal, or the row after it.
    Position(u64),
}

/// Where in the journal a place is.
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
