//! What happened on each day: for `newsreel report`, and for what can be foretold of how long articles stay.
//!
//! A record of each day (UTC) is a small file (`record`, `docs/formats/days.md`). A thread (`keeping`) adds
//! what the journal says of articles, and by how much the server's counters have grown. `forecast` is pure:
//! the records of past days in, the day on which articles will no longer stay as long as they should out.
//! Called by `server`, by reports and by the command.

mod forecast;
mod keeping;
mod record;

pub(crate) use forecast::foretell;
pub use keeping::{DayKeeper, start};
pub(super) use record::is_whole as is_record_whole;
pub use record::{ClassDay, DayRecord, PeerDay, day_text, days, read};

use arc_swap::ArcSwap;
use disk::Disk;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Days of which records are kept.
pub(crate) const DAYS_KEPT: u64 = 400;
/// Seconds of a day.
const DAY_SECS: u64 = 86_400;

/// Bytes stored on past days: by the day's number since 1970, and by class.
pub(crate) type History = BTreeMap<u64, BTreeMap<String, u64>>;

/// What is known of past days, and kept of this one.
#[derive(Debug, Default)]
pub struct Days {
    history: ArcSwap<History>,
}

impl Days {
    /// What was stored on past days.
    pub fn history(&self) -> Arc<History> {
        self.history.load_full()
    }
}

/// What was stored on past days, as the records say; those that cannot be read are left out.
pub(crate) fn history(disk: &dyn Disk, data: &Path) -> History {
    let known = |day: u64| {
        let record = read(disk, data, day).ok()??;
        Some((day, record.classes.into_iter().map(|(name, class)| (name, class.bytes)).collect()))
    };
    days(disk, data).into_iter().filter_map(known).collect()
}
