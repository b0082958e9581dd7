//! newsreel's article storage.
//!
//! The spool is the log; everything else is an index. Accepting an article makes two writes: its bytes in a
//! buffer and one row in the journal; history, overview and active are folds of the journal. See
//! `ARCHITECTURE.md`, `docs/states.md` and `docs/formats/`.
//!
//! Everything here blocks and touches the machine only through [`disk::Disk`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod base;
mod care;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod journal;
mod method;
mod open;
mod read;
mod spool;
mod write;

pub use base::config;
pub use base::config::{
    BufferConfig, ClassConfig, Compress, Durability, ExpireConfig, Floor, FreeMin, HeaderCondition,
    HistoryShape, HotMemory, Keep, NEVER, Order, OverviewShape, RuleConfig, SpoolConfig, Tree,
};
pub use base::entry::{Criteria, Entry, Filed, Filing, Outcome, Ticket};
pub use base::error::{ReadError, SpoolError, Trouble, TroubleKind};
pub use base::facts::{ArticleKind, DISTRIBUTION_BYTES_MAX, Facts, PATH_BYTES_MAX, Tagged};
pub use base::hidden::{HIDDEN_MAX, HIDER_BYTES_MAX, HiddenArticle, REASON_BYTES_MAX};
pub use base::ids::{Flag, GroupId};
pub use base::key::{Key, KeyBits, KeyHasher, inn_hash};
pub use base::latency::{Latency, LatencyCounts};
pub use base::leaving::{Leaving, MayLeave};
pub use base::status::{BufferStatus, ClassStatus, CursorDamage, KeptStatus, ReaderStatus, Saved, Status};
pub use base::token::{MethodKind, Token};
pub use care::apart::{BufferApart, Fetched, GroupApart, RecordApart, SpoolApart};
pub use care::buffers::{BufferState, Commit};
pub use care::expire::{Expiry, ExpiryFate, ExpiryOfNumber, WhatIf, WhatIfRow};
pub use care::explain;
pub use care::glance::{Glance, GlancedBuffer, glance};
pub use care::inspect::{Inspection, inspect};
pub use care::pack_overview::PackReport;
pub use care::purge::PurgeReport;
pub use care::reconfigure::{Objection, Prepared, Subject};
pub use care::repair::{RepairReport, Repaired};
pub use care::verify;
pub use index::groups::{Group, GroupChange, GroupTable, Marks, NewGroup};
pub use index::history::{Reservation, Reservations};
pub use journal::{ArticleRow, Batch, Cursor, Deferrals, Deferred, Event, Mark, Pin, Start, Tail};
pub use method::packing::DictionaryStatus;
pub use open::recovery::presence::{away, exists};
pub use open::recovery::{GivenUp, Loss, Recovery};
pub use read::Lookup;
pub use read::article::ArticleBuf;
pub use spool::archive::{Archivist, CyclicVolume, Overwritten, StoredArticle};
pub use spool::groups::GroupUpdate;
pub use spool::hide::Hiding;
pub use spool::moved::{MovedFate, MovedId};
pub use spool::rebuild::{RebuildReport, rebuild, rebuild_without};
pub use spool::{Offer, Spool};
pub use write::estimate::{Candidate, Estimator};
pub use write::expire::ExpireReport;
