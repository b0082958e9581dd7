//! Reasons why a proto-article is not injected, in words that explain what the poster can do about them.
//!
//! The texts follow `441` in the answer to POST, so they are one line without control characters. Source: RFC
//! 5537 section 3.5: the injecting agent bears much of the burden of diagnosing.

use crate::article::{Known, MalformedArticle};
use crate::control::ControlError;
use std::fmt;

/// A defect of a proto-article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InjectionError {
    /// The text is not an article.
    Malformed(MalformedArticle),
    /// A header that only injecting agents or servers add.
    NotYours(&'static str),
    /// A header of the news format before 1990.
    Obsolete(&'static str),
    /// The Path shows that the article was injected already.
    Posted,
    /// Not a Message-ID of RFC 5536.
    BadMessageId,
    /// A header whose value cannot be read.
    BadHeader(Known),
    /// A header with octets that are not UTF-8.
    NotUtf8(String),
    /// A header with a character that a terminal interprets instead of showing it.
    ControlCharacter(String),
    /// A header without the space that belongs after the colon.
    NoSpace(String),
    /// A header line that is too long.
    LongHeaderLine(String),
    /// A header without a value.
    EmptyHeader(String),
    /// A header with a fold that has nothing but white space.
    BlankFold(String),
    /// From, Sender or Reply-To without a mail address.
    BadAddress(Known),
    /// A date too far ahead.
    FutureDate(Known),
    /// A date too long ago.
    OldDate {
        /// Header with the date.
        known: Known,
        /// Maximum age, in seconds.
        age_secs_max: i64,
    },
    /// Expires is in the past.
    Expired,
    /// Too many bytes.
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// Something that cannot be the name of a group.
    BadGroupName(String),
    /// Too many groups in Newsgroups.
    TooManyGroups {
        /// The limit.
        groups_max: usize,
    },
    /// Too many groups in Followup-To.
    TooManyFollowups {
        /// The limit.
        groups_max: usize,
    },
    /// A Control or Supersedes header that cannot be read.
    BadControl(ControlError),
    /// A Subject that is meant as a control message.
    ControlInSubject,
    /// There is no text.
    NoBody,
    /// A line of the body is too long.
    LongLine {
        /// Line number, counted from 1.
        line: u64,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// More quoted lines than new ones.
    MostlyQuoted,
}

impl fmt::Display for InjectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(f, "Posting failed: {malformed}"),
            Self::NotYours(name) => write!(f, "{name} header must not be in a post; remove it"),
            Self::Obsolete(name) => write!(f, "{name} header is obsolete; remove it"),
            Self::Posted => {
                f.write_str("Path says that it was injected already; remove .POSTED or the Path header")
            }
            Self::BadMessageId => {
                f.write_str("Message-ID header is not valid; leave it out and one is generated")
            }
            Self::BadHeader(known) => match known {
                Known::Date | Known::Expires | Known::InjectionDate => {
                    let name = known.name();
                    write!(f, "{name} header is not valid; write it like 21 Nov 2026 12:00:00 +0000")
                }
                known => write!(f, "{} header is not valid", known.name()),
            },
            Self::NotUtf8(name) => {
                write!(f, "{name} header is neither ASCII nor UTF-8; encode it (RFC 2047)")
            }
            Self::ControlCharacter(name) => write!(f, "{name} header has a control character; remove it"),
            Self::NoSpace(name) => {
                write!(f, "{name} header has no space after the colon; write it like {name}: text")
            }
            Self::LongHeaderLine(name) => {
                write!(f, "{name} header has a line of more than {} bytes; fold it", super::LINE_BYTES_MAX)
            }
            Self::EmptyHeader(name) => write!(f, "{name} header is empty; fill it in or remove it"),
            Self::BlankFold(name) => {
                write!(f, "{name} header has a continuation line without text; remove that line")
            }
            Self::BadAddress(known) => {
                write!(
                    f,
                    "{} header has no valid mail address; write it like: A. Poster <poster@example.org>",
                    known.name()
                )
            }
            Self::FutureDate(known) => {
                write!(f, "{} header is more than a day ahead; check your clock", known.name())
            }
            Self::OldDate { known, age_secs_max } => {
                let (name, days) = (known.name(), age_secs_max / 86_400);
                write!(
                    f,
                    "{name} header is too old (at most {days} days); check your clock, or post it again"
                )
            }
            Self::Expired => f.write_str("Expires header is in the past; remove it or name a later date"),
            Self::TooLarge { bytes_max } => {
                write!(f, "Article is too large: at most {bytes_max} bytes are accepted")
            }
            Self::BadGroupName(name) => write!(f, "\"{name}\" is not a valid newsgroup name"),
            Self::TooManyGroups { groups_max } => write!(f, "More than {groups_max} newsgroups; name fewer"),
            Self::TooManyFollowups { groups_max } => {
                write!(f, "More than {groups_max} newsgroups in Followup-To; name fewer, or \"poster\"")
            }
            Self::BadControl(bad) => write!(f, "Posting failed: {bad}"),
            Self::ControlInSubject => f.write_str(
                "Subject begins with \"cmsg\"; a control message has a Control header, other \
                    articles another Subject",
            ),
            Self::NoBody => f.write_str("Article has no body; write something after the blank line"),
            Self::LongLine { line, bytes_max } => {
                write!(f, "Line {line} of the body has more than {bytes_max} bytes; break it")
            }
            Self::MostlyQuoted => f.write_str("More quoted lines than new ones; quote only what you answer"),
        }
    }
}

impl std::error::Error for InjectionError {}

impl From<MalformedArticle> for InjectionError {
    fn from(malformed: MalformedArticle) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<ControlError> for InjectionError {
    fn from(bad: ControlError) -> Self {
        Self::BadControl(bad)
    }
}
