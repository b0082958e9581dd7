//! Daily records of the server: for `newsreel report`, and for forecasts of how long articles stay.
//!
//! The record of each day (UTC) is a small file (`record`, `docs/formats/days.md`). A thread (`keeping`) adds
//! articles from the journal, and the growth of the server's counters. `forecast` is pure: from the records
//! of past days it computes the day on which articles will no longer stay as long as they should. Called by
//! `server`, by reports and by the command.

mod forecast;
mod keeping;
mod record;

pub(crate) use forecast::foretell;
pub use keeping::{DayKeeper, start};
pub(super) use record::is_whole as is_record_whole;
pub use record::{ClassDay, DayRecord, PeerDay, date_of, days, read};

use arc_swap::ArcSwap;
use disk::Disk;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Number of days whose records are kept.
pub(crate) const DAYS_KEPT: u64 = 400;

/// Bytes stored on past days: by day since 1970, and by class.
pub(crate) type History = BTreeMap<u64, BTreeMap<String, u64>>;

/// Totals of past days.
#[derive(Debug, Default)]
pub struct DayTotals {
    history: ArcSwap<History>,
}

impl DayTotals {
    /// Returns the bytes stored on past days.
    pub fn history(&self) -> Arc<History> {
        self.history.load_full()
    }
}

/// Reads the bytes stored on past days from the records; unreadable ones are skipped.
pub(crate) fn history(disk: &dyn Disk, data: &Path) -> History {
    let known = |day: u64| {
        let record = read(disk, data, day).ok()??;
        Some((day, record.classes.into_iter().map(|(name, class)| (name, class.bytes)).collect()))
    };
    days(disk, data).into_iter().filter_map(known).collect()
}
