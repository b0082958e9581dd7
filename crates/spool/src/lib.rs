//! newsreel's article storage.
//!
//! The spool is the log; everything else is an index. Accepting an article makes two writes: its bytes in a
//! buffer and one row in the journal; history, overview and active are folds of the journal. See
//! `ARCHITECTURE.md`, `docs/states.md` and `docs/formats/`.
//!
//! [`Spool`] is the handle. Whatever alters what it holds is a [`Change`]; the types that its methods return,
//! such as [`Verifier`] and [`Buffers`], take care of the spool as a whole. Everything here blocks, and
//! touches the machine only through [`disk::Disk`].
//!
//! # Example
//!
//! A spool with one cyclic buffer takes an article, and returns it by Message-ID:
//!
//! ```
//! use disk::{ReadMode, RealDisk};
//! use netnews::overview_row::OverviewFields;
//! use netnews::{Article, Known};
//! use spool::{
//!     ArticleBuf, ArticleGroups, BufferConfig, Change, ClassConfig, Criteria, GroupUpdate, Lookup,
//!     MethodKind, NewArticle, NewGroup, RuleConfig, Spool, SpoolConfig, TaggedFields,
//! };
//! use std::sync::Arc;
//!
//! # let dir = std::env::temp_dir().join(format!("spool-example-{}", std::process::id()));
//! let mut config = SpoolConfig::new(&dir);
//! config.path_identity = "news.example".into();
//! config.buffers = vec![BufferConfig {
//!     name: "text0".into(),
//!     path: dir.join("text0.cyc"),
//!     size_bytes: 1 << 20,
//!     block_bytes: 512,
//!     retired: false,
//! }];
//! config.classes = vec![ClassConfig {
//!     name: "text".into(),
//!     method: MethodKind::Cnfs,
//!     buffers: vec!["text0".into()],
//!     ..ClassConfig::default()
//! }];
//! config.rules = vec![RuleConfig { class: "text".into(), ..RuleConfig::default() }];
//! let (spool, _) = Spool::open(Arc::new(RealDisk::new()), config, &())?;
//!
//! let wire = b"Path: other!not-for-mail\r\nFrom: a@site.example\r\nNewsgroups: misc.test\r\n\
//!     Subject: Hello\r\nDate: Thu, 26 Nov 2026 10:00:00 +0000\r\n\
//!     Message-ID: <1@site.example>\r\n\r\nbody\r\n";
//! let (article, id) = (Article::parse(wire)?, b"<1@site.example>");
//! let (now, mut outcomes) = (1_795_000_000, Vec::new());
//! let group = GroupUpdate::Add(NewGroup { name: "misc.test".into(), ..NewGroup::default() });
//! let article = NewArticle {
//!     message_id: id,
//!     key: None,
//!     pieces: &[wire],
//!     header_bytes: article.body_offset(),
//!     message_id_at: wire.windows(id.len()).position(|at| at == id).unwrap_or_default(),
//!     groups: ArticleGroups::Named(&[b"misc.test"]),
//!     numbers: &[],
//!     fields: OverviewFields {
//!         subject: article.header(Known::Subject).unwrap_or_default(),
//!         from: article.header(Known::From).unwrap_or_default(),
//!         date: article.header(Known::Date).unwrap_or_default(),
//!         message_id: id,
//!         references: b"",
//!         bytes: article.bytes(),
//!         lines: article.lines(),
//!     },
//!     arrived: now,
//!     expires: None,
//!     criteria: Criteria::default(),
//!     tagged: TaggedFields::default(),
//! };
//! spool.apply(now, &[Change::Groups(&[group]), Change::Article(article)], &mut outcomes)?;
//!
//! let key = spool.key(id);
//! let Lookup::Present(token) = spool.lookup(&key) else { return Err("it is not there".into()) };
//! let mut found = ArticleBuf::default();
//! assert!(spool.read(&token, Some(&key), ReadMode::Wait, &mut found)?);
//! assert!(found.article().ends_with(b"\r\nbody\r\n.\r\n"));
//! assert_eq!(spool.verifier().verify(&()).problems(), 0);
//! spool.close()?;
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod apply;
mod care;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod open;
mod read;
mod reader;
mod spool;
mod write;

pub use care::apart::{BufferApart, FetchedRecord, GroupApart, RecordApart, SpoolApart};
pub use care::buffers::{BufferUsage, Buffers};
pub use care::expire::{
    Archivist, ArticleExpiry, DueArticle, Expiry, ExpiryFate, NumberExpiry, WhatIf, WhatIfRow,
};
pub use care::explain::{Explanation, Tokens};
pub use care::finding::{FINDINGS_MAX, Finding, VerifyReport};
pub use care::glance::{Glance, GlancedBuffer, glance};
pub use care::inspect::{Inspection, inspect};
pub use care::overview::{OverviewCare, PackReport};
pub use care::purge::PurgeReport;
pub use care::reconfigure::{ConfigObjection, ObjectionSubject, PreparedConfig, Reconfiguration};
pub use care::repair::{RepairError, RepairReport, RepairedFinding, Repairer};
pub use care::status::SpoolMeter;
pub use care::verify::Verifier;
pub use index::change::{
    ArticleGroups, ArticleIdent, Change, ChangeOutcome, CommitTicket, Criteria, FiledArticle, GroupUpdate,
    LocatedArticle, NewArticle,
};
pub use index::groups::{Group, GroupChange, GroupTable, NewGroup};
pub use index::refusal::ChangeRefusal;
pub use index::shared_log::{
    JobLead, LogNodeOverview, MemberOverview, OtherMember, SharedLog, SharedLogOverview, SharedLogStatus,
    settled_time,
};
pub use open::recovery::presence::{away, exists};
pub use open::recovery::{GivenUp, LossReason, RecoveryReport};
pub use read::Lookup;
pub use read::article::ArticleBuf;
pub use reader::SpoolReader;
pub use spool::archive::{CyclicArticles, CyclicVolume, OverwrittenArticles, StoredArticle};
pub use spool::maker::{ChangeMaker, HideOutcome, ImportedIdOutcome};
pub use spool::readers::JournalReaders;
pub use spool::rebuild::{RebuildReport, rebuild, rebuild_without};
pub use spool::snapshot::arrival::{ArrivalEnd, SnapshotArrival};
pub use spool::snapshot::restore::{RestoreReport, RestoreTarget, restore, restore_arriving};
pub use spool::snapshot::write::{SnapshotReport, Snapshots};
pub use spool::{OfferAnswer, Spool};
pub use spool_base::codec::{ByteReader, put_bytes, put_varint};
pub use spool_base::config;
pub use spool_base::config::{
    BufferConfig, BufferOrder, ClassConfig, Commit, CommitError, CompressConfig, Durability, ExpireConfig,
    Floor, FreeMin, HeaderCondition, HistoryShape, HotMemory, NEVER, OverviewShape, Retention, RuleConfig,
    SpoolConfig, TreeConfig,
};
pub use spool_base::digest::SiteDigest;
pub use spool_base::error::{ReadError, SpoolError, SpoolTrouble, TroubleKind};
pub use spool_base::facts::{ArticleKind, DISTRIBUTION_BYTES_MAX, PATH_BYTES_MAX, RowFacts, TaggedFields};
pub use spool_base::hidden::{HIDDEN_MAX, HIDER_BYTES_MAX, HiddenArticle, REASON_BYTES_MAX};
pub use spool_base::ids::{GroupFlag, GroupId};
pub use spool_base::key::{ArticleKey, KeyBits, KeyHasher, inn_hash};
pub use spool_base::latency::{LatencyCounts, LatencyHistogram};
pub use spool_base::leaving::{ExpiryHook, LeavingArticle};
pub use spool_base::limits::POSITION_BYTES_MAX;
pub use spool_base::note::{NOTE_KEY_BYTES_MAX, NOTE_VALUE_BYTES_MAX, Note, NoteKind};
pub use spool_base::status::{
    BufferStatus, ClassStatus, CursorDamage, KeptStatus, ReaderStatus, RowSavings, SpoolMetrics,
};
pub use spool_base::token::{MethodKind, Token};
pub use spool_history::{Reservation, Reservations};
pub use spool_journal::{
    ArticleRow, Cursor, Deferrals, DeferredArticle, JournalBatch, JournalEvent, JournalMark,
    ODD_ANSWER_BYTES_MAX, OddAnswerRecord, Pin, Tail, TailStart,
};
pub use spool_methods::packing::DictionaryStatus;
pub use write::estimate::{Estimator, ProspectiveArticle};
pub use write::expire::ExpireReport;
