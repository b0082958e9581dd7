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

pub use base::codec::{ByteReader, put_bytes, put_varint};
pub use base::config;
pub use base::config::{
    BufferConfig, BufferOrder, ClassConfig, Commit, CommitError, CompressConfig, Durability, ExpireConfig,
    Floor, FreeMin, HeaderCondition, HistoryShape, HotMemory, NEVER, OverviewShape, Retention, RuleConfig,
    SpoolConfig, TreeConfig,
};
pub use base::digest::SiteDigest;
pub use base::error::{ReadError, SpoolError, SpoolTrouble, TroubleKind};
pub use base::facts::{ArticleKind, DISTRIBUTION_BYTES_MAX, PATH_BYTES_MAX, RowFacts, TaggedFields};
pub use base::hidden::{HIDDEN_MAX, HIDER_BYTES_MAX, HiddenArticle, REASON_BYTES_MAX};
pub use base::ids::{GroupFlag, GroupId};
pub use base::key::{ArticleKey, KeyBits, KeyHasher, inn_hash};
pub use base::latency::{LatencyCounts, LatencyHistogram};
pub use base::leaving::{ExpiryHook, LeavingArticle};
pub use base::limits::POSITION_BYTES_MAX;
pub use base::note::{NOTE_KEY_BYTES_MAX, NOTE_VALUE_BYTES_MAX, Note, NoteKind};
pub use base::status::{
    BufferStatus, ClassStatus, CursorDamage, KeptStatus, ReaderStatus, RowSavings, SpoolMetrics,
};
pub use base::token::{MethodKind, Token};
pub use care::apart::{BufferApart, FetchedRecord, GroupApart, RecordApart, SpoolApart};
pub use care::buffers::BufferUsage;
pub use care::expire::{ArticleExpiry, DueArticle, ExpiryFate, NumberExpiry, WhatIf, WhatIfRow};
pub use care::explain;
pub use care::glance::{Glance, GlancedBuffer, glance};
pub use care::inspect::{Inspection, inspect};
pub use care::pack_overview::PackReport;
pub use care::purge::PurgeReport;
pub use care::reconfigure::{ConfigObjection, ObjectionSubject, PreparedConfig};
pub use care::repair::{RepairError, RepairReport, RepairedFinding};
pub use care::snapshot::{RestoreReport, SnapshotReport, restore};
pub use care::verify;
pub use index::change::{
    ArticleGroups, ArticleIdent, Change, ChangeOutcome, CommitTicket, Criteria, FiledArticle, GroupUpdate,
    LocatedArticle, NewArticle,
};
pub use index::groups::{Group, GroupChange, GroupTable, NewGroup};
pub use index::history::{Reservation, Reservations};
pub use index::shared_log::{JobLead, SharedLog, SharedLogStatus};
pub use journal::{
    ArticleRow, Cursor, Deferrals, DeferredArticle, JournalBatch, JournalEvent, JournalMark,
    ODD_ANSWER_BYTES_MAX, OddAnswerRecord, Pin, Tail, TailStart,
};
pub use method::packing::DictionaryStatus;
pub use open::recovery::presence::{away, exists};
pub use open::recovery::{GivenUp, LossReason, RecoveryReport};
pub use read::Lookup;
pub use read::article::ArticleBuf;
pub use spool::archive::{Archivist, CyclicVolume, OverwrittenArticles, StoredArticle};
pub use spool::maker::{ChangeMaker, HideOutcome, ImportedIdOutcome};
pub use spool::rebuild::{RebuildReport, rebuild, rebuild_without};
pub use spool::{OfferAnswer, Spool};
pub use write::estimate::{Estimator, ProspectiveArticle};
pub use write::expire::ExpireReport;
