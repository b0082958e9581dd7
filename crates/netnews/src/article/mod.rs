//! An article as a view over its bytes in wire format.
//!
//! Invariants of an `Article`: every line ends in CRLF and there is no other CR or LF and no NUL; the headers
//! are well formed and end in a blank line; no line is a lone dot. Therefore the bytes can be stored and sent
//! as they are. 8-bit octets may occur anywhere. Called by ingest, inject, the spool's rebuild and import.
//! Sources: RFC 5536 section 2, RFC 3977 section 3.6.

mod binary;
mod bodiless;
pub mod encoded;
mod headers;
mod known;
mod malformed;
mod scan;
mod types;

pub use binary::encoding;
pub use bodiless::BodilessArticle;
pub use encoded::EmbeddedEncoding;
pub use headers::{HeaderFields, Headers, content, content_of, xref_places};
pub use known::Known;
pub use malformed::MalformedArticle;
pub use types::ArticleTypes;

use crate::message_id::MessageId;
use std::ops::Range;

/// The largest header block, blank line included: 64 KiB.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

const _: () = assert!(HEADER_BYTES_MAX <= 1 << 16, "offsets in `HeaderPosition` have 16 bits");

/// Maximum number of header lines, continuation lines included, without those of Xref.
pub const HEADER_LINES_MAX: u64 = 1000;

/// The largest article that is parsed: 2 GiB. Peers and rules set smaller limits.
pub const ARTICLE_BYTES_MAX: usize = 1 << 31;

/// Headers that an article must have exactly once (RFC 5536 section 3.1).
pub const REQUIRED: [Known; 6] =
    [Known::MessageId, Known::Path, Known::Newsgroups, Known::From, Known::Subject, Known::Date];

/// Position of a known header: the whole field is `start..end`, its value `value..end - 2`. A blank line
/// follows within `HEADER_BYTES_MAX`, so offsets fit 16 bits.
#[derive(Clone, Copy, Debug, Default)]
struct HeaderPosition {
    start: u16,
    value: u16,
    end: u16,
    count: u8,
}

/// A parsed view of an article's bytes: CRLF lines, dot-stuffed, without the final `.` CRLF.
#[derive(Clone, Debug)]
pub struct Article<'a> {
    wire: &'a [u8],
    body_offset: usize,
    lines: u64,
    bytes: u64,
    places: [HeaderPosition; known::COUNT],
}

impl<'a> Article<'a> {
    /// Parses an article of wire-format bytes, without the final `.` CRLF. Allocates nothing.
    pub fn parse(wire: &'a [u8]) -> Result<Article<'a>, MalformedArticle> {
        if wire.len() > ARTICLE_BYTES_MAX {
            return Err(MalformedArticle::TooLarge);
        }
        let counts = scan::scan(wire)?;
        let mut places = [HeaderPosition::default(); known::COUNT];
        let block = headers::place(wire, &mut places)?;
        if !wire.ends_with(b"\n") {
            return Err(MalformedArticle::UnfinishedLine);
        }
        Ok(Article {
            wire,
            body_offset: block.bytes,
            lines: counts.lines.saturating_sub(block.lines + 1),
            bytes: (wire.len() as u64).saturating_sub(counts.dots),
            places,
        })
    }

    /// Returns all bytes passed to `parse`.
    pub fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Returns the offset of the first byte after the blank line.
    pub fn body_offset(&self) -> usize {
        self.body_offset
    }

    /// Returns the body, dot-stuffed.
    pub fn body(&self) -> &'a [u8] {
        self.wire.get(self.body_offset..).unwrap_or_default()
    }

    /// Returns the header lines with their CRLFs, without the blank line.
    pub fn head(&self) -> &'a [u8] {
        self.wire.get(..self.body_offset.saturating_sub(2)).unwrap_or_default()
    }

    /// Returns the value of the first header of that name: the text after the colon and white space, without
    /// the final CRLF; folds stay in.
    pub fn header(&self, known: Known) -> Option<&'a [u8]> {
        let place = self.place(known)?;
        self.wire.get(usize::from(place.value)..usize::from(place.end).saturating_sub(2))
    }

    /// Returns the content of the first header of that name, as overview and HDR show it: the text after the
    /// colon and one blank, without the final CRLF; folds stay in.
    pub fn content(&self, known: Known) -> Option<&'a [u8]> {
        let place = self.place(known)?;
        let colon = usize::from(place.start) + known.name().len();
        self.wire.get(colon + 1..usize::from(place.end).saturating_sub(2)).map(headers::content)
    }

    /// Returns the range of the first header of that name in `wire`: from its name to the CRLF of its last
    /// line.
    pub fn header_lines(&self, known: Known) -> Option<Range<usize>> {
        self.place(known).map(|place| usize::from(place.start)..usize::from(place.end))
    }

    /// Returns the number of headers of that name; 255 for that many or more.
    pub fn count(&self, known: Known) -> u8 {
        self.places.get(known as usize).map_or(0, |place| place.count)
    }

    /// Returns all headers as (name, value), in order; values as in `header`.
    pub fn headers(&self) -> Headers<'a> {
        Headers::of(self.head())
    }

    /// Returns the Message-ID, if there is one and it is well formed.
    pub fn message_id(&self) -> Option<MessageId<'a>> {
        self.header(Known::MessageId).and_then(MessageId::from_header)
    }

    /// Returns the number of lines of the body: `:lines` of RFC 3977.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of octets of the article without dot-stuffing: `:bytes` of RFC 3977.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that the mandatory headers are present, once each and not empty.
    pub fn required(&self) -> Result<(), MalformedArticle> {
        for known in REQUIRED {
            match self.count(known) {
                0 => return Err(MalformedArticle::Missing(known)),
                1 => {}
                _ => return Err(MalformedArticle::Repeated(known)),
            }
            if self.header(known).is_none_or(|value| value.trim_ascii().is_empty()) {
                return Err(MalformedArticle::Empty(known));
            }
        }
        Ok(())
    }

    fn place(&self, known: Known) -> Option<&HeaderPosition> {
        self.places.get(known as usize).filter(|place| place.count > 0)
    }
}

#[cfg(test)]
mod tests;
