//! The Basic Encoding Rules as far as LDAP uses them: one octet for a tag, definite lengths.
//!
//! Nothing is recursive, so nesting costs no stack. Called by `message`. Sources: RFC 4511 section 5.1;
//! X.690.

/// Octets of the longest length that is understood.
const LENGTH_OCTETS_MAX: usize = 4;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Tags of texts in UTF-8 or ASCII: OCTET STRING, UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 4] = [OCTET_STRING, 0x0c, 0x13, 0x16];

/// Returns the text in an element that is one and nothing else.
pub fn text_in(element: &[u8]) -> Option<&str> {
    let mut reader = BerReader(element);
    let (_, text) = reader.any().filter(|(tag, _)| TEXTS.contains(tag))?;
    reader.is_empty().then(|| str::from_utf8(text).ok())?
}

/// Returns an element with this content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 2 + LENGTH_OCTETS_MAX);
    out.push(tag);
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => out.push(length),
        _ => {
            // A content of 4 GiB is never made.
            let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
            out.push(0x84);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
    out.extend_from_slice(content);
    out
}

/// Returns an element of elements.
pub fn elements(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    element(tag, &parts.concat())
}

/// Returns a whole number.
pub fn number(tag: u8, value: u32) -> Vec<u8> {
    let octets = [&[0][..], &value.to_be_bytes()].concat();
    // No octet more than needed; the first bit is the sign.
    let spare = octets.windows(2).take_while(|pair| matches!(pair, [0, next] if next & 0x80 == 0)).count();
    element(tag, octets.split_at(spare).1)
}

/// Length of an element with its tag and length, as far as its beginning says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementLength {
    Known(usize),
    /// More octets are needed to know it.
    More,
    /// No element of LDAP begins so.
    Invalid,
}

/// Returns the length of the element at the beginning of `input`.
pub(super) fn element_length(input: &[u8]) -> ElementLength {
    match header(input) {
        Ok(Some((_, header_bytes, content_bytes))) => ElementLength::Known(header_bytes + content_bytes),
        Ok(None) => ElementLength::More,
        Err(InvalidHeader) => ElementLength::Invalid,
    }
}

/// A header that no element of LDAP has.
struct InvalidHeader;

/// Returns the tag of the first element, the length of its header, and that of its content; `None` if the
/// header is not all there.
fn header(input: &[u8]) -> Result<Option<(u8, usize, usize)>, InvalidHeader> {
    let (Some(&tag), Some(&first)) = (input.first(), input.get(1)) else {
        return match input.first() {
            Some(tag) if tag & 0x1f == 0x1f => Err(InvalidHeader),
            _ => Ok(None),
        };
    };
    if tag & 0x1f == 0x1f {
        return Err(InvalidHeader);
    }
    if first < 0x80 {
        return Ok(Some((tag, 2, first.into())));
    }
    let octets = usize::from(first & 0x7f);
    if !(1..=LENGTH_OCTETS_MAX).contains(&octets) {
        return Err(InvalidHeader);
    }
    let Some(length) = input.get(2..2 + octets) else { return Ok(None) };
    let length = length.iter().fold(0usize, |length, octet| (length << 8) | usize::from(*octet));
    Ok(Some((tag, 2 + octets, length)))
}

/// Reads elements one after the other.
#[derive(Debug, Clone, Copy)]
pub struct BerReader<'a>(pub &'a [u8]);

impl<'a> BerReader<'a> {
    /// Returns the tag and content of the next element; `None` at the end, and if there is no whole one.
    pub fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, header_bytes, content_bytes) = header(self.0).ok()??;
        let (element, rest) = self.0.split_at_checked(header_bytes.checked_add(content_bytes)?)?;
        self.0 = rest;
        Some((tag, element.get(header_bytes..)?))
    }

    /// Returns the content of the next element, which must have this tag.
    pub fn of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.any().filter(|(own, _)| *own == tag).map(|(_, content)| content)
    }

    /// Returns the next element, a number that is not negative.
    pub fn number(&mut self, tag: u8) -> Option<u32> {
        let octets = self.of(tag).filter(|octets| octets.len() <= 5)?;
        octets.first().filter(|first| **first & 0x80 == 0)?;
        let value = octets.iter().fold(0u64, |value, octet| (value << 8) | u64::from(*octet));
        u32::try_from(value).ok()
    }

    /// Returns true if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (value, octets) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (256, &[2, 2, 1, 0]),
            (u32::MAX, &[2, 5, 0, 255, 255, 255, 255]),
        ] {
            let made = number(INTEGER, value);
            assert_eq!(made, octets);
            assert_eq!(BerReader(&made).number(INTEGER), Some(value));
        }
        for bad in
            [&[2, 0][..], &[2, 1, 0xff], &[2, 6, 0, 0, 0, 0, 0, 0], &[2, 5, 1, 0, 0, 0, 0], &[10, 1, 0]]
        {
            assert_eq!(BerReader(bad).number(INTEGER), None, "{bad:?}");
        }
    }

    #[test]
    fn lengths_are_known_before_the_content() {
        assert_eq!(element_length(&[0x30, 5]), ElementLength::Known(7));
        assert_eq!(
            element_length(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]),
            ElementLength::Known(0x1_0000_0005)
        );
        for more in [&[][..], &[0x30], &[0x30, 0x82, 1]] {
            assert_eq!(element_length(more), ElementLength::More, "{more:?}");
        }
        for bad in [&[0x3f][..], &[0x3f, 1], &[0x30, 0x80], &[0x30, 0x85, 0, 0, 0, 0, 1], &[0x30, 0xff]] {
            assert_eq!(element_length(bad), ElementLength::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn elements_read_back_and_cut_ones_do_not() {
        let long = vec![7; 70_000];
        let both = [element(OCTET_STRING, b"abc"), element(SET, &long)].concat();
        let mut reader = BerReader(&both);
        assert_eq!(reader.of(OCTET_STRING), Some(&b"abc"[..]));
        assert_eq!(reader.any(), Some((SET, &long[..])));
        assert!(reader.is_empty() && reader.any().is_none());
        for cut in [1, 4, 6, 100, both.len() - 1] {
            let mut reader = BerReader(&both[..cut]);
            while reader.any().is_some() {}
            assert!(reader.0.len() <= both.len());
        }
        assert_eq!(BerReader(&both).of(SET), None, "another tag");
    }
}
