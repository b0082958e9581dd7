//! `VALUE -> GROUP`: which groups of users a login from outside may bring.
//!
//! A program, a directory and a provider name groups as they please; only those that the operator lists count
//! here, each under the name that `user_groups` of `[[access]]` has. Called by `kinds`.

use std::fmt;

/// Text between a value and the group that it stands for.
const ARROW: &str = " -> ";

/// A group of users that a login may bring.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupGrant {
    /// Name of the group elsewhere.
    pub value: String,
    /// Name of the group here.
    pub group: String,
}

/// Reason why a text is no grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupGrantError {
    /// The text, or a part of it, is empty or has control characters.
    NotAValue,
    /// This is no name of a group of users.
    NotAGroup(String),
}

impl fmt::Display for GroupGrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAValue => f.write_str("nothing, or a control character, stands before `->`"),
            Self::NotAGroup(text) => write!(
                f,
                "`{text}` is not the name of a group of users; write \"NAME ELSEWHERE -> GROUP\", or a group's \
                 name that is the same in both places"
            ),
        }
    }
}

impl std::error::Error for GroupGrantError {}

impl GroupGrant {
    /// Parses `VALUE -> GROUP`, or `GROUP` where both names are the same. `is_group` says what a group's name
    /// can be.
    pub(super) fn parse(text: &str, is_group: impl Fn(&str) -> bool) -> Result<Self, GroupGrantError> {
        let (value, group) = text.rsplit_once(ARROW).unwrap_or((text, text));
        let (value, group) = (value.trim(), group.trim());
        if value.is_empty() || value.chars().any(char::is_control) {
            return Err(GroupGrantError::NotAValue);
        }
        if !is_group(group) {
            return Err(GroupGrantError::NotAGroup(group.to_owned()));
        }
        Ok(Self { value: value.to_owned(), group: group.to_owned() })
    }
}

impl fmt::Display for GroupGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value == self.group {
            true => f.write_str(&self.group),
            false => write!(f, "{}{ARROW}{}", self.value, self.group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_name_a_group_here_and_elsewhere() {
        let parse = |text| GroupGrant::parse(text, |group| group.bytes().all(|b| b.is_ascii_lowercase()));
        let shown =
            |text| parse(text).map(|grant| (grant.value.clone(), grant.group.clone(), grant.to_string()));
        let all = |value: &str, group: &str, text: &str| Ok((value.into(), group.into(), text.into()));
        assert_eq!(shown("staff"), all("staff", "staff", "staff"));
        assert_eq!(
            shown("cn=news,dc=example -> staff"),
            all("cn=news,dc=example", "staff", "cn=news,dc=example -> staff")
        );
        assert_eq!(shown("a -> b -> staff"), all("a -> b", "staff", "a -> b -> staff"));
        assert_eq!(parse("cn=news,dc=example"), Err(GroupGrantError::NotAGroup("cn=news,dc=example".into())));
        for bad in ["", " -> staff", "a\tb -> staff"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
