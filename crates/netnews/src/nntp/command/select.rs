//! Article arguments of commands: the current one, a number, a range, a Message-ID.
//!
//! Numbers up to 2^63-1 are accepted, far past RFC 3977's 2,147,483,647, as RFC 3977 section 6 allows for. A
//! range whose end is before its start is valid and empty. Sources: RFC 3977 sections 6.1.2, 6.2.1, 8.3 and
//! 9.8.

use crate::decimal::parse_decimal;
use crate::message_id::MessageId;

/// The highest article number accepted in a command.
pub const ARTICLE_NUMBER_MAX: u64 = i64::MAX as u64;

/// The argument of ARTICLE, HEAD, BODY and STAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArticleSelector<'a> {
    /// No argument: the current article.
    Current,
    /// An article number of the current group.
    Number(u64),
    /// A Message-ID.
    MessageId(MessageId<'a>),
}

/// The argument of OVER, HDR and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSelector<'a> {
    /// No argument: the current article.
    Current,
    /// A range of the current group.
    Range(NumberRange),
    /// A Message-ID.
    MessageId(MessageId<'a>),
}

/// A range of article numbers: `n` is `n..=n`, `n-` has no end, `n-m` may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The first number.
    pub low: u64,
    /// The last number; `None`: no end.
    pub high: Option<u64>,
}

impl NumberRange {
    /// Parses `n`, `n-` or `n-m`; returns `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<NumberRange> {
        let Some(dash) = text.iter().position(|&b| b == b'-') else {
            let n = number(text)?;
            return Some(NumberRange { low: n, high: Some(n) });
        };
        let low = number(text.get(..dash)?)?;
        let high = match text.get(dash + 1..)? {
            b"" => None,
            digits => Some(number(digits)?),
        };
        Some(NumberRange { low, high })
    }

    /// Returns the last number, `ARTICLE_NUMBER_MAX` if there is no end.
    pub fn last(&self) -> u64 {
        self.high.unwrap_or(ARTICLE_NUMBER_MAX)
    }

    /// Returns whether the range contains no number.
    pub fn is_empty(&self) -> bool {
        self.last() < self.low
    }

    /// Returns whether the range contains `n`.
    pub fn contains(&self, n: u64) -> bool {
        (self.low..=self.last()).contains(&n)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    parse_decimal(digits).filter(|&n| n <= ARTICLE_NUMBER_MAX)
}

/// Parses a Message-ID that an article may have (RFC 5536 section 3.1.3): with an `@`.
pub(super) fn message_id(text: &[u8]) -> Option<MessageId<'_>> {
    MessageId::parse(text).filter(|id| id.as_bytes().contains(&b'@'))
}

impl<'a> ArticleSelector<'a> {
    pub(super) fn parse(word: Option<&'a [u8]>) -> Option<ArticleSelector<'a>> {
        match word {
            None => Some(ArticleSelector::Current),
            Some(text) if text.starts_with(b"<") => message_id(text).map(ArticleSelector::MessageId),
            Some(text) => number(text).map(ArticleSelector::Number),
        }
    }
}

impl<'a> RangeSelector<'a> {
    pub(super) fn parse(word: Option<&'a [u8]>) -> Option<RangeSelector<'a>> {
        match word {
            None => Some(RangeSelector::Current),
            Some(text) if text.starts_with(b"<") => message_id(text).map(RangeSelector::MessageId),
            Some(text) => NumberRange::parse(text).map(RangeSelector::Range),
        }
    }
}
