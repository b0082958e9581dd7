//! Report of an opening.

use std::fmt;
use std::path::{Path, PathBuf};
use tracing::{info, warn};

/// Reason why unsynced data counts as lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossReason {
    /// The machine went down.
    Reboot,
    /// The machine kept running, but this directory or buffer may have been detached: its file system was
    /// mounted again, its disk attached again, or it was replaced by a copy.
    Remount(PathBuf),
    /// Articles that were written are missing.
    Bytes,
    /// The last run ended amid changes of a shared log, which are taken back and come again.
    Amid,
}

/// Articles that a rebuild has given up with the buffers that it left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Number of articles.
    pub articles: u64,
    /// Whether the number is exact. After a crash without the last checkpoint, it may include overwritten
    /// articles, and lack some that were lost with the indexes.
    pub is_exact: bool,
}

/// Findings and actions of an opening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The spool is new.
    pub new: bool,
    /// The last run did not close it properly.
    pub crashed: bool,
    /// Unsynced data of the last run may be lost, as after a power cut.
    pub power_lost: bool,
    /// Reason, if so.
    pub loss: Option<LossReason>,
    /// Journal rows replayed.
    pub rows: u64,
    /// Articles whose rows were dropped because their bytes had not reached the disk.
    pub torn: u64,
    /// Articles without journal rows that were found where they were stored.
    pub taken_in: u64,
    /// Old articles given up because bytes without a row overwrote them.
    pub given_up: u64,
    /// Articles found by rebuilding the indexes from the buffers.
    pub rebuilt: Option<u64>,
    /// Articles of the buffers that a rebuild left out.
    pub(crate) left_out: GivenUp,
    /// Description of the lost or damaged index, if all were rebuilt from journal or buffers.
    pub lost: Option<String>,
    /// Entries of the history log that were lost with its files. Ids among them that were remembered without
    /// an article are restored only as far as the journal goes back.
    pub lost_history: u64,
    /// Pages of usage bitmaps and history that could not be read.
    pub mended_pages: u64,
    /// Damaged parts of indexes that were rebuilt once it was open.
    pub mended: u64,
    /// Whether a copy of the checkpoint is damaged or missing, so that another one must be taken.
    pub(crate) lone_checkpoint: bool,
    /// Whether a copy of a buffer's header is damaged, so that it must be rewritten.
    pub(crate) lone_header: bool,
    /// A copy of the groups file is damaged or missing: it is written again.
    pub(crate) lone_groups: bool,
}

/// So many of something.
fn counted(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

impl RecoveryReport {
    /// Logs the report, for the spool in `dir`.
    pub(crate) fn log(&self, dir: &Path) {
        let spool = dir.display();
        if self.lost.is_some() || self.mended_pages > 0 {
            warn!("spool {spool}: {self}");
        } else {
            info!("spool {spool}: {self}");
        }
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.new {
            return f.write_str("new spool");
        }
        match (&self.loss, self.crashed) {
            (Some(LossReason::Reboot), _) => f.write_str("the machine went down")?,
            (Some(LossReason::Remount(path)), _) => {
                write!(
                    f,
                    "the last run was cut off, and {} may have been mounted again since, or the next start \
                     was cut off too",
                    path.display()
                )?;
            }
            (Some(LossReason::Bytes), _) => {
                f.write_str("the last run was cut off, and bytes it wrote are missing")?
            }
            (Some(LossReason::Amid), _) => {
                f.write_str("the last run was cut off amid changes of the shared log, which come again")?
            }
            (None, true) => f.write_str("the last run was cut off")?,
            (None, false) => f.write_str("closed in order")?,
        }
        write!(f, "; {} replayed", counted(self.rows, "journal row"))?;
        if let Some(what) = &self.lost {
            write!(f, "; {what}")?;
        }
        if self.lost_history > 0 {
            write!(f, "; {} entries of history were lost with its files", self.lost_history)?;
        }
        match (self.rebuilt, &self.lost) {
            (Some(n), _) => write!(f, "; indexes rebuilt from the buffers, {}", counted(n, "article"))?,
            (None, Some(_)) => f.write_str("; indexes rebuilt from the journal")?,
            (None, None) => {}
        }
        if self.torn > 0 {
            write!(f, "; {} had not reached the disk", counted(self.torn, "last article"))?;
        }
        if self.taken_in > 0 {
            write!(
                f,
                "; {} not in the journal, taken from the buffers",
                counted(self.taken_in, "last article")
            )?;
        }
        if self.mended_pages > 0 {
            write!(
                f,
                "; {} pages of usage bitmaps or history could not be read and were rebuilt",
                self.mended_pages
            )?;
        }
        if self.lone_checkpoint {
            f.write_str("; a copy of the checkpoint was damaged or missing and is written again")?;
        }
        if self.lone_header {
            f.write_str("; a copy of a buffer's header was damaged and is written again")?;
        }
        if self.lone_groups {
            f.write_str("; a copy of the groups file was damaged or missing and is written again")?;
        }
        if self.mended > 0 {
            write!(f, "; {} of indexes rebuilt", counted(self.mended, "damaged part"))?;
        }
        if self.given_up > 0 {
            let (n, articles) =
                (self.given_up, if self.given_up == 1 { "article was" } else { "articles were" });
            write!(f, "; {n} old {articles} partly overwritten and given up")?;
        }
        Ok(())
    }
}
