//! ARTICLE and HEAD: articles from an upstream, checked before they are shown.
//!
//! The article must be the requested one: by the number and the Message-ID of the status line, by its own
//! Message-ID, and if its overview row is known also by the Message-ID and size there. A small article is
//! shown when it is complete; a large one as soon as its head and a substantial part have arrived and
//! passed the checks, then piece by piece, and its final line only if all checks pass: a reader can thus
//! distinguish a part from a whole. Source: RFC 3977 section 6.2.1.

use super::flight::Landing;
use super::line::{StatusLine, UpstreamConnection};
use super::pool::UpstreamQuestion;
use super::questions::found;
use super::rows::command;
use super::together::Pipelined;
use super::trouble::{UpstreamError, shown};
use crate::ArticlePart;
use memchr::memmem;
use netnews::article::{HEADER_BYTES_MAX, MalformedArticle, content_of};
use netnews::nntp::response::code;
use netnews::{Article, MessageId};
use std::sync::Arc;
use tracing::debug;

/// Size from which on an article is passed on before it is complete.
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// Bytes by which the headers of an article may be smaller than another server's overview row states, and
/// the least ratio of the whole size to them.
const HEADERS_SLACK_BYTES: u64 = 1024;
const SIZE_PER_SLACK: u64 = 2;

/// Facts of an article being fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FlightFacts {
    /// Message-ID.
    pub id: Vec<u8>,
    /// Offset of the body.
    pub body_at: usize,
    /// Index of the upstream it comes from.
    pub from: usize,
}

/// Result of fetching an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchOutcome {
    /// The article.
    Whole,
    /// The server has no such article.
    Missing,
    /// The server refuses to show it, with a code other than for a missing article.
    Refused,
    /// After a connection broke off, the new copy differs from what was shown.
    Otherwise,
    /// Another article than was known by this number, with this Message-ID.
    Other(Vec<u8>),
}

/// Article to be fetched.
#[derive(Debug, Clone)]
pub(super) enum WantedArticle {
    /// By its number in a group.
    Number(Box<[u8]>, u64),
    /// By its Message-ID.
    Id(Box<[u8]>),
}

/// Facts known in advance.
#[derive(Debug, Clone, Default)]
pub(super) struct ExpectedArticle {
    /// Message-ID.
    pub id: Option<Vec<u8>>,
    /// Size according to an overview row.
    pub bytes: Option<u64>,
    /// Whether the row is from another server, whose headers may be longer.
    pub is_row_of_other: bool,
    /// Most bytes taken.
    pub bytes_max: u64,
}

/// ARTICLE, or HEAD.
#[derive(Clone)]
pub(super) struct AskArticle {
    pub wanted: WantedArticle,
    /// Requested part: the head alone, or the whole article.
    pub part: ArticlePart,
    pub expected: ExpectedArticle,
    /// Index of the upstream that is asked.
    pub from: usize,
    pub landing: Arc<Landing<FlightFacts>>,
    /// Whether the answer to a GROUP comes first.
    pub is_selecting: bool,
}

impl UpstreamQuestion for AskArticle {
    const MAY_BREAK: bool = true;

    type Answer = FetchOutcome;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<FetchOutcome, UpstreamError> {
        self.submit(line)?;
        self.take(line).await
    }
}

impl Pipelined for AskArticle {
    fn submit(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError> {
        match &self.wanted {
            WantedArticle::Number(group, number) => {
                self.is_selecting = line.select(group)?;
                line.submit(command(self.verb(), *number))
            }
            WantedArticle::Id(id) => line.submit([self.verb().as_bytes(), b" ", &**id].concat()),
        }
    }

    async fn take(&mut self, line: &mut UpstreamConnection) -> Result<FetchOutcome, UpstreamError> {
        let selected = match &self.wanted {
            WantedArticle::Number(group, _) if self.is_selecting => line.selected(group).await,
            _ => Ok(None),
        };
        if let Err(trouble @ (UpstreamError::Stale | UpstreamError::Away(_) | UpstreamError::Wrong(_))) =
            selected
        {
            return Err(trouble);
        }
        let status = line.answer().await?;
        if let WantedArticle::Number(group, _) = &self.wanted
            && !line.has_selected(group)
        {
            // The article would be from the group selected before.
            self.pass_over(line, &status).await?;
            return selected.map(|_| FetchOutcome::Missing);
        }
        match status.code {
            code::ARTICLE_FOLLOWS if self.part != ArticlePart::Head => {}
            code::HEAD_FOLLOWS if self.part == ArticlePart::Head => {}
            code::NO_SUCH_NUMBER | code::NO_SUCH_ARTICLE | code::NO_CURRENT_ARTICLE => {
                return Ok(FetchOutcome::Missing);
            }
            other if is_about_an_article(other) => return Ok(FetchOutcome::Refused),
            _ => return Err(status.refused()),
        }
        let id = self.named(&status)?;
        if self.expected.id.as_ref().is_some_and(|expected| *expected != id) {
            self.pass_over(line, &status).await?;
            return Ok(FetchOutcome::Other(id));
        }
        self.bring(line, id).await
    }
}

impl AskArticle {
    fn verb(&self) -> &'static str {
        if self.part == ArticlePart::Head { "HEAD" } else { "ARTICLE" }
    }

    /// Reads an article that is not taken, since answers to other requests follow it.
    async fn pass_over(
        &self,
        line: &mut UpstreamConnection,
        status: &StatusLine,
    ) -> Result<(), UpstreamError> {
        if status.has_block { self.pass_over_rest(line, 0).await } else { Ok(()) }
    }

    /// Reads the rest of an article that is not taken, after this many bytes.
    async fn pass_over_rest(
        &self,
        line: &mut UpstreamConnection,
        mut bytes: u64,
    ) -> Result<(), UpstreamError> {
        while let Some(piece) = line.chunk().await? {
            bytes += piece.len() as u64;
            if bytes > self.expected.bytes_max {
                return Err(self.wrong("more bytes than are taken"));
            }
        }
        Ok(())
    }

    /// Returns the Message-ID of the status line, which must match the request.
    fn named(&self, status: &StatusLine) -> Result<Vec<u8>, UpstreamError> {
        let (number, id) = found(status)?;
        let fits = match &self.wanted {
            WantedArticle::Number(_, wanted) => number == *wanted,
            WantedArticle::Id(wanted) => id == **wanted,
        };
        if fits {
            Ok(id)
        } else {
            let (answer, wanted) = (shown(&status.text), self.wanted.text());
            Err(UpstreamError::Wrong(format!("`{} {answer}` to {} {wanted}", status.code, self.verb())))
        }
    }

    /// Receives the article.
    async fn bring(
        &mut self,
        line: &mut UpstreamConnection,
        id: Vec<u8>,
    ) -> Result<FetchOutcome, UpstreamError> {
        // An article that readers have begun to read is continued, if it is the same so far.
        let (mut checked, shown) = self.landing.change(|cargo| {
            if cargo.about.is_none() {
                cargo.bytes.clear();
            }
            (cargo.about.as_ref().map(|about| about.body_at), cargo.bytes.len())
        });
        let (mut at, mut is_shown) = (0, checked.is_some());
        while let Some(piece) = line.chunk().await? {
            if let Some(fault) = bare_octet(piece) {
                self.pass_over_rest(line, at as u64).await?;
                return Err(self.unsendable(fault));
            }
            let known = piece.len().min(shown.saturating_sub(at));
            let (again, piece) = piece.split_at_checked(known).unwrap_or_default();
            if !self.landing.change(|cargo| cargo.bytes.get(at..).unwrap_or_default().starts_with(again)) {
                return Ok(FetchOutcome::Otherwise);
            }
            at += known;
            // Not even the beginning of an invalid article is passed on.
            if memchr::memchr(0, piece).is_some() {
                return Err(self.wrong("NUL octets"));
            }
            let (head, len) = self.landing.change(|cargo| {
                cargo.bytes.extend_from_slice(piece);
                let head = checked.is_none().then(|| head_of(&cargo.bytes)).flatten();
                (head, cargo.bytes.len())
            });
            if let Some(head) = head {
                self.check_head(&head, &id)?;
                checked = Some(head.len() + 2);
            }
            if checked.is_none() && len > HEADER_BYTES_MAX {
                return Err(self.wrong("a head without end"));
            }
            if len as u64 > self.expected.bytes_max {
                return Err(self.wrong("more bytes than are taken"));
            }
            if let Some(body_at) = checked.filter(|_| len >= LARGE_BYTES && !is_shown) {
                self.check_begun()?;
                self.landing.change(|cargo| {
                    cargo.about.get_or_insert_with(|| FlightFacts {
                        id: id.clone(),
                        body_at,
                        from: self.from,
                    });
                });
                is_shown = true;
            }
        }
        if at < shown {
            return Ok(FetchOutcome::Otherwise);
        }
        self.complete(id, checked).map(|()| FetchOutcome::Whole)
    }

    /// Checks what was received, once all of it has arrived; `checked` is the offset of the body, if the head
    /// was checked before.
    fn complete(&self, id: Vec<u8>, mut checked: Option<usize>) -> Result<(), UpstreamError> {
        if self.part == ArticlePart::Head {
            // The answer to HEAD lacks the empty line.
            let head = self.landing.change(|cargo| {
                cargo.bytes.extend_from_slice(b"\r\n");
                head_of(&cargo.bytes)
            });
            self.check_head(&head.ok_or_else(|| self.wrong("no head"))?, &id)?;
            checked = Some(self.landing.change(|cargo| cargo.bytes.len()));
        }
        let bytes = self.check_form(|bytes| bytes)?;
        let body_at = checked.ok_or_else(|| self.wrong("no head"))?;
        if self.part != ArticlePart::Head {
            self.check_size(bytes)?;
        }
        self.landing.change(|cargo| {
            cargo.about.get_or_insert(FlightFacts { id, body_at, from: self.from });
        });
        Ok(())
    }

    fn check_head(&self, head: &[u8], id: &[u8]) -> Result<(), UpstreamError> {
        let own = content_of(head, b"Message-ID").and_then(MessageId::from_header);
        match own {
            Some(own) if own.as_bytes() == id => Ok(()),
            Some(own) => Err(self.wrong(&format!("the article {own}"))),
            None => Err(self.wrong("an article without Message-ID")),
        }
    }

    /// Checks the complete lines received, before the first of them is shown.
    fn check_begun(&self) -> Result<(), UpstreamError> {
        let whole = |bytes: &[u8]| memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        self.check_form(|bytes| bytes.get(..whole(bytes)).unwrap_or_default()).map(|_| ())
    }

    /// Checks the form of a part of the received bytes; returns their number.
    fn check_form(&self, part: impl FnOnce(&[u8]) -> &[u8]) -> Result<u64, UpstreamError> {
        let bytes =
            self.landing.change(|cargo| Article::parse(part(&cargo.bytes)).map(|article| article.bytes()));
        bytes.map_err(|fault| match fault {
            MalformedArticle::BareCr | MalformedArticle::BareLf => self.unsendable(fault),
            fault => self.wrong(&format!("what is no article: {fault}")),
        })
    }

    /// Compares the size with that of its row.
    fn check_size(&self, bytes: u64) -> Result<(), UpstreamError> {
        let Some(said) = self.expected.bytes else { return Ok(()) };
        let slack = match self.expected.is_row_of_other {
            true => HEADERS_SLACK_BYTES.min(said / SIZE_PER_SLACK),
            false => 0,
        };
        // Servers differ in whether they count line ends.
        let least = (said - said / 8).saturating_sub(slack);
        if bytes < least {
            return Err(self.wrong(&format!("{bytes} bytes of an article of {least} or more")));
        }
        Ok(())
    }

    /// Handles articles that servers have although RFC 3977 section 3.1.1 has no way to send them.
    fn unsendable(&self, fault: MalformedArticle) -> UpstreamError {
        debug!(%fault, "not shown: {}", self.wanted.text());
        UpstreamError::Missing
    }

    fn wrong(&self, what: &str) -> UpstreamError {
        UpstreamError::Wrong(format!("{what}, for {} {}", self.verb(), self.wanted.text()))
    }
}

impl WantedArticle {
    fn text(&self) -> String {
        match self {
            Self::Number(group, number) => format!("{number} in {}", shown(group)),
            Self::Id(id) => shown(id),
        }
    }
}

/// Returns whether a code that refuses an article concerns the article: not the connection (400, 502), the
/// command (500, 501), or the client (480 to 483).
pub(super) fn is_about_an_article(code: u16) -> bool {
    matches!(code, 401..480 | 484..500 | 503..600)
}

/// Returns the defect of the line ends in a piece of a block: a CR or LF that stands alone. No piece ends
/// between a CR and its LF.
fn bare_octet(piece: &[u8]) -> Option<MalformedArticle> {
    let mut expected = None;
    for at in memchr::memchr2_iter(b'\r', b'\n', piece) {
        let is_end = piece.get(at) == Some(&b'\n');
        if expected != is_end.then_some(at) {
            return Some(if is_end { MalformedArticle::BareLf } else { MalformedArticle::BareCr });
        }
        expected = (!is_end).then_some(at + 1);
    }
    expected.map(|_| MalformedArticle::BareCr)
}

/// Returns the header lines, if they are complete.
fn head_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let end = memmem::find(bytes, b"\r\n\r\n")? + 2;
    bytes.get(..end).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_cr_or_lf_is_found_at_any_position() {
        for piece in ["", "x", "\r\n", "x\r\n\r\nx", ".\r\n"] {
            assert_eq!(bare_octet(piece.as_bytes()), None, "{piece:?}");
        }
        for piece in ["\r", "x\ry\r\n", "\r\r\n", "x\r\nx\r"] {
            assert_eq!(bare_octet(piece.as_bytes()), Some(MalformedArticle::BareCr), "{piece:?}");
        }
        for piece in ["\n", "\n\r\n", "x\r\n\n", "x\r\nx\ny"] {
            assert_eq!(bare_octet(piece.as_bytes()), Some(MalformedArticle::BareLf), "{piece:?}");
        }
    }
}
