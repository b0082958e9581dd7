//! Reasons why a control message or a notice is not carried out.

use spool::{SpoolTrouble, TroubleKind};
use std::io;

/// Reason why a message is not carried out.
pub(super) enum NotCarriedOut {
    /// The message is refused.
    Carried(String),
    /// The spool accepts no change now; the message is tried again.
    Now(io::Error),
}

impl From<String> for NotCarriedOut {
    fn from(reason: String) -> Self {
        Self::Carried(reason)
    }
}

impl From<&str> for NotCarriedOut {
    fn from(reason: &str) -> Self {
        Self::Carried(reason.into())
    }
}

impl From<io::Error> for NotCarriedOut {
    fn from(error: io::Error) -> Self {
        Self::Now(error)
    }
}

impl From<SpoolTrouble> for NotCarriedOut {
    fn from(trouble: SpoolTrouble) -> Self {
        match trouble.kind {
            TroubleKind::Refused => Self::Carried(trouble.text),
            _ => Self::Now(io::Error::other(trouble)),
        }
    }
}
