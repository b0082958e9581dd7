//! Files of earlier versions whose contents belong into the log.

use crate::SiteLog;
use disk::{AppendLog, FileAccess, LogLine, OpenMode, copy_aside};
use spool::ChangeMaker as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tracing::{info, warn};

impl SiteLog {
    /// Moves the file at `path`, if there is one, into the log: `each` makes the changes of a line, and
    /// returns whether it understands the line. The file is removed once the changes are durable. After an
    /// error, or a crash, it is read again as a whole at the next start, which changes nothing more.
    pub fn take_over(
        &self,
        path: PathBuf,
        bytes_max: u64,
        mut each: impl FnMut(LogLine<'_>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let disk = self.spool().disk();
        match disk.open(&path, OpenMode::ReadOnly) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => drop(file?),
        }
        let mut failed = None;
        let lines = AppendLog::open(disk.clone(), path.clone(), FileAccess::Group, bytes_max, |line| {
            if failed.is_some() {
                return true;
            }
            each(line).unwrap_or_else(|error| {
                failed = Some(error);
                true
            })
        })?;
        failed.map_or(Ok(()), Err)?;
        self.spool().sync().map_err(io::Error::other)?;
        if lines.damaged_lines() > 0 {
            let aside = copy_aside(&**disk, &path)?;
            warn!(file = %path.display(), set_aside = %aside.display(), "a damaged file is set aside");
        }
        disk.remove(&path)?;
        disk.sync_dir(path.parent().unwrap_or(Path::new("")))?;
        info!(file = %path.display(), "a file of an earlier version is part of the journal now");
        Ok(())
    }
}
