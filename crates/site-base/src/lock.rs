//! The order of the locks of this crate, as ranks of [`lock_order::Ordered`]; debug builds, and so all tests,
//! panic where it is broken.
//!
//! Most locks are leaves: short looks at a table of their own, in which no other lock is taken. The others
//! have ranks, read-write locks among them.

use lock_order::Ordered;

/// A mutex inside which no other lock is taken, apart from that of the log.
pub type Leaf<T> = Ordered<T, { rank::LEAF }>;

/// The order, outermost first. Locks of the same rank are never held together. The spool's ranks are 16 to
/// 31 and the cache's 32 to 34: those before may be held while the spool is used, those after may be taken by
/// what the spool calls.
pub mod rank {
    /// One reload, or one change of a buffer, at a time.
    pub const CHANGING: u8 = 0;
    /// The first of nine that `relay::feed::rank` has.
    pub const FEEDS: u8 = 1;
    /// Nothing that is to be hidden as it comes is filed unseen.
    pub const HIDES_GATE: u8 = 10;
    /// Decisions about peers are made for other groups.
    pub const ROUTING: u8 = 11;
    /// Up to where withdrawals are carried out, on disk.
    pub const FOLLOW_UPS_POSITION: u8 = 12;
    /// Withdrawals that wait.
    pub const FOLLOW_UPS: u8 = 13;
    /// The groups of an upstream.
    pub const UPSTREAM_GROUPS: u8 = 13;
    /// What is known of a group of an upstream, or of its lists.
    pub const UPSTREAM: u8 = 14;
    /// What an upstream is sending.
    pub const CARGO: u8 = 15;
    /// Memory for articles that are arriving.
    pub const LEDGER: u8 = 35;
    /// The archives. Expiry asks them while it holds the spool's writer.
    pub const ARCHIVES: u8 = 36;
    /// What is due and not copied yet.
    pub const ARCHIVES_DUE: u8 = 37;
    /// The files of one archive.
    pub const ARCHIVE_STORE: u8 = 37;
    /// Parts of a pull that are given out.
    pub const PULL_PARTS: u8 = 38;
    /// Where the progress of an operation is sent.
    pub const PROGRESS: u8 = 38;
    /// The sockets that are listened on.
    pub const OPEN: u8 = 39;
    /// The place of a connection over HTTP under the limits of its `[[access]]`.
    pub const PLACE: u8 = 39;
    /// How lock-outs are decided; those that there are have a lock inside.
    pub const LOCKOUTS: u8 = 39;
    /// All others.
    pub const LEAF: u8 = 40;
    /// The last events of the log, which anything may log.
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
        // Anything may log.
        tracing::subscriber::with_default(tracing_subscriber::registry(), || tracing::info!("logged"));
    }
}
