//! The header lines: their form, the positions of the known ones, and an iterator over all.
//!
//! Relies on `scan` having run before: in the input of `place`, every LF follows a CR. Called by `Article`.
//! Source: RFC 5536 section 2.2, extended for articles of 1993: no space after the colon, empty values, lines
//! of any length.

use super::{HEADER_BYTES_MAX, HEADER_LINES_MAX, HeaderPosition, Known, MalformedArticle, known};
use memchr::{memchr, memrchr};

/// The size of a header block.
pub(super) struct HeaderBlock {
    /// Bytes of the block, blank line included.
    pub(super) bytes: usize,
    /// Lines of the block, without the blank line.
    pub(super) lines: u64,
}

/// Octets of header names: printable ASCII without space and colon.
const NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0x21;
    while b < 0x7f {
        table[b] = b != b':' as usize;
        b += 1;
    }
    table
};

/// Walks the header lines of `wire` up to the blank line and records where the known headers are.
pub(super) fn place(
    wire: &[u8],
    places: &mut [HeaderPosition; known::COUNT],
) -> Result<HeaderBlock, MalformedArticle> {
    let block = wire.get(..HEADER_BYTES_MAX).unwrap_or(wire);
    let endless = if wire.len() > block.len() {
        MalformedArticle::HeadersTooLarge
    } else {
        MalformedArticle::NoBlankLine
    };
    let mut at = 0;
    let (mut lines, mut xref_lines) = (0, 0);
    let mut open: Option<Known> = None;
    loop {
        let rest = block.get(at..).unwrap_or_default();
        let Some(line_bytes) = memchr(b'\n', rest).map(|lf| lf + 1) else {
            return Err(if rest.is_empty() || wire.len() > block.len() {
                endless
            } else {
                MalformedArticle::UnfinishedLine
            });
        };
        let line = rest.get(..line_bytes).unwrap_or_default();
        match line.first() {
            Some(b'\r') => return Ok(HeaderBlock { bytes: at + line_bytes, lines }),
            Some(b' ' | b'\t') if lines == 0 => return Err(MalformedArticle::LeadingContinuation),
            Some(b' ' | b'\t') => extend(places, open, at + line_bytes),
            _ => open = note(places, line, at)?,
        }
        lines += 1;
        xref_lines += u64::from(open == Some(Known::Xref));
        // Stored articles may have more lines than the limit allows: an Xref line is inserted when they are
        // filed.
        if lines - xref_lines > HEADER_LINES_MAX {
            return Err(MalformedArticle::TooManyHeaderLines);
        }
        at += line_bytes;
    }
}

/// Records a header's first line. Returns the header if it is the first of its name, so that continuation
/// lines are counted as part of it.
fn note(
    places: &mut [HeaderPosition; known::COUNT],
    line: &[u8],
    at: usize,
) -> Result<Option<Known>, MalformedArticle> {
    let colon = name_end(line)?;
    let (name, value) = line.split_at(colon);
    let found = Known::find(name);
    let Some((known, place)) = found.and_then(|known| Some((known, places.get_mut(known as usize)?))) else {
        return Ok(None);
    };
    place.count = place.count.saturating_add(1);
    if place.count > 1 {
        return Ok(None);
    }
    let blanks = value.iter().skip(1).take_while(|&&b| b == b' ' || b == b'\t').count();
    place.start = at as u16;
    place.value = (at + colon + 1 + blanks) as u16;
    place.end = (at + line.len()) as u16;
    Ok(Some(known))
}

/// Returns the position of the colon after a header's name.
fn name_end(line: &[u8]) -> Result<usize, MalformedArticle> {
    // Names are short: a loop is faster than a search that is prepared for long ones.
    let end = line.iter().position(|&b| !NAME[b as usize]).unwrap_or(line.len());
    match line.get(end) {
        Some(b':') if end == 0 => Err(MalformedArticle::EmptyHeaderName),
        Some(b':') => Ok(end),
        _ if memchr(b':', line).is_some() => Err(MalformedArticle::HeaderName),
        _ => Err(MalformedArticle::HeaderNoColon),
    }
}

fn extend(places: &mut [HeaderPosition; known::COUNT], open: Option<Known>, end: usize) {
    if let Some(place) = open.and_then(|known| places.get_mut(known as usize)) {
        place.end = end as u16;
    }
}

/// Iterator over the headers of an article as (name, value); the value is without the blanks after the colon.
#[derive(Clone, Debug)]
pub struct Headers<'a>(HeaderFields<'a>);

impl<'a> Headers<'a> {
    /// Returns the headers in `head`, well-formed header lines with CRLFs, without the blank line (one ends
    /// it).
    pub fn of(head: &'a [u8]) -> Headers<'a> {
        Headers(HeaderFields { rest: head })
    }

    /// Returns the same headers with everything after the colon.
    pub fn fields(self) -> HeaderFields<'a> {
        self.0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, field) = self.0.next()?;
        let blanks = field.iter().take_while(|&&b| b == b' ' || b == b'\t').count();
        Some((name, field.get(blanks..)?))
    }
}

/// Iterator over the headers of an article as (name, everything after the colon, without the final CRLF). A
/// name that begins with a dot is returned without the dot that the wire format puts before it (RFC 3977
/// section 3.1.1).
#[derive(Clone, Debug)]
pub struct HeaderFields<'a> {
    rest: &'a [u8],
}

impl<'a> HeaderFields<'a> {
    /// Returns the same headers as (name, all lines as they stand, from the name to the last line's end).
    pub fn lines(mut self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        std::iter::from_fn(move || {
            let before = self.rest;
            let (name, _) = self.next()?;
            Some((name, before.get(..before.len() - self.rest.len())?))
        })
    }
}

/// Returns a header's name, as a line in wire format has it, without its dot-stuffing.
fn unstuffed(name: &[u8]) -> &[u8] {
    if name.starts_with(b"..") { name.get(1..).unwrap_or_default() } else { name }
}

impl<'a> Iterator for HeaderFields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let colon = memchr(b':', self.rest)?;
        let mut end = colon;
        while let Some(lf) = self.rest.get(end..).and_then(|rest| memchr(b'\n', rest)) {
            end += lf + 1;
            if !matches!(self.rest.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let name = self.rest.get(..colon)?;
        if name.first() == Some(&b'\r') {
            return None;
        }
        let value = self.rest.get(colon + 1..end)?;
        self.rest = self.rest.get(end..)?;
        Some((unstuffed(name), value.strip_suffix(b"\r\n").unwrap_or(value)))
    }
}

/// Returns the content of a header, from the text after its colon: without the first blank, and without a
/// fold before that. Further folds stay in (RFC 3977 sections 8.3.2 and 8.5.2).
pub fn content(field: &[u8]) -> &[u8] {
    let unfolded = field.strip_prefix(b"\r\n").unwrap_or(field);
    unfolded.strip_prefix(b" ").or_else(|| unfolded.strip_prefix(b"\t")).unwrap_or(unfolded)
}

/// Returns the content of the first header of that name in `head`.
pub fn content_of<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut fields = HeaderFields { rest: head };
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, field)| content(field))
}

/// Returns the (group, number) pairs of the Xref header in these header lines.
pub fn xref_places(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let value = Headers::of(head)
        .find(|(name, _)| name.eq_ignore_ascii_case(b"Xref"))
        .map_or(&[][..], |(_, value)| value);
    value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(1).filter_map(|word| {
        let colon = memrchr(b':', word)?;
        Some((word.get(..colon)?, word.get(colon + 1..)?))
    })
}
