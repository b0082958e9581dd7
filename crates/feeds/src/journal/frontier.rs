//! Position up to which the journal has been handed to the peers that keep up.

use crate::rank;
use lock_order::Ordered;
use spool::JournalMark;

/// Position moved by the hub alone, after everything before it is in the windows.
#[derive(Debug, Default)]
pub(crate) struct Frontier(Ordered<JournalMark, { rank::FRONTIER }>);

impl Frontier {
    pub fn mark(&self) -> JournalMark {
        *self.0.lock()
    }

    pub fn move_to(&self, mark: JournalMark) {
        *self.0.lock() = mark;
    }
}
