//! Reasons why changes are refused, for what they contain or for a limit.
//!
//! A refusal is an outcome and not an error: the other changes are applied, and a spool that follows a log
//! goes on with it. What follows from a change alone is also asked before it is applied, or proposed to a
//! log, so that nothing of a batch is carried out.

use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::hidden::{HIDDEN_MAX, HIDER_BYTES_MAX, REASON_BYTES_MAX};
use std::fmt;

/// Maximum length of a description or creator of a group, in bytes.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 1024;
/// Maximum length of a site's name, in bytes.
pub(crate) const SITE_NAME_BYTES_MAX: usize = 255;
/// Maximum number of sites that have a number.
pub(crate) const SITES_MAX: usize = 4096;

/// Reason why a change is refused. Nothing is wrong with the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// A group is to be created whose name is invalid.
    GroupName,
    /// The description or creator of a group is too long for a line of LIST.
    GroupText,
    /// The name of a hider is empty or too long, or the reason is too long.
    Hider,
    /// As many articles are hidden as can be.
    HiddenMax,
    /// The name of a site is empty or too long.
    SiteName,
    /// As many sites have a number as can have one.
    SitesMax,
    /// The key or the value of a note is too long.
    Note,
}

impl fmt::Display for ChangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupName => f.write_str("the name of a new group is not valid"),
            Self::GroupText => {
                write!(f, "the description or creator of a group has more than {DESCRIPTION_BYTES_MAX} bytes")
            }
            Self::Hider => write!(
                f,
                "the name of a hider must have 1 to {HIDER_BYTES_MAX} bytes, and the reason at most \
                 {REASON_BYTES_MAX}"
            ),
            Self::HiddenMax => {
                write!(f, "{HIDDEN_MAX} articles are hidden already, which is as many as can be")
            }
            Self::SiteName => {
                write!(f, "the name of a site must have 1 to {SITE_NAME_BYTES_MAX} bytes")
            }
            Self::SitesMax => write!(f, "{SITES_MAX} sites have a number already, which is as many as can"),
            Self::Note => f.write_str("a note is too long"),
        }
    }
}

impl std::error::Error for ChangeRefusal {}

impl From<ChangeRefusal> for SpoolTrouble {
    fn from(refusal: ChangeRefusal) -> Self {
        Self::new(TroubleKind::Refused, refusal.to_string())
    }
}
