//! A wildmat (RFC 3977 section 4) together with the text it was written as.
//!
//! Used for group patterns of rules, peers and access, and for the `from` pattern of rules.

use std::fmt;

use netnews::wildmat::{Wildmat, WildmatError};

/// A wildmat that remembers its text; the empty text matches nothing.
#[derive(Clone)]
pub struct NamePattern {
    text: String,
    wildmat: Option<Wildmat>,
}

impl NamePattern {
    /// Returns the pattern that matches every name.
    pub(super) fn all() -> Self {
        Self { text: "*".to_owned(), wildmat: Wildmat::parse(b"*").ok() }
    }

    /// Parses `text`; an empty one matches nothing.
    pub fn parse(text: &str) -> Result<Self, WildmatError> {
        if text.is_empty() {
            return Ok(Self { text: String::new(), wildmat: None });
        }
        let wildmat = Wildmat::parse(text.as_bytes())?;
        Ok(Self { text: text.to_owned(), wildmat: Some(wildmat) })
    }

    /// Returns true if `name` matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.wildmat.as_ref().is_some_and(|wildmat| wildmat.matches(name))
    }

    /// Returns false only if no name matches both patterns.
    pub fn may_overlap(&self, other: &Wildmat) -> bool {
        self.wildmat.as_ref().is_some_and(|wildmat| wildmat.may_overlap(other))
    }

    /// Returns the length of the longest pattern that matches `name`; `None` if there is none.
    pub fn longest_match(&self, name: &[u8]) -> Option<usize> {
        self.wildmat.as_ref()?.longest_match(name)
    }

    /// Selects the matching names among these sorted ones; see [`Wildmat::select`].
    pub fn select(&self, names: &[&[u8]], chosen: &mut [u64]) {
        match &self.wildmat {
            Some(wildmat) => wildmat.select(names, chosen),
            None => chosen.fill(0),
        }
    }

    /// Returns true if the text is empty, which matches nothing.
    pub fn is_empty(&self) -> bool {
        self.wildmat.is_none()
    }

    /// Returns the text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Groups({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_pattern_matches_nothing() {
        assert!(!NamePattern::parse("").unwrap().matches(b"local.test"));
        assert!(NamePattern::parse("").unwrap().is_empty());
        assert!(NamePattern::parse("*,!local.*").unwrap().matches(b"misc.test"));
        assert!(!NamePattern::parse("*,!local.*").unwrap().matches(b"local.test"));
    }
}
