//! Position up to which the journal has been handed to the peers that keep up.

use super::rank;
use lock_order::Ordered;
use spool::Mark;

/// Position moved by the hub alone, after everything before it is in the windows.
#[derive(Debug, Default)]
pub(super) struct Frontier(Ordered<Mark, { rank::FRONTIER }>);

impl Frontier {
    pub fn mark(&self) -> Mark {
        *self.0.lock()
    }

    pub fn move_to(&self, mark: Mark) {
        *self.0.lock() = mark;
    }
}
