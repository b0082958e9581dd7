//! newsreel's article storage.
//!
//! The spool is the log; everything else is an index. Accepting an article makes two writes: its bytes in a
//! buffer and one row in the journal; history, overview and active are folds of the journal. See
//! `ARCHITECTURE.md`, `docs/states.md` and `docs/formats/`.
//!
//! Everything here blocks and touches the machine only through [`Disk`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod ages;
mod buffers;
mod checkpoint;
mod clock;
mod codec;
mod commit;
pub mod config;
mod crc;
mod disk;
mod error;
mod estimate;
mod expire;
pub mod explain;
mod fence;
mod floor;
mod fold;
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod history;
mod inspect;
mod journal;
mod kept;
mod key;
mod lateness;
mod manager;
mod mending;
mod method;
mod overview;
mod packing;
mod progress;
mod promise;
mod purge;
mod rates;
mod reading;
mod rebuild;
mod reconfigure;
mod recovery;
mod repair;
mod residents;
mod rules;
mod space;
mod spool;
mod status;
mod syncer;
mod token;
pub mod verify;

pub use buffers::{BufferState, Commit};
pub use commit::{Criteria, Entry, Filed, Filing, Outcome, Ticket};
pub use config::{
    BufferConfig, ClassConfig, Compress, Durability, ExpireConfig, Floor, HeaderCondition, HistoryShape,
    Keep, Order, OverviewShape, RuleConfig, SpoolConfig, Tree,
};
pub use disk::{CrashKind, Disk, DiskFile, FileSystem, Mapping, Open, RealDisk, SimDisk};
pub use error::{ReadError, SpoolError, Trouble, TroubleKind};
pub use estimate::{Candidate, Estimator};
pub use expire::ExpireReport;
pub use groups::{Flag, Group, GroupChange, GroupId, GroupTable, Marks, NewGroup};
pub use history::{Reservation, Reservations};
pub use inspect::{Inspection, inspect};
pub use key::{Key, KeyHasher};
pub use overview::PackReport;
pub use packing::DictionaryStatus;
pub use progress::Progress;
pub use purge::PurgeReport;
pub use reading::{ArticleBuf, Lookup, Part, Patience};
pub use rebuild::{RebuildReport, rebuild};
pub use reconfigure::{Objection, Prepared, Subject};
pub use recovery::{Loss, Recovery};
pub use repair::{RepairReport, Repaired};
pub use spool::{Offer, Spool};
pub use status::{BufferStatus, ClassStatus, KeptStatus, Status};
pub use token::{MethodKind, Token};
