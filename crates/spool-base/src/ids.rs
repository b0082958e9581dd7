//! Groups by number, their flags, and the names belonging to the numbers.

use hashbrown::HashMap;
use lock_order::{INNERMOST, OrderedRw};
use std::sync::Arc;

/// Number of a group within the spool; never reused for another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

/// Status of a group: what may be posted and filed there (RFC 3977 7.6.3, RFC 6048 3.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GroupFlag {
    /// `y`: posting is allowed.
    #[default]
    Open,
    /// `n`: no local posting; articles from peers are filed.
    Closed,
    /// `m`: articles need an Approved header.
    Moderated,
    /// `j`: articles from peers are filed in junk.
    Junk,
    /// `x`: neither posting nor articles from peers.
    Refused,
    /// `=name`: articles are filed in the named group.
    Alias(String),
}

impl GroupFlag {
    /// Parses the form in an active file.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "y" => Self::Open,
            "n" => Self::Closed,
            "m" => Self::Moderated,
            "j" => Self::Junk,
            "x" => Self::Refused,
            _ => Self::Alias(text.strip_prefix('=').filter(|n| !n.is_empty())?.to_owned()),
        })
    }
}

impl std::fmt::Display for GroupFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("y"),
            Self::Closed => f.write_str("n"),
            Self::Moderated => f.write_str("m"),
            Self::Junk => f.write_str("j"),
            Self::Refused => f.write_str("x"),
            Self::Alias(name) => write!(f, "={name}"),
        }
    }
}

/// Group names by number, including those of removed groups: an article may be stored under one.
#[derive(Debug, Default)]
pub struct GroupNames {
    names: OrderedRw<HashMap<u32, Arc<str>>, INNERMOST>,
}

impl GroupNames {
    /// Returns the name of a group.
    pub fn get(&self, id: GroupId) -> Option<Arc<str>> {
        self.names.read().get(&id.0).cloned()
    }

    /// Records the name of a group.
    pub fn put(&self, id: GroupId, name: &str) {
        self.names.write().insert(id.0, name.into());
    }

    /// Returns all groups for which `is_gone` returns true, ordered by number.
    pub fn gone(&self, is_gone: impl Fn(GroupId) -> bool) -> Vec<(u32, Arc<str>)> {
        let names = self.names.read();
        let mut gone: Vec<_> =
            names.iter().filter(|(id, _)| is_gone(GroupId(**id))).map(|(id, n)| (*id, n.clone())).collect();
        gone.sort_unstable();
        gone
    }
}
