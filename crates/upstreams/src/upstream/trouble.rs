//! Errors of questions to an upstream.

use crate::SourceError;
use netnews::printable::replaced;
use nntp_io::{Error, ProtocolFault};

/// Reason why a question to an upstream has no answer. A reply that something does not exist is an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpstreamError {
    /// The upstream cannot be asked now, or did not answer; for the log.
    #[error("{0}")]
    Away(String),
    /// The kept connection had ended; another one may do.
    #[error("the server closed the connection")]
    Stale,
    /// The connection ended in the middle of an answer; another one may do. Never the final result of a
    /// question.
    #[error("{0}")]
    Broken(String),
    /// No data arrived within the time limit of an answer. Never the final result of a question.
    #[error("{0}")]
    Silent(String),
    /// The server asks for a login though it has just accepted ours.
    #[error("{0}")]
    LoggedOut(String),
    /// The server does not answer such questions, or not ours.
    #[error("refused: {0} {1}")]
    Refused(u16, String),
    /// The answer is wrong, in this way.
    #[error("{0}")]
    Wrong(String),
    /// A list did not end within its limits, or such a list is not requested again yet.
    #[error("{0}")]
    Endless(String),
    /// The answer has not begun within the time after which another server is asked.
    #[error("no answer in the time that others take")]
    Slow,
    /// No server has the article.
    #[error("no server has the article")]
    Missing,
}

impl From<Error> for UpstreamError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { code, text, .. } => Self::Refused(code, text.into()),
            Error::Protocol(ProtocolFault::Stream(_)) => Self::Away(error.to_string()),
            Error::Protocol(ProtocolFault::BlockTooLong(_) | ProtocolFault::BlockTooSlow(_)) => {
                Self::Endless(error.to_string())
            }
            Error::Protocol(fault) => Self::Wrong(fault.to_string()),
            Error::TimedOut(_) => Self::Silent(error.to_string()),
            Error::LoggedOut(_) => Self::LoggedOut(error.to_string()),
            other => Self::Away(other.to_string()),
        }
    }
}

impl UpstreamError {
    /// Returns the error as the final result of a question.
    pub fn outward(self) -> Self {
        match self {
            Self::Stale | Self::Broken(_) | Self::Silent(_) | Self::LoggedOut(_) => {
                Self::Away(self.to_string())
            }
            other => other,
        }
    }
}

impl From<UpstreamError> for SourceError {
    fn from(trouble: UpstreamError) -> Self {
        Self::Unavailable(trouble.to_string())
    }
}

/// Returns text of a server in a form that is safe for logs.
pub(super) fn shown(text: &[u8]) -> String {
    const CHARS_MAX: usize = 100;
    let shown = String::from_utf8_lossy(text);
    let shown: String = shown.chars().take(CHARS_MAX).collect();
    replaced(&shown, '\u{fffd}').into_owned()
}
