//! `newsreel rebuild`: opens a spool with indexes made from the buffers alone, and closes it again.

use crate::base::config::SpoolConfig;
use crate::base::error::SpoolError;
use crate::base::progress::Progress;
use crate::disk::Disk;
use crate::open::paths::Paths;
use crate::open::recovery;
use std::sync::Arc;

/// What a rebuild found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Living articles found.
    pub articles: u64,
    /// Groups carried.
    pub groups: u64,
}

/// Rebuilds all indexes from the buffers. The spool must not be open.
pub fn rebuild(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<RebuildReport, SpoolError> {
    let paths = Paths::new(&config.dir);
    let _lock = recovery::lock(&*disk, &config.dir)?;
    let (mut writer, recovery) = recovery::recover_from_buffers(disk, config, progress)?;
    let shared = writer.folds.shared.clone();
    writer.close().map_err(SpoolError::io("write indexes in", &paths.index))?;
    writer.sync.end();
    writer.sync.run(&shared);
    if let Some(trouble) = writer.sync.trouble() {
        return Err(SpoolError::Unfit(format!("the rebuilt indexes could not be written: {trouble}")));
    }
    let groups = shared.groups.snapshot().sorted().len() as u64;
    Ok(RebuildReport { articles: recovery.rebuilt.unwrap_or(0), groups })
}
