//! [`HourlyForgetting`]: old Message-IDs are forgotten before the first change of each hour.

use crate::write::locked::LockedWriter;
use spool_base::error::SpoolTrouble;
use std::sync::atomic::{AtomicU64, Ordering};

/// Old Message-IDs are forgotten once in so many seconds.
const FORGET_SECS: u64 = 3_600;

/// Time of the last forgetting.
pub(crate) struct HourlyForgetting {
    /// When Message-IDs were last forgotten, in Unix seconds.
    forgotten_at: AtomicU64,
}

impl HourlyForgetting {
    pub fn since(forgotten_at: u64) -> Self {
        Self { forgotten_at: AtomicU64::new(forgotten_at) }
    }

    /// Returns whether the changes of this time, in Unix seconds, are the first of an hour.
    pub fn is_due(&self, time: u64) -> bool {
        time / FORGET_SECS > self.forgotten_at.load(Ordering::Relaxed) / FORGET_SECS
    }

    /// Forgets old Message-IDs before the first change of each hour, as of the beginning of that hour: so
    /// what is forgotten follows from the changes and their times.
    pub fn forget_old(&self, writer: &LockedWriter, time: u64) -> Result<(), SpoolTrouble> {
        if !self.is_due(time) {
            return Ok(());
        }
        let hour = time - time % FORGET_SECS;
        let mut writer = writer.lock_at(time);
        if u64::from(writer.folds.forgotten_at) < hour {
            // On a full disk only what frees room is applied, and ids are forgotten later.
            if writer.accepting().is_err() {
                return Ok(());
            }
            writer.forget_old(hour)?;
        }
        self.forgotten_at.fetch_max(hour, Ordering::Relaxed);
        Ok(())
    }
}
