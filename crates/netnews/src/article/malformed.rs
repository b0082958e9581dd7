//! Reasons why bytes are not an article.
//!
//! The texts are short and constant, so that they can be used in a response, a log line and a metric's label.
//! Called by `Article::parse` and `Article::required`; ingest turns them into rejections. Source: RFC 5536
//! section 2.

use super::{ARTICLE_BYTES_MAX, HEADER_BYTES_MAX, HEADER_LINES_MAX, Known};
use std::fmt;

/// A formal defect. None of these is remembered in the history: another peer may send a good copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MalformedArticle {
    /// The headers never end.
    NoBlankLine,
    /// The last line has no CRLF.
    UnfinishedLine,
    /// A header line without a colon.
    HeaderNoColon,
    /// A header name with an octet that is not allowed, such as a space.
    HeaderName,
    /// A header line that begins with a colon.
    EmptyHeaderName,
    /// The first line is a continuation line.
    LeadingContinuation,
    /// The headers are larger than `HEADER_BYTES_MAX`.
    HeadersTooLarge,
    /// There are more than `HEADER_LINES_MAX` header lines.
    TooManyHeaderLines,
    /// The article is larger than `ARTICLE_BYTES_MAX`.
    TooLarge,
    /// A NUL octet.
    Nul,
    /// A CR without LF.
    BareCr,
    /// A LF without CR.
    BareLf,
    /// A line of a single dot, which would end the article when sent.
    LoneDot,
    /// A mandatory header is missing.
    Missing(Known),
    /// A mandatory header is present more than once.
    Repeated(Known),
    /// A mandatory header is empty.
    Empty(Known),
}

impl fmt::Display for MalformedArticle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            MalformedArticle::NoBlankLine => "no blank line after headers",
            MalformedArticle::UnfinishedLine => "last line without CRLF",
            MalformedArticle::HeaderNoColon => "header line without colon",
            MalformedArticle::HeaderName => "bad octet in header name",
            MalformedArticle::EmptyHeaderName => "empty header name",
            MalformedArticle::LeadingContinuation => "first line is a continuation",
            MalformedArticle::Nul => "NUL octet",
            MalformedArticle::BareCr => "CR without LF",
            MalformedArticle::BareLf => "LF without CR",
            MalformedArticle::LoneDot => "line of a lone dot",
            MalformedArticle::HeadersTooLarge => {
                return write!(f, "headers too large (at most {HEADER_BYTES_MAX} bytes)");
            }
            MalformedArticle::TooManyHeaderLines => {
                return write!(f, "too many header lines (at most {HEADER_LINES_MAX})");
            }
            MalformedArticle::TooLarge => {
                return write!(f, "article too large (at most {ARTICLE_BYTES_MAX} bytes)");
            }
            MalformedArticle::Missing(known) => return write!(f, "missing {} header", known.name()),
            MalformedArticle::Repeated(known) => return write!(f, "repeated {} header", known.name()),
            MalformedArticle::Empty(known) => return write!(f, "empty {} header", known.name()),
        };
        f.write_str(text)
    }
}

impl std::error::Error for MalformedArticle {}
