//! One pattern of a wildmat: its two grammars and the match.
//!
//! A pattern is kept as elements; the forms of nearly all newsgroup patterns (`a.b`, `a.*`, `*`, `*.a`,
//! `*.a.*`) are kept as the plain text to search for. Called by `Wildmat`. Sources: RFC 3977 section 4.1, RFC
//! 2980 section 3.3.

use super::WildmatError;
use memchr::memmem;

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// Pattern without wild cards.
    Exact(Box<[u8]>),
    /// `text*`
    Prefix(Box<[u8]>),
    /// `*text`, with text in UTF-8, which is therefore found at the start of a character only.
    Suffix(Box<[u8]>),
    /// `*text*`, likewise.
    Infix(Box<memmem::Finder<'static>>),
    /// Anything else.
    Elements(Box<[PatternElement]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternElement {
    /// This octet.
    Octet(u8),
    /// Any one character.
    One,
    /// Any characters, or none.
    Star,
    /// One character that is in one of the ranges, or in none of them.
    Set { negated: bool, ranges: Box<[(u32, u32)]> },
}

/// A pattern and the rest of the wildmat after it, or an error.
pub(super) type TakenPattern<'a> = Result<(Pattern, &'a [u8]), WildmatError>;

/// Takes a pattern by RFC 3977's grammar off `text`, up to a comma: (pattern, rest with the comma).
pub(super) fn strict(text: &[u8]) -> TakenPattern<'_> {
    let end = text.iter().position(|&b| b == b',').unwrap_or(text.len());
    let (own, rest) = text.split_at(end);
    if let Some(&reserved) = own.iter().find(|b| matches!(b, b'\\' | b'[' | b']' | b'!')) {
        return Err(WildmatError::Reserved(reserved));
    }
    if str::from_utf8(own).is_err() {
        return Err(WildmatError::BadOctet);
    }
    Ok((shape(own.iter().map(|&b| simple(b)).collect())?, rest))
}

/// Takes a pattern with sets and backslashes off `text`, up to a comma.
pub(super) fn lenient(text: &[u8]) -> TakenPattern<'_> {
    take(text, Some(b','))
}

/// Parses the whole of `text` as one pattern with sets and backslashes.
pub(super) fn whole(text: &[u8]) -> Result<Pattern, WildmatError> {
    take(text, None).map(|(pattern, _)| pattern)
}

fn take(text: &[u8], end: Option<u8>) -> TakenPattern<'_> {
    let mut elements = Vec::new();
    let mut rest = text;
    while let Some((&b, after)) = rest.split_first() {
        match b {
            b if Some(b) == end => break,
            b'\\' => {
                let (&escaped, after) = after.split_first().ok_or(WildmatError::Unfinished)?;
                elements.push(PatternElement::Octet(escaped));
                rest = after;
            }
            b'[' => {
                let (set, after) = set(after).ok_or(WildmatError::Unfinished)?;
                elements.push(set);
                rest = after;
            }
            other => {
                elements.push(simple(other));
                rest = after;
            }
        }
    }
    Ok((shape(elements)?, rest))
}

fn simple(b: u8) -> PatternElement {
    match b {
        b'*' => PatternElement::Star,
        b'?' => PatternElement::One,
        other => PatternElement::Octet(other),
    }
}

/// Parses a set after its `[`: `^` or `!` first negates, `]` first is itself, `a-z` is a range.
fn set(text: &[u8]) -> Option<(PatternElement, &[u8])> {
    let negated = matches!(text.first(), Some(b'^' | b'!'));
    let mut rest = text.get(usize::from(negated)..)?;
    let mut ranges = Vec::new();
    while ranges.is_empty() || rest.first() != Some(&b']') {
        let (low, after) = character(rest)?;
        rest = after;
        let mut high = low;
        if let [b'-', next, ..] = *rest
            && next != b']'
        {
            (high, rest) = character(rest.get(1..)?)?;
        }
        ranges.push((low, high));
    }
    Some((PatternElement::Set { negated, ranges: ranges.into() }, rest.get(1..)?))
}

fn shape(mut elements: Vec<PatternElement>) -> Result<Pattern, WildmatError> {
    if elements.is_empty() {
        return Err(WildmatError::EmptyPattern);
    }
    elements.dedup_by(|next, previous| *next == PatternElement::Star && *previous == PatternElement::Star);
    let octets = |elements: &[PatternElement]| -> Option<Box<[u8]>> {
        elements
            .iter()
            .map(|element| if let PatternElement::Octet(b) = element { Some(*b) } else { None })
            .collect()
    };
    let utf8 = |elements: &[PatternElement]| octets(elements).filter(|text| str::from_utf8(text).is_ok());
    let (before, after) =
        (elements.first() == Some(&PatternElement::Star), elements.last() == Some(&PatternElement::Star));
    let inner = elements.get(usize::from(before)..elements.len() - usize::from(after)).unwrap_or_default();
    let plain = match (before, after) {
        (false, false) => octets(inner).map(Pattern::Exact),
        (false, true) => octets(inner).map(Pattern::Prefix),
        (true, false) => utf8(inner).map(Pattern::Suffix),
        (true, true) if inner.is_empty() => Some(Pattern::Prefix(Box::default())),
        (true, true) => {
            utf8(inner).map(|text| Pattern::Infix(Box::new(memmem::Finder::new(&text).into_owned())))
        }
    };
    if let Some(pattern) = plain {
        return Ok(pattern);
    }
    Ok(Pattern::Elements(elements.into()))
}

impl Pattern {
    /// Returns the octets with which every text begins that matches, and whether they are all of it.
    pub(super) fn beginning(&self) -> (Vec<u8>, bool) {
        match self {
            Pattern::Exact(exact) => (exact.to_vec(), true),
            Pattern::Prefix(prefix) => (prefix.to_vec(), false),
            Pattern::Suffix(_) | Pattern::Infix(_) => (Vec::new(), false),
            Pattern::Elements(elements) => {
                let octet = |element: &PatternElement| match element {
                    PatternElement::Octet(octet) => Some(*octet),
                    _ => None,
                };
                (elements.iter().map_while(octet).collect(), false)
            }
        }
    }

    /// Returns whether all of `text` matches.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Exact(exact) => **exact == *text,
            Pattern::Prefix(prefix) => text.starts_with(prefix),
            Pattern::Suffix(suffix) => text.ends_with(suffix),
            Pattern::Infix(infix) => infix.find(text).is_some(),
            Pattern::Elements(elements) => matches(elements, text),
        }
    }
}

/// Matches elements against the text; after a mismatch it returns to the last star, which then matches one
/// character more. Earlier stars need never be tried again.
fn matches(elements: &[PatternElement], text: &[u8]) -> bool {
    let (mut pattern, mut rest) = (elements, text);
    let mut last_star: Option<(&[PatternElement], &[u8])> = None;
    loop {
        if let Some((PatternElement::Star, after)) = pattern.split_first() {
            if after.is_empty() {
                return true;
            }
            last_star = Some((after, rest));
            pattern = after;
            continue;
        }
        match step(pattern, rest) {
            Some(next) => (pattern, rest) = next,
            None if pattern.is_empty() && rest.is_empty() => return true,
            None => {
                let Some((after, taken)) = last_star else { return false };
                let Some((_, shorter)) = character(taken) else { return false };
                last_star = Some((after, shorter));
                (pattern, rest) = (after, shorter);
            }
        }
    }
}

/// Matches one element against the start of `text`; returns the rest of both if it matches.
fn step<'p, 't>(pattern: &'p [PatternElement], text: &'t [u8]) -> Option<(&'p [PatternElement], &'t [u8])> {
    let (element, pattern) = pattern.split_first()?;
    let rest = match element {
        PatternElement::Octet(octet) => text.split_first().filter(|(b, _)| *b == octet)?.1,
        PatternElement::One => character(text)?.1,
        PatternElement::Set { negated, ranges } => {
            let (c, rest) = character(text)?;
            let inside = ranges.iter().any(|&(low, high)| (low..=high).contains(&c));
            if inside == *negated {
                return None;
            }
            rest
        }
        PatternElement::Star => return None,
    };
    Some((pattern, rest))
}

/// Returns the first UTF-8 character of `text` and the rest; an octet that begins none is a character of its
/// own, with a value above all of Unicode's so that it is never mistaken for one.
fn character(text: &[u8]) -> Option<(u32, &[u8])> {
    const NOT_UTF8: u32 = 0x11_0000;
    let (&first, rest) = text.split_first()?;
    let length = match first {
        0..0x80 => return Some((u32::from(first), rest)),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let decoded =
        text.get(..length).and_then(|octets| str::from_utf8(octets).ok()).and_then(|s| s.chars().next());
    match decoded {
        Some(c) => Some((u32::from(c), text.get(length..)?)),
        None => Some((NOT_UTF8 + u32::from(first), rest)),
    }
}
