//! Reasons why a finding was not repaired, with the texts that operators read.

use crate::base::error::{ReadError, SpoolError, SpoolTrouble};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Reason why a finding was not repaired.
#[derive(Debug)]
pub enum RepairError {
    /// There is no repair for this damage.
    NotPossible,
    /// The index of the history has no free slot.
    IndexFull,
    /// A block of overview rows would lose this many numbers, for which no article was found.
    MissingArticles {
        /// Count of the numbers.
        numbers: usize,
    },
    /// None of the names of a misplaced article leads to a whole copy any more.
    NoWholeName,
    /// A file is not under its article's first name, or its groups are not carried.
    NotFirstName,
    /// The numbers of a file's article, or later ones, have been assigned to other articles.
    NumbersTaken,
    /// The article itself cannot be read.
    UnreadableArticle,
    /// The damage is repaired, but not durably: no checkpoint could be taken.
    NoCheckpoint(Arc<io::Error>),
    /// The disk failed.
    Io(io::Error),
    /// The volume of the article could not be read.
    Read(ReadError),
    /// The spool accepts nothing at the moment, or a commit failed.
    Trouble(SpoolTrouble),
    /// Waiting for a checkpoint failed.
    Spool(SpoolError),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPossible => f.write_str("nothing can be done"),
            Self::IndexFull => f.write_str("the index is full"),
            Self::MissingArticles { numbers } => {
                write!(f, "no article is found for {numbers} of its numbers")
            }
            Self::NoWholeName => f.write_str("it is no longer whole under any of its names"),
            Self::NotFirstName => {
                f.write_str("it is not under its first name, or of no group that is carried")
            }
            Self::NumbersTaken => {
                f.write_str("its numbers, or later ones, were given out since; it stays where it is")
            }
            Self::UnreadableArticle => f.write_str("the article cannot be read"),
            Self::NoCheckpoint(error) => {
                write!(f, "done, but a start may undo it, since no checkpoint could be taken: {error}")
            }
            Self::Io(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
            Self::Trouble(trouble) => trouble.fmt(f),
            Self::Spool(error) => error.fmt(f),
        }
    }
}

impl Error for RepairError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoCheckpoint(error) => Some(&**error),
            // The texts of these are those of the errors in them, so the sources are theirs, too.
            Self::Io(error) => error.source(),
            Self::Read(error) => error.source(),
            Self::Trouble(trouble) => trouble.source(),
            Self::Spool(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for RepairError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ReadError> for RepairError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<SpoolTrouble> for RepairError {
    fn from(trouble: SpoolTrouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<SpoolError> for RepairError {
    fn from(error: SpoolError) -> Self {
        Self::Spool(error)
    }
}
