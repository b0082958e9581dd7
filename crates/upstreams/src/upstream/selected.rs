//! The group of an upstream that a reader has selected.

use super::group::NumberedGroup;
use crate::Answer;
use std::fmt;
use std::sync::Arc;

/// A group of an upstream, valid until it is renumbered.
#[derive(Clone)]
pub struct UpstreamGroup {
    pub(super) group: Arc<NumberedGroup>,
    made: u64,
}

impl PartialEq for UpstreamGroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.group, &other.group) && self.made == other.made
    }
}

impl fmt::Debug for UpstreamGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", String::from_utf8_lossy(&self.group.name), self.group.pool.name())
    }
}

impl UpstreamGroup {
    pub(super) fn of(group: Arc<NumberedGroup>) -> Self {
        Self { made: group.renumberings.count(), group }
    }

    /// Returns the group, unless it was renumbered.
    pub(super) fn current(&self) -> Answer<&Arc<NumberedGroup>> {
        if self.made == self.group.renumberings.count() { Ok(&self.group) } else { Err(self.group.stale()) }
    }
}
