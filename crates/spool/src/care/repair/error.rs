//! Reasons why a finding was not repaired, with the texts that operators read.

use spool_base::error::{ReadError, SpoolError, SpoolTrouble};
use std::io;
use std::sync::Arc;

/// Reason why a finding was not repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// There is no repair for this damage.
    #[error("nothing can be done")]
    NotPossible,
    /// The index of the history has no free slot.
    #[error("the index is full")]
    IndexFull,
    /// A block of overview rows would lose this many numbers, for which no article was found.
    #[error("no article is found for {numbers} of its numbers")]
    MissingArticles {
        /// Count of the numbers.
        numbers: usize,
    },
    /// None of the names of a misplaced article leads to a whole copy any more.
    #[error("it is no longer whole under any of its names")]
    NoWholeName,
    /// A file is not under its article's first name, or its groups are not carried.
    #[error("it is not under its first name, or of no group that is carried")]
    NotFirstName,
    /// The numbers of a file's article, or later ones, have been assigned to other articles.
    #[error("its numbers, or later ones, were given out since; it stays where it is")]
    NumbersTaken,
    /// The article itself cannot be read.
    #[error("the article cannot be read")]
    UnreadableArticle,
    /// The damage is repaired, but not durably: no checkpoint could be taken.
    #[error("done, but a start may undo it, since no checkpoint could be taken: {0}")]
    NoCheckpoint(#[source] Arc<io::Error>),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The volume of the article could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The spool accepts nothing at the moment, or a commit failed.
    #[error(transparent)]
    Trouble(#[from] SpoolTrouble),
    /// Waiting for a checkpoint failed.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}
