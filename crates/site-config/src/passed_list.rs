//! A list that is requested from an upstream, as in `upstream.pass_lists`.

use std::fmt;
use std::str::FromStr;

/// A list of RFC 6048 or RFC 3977 with text of the server, not about its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedList {
    /// LIST DISTRIB.PATS.
    DistribPats,
    /// LIST DISTRIBUTIONS.
    Distributions,
    /// LIST MODERATORS.
    Moderators,
    /// LIST MOTD.
    Motd,
    /// LIST SUBSCRIPTIONS.
    Subscriptions,
}

impl PassedList {
    /// All lists.
    pub const ALL: [Self; 5] =
        [Self::DistribPats, Self::Distributions, Self::Moderators, Self::Motd, Self::Subscriptions];

    /// Returns the keyword of LIST.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::DistribPats => "DISTRIB.PATS",
            Self::Distributions => "DISTRIBUTIONS",
            Self::Moderators => "MODERATORS",
            Self::Motd => "MOTD",
            Self::Subscriptions => "SUBSCRIPTIONS",
        }
    }

    /// Returns the file below `site.lists` with the list; `None` if it is in the configuration.
    pub fn file_name(self) -> Option<&'static str> {
        match self {
            Self::DistribPats => Some("distrib.pats"),
            Self::Distributions => Some("distributions"),
            Self::Moderators => None,
            Self::Motd => Some("motd"),
            Self::Subscriptions => Some("subscriptions"),
        }
    }
}

impl fmt::Display for PassedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

/// A text that is not the keyword of a list that can be passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedListError(String);

impl fmt::Display for PassedListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = PassedList::ALL.map(PassedList::keyword).join(", ");
        write!(f, "`{}` is not a list that can be passed on; there are {all}", self.0)
    }
}

impl std::error::Error for PassedListError {}

impl FromStr for PassedList {
    type Err = PassedListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|list| list.keyword().eq_ignore_ascii_case(text));
        found.ok_or_else(|| PassedListError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_read_back_and_lists_of_groups_are_refused() {
        for list in PassedList::ALL {
            assert_eq!(list.to_string().to_lowercase().parse(), Ok(list));
        }
        for bad in ["", "ACTIVE", "NEWSGROUPS", "MOTD "] {
            assert!(bad.parse::<PassedList>().is_err(), "{bad:?}");
        }
    }
}
