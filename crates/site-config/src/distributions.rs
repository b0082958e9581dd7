//! A list of accepted distributions (RFC 5536 section 3.2.4), together with the text it was written as.
//!
//! Lists are like those in INN's newsfeeds, with `*` and `?` as in wildmats: the rightmost entry that matches
//! a distribution decides; a list with exclusions only accepts all others. Case does not matter. Read by
//! `values`; used by `checks`.

use std::fmt;

use netnews::wildmat::{Wildmat, WildmatError};

/// The distribution that means no restriction.
const WORLD: &[u8] = b"world";
/// The word that no article may name (RFC 5536 section 3.2.4), easily taken for `*`.
const ALL: &str = "all";
/// Maximum number of an article's distributions that are checked.
const DISTRIBUTIONS_PER_ARTICLE_MAX: usize = 100;

/// A list of distributions that remembers its text; the empty text accepts none.
#[derive(Clone)]
pub struct Distributions {
    text: String,
    accepted: Accepted,
}

#[derive(Clone)]
enum Accepted {
    Every,
    None,
    /// In lower case.
    Matching(Wildmat),
}

/// Reason why a text is not a list of distributions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// An entry is empty or holds characters that no distribution has.
    #[error("`{0}` is not a distribution")]
    NotADistribution(String),
    /// An entry is `all`, which is not a distribution.
    #[error("`all` is not a distribution; use `*` for all of them")]
    All,
    /// `world` is excluded.
    #[error("`world` cannot be excluded: it means no restriction")]
    WorldExcluded,
    /// The entries together are not a wildmat.
    #[error("{0}")]
    Pattern(WildmatError),
}

impl Distributions {
    /// Parses `text`: names between commas, those after `!` excluded.
    pub fn parse(text: &str) -> Result<Self, DistributionError> {
        let accepted = match text {
            "" => Accepted::None,
            "*" => Accepted::Every,
            _ => Accepted::Matching(wildmat(text)?),
        };
        Ok(Self { text: text.to_owned(), accepted })
    }

    /// Returns true if an article with this Distribution value is accepted: at least one of its distributions
    /// is, or it has none or "world", which are no restriction.
    pub fn accept(&self, value: &[u8]) -> bool {
        if matches!(self.accepted, Accepted::Every) {
            return true;
        }
        let mut names = names(value).peekable();
        names.peek().is_none()
            || names
                .take(DISTRIBUTIONS_PER_ARTICLE_MAX)
                .any(|name| name.eq_ignore_ascii_case(WORLD) || self.accept_one(name))
    }

    fn accept_one(&self, name: &[u8]) -> bool {
        match &self.accepted {
            Accepted::Every => true,
            Accepted::None => false,
            Accepted::Matching(wildmat) => wildmat.matches(&name.to_ascii_lowercase()),
        }
    }

    /// Returns the text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns the names in a Distribution value: split at commas, white space and folds trimmed, empty pieces
/// skipped.
fn names(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

fn wildmat(text: &str) -> Result<Wildmat, DistributionError> {
    let lower = text.to_ascii_lowercase();
    for entry in lower.split(',') {
        check(entry)?;
    }
    let only_excludes = lower.split(',').all(|entry| entry.starts_with('!'));
    let pattern = if only_excludes { format!("*,{lower}") } else { lower };
    Wildmat::parse(pattern.as_bytes()).map_err(DistributionError::Pattern)
}

fn check(entry: &str) -> Result<(), DistributionError> {
    let name = entry.strip_prefix('!').unwrap_or(entry);
    // Dots are not in the grammar, but occur in articles, which use names of hierarchies.
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+-_.*?".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(DistributionError::NotADistribution(entry.to_owned()));
    }
    if name == ALL {
        return Err(DistributionError::All);
    }
    if entry.starts_with('!') && name.as_bytes() == WORLD {
        return Err(DistributionError::WorldExcluded);
    }
    Ok(())
}

impl PartialEq for Distributions {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Distributions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Distributions({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_accepts_and_excludes() {
        for (list, value, accepted) in [
            ("*", "usa", true),
            ("", "usa", false),
            ("", "world", true),
            ("", "", true),
            ("usa", "usa", true),
            ("usa", "uk", false),
            ("usa", " USA \r\n\t", true),
            ("Usa", "usa", true),
            ("usa", "usage", false),
            ("usa,na", "uk,\r\n na", true),
            ("usa,na", "uk,ca", false),
            ("usa", " , ", true),
            ("usa", "World", true),
            ("usa", "world,local", true),
            ("!local", "local", false),
            ("!local", "LOCAL", false),
            ("!local", "usa", true),
            ("!local", "local,usa", true),
            ("!local,!test", "test,local", false),
            ("*,!local", "local", false),
            ("*,!local", "usa", true),
            ("!local,*", "local", true),
            ("usa,!local", "uk", false),
            ("rec.*,!rec.humor", "rec.humor", false),
            ("rec.*,!rec.humor", "rec.motorcycles", true),
        ] {
            let list = Distributions::parse(list).unwrap();
            assert_eq!(list.accept(value.as_bytes()), accepted, "{list:?}: {value:?}");
        }
    }

    #[test]
    fn only_a_limited_number_of_an_articles_names_is_checked() {
        let list = Distributions::parse("usa").unwrap();
        let value = |others: usize| format!("{}usa", "x,".repeat(others));
        assert!(list.accept(value(DISTRIBUTIONS_PER_ARTICLE_MAX - 1).as_bytes()));
        assert!(!list.accept(value(DISTRIBUTIONS_PER_ARTICLE_MAX).as_bytes()));
    }

    #[test]
    fn invalid_lists_are_rejected_with_a_reason() {
        for (text, why) in [
            ("usa,,na", "`` is not a distribution"),
            ("usa, na", "` na` is not a distribution"),
            ("!", "`!` is not a distribution"),
            ("!!usa", "`!!usa` is not a distribution"),
            ("a[bc]", "`a[bc]` is not a distribution"),
            ("All", "`all` is not a distribution; use `*` for all of them"),
            ("*,!World", "`world` cannot be excluded: it means no restriction"),
        ] {
            assert_eq!(Distributions::parse(text).unwrap_err().to_string(), why, "{text}");
        }
    }
}
