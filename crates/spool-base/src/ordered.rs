//! Order of the spool's locks. [`lock_order`] checks it in debug builds.

pub use lock_order::{Ordered, OrderedGuard};

/// Ranks of the spool's locks, outermost first. Locks of the same rank are never held together. Lower ranks
/// belong to locks that callers hold while they use the spool, higher ranks to locks under which the spool is
/// never called.
pub mod rank {
    /// The regions of a rebuild. Nothing else is open yet.
    pub const REBUILDING: u8 = 16;
    /// `Spool::thread`: closing only.
    pub const THREAD: u8 = 16;
    /// `Spool::packing_overview`: one pass of compressing at a time.
    pub const PACKING_OVERVIEW: u8 = 17;
    /// `ExpiryState::passing`: one pass of expiry at a time.
    pub const EXPIRING: u8 = 17;
    /// `LockedWriter`: any thread that commits, expires, changes groups or buffers, repairs. Readers never
    /// take it.
    pub const WRITER: u8 = 18;
    /// `Removals::removing`: files of articles that have left the indexes are being removed, by the thread
    /// that expires, or by one that takes a checkpoint and holds the writer.
    pub const REMOVING: u8 = 19;
    /// `SyncState::syncing`: a sync of everything, by `spool-sync` or by the thread that changes a buffer.
    pub const SYNCING: u8 = 19;
    /// Syncs of one place wait for one another: each volume's, the journal's.
    pub const PLACE_SYNCING: u8 = 20;
    /// Like [`PLACE_SYNCING`], for the group file, which is synced before the journal.
    pub const GROUPS_SYNCING: u8 = 21;
    /// Contents of the group file.
    pub const GROUPS_FILE: u8 = 22;
    /// The writing side of history.
    pub const HISTORY: u8 = 23;
    /// A record of history that is being overwritten; readers that find it half-written take this lock too.
    pub const REPLACING: u8 = 24;
    /// One group's state, which readers take briefly.
    pub const GROUP: u8 = 25;
    /// The blocks of a segment of overview.
    pub const BLOCKS: u8 = 26;
    /// Tasks of the syncing thread (`SyncState::wanted`).
    pub const WANTED: u8 = 27;
    /// A volume's own tables, the journal's list of files, the names of its readers' files, and the writing
    /// of a cursor.
    pub const TABLES: u8 = 28;
    /// A class's samples for its dictionary.
    pub const SAMPLES: u8 = 29;
    /// The threads that train dictionaries.
    pub const TRAINING: u8 = 30;
    /// Taken last, and briefly: the cached list of groups, a shard of reservations, those of `Follow`, the
    /// writer's trouble, the callbacks of durability (which take no lock of the spool).
    pub const INNERMOST: u8 = 31;
}
