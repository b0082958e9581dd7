//! Changes that are refused for what they contain, or for a limit.
//!
//! A refusal is an outcome and not an error: the other changes are applied, and a spool that follows a log
//! goes on with it. What follows from a change alone is also asked before it is applied, or proposed to a
//! log, so that nothing of a batch is carried out.

use super::change::{Change, ChangeOutcome, GroupUpdate};
use super::fold::SITES_MAX;
use super::notes::is_storable;
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::hidden::{HIDDEN_MAX, HIDER_BYTES_MAX, REASON_BYTES_MAX};
use std::fmt;

/// Maximum length of a description or creator of a group, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1024;
/// Maximum length of a site's name, in bytes.
const SITE_NAME_BYTES_MAX: usize = 255;

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

impl Change<'_> {
    /// Returns why the change is refused, as far as that follows from the change alone.
    pub fn refusal(&self) -> Option<ChangeRefusal> {
        match self {
            Self::Groups(updates) => updates.iter().find_map(GroupUpdate::refusal),
            Self::Hide { by, reason, .. } => {
                let is_named = (1..=HIDER_BYTES_MAX).contains(&by.len()) && reason.len() <= REASON_BYTES_MAX;
                (!is_named).then_some(ChangeRefusal::Hider)
            }
            Self::Site { name } => {
                let is_named = (1..=SITE_NAME_BYTES_MAX).contains(&name.len());
                (!is_named).then_some(ChangeRefusal::SiteName)
            }
            Self::Note { key, value, .. } => (!is_storable(key, *value)).then_some(ChangeRefusal::Note),
            Self::Article(_)
            | Self::Remember { .. }
            | Self::Forget { .. }
            | Self::Cancel { .. }
            | Self::Expire { .. }
            | Self::Unhide { .. }
            | Self::Position { .. } => None,
        }
    }
}

impl GroupUpdate {
    /// Returns why the update is refused, if it has anything to change.
    pub(crate) fn refusal(&self) -> Option<ChangeRefusal> {
        let is_long = |text: &str| text.len() > DESCRIPTION_BYTES_MAX;
        match self {
            Self::Add(group) if !netnews::newsgroups::valid_name(group.name.as_bytes()) => {
                Some(ChangeRefusal::GroupName)
            }
            Self::Add(group) => {
                (is_long(&group.description) || is_long(&group.creator)).then_some(ChangeRefusal::GroupText)
            }
            Self::Change(_, change) => {
                change.description.as_deref().is_some_and(is_long).then_some(ChangeRefusal::GroupText)
            }
            Self::Remove(_) | Self::RaiseHigh(..) => None,
        }
    }
}

/// Returns the first refusal among outcomes as an error.
pub(crate) fn none_refused(outcomes: &[ChangeOutcome]) -> Result<(), SpoolTrouble> {
    let refusal = outcomes.iter().find_map(|outcome| match outcome {
        ChangeOutcome::Refused(refusal) => Some(*refusal),
        _ => None,
    });
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}
