//! Command lines: their limits, and the kinds of commands.
//!
//! Used by `rounds`, `ahead` and `dispatch`.

use super::login::SASL_LINE_BYTES_MAX;
use netnews::nntp::command::{self, ArticleSelector, ListKeyword, NntpCommand};
use netnews::nntp::wire::{NextLine, next_line, next_line_within};

/// Returns the command line at `at`; that of AUTHINFO SASL may be longer than others (RFC 4643 section
/// 2.4.1).
pub(super) fn command_line(buffer: &[u8], at: usize) -> NextLine<'_> {
    let line = next_line(buffer, at);
    let begins =
        |word: &[u8]| buffer.get(at..at + word.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(word));
    match line {
        NextLine::TooLong { .. } if begins(b"AUTHINFO SASL ") => {
            next_line_within(buffer, at, SASL_LINE_BYTES_MAX)
        }
        line => line,
    }
}

/// Returns the argument of the TAKETHIS whose line is the `head` bytes at `at`; empty for other commands.
pub(super) fn takethis_id(buffer: &[u8], at: usize, head: usize) -> &[u8] {
    match next_line(buffer.get(..at + head).unwrap_or_default(), at) {
        NextLine::Line { line, .. } => match command::parse(line) {
            Ok(NntpCommand::Takethis(id)) => id,
            _ => &[],
        },
        _ => &[],
    }
}

/// Returns true if a command asks for an article by Message-ID.
pub(super) fn is_by_id(command: &NntpCommand<'_>) -> bool {
    matches!(
        command,
        NntpCommand::Article(ArticleSelector::MessageId(_))
            | NntpCommand::Head(ArticleSelector::MessageId(_))
            | NntpCommand::Body(ArticleSelector::MessageId(_))
            | NntpCommand::Stat(ArticleSelector::MessageId(_))
    )
}

/// Returns true if a command is one of the serving agent.
pub(super) fn is_reading(command: &NntpCommand<'_>) -> bool {
    if let NntpCommand::List(kind) = command {
        return *kind != ListKeyword::Extensions;
    }
    matches!(
        command,
        NntpCommand::Article(_)
            | NntpCommand::Head(_)
            | NntpCommand::Body(_)
            | NntpCommand::Stat(_)
            | NntpCommand::Over(_)
            | NntpCommand::Xover(_)
            | NntpCommand::Hdr { .. }
            | NntpCommand::Xhdr { .. }
            | NntpCommand::Xpat { .. }
            | NntpCommand::Group(_)
            | NntpCommand::ListGroup { .. }
            | NntpCommand::Last
            | NntpCommand::Next
            | NntpCommand::NewGroups { .. }
            | NntpCommand::NewNews { .. }
            | NntpCommand::Xgtitle { .. }
            | NntpCommand::Xpath(_)
            | NntpCommand::Xrover(_)
    )
}
