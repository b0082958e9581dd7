//! The order of the locks of this crate, as ranks of [`lock_order::Ordered`]. Debug builds, and so all tests,
//! panic if it is violated.
//!
//! Most locks are leaves: each guards a table of its own for a short time, and no other lock is taken inside
//! it. The others have ranks, read-write locks among them.

use lock_order::Ordered;

/// A mutex inside which no other lock is taken, except that of the log.
pub type Leaf<T> = Ordered<T, { rank::LEAF }>;

/// The order, outermost first. Locks of the same rank are never held together. The spool's ranks are 16 to 31
/// and the cache's 32 to 34: locks of lower rank may be held while the spool is used, and code called by the
/// spool may take those of higher rank.
pub mod rank {
    /// A reload or a change of a buffer, one at a time.
    pub const CHANGING: u8 = 0;
    /// The first of the nine ranks in `relay::feed::rank`.
    pub const FEEDS: u8 = 1;
    /// Gate that keeps articles from being filed unnoticed while hides are looked up.
    pub const HIDES_GATE: u8 = 10;
    /// The rebuilding of the routing matrix for other groups.
    pub const ROUTING: u8 = 11;
    /// Durable position up to which withdrawals are carried out.
    pub const FOLLOW_UPS_POSITION: u8 = 12;
    /// Queued withdrawals.
    pub const FOLLOW_UPS: u8 = 13;
    /// The groups of an upstream.
    pub const UPSTREAM_GROUPS: u8 = 13;
    /// State of a group of an upstream, or of its lists.
    pub const UPSTREAM: u8 = 14;
    /// Withdrawals that arrived before their article.
    pub const EARLY_CANCELS: u8 = 14;
    /// Data being received from an upstream.
    pub const CARGO: u8 = 15;
    /// Memory for articles that are arriving.
    pub const LEDGER: u8 = 35;
    /// The archives. Expiry asks them while it holds the spool's writer.
    pub const ARCHIVES: u8 = 36;
    /// Articles due for archiving and not copied yet.
    pub const ARCHIVES_DUE: u8 = 37;
    /// The files of one archive.
    pub const ARCHIVE_STORE: u8 = 37;
    /// Parts of a pull that have been handed out.
    pub const PULL_PARTS: u8 = 38;
    /// Receiver of an operation's progress.
    pub const PROGRESS: u8 = 38;
    /// The listening sockets.
    pub const OPEN: u8 = 39;
    /// The permit of a connection over HTTP under the limits of its `[[access]]`.
    pub const PLACE: u8 = 39;
    /// The limits of lock-outs; the table of lock-outs has a lock inside.
    pub const LOCKOUTS: u8 = 39;
    /// All others.
    pub const LEAF: u8 = 40;
    /// The last events of the log, taken inside all others because any code may log.
    pub const EVENTS: u8 = 41;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_wrong_order_is_found_without_another_thread() {
        let (outer, leaf, other) = (Ordered::<u8, { rank::LEDGER }>::new(1), Leaf::new(2), Leaf::new(3));
        {
            let _outer = outer.lock();
            assert_eq!(*leaf.lock(), 2);
        }
        let _leaf = leaf.lock();
        assert!(catch_unwind(AssertUnwindSafe(|| *outer.lock())).is_err(), "an outer lock inside a leaf");
        assert!(catch_unwind(AssertUnwindSafe(|| *other.lock())).is_err(), "a leaf inside a leaf");
        // Logging is allowed inside any lock.
        tracing::subscriber::with_default(tracing_subscriber::registry(), || tracing::info!("logged"));
    }
}
