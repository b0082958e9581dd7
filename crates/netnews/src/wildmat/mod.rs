//! Wildmats: patterns of newsgroup names and header values.
//!
//! A wildmat is a list of patterns between commas; the rightmost that matches decides, and one preceded by
//! `!` excludes. Matching takes time at most (length of pattern) x (length of text), for any pattern. Called
//! by feeds, rules, access, LIST, NEWNEWS, XPAT. Sources: RFC 3977 section 4; RFC 2980 section 3.3 for the
//! sets of `parse_lenient`.

mod pattern;
mod select;

use pattern::Pattern;
use std::fmt;

/// Maximum length of a wildmat: 64 KiB (a peer's list of groups in the configuration can be long).
pub const WILDMAT_BYTES_MAX: usize = 64 * 1024;

/// A parsed wildmat.
#[derive(Clone, Debug)]
pub struct Wildmat {
    /// Patterns in the order as written.
    patterns: Vec<WildmatPart>,
}

/// One pattern.
#[derive(Clone, Debug)]
struct WildmatPart {
    is_negated: bool,
    pattern: Pattern,
    /// Number of octets of the pattern as written, without the `!`.
    len: usize,
}

/// Reasons why a text is not a wildmat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WildmatError {
    /// An empty text, or an empty pattern between two commas or after a `!`.
    EmptyPattern,
    /// One of `\ [ ] !` where the grammar of RFC 3977 does not allow it.
    Reserved(u8),
    /// A `[` without `]`, or a `\` at the end.
    Unfinished,
    /// Not UTF-8, or a space or control character.
    BadOctet,
    /// Longer than `WILDMAT_BYTES_MAX`.
    TooLong,
}

impl fmt::Display for WildmatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WildmatError::EmptyPattern => f.write_str("empty pattern in wildmat"),
            WildmatError::Reserved(b) => write!(f, "'{}' is not allowed there in a wildmat", char::from(*b)),
            WildmatError::Unfinished => f.write_str("wildmat ends within a set or after a backslash"),
            WildmatError::BadOctet => {
                f.write_str("wildmat is not UTF-8 or holds a space or control character")
            }
            WildmatError::TooLong => f.write_str("wildmat is too long"),
        }
    }
}

impl std::error::Error for WildmatError {}

impl Wildmat {
    /// Parses a wildmat by the grammar of RFC 3977 section 4.1, where `\`, `[` and `]` are reserved. The
    /// first pattern may have a `!` too; it then has no effect.
    pub fn parse(text: &[u8]) -> Result<Wildmat, WildmatError> {
        if text.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return Err(WildmatError::BadOctet);
        }
        Wildmat::with(text, pattern::strict)
    }

    /// Parses a wildmat of older clients and configurations too: `[a-z]`, `[^0-9]`, `\*`, spaces, and octets
    /// that are not UTF-8 (each of which counts as a character).
    pub fn parse_lenient(text: &[u8]) -> Result<Wildmat, WildmatError> {
        Wildmat::with(text, pattern::lenient)
    }

    /// Parses one pattern as in RFC 2980 section 3.3: a comma, and a `!` at the start, are ordinary
    /// characters. For XPAT, whose values contain commas.
    pub fn parse_one(text: &[u8]) -> Result<Wildmat, WildmatError> {
        if text.len() > WILDMAT_BYTES_MAX {
            return Err(WildmatError::TooLong);
        }
        let pattern = pattern::whole(text)?;
        Ok(Wildmat { patterns: vec![WildmatPart { is_negated: false, pattern, len: text.len() }] })
    }

    fn with(text: &[u8], take: fn(&[u8]) -> pattern::TakenPattern<'_>) -> Result<Wildmat, WildmatError> {
        if text.len() > WILDMAT_BYTES_MAX {
            return Err(WildmatError::TooLong);
        }
        let mut patterns = Vec::new();
        let mut rest = text;
        loop {
            let is_negated = rest.first() == Some(&b'!');
            let written = rest.get(usize::from(is_negated)..).unwrap_or_default();
            let (pattern, after) = take(written)?;
            patterns.push(WildmatPart { is_negated, pattern, len: written.len() - after.len() });
            match after.split_first() {
                None => return Ok(Wildmat { patterns }),
                Some((_, next)) => rest = next,
            }
        }
    }

    /// Returns whether `text` matches: the rightmost pattern that matches is not negated (RFC 3977 section
    /// 4.2).
    pub fn matches(&self, text: &[u8]) -> bool {
        self.last_match(text).is_some()
    }

    /// Returns the length in octets of the longest pattern that matches `text`; `None` if the wildmat does
    /// not match it.
    pub fn longest_match(&self, text: &[u8]) -> Option<usize> {
        let (at, last) = self.last_match(text)?;
        let before = self.patterns.get(..at)?.iter().filter(|part| !part.is_negated && part.len > last.len);
        Some(before.filter(|part| part.pattern.matches(text)).map(|part| part.len).max().unwrap_or(last.len))
    }

    /// Returns false only if no text matches both wildmats: their patterns begin differently.
    pub fn may_overlap(&self, other: &Wildmat) -> bool {
        let patterns = |wildmat: &Wildmat| -> Vec<(Vec<u8>, bool)> {
            let parts = wildmat.patterns.iter().filter(|part| !part.is_negated);
            parts.map(|part| part.pattern.beginning()).collect()
        };
        let others = patterns(other);
        patterns(self).iter().any(|(own, is_own_whole)| {
            others.iter().any(|(other, is_other_whole)| {
                let extends_own = other.starts_with(own) && (!is_own_whole || other.len() == own.len());
                let extends_other = own.starts_with(other) && (!is_other_whole || own.len() == other.len());
                extends_own || extends_other
            })
        })
    }

    /// Returns the rightmost pattern that matches, unless it is negated, and its index.
    fn last_match(&self, text: &[u8]) -> Option<(usize, &WildmatPart)> {
        let mut parts = self.patterns.iter().enumerate().rev();
        parts.find(|(_, part)| part.pattern.matches(text)).filter(|(_, part)| !part.is_negated)
    }
}

impl std::str::FromStr for Wildmat {
    type Err = WildmatError;

    fn from_str(text: &str) -> Result<Wildmat, WildmatError> {
        Wildmat::parse(text.as_bytes())
    }
}

#[cfg(test)]
mod tests;
