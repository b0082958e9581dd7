//! Refusals of commands, and failures of the source of news.
//!
//! If the source is unavailable, the answer is 403 and the connection stays; once an answer has begun, only
//! closing the connection can show that it is incomplete. Used by all of `serve`.

use netnews::nntp::command::{ArticleSelector, RangeSelector};
use netnews::nntp::response::{append, code, text};
use nntp_io::ServerOutput;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use tracing::{debug, warn};
use upstreams::SourceError;

/// The text of a 403 answer while the source is unavailable.
const UNAVAILABLE: &str = "Not available now, try again later";

/// The refusal of an invalid wildmat.
pub(super) const NO_WILDMAT: CommandRefusal = CommandRefusal::new(code::SYNTAX_ERROR, "Not a wildmat");

/// An answer that consists of a status line only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommandRefusal {
    code: u16,
    text: &'static str,
}

impl From<u16> for CommandRefusal {
    fn from(code: u16) -> Self {
        Self { code, text: text(code) }
    }
}

/// The end of an answer that is not given in full.
#[derive(Debug)]
pub(super) enum AnswerEnd {
    /// Nothing of it was sent, and this refusal replaces it.
    Refused(CommandRefusal),
    /// The connection is to be closed.
    Broken(io::Error),
}

/// Result of answering a command.
pub(super) type Answered<T = ()> = Result<T, AnswerEnd>;

impl From<CommandRefusal> for AnswerEnd {
    fn from(refusal: CommandRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<u16> for AnswerEnd {
    fn from(code: u16) -> Self {
        Self::Refused(code.into())
    }
}

impl From<io::Error> for AnswerEnd {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl CommandRefusal {
    pub const fn new(code: u16, text: &'static str) -> Self {
        Self { code, text }
    }

    pub fn append(self, out: &mut Vec<u8>) {
        append(out, self.code, self.text);
    }
}

/// Returns the answer for a command that selects no article; `code` is the one for a range.
pub(super) fn none_selected(select: RangeSelector<'_>, code: u16) -> CommandRefusal {
    match select {
        RangeSelector::Range(_) => CommandRefusal { code, text: "No articles in that range" },
        _ => code::NO_CURRENT_ARTICLE.into(),
    }
}

/// Returns the answer for an article that does not exist, by the kind of argument.
pub(super) fn missing(which: ArticleSelector<'_>) -> CommandRefusal {
    match which {
        ArticleSelector::Current => code::NO_CURRENT_ARTICLE,
        ArticleSelector::Number(_) => code::NO_SUCH_NUMBER,
        ArticleSelector::MessageId(_) => code::NO_SUCH_ARTICLE,
    }
    .into()
}

/// Returns the answer for a failure of the source, which is logged.
pub(super) fn failed(error: SourceError) -> CommandRefusal {
    match error {
        SourceError::Unavailable(reason) => {
            debug!(reason, "the source of news is not available now");
            CommandRefusal { code: code::INTERNAL_FAULT, text: UNAVAILABLE }
        }
        SourceError::Fault(error) => {
            warn!(%error, "cannot read news");
            code::INTERNAL_FAULT.into()
        }
    }
}

/// Converts a failure of the source during an answer: only closing the connection shows the client that the
/// answer is incomplete.
pub(super) fn cut_off(error: SourceError) -> io::Error {
    failed(error);
    io::Error::other("the rest of an answer could not be had")
}

/// Waits for more of an answer; text gathered so far is sent first if the wait takes any time.
pub(super) async fn sending_meanwhile<T>(
    next: impl Future<Output = T>,
    out: &mut ServerOutput,
) -> io::Result<T> {
    let mut next = pin!(next);
    match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
        Poll::Ready(now) => Ok(now),
        Poll::Pending => {
            out.flush().await?;
            out.during(next).await
        }
    }
}
