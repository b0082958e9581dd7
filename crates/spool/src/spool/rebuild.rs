//! `newsreel rebuild`: opens a spool with indexes built from the buffers alone, and closes it again.

use crate::open::paths::SpoolPaths;
use crate::open::recovery::{self, GivenUp};
use disk::{Disk, Progress};
use spool_base::config::{Commit, SpoolConfig};
use spool_base::error::SpoolError;
use std::sync::Arc;

/// Result of a rebuild.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Living articles found.
    pub articles: u64,
    /// Groups carried.
    pub groups: u64,
    /// Articles of the buffers that were left out.
    pub given_up: GivenUp,
}

/// Rebuilds all indexes from the buffers. The spool must not be open.
pub fn rebuild(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<RebuildReport, SpoolError> {
    rebuild_without(disk, config, &[], progress, &mut || Ok(()))
}

/// Like [`rebuild`], giving up the articles of the buffers and classes in `without`, whose files are missing
/// or are not those that were in use. A buffer without a file must not be in `config`. If `without` is not
/// empty, `commit` is called once all checks have passed, before anything is changed.
pub fn rebuild_without(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    without: &[String],
    progress: &dyn Progress,
    commit: Commit<'_>,
) -> Result<RebuildReport, SpoolError> {
    let paths = SpoolPaths::new(&config.dir);
    super::snapshot::is_whole(&*disk, &config.dir)?;
    let _lock = recovery::lock(&*disk, &config.dir)?;
    if !without.is_empty() {
        recovery::check_rebuild(&disk, &config, without)?;
        commit().map_err(SpoolError::Config)?;
    }
    let (mut writer, recovery) = recovery::recover_from_buffers(disk, config, without, progress)?;
    let shared = writer.folds.shared.clone();
    writer.close().map_err(SpoolError::io("write indexes in", &paths.index))?;
    writer.sync.end();
    writer.sync.run(&shared);
    if let Some(trouble) = writer.sync.trouble() {
        return Err(SpoolError::Unfit(format!("the rebuilt indexes could not be written: {trouble}")));
    }
    let groups = shared.groups.snapshot().sorted().len() as u64;
    let articles = recovery.rebuilt.unwrap_or(0);
    Ok(RebuildReport { articles, groups, given_up: recovery.left_out })
}
