//! One connection to an upstream, as questions use it: which group is selected there, what the server lacks,
//! and answers checked for their shape.
//!
//! Sources: RFC 3977 sections 6.1.1, 7.6 and 8.3, RFC 2980 section 2.8 (XOVER), RFC 6048 (lists).

use super::allowance::Opened;
use super::trouble::{Trouble, shown};
use crate::base::lock::Leaf;
use crate::source::Marks;
use netnews::decimal::parse_decimal;
use netnews::nntp::command::ARTICLE_NUMBER_MAX;
use netnews::nntp::response::code;
use nntp_io::{Client, Error};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What a server was found not to have when it was asked for it: then it is asked in another way from now on.
/// CAPABILITIES would cost a round trip before the first answer, and old servers do not have it.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// XOVER; it has OVER.
    pub xover: AtomicBool,
    /// HDR; it has XHDR, which counts octets and lines where HDR asks for headers with such names.
    pub hdr: AtomicBool,
    /// LISTGROUP with a range (RFC 3977 section 6.1.2); it takes the name alone.
    pub ranges: AtomicBool,
    /// How many seconds its clock is ahead of ours, if it offers LIST ACTIVE.MODTIME; asked once, when a list
    /// is refreshed.
    pub clock_ahead: OnceLock<Option<i64>>,
}

/// When something was last heard from a server, on whichever connection.
#[derive(Debug, Default)]
pub(super) struct Pulse(Leaf<Option<Instant>>);

impl Pulse {
    fn beat(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Whether something was ever heard.
    pub fn was_heard(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Whether something was heard since then.
    pub fn was_heard_since(&self, begun: Instant) -> bool {
        self.0.lock().is_some_and(|at| at >= begun)
    }
}

/// The first line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub code: u16,
    pub text: Vec<u8>,
    pub has_block: bool,
}

impl Status {
    /// As the reason why there is no answer.
    pub fn refused(&self) -> Trouble {
        match self.code {
            code::UNAVAILABLE => Trouble::Away(format!("{} {}", self.code, shown(&self.text))),
            401..600 => Trouble::Refused(self.code, shown(&self.text)),
            code => Trouble::Wrong(format!("an unexpected answer with code {code}")),
        }
    }
}

/// A connection.
pub(super) struct Line {
    client: Client,
    pub lacking: Arc<Lacking>,
    /// What GROUP has named last.
    selected: Vec<u8>,
    /// What the last GROUP names that is queued or not answered yet.
    selecting: Option<Vec<u8>>,
    /// It was made for the question that uses it now.
    pub fresh: bool,
    /// It was made for another question.
    pub is_kept: bool,
    bytes_seen: u64,
    /// When the first command was sent that is not answered yet.
    asked_at: Option<Instant>,
    /// How long the last answer took to begin.
    took: Option<Duration>,
    pulse: Arc<Pulse>,
    /// Counts it.
    _opened: Option<Opened>,
}

impl Line {
    pub fn new(client: Client, lacking: Arc<Lacking>, (pulse, opened): (Arc<Pulse>, Option<Opened>)) -> Self {
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

    /// Whether it can be asked something else.
    pub async fn is_reusable(&mut self) -> bool {
        self.client.is_reusable().await
    }

    /// Bytes received since the last call.
    pub fn take_bytes(&mut self) -> usize {
        let bytes = self.client.connection().received_bytes();
        let new = bytes - self.bytes_seen;
        self.bytes_seen = bytes;
        usize::try_from(new).unwrap_or(usize::MAX)
    }

    /// Queues a command.
    pub fn submit(&mut self, command: impl AsRef<[u8]>) -> Result<(), Trouble> {
        self.asked_at.get_or_insert_with(Instant::now);
        self.client.submit(command).map_err(|error| self.judged(error))
    }

    /// How long the last answer took to begin.
    pub fn take_time(&mut self) -> Option<Duration> {
        self.took.take()
    }

    /// Queues GROUP, if this group is not selected, or going to be; true: its answer is to be taken.
    pub fn select(&mut self, group: &[u8]) -> Result<bool, Trouble> {
        if self.selecting.as_ref().unwrap_or(&self.selected) == group {
            return Ok(false);
        }
        // Until it is answered nothing is known of what is selected.
        self.selected.clear();
        self.submit([b"GROUP ", group].concat())?;
        self.selecting = Some(group.to_vec());
        Ok(true)
    }

    /// Whether this group is selected, as far as answers say.
    pub fn has_selected(&self, group: &[u8]) -> bool {
        self.selected == group
    }

    /// The answer to the GROUP that [`Line::select`] has queued; `None`: there is no such group.
    pub async fn selected(&mut self, group: &[u8]) -> Result<Option<Marks>, Trouble> {
        let status = self.answer().await?;
        // Of several that were queued the last one counts.
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

    /// A block follows the answer that came last.
    pub fn expect_block(&mut self) {
        self.client.expect_block();
    }

    /// A group is to be selected again before its numbers are used.
    pub fn forget_selected(&mut self) {
        self.selected.clear();
        self.selecting = None;
    }

    /// The first line of the next answer.
    pub async fn answer(&mut self) -> Result<Status, Trouble> {
        let answer = self.client.answer().await;
        // Of an answer that does not come it is not known how long it takes.
        if let Some(at) = self.asked_at.take()
            && answer.is_ok()
        {
            self.took = Some(at.elapsed());
        }
        let status = match answer {
            Ok(answer) => {
                self.pulse.beat();
                Status { code: answer.code, text: answer.text().to_vec(), has_block: answer.has_block }
            }
            Err(error) => return Err(self.judged(error)),
        };
        match status.code {
            code::UNAVAILABLE if !self.fresh => Err(Trouble::Stale),
            code::UNAVAILABLE => Err(status.refused()),
            _ => {
                // From here on the question is being answered.
                self.fresh = true;
                Ok(status)
            }
        }
    }

    /// Sends a command and waits for its answer.
    pub async fn request(&mut self, command: impl AsRef<[u8]>) -> Result<Status, Trouble> {
        self.submit(command)?;
        self.answer().await
    }

    /// Queues an article, after the answer that asks for it.
    pub fn send_article(&mut self, wire: &[u8]) -> Result<(), Trouble> {
        self.client.submit_article(wire).map_err(|error| self.judged(error))
    }

    /// The next line of a block; `None` at its end.
    pub async fn block_line(&mut self) -> Result<Option<&[u8]>, Trouble> {
        self.client.block_line().await.map_err(broken)
    }

    /// Whether [`Line::block_line`] would return at once.
    pub fn has_block_line(&self) -> bool {
        self.client.has_block_line()
    }

    /// The next piece of a block, in wire format; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, Trouble> {
        let piece = self.client.chunk().await.map_err(broken)?;
        self.pulse.beat();
        Ok(piece)
    }

    fn judged(&self, error: Error) -> Trouble {
        match error {
            Error::Ended | Error::Broken(_) | Error::LoggedOut(_) if !self.fresh => Trouble::Stale,
            // The question has begun; a new connection may answer all of it.
            Error::LoggedOut(_) if self.is_kept => Trouble::Broken(error.to_string()),
            error => broken(error),
        }
    }
}

/// A connection that ends where an answer was to come.
fn broken(error: Error) -> Trouble {
    match error {
        Error::Ended | Error::Broken(_) => Trouble::Broken(error.to_string()),
        error => error.into(),
    }
}

/// The marks in the text of an answer to GROUP or LISTGROUP: `count low high name`.
pub(super) fn marks_of(text: &[u8], group: &[u8]) -> Result<Marks, Trouble> {
    let wrong = || Trouble::Wrong(format!("`211 {}` to GROUP {}", shown(text), shown(group)));
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut number = || words.next().and_then(parse_decimal).filter(|n| *n <= ARTICLE_NUMBER_MAX);
    let (Some(count), Some(low), Some(high)) = (number(), number(), number()) else { return Err(wrong()) };
    // RFC 977 has the name, and RFC 3977 too; LISTGROUP of old servers has neither name nor numbers.
    if words.next().is_some_and(|name| name != group) {
        return Err(wrong());
    }
    if count == 0 || low > high || high == 0 {
        // An empty group has a high mark below the low one, or both the same (RFC 3977 section 6.1.1.2).
        let high = if low > high { low.saturating_sub(1).max(high) } else { high };
        return Ok(Marks { low: high + 1, high, count: 0 });
    }
    // Articles are at most as many as numbers.
    let low = low.max(1);
    Ok(Marks { low, high, count: count.min(high - low + 1) })
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
