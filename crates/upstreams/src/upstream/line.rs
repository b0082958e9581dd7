//! One connection to an upstream, as used by questions: its selected group, the commands the server lacks,
//! and answers checked for their shape.
//!
//! Sources: RFC 3977 sections 6.1.1, 7.6 and 8.3, RFC 2980 section 2.8 (XOVER), RFC 6048 (lists).

use super::allowance::OpenConnection;
use super::trouble::{UpstreamError, shown};
use netnews::GroupMarks;
use netnews::decimal::parse_decimal;
use netnews::nntp::command::ARTICLE_NUMBER_MAX;
use netnews::nntp::response::code;
use nntp_io::{Error, LIST_BYTES_MAX, LIST_TIME_MAX, NntpClient};
use site_base::lock::Leaf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Commands found missing on a server: it is asked in another way from then on. CAPABILITIES would cost a
/// round trip before the first answer, and old servers do not have it.
#[derive(Debug, Default)]
pub(super) struct MissingCommands {
    /// XOVER; OVER is used instead.
    pub xover: AtomicBool,
    /// HDR; XHDR is used instead, which counts octets and lines where HDR asks for headers with such names.
    pub hdr: AtomicBool,
    /// LISTGROUP with a range (RFC 3977 section 6.1.2); the name alone is sent.
    pub ranges: AtomicBool,
    /// Seconds by which its clock is ahead of ours, if it offers LIST ACTIVE.MODTIME; asked once, when a list
    /// is refreshed.
    pub clock_ahead: OnceLock<Option<i64>>,
}

/// Time when a server was last heard, on any connection.
#[derive(Debug, Default)]
pub(super) struct LastHeard(Leaf<Option<Instant>>);

impl LastHeard {
    fn beat(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Returns whether the server was ever heard.
    pub fn was_heard(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Returns whether the server was heard since then.
    pub fn was_heard_since(&self, begun: Instant) -> bool {
        self.0.lock().is_some_and(|at| at >= begun)
    }
}

/// First line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatusLine {
    pub code: u16,
    pub text: Vec<u8>,
    pub has_block: bool,
}

impl StatusLine {
    /// Returns the status as the reason why there is no answer.
    pub fn refused(&self) -> UpstreamError {
        match self.code {
            code::UNAVAILABLE => UpstreamError::Away(format!("{} {}", self.code, shown(&self.text))),
            401..600 => UpstreamError::Refused(self.code, shown(&self.text)),
            code => UpstreamError::Wrong(format!("an unexpected answer with code {code}")),
        }
    }
}

/// A connection to an upstream.
pub(super) struct UpstreamConnection {
    client: NntpClient,
    pub lacking: Arc<MissingCommands>,
    /// Group selected by the last GROUP.
    selected: Vec<u8>,
    /// Group of the last GROUP that is queued or not answered yet.
    selecting: Option<Vec<u8>>,
    /// Whether it was made for the current question.
    pub fresh: bool,
    /// Whether it was made for an earlier question.
    pub is_kept: bool,
    bytes_seen: u64,
    /// Time when the first unanswered command was sent.
    asked_at: Option<Instant>,
    /// Time until the last answer began.
    took: Option<Duration>,
    pulse: Arc<LastHeard>,
    /// Counts the connection while it is open.
    _opened: Option<OpenConnection>,
}

impl UpstreamConnection {
    pub fn new(
        client: NntpClient,
        lacking: Arc<MissingCommands>,
        pulse: Arc<LastHeard>,
        opened: Option<OpenConnection>,
    ) -> Self {
        Self {
            client,
            lacking,
            selected: Vec::new(),
            selecting: None,
            fresh: true,
            is_kept: false,
            bytes_seen: 0,
            asked_at: None,
            took: None,
            pulse,
            _opened: opened,
        }
    }

    /// Returns whether another question can be asked on it.
    pub async fn is_reusable(&mut self) -> bool {
        self.client.is_reusable().await
    }

    /// Returns the bytes received since the last call.
    pub fn take_bytes(&mut self) -> usize {
        let bytes = self.client.connection().received_bytes();
        let new = bytes - self.bytes_seen;
        self.bytes_seen = bytes;
        usize::try_from(new).unwrap_or(usize::MAX)
    }

    /// Queues a command.
    pub fn submit(&mut self, command: impl AsRef<[u8]>) -> Result<(), UpstreamError> {
        self.asked_at.get_or_insert_with(Instant::now);
        self.client.submit(command).map_err(|error| self.judged(error))
    }

    /// Returns how long the last answer took to begin.
    pub fn take_time(&mut self) -> Option<Duration> {
        self.took.take()
    }

    /// Queues GROUP, unless this group is selected or about to be; returns true if its answer must be
    /// taken.
    pub fn select(&mut self, group: &[u8]) -> Result<bool, UpstreamError> {
        if self.selecting.as_ref().unwrap_or(&self.selected) == group {
            return Ok(false);
        }
        // Until the answer arrives, the selected group is unknown.
        self.selected.clear();
        self.submit([b"GROUP ", group].concat())?;
        self.selecting = Some(group.to_vec());
        Ok(true)
    }

    /// Returns whether this group is selected, according to the answers.
    pub fn has_selected(&self, group: &[u8]) -> bool {
        self.selected == group
    }

    /// Returns the answer to the GROUP queued by [`UpstreamConnection::select`]; `None` if there is no such
    /// group.
    pub async fn selected(&mut self, group: &[u8]) -> Result<Option<GroupMarks>, UpstreamError> {
        let status = self.answer().await?;
        // If several were queued, the last one counts.
        self.selecting.take_if(|selecting| selecting == group);
        self.selected.clear();
        match status.code {
            code::GROUP_SELECTED => {
                let marks = marks_of(&status.text, group)?;
                self.selected = group.to_vec();
                Ok(Some(marks))
            }
            code::NO_SUCH_GROUP => Ok(None),
            _ => Err(status.refused()),
        }
    }

    /// Expects a block after the last answer.
    pub fn expect_block(&mut self) {
        self.client.expect_block();
    }

    /// Bounds the list after the last answer.
    pub fn bound_list(&mut self) {
        self.client.bound_block(LIST_BYTES_MAX, LIST_TIME_MAX);
    }

    /// Has a group selected again before its numbers are used.
    pub fn forget_selected(&mut self) {
        self.selected.clear();
        self.selecting = None;
    }

    /// Returns the first line of the next answer.
    pub async fn answer(&mut self) -> Result<StatusLine, UpstreamError> {
        let answer = self.client.answer().await;
        // A missing answer has no measurable time.
        if let Some(at) = self.asked_at.take()
            && answer.is_ok()
        {
            self.took = Some(at.elapsed());
        }
        let status = match answer {
            Ok(answer) => {
                self.pulse.beat();
                StatusLine { code: answer.code, text: answer.text().to_vec(), has_block: answer.has_block }
            }
            Err(error) => return Err(self.judged(error)),
        };
        match status.code {
            code::UNAVAILABLE if !self.fresh => Err(UpstreamError::Stale),
            code::UNAVAILABLE => Err(status.refused()),
            _ => {
                // From here on the question is being answered.
                self.fresh = true;
                Ok(status)
            }
        }
    }

    /// Sends a command and returns the first line of its answer.
    pub async fn request(&mut self, command: impl AsRef<[u8]>) -> Result<StatusLine, UpstreamError> {
        self.submit(command)?;
        self.answer().await
    }

    /// Queues an article, after the answer that requests it.
    pub fn send_article(&mut self, wire: &[u8]) -> Result<(), UpstreamError> {
        self.client.submit_article(wire).map_err(|error| self.judged(error))
    }

    /// Returns the next line of a block; `None` at its end.
    pub async fn block_line(&mut self) -> Result<Option<&[u8]>, UpstreamError> {
        self.client.block_line().await.map_err(broken)
    }

    /// Returns whether [`UpstreamConnection::block_line`] would return at once.
    pub fn has_block_line(&self) -> bool {
        self.client.has_block_line()
    }

    /// Returns the next piece of a block, in wire format; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, UpstreamError> {
        let piece = self.client.chunk().await.map_err(broken)?;
        self.pulse.beat();
        Ok(piece)
    }

    fn judged(&self, error: Error) -> UpstreamError {
        match error {
            Error::Ended | Error::Broken(_) | Error::LoggedOut(_) if !self.fresh => UpstreamError::Stale,
            // The question has begun; a new connection may answer all of it.
            Error::LoggedOut(_) if self.is_kept => UpstreamError::Broken(error.to_string()),
            error => broken(error),
        }
    }
}

/// Returns the error for a connection that ends where an answer was expected.
fn broken(error: Error) -> UpstreamError {
    match error {
        Error::Ended | Error::Broken(_) => UpstreamError::Broken(error.to_string()),
        error => error.into(),
    }
}

/// Parses the marks in the text of an answer to GROUP or LISTGROUP: `count low high name`.
pub(super) fn marks_of(text: &[u8], group: &[u8]) -> Result<GroupMarks, UpstreamError> {
    let wrong = || UpstreamError::Wrong(format!("`211 {}` to GROUP {}", shown(text), shown(group)));
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut number = || words.next().and_then(parse_decimal).filter(|n| *n <= ARTICLE_NUMBER_MAX);
    let (Some(count), Some(low), Some(high)) = (number(), number(), number()) else { return Err(wrong()) };
    // RFC 977 and RFC 3977 have the name; LISTGROUP of old servers has neither name nor numbers.
    if words.next().is_some_and(|name| name != group) {
        return Err(wrong());
    }
    if count == 0 || low > high || high == 0 {
        // An empty group has a high mark below the low one, or both equal (RFC 3977 section 6.1.1.2).
        let high = if low > high { low.saturating_sub(1).max(high) } else { high };
        return Ok(GroupMarks { low: high + 1, high, count: 0 });
    }
    // There are at most as many articles as numbers.
    let low = low.max(1);
    Ok(GroupMarks { low, high, count: count.min(high - low + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_checked() {
        let marks = |text: &str| marks_of(text.as_bytes(), b"a.b").ok().map(|m| (m.count, m.low, m.high));
        for (text, expected) in [
            ("3 1 5 a.b", Some((3, 1, 5))),
            ("3 1 5", Some((3, 1, 5))),
            ("0 6 5 a.b", Some((0, 6, 5))),
            ("0 0 0 a.b", Some((0, 1, 0))),
            ("0 5 5 a.b", Some((0, 6, 5))),
            ("99 1 5 a.b", Some((5, 1, 5))),
            ("3 1 5 a.c", None),
            ("3 1 a.b", None),
            ("-3 1 5 a.b", None),
            ("3 1 99999999999999999999 a.b", None),
            ("", None),
        ] {
            assert_eq!(marks(text), expected, "{text}");
        }
    }
}
