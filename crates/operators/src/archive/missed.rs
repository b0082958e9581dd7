//! Articles that were removed without a copy: lines in a bounded file (`docs/formats/archive.md`).

use super::section::log_path;
use disk::{AppendLog, Disk, FileAccess, LogLine};
use site_base::lock::Leaf;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of the file, in bytes; beyond half of it, the older half is dropped.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The log of missed articles.
#[derive(Debug)]
pub(super) struct MissedLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Held while the file is written.
    writing: Leaf<()>,
}

impl MissedLog {
    /// Returns the log of the site in `data`.
    pub fn of(disk: Arc<dyn Disk>, data: &Path) -> Self {
        Self { disk, path: log_path(data), writing: Leaf::default() }
    }

    /// Adds a line for each article whose numbers are known; durable on return.
    pub fn add(&self, now: u64, name: &str, why: &str, numbers: &[Vec<(String, u64)>]) -> io::Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let _writing = self.writing.lock();
        if let Some(dir) = self.path.parent() {
            self.disk.create_dir(dir)?;
        }
        let (mut log, lines, bytes) = self.open()?;
        if bytes > FILE_BYTES_MAX / 2 {
            log.replace(lines.iter().skip(lines.len() / 2).map(String::as_str))?;
        }
        for numbers in numbers {
            let places: Vec<String> = numbers.iter().map(|(group, n)| format!("{group}:{n}")).collect();
            log.append(&format!("{now} {name} {} {why}", places.join(",")))?;
        }
        log.sync()
    }

    /// Returns all lines: Unix seconds, the archive, groups and numbers, and the reason.
    pub fn lines(&self) -> io::Result<Vec<String>> {
        Ok(self.open()?.1)
    }

    fn open(&self) -> io::Result<(AppendLog, Vec<String>, u64)> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let (disk, path) = (self.disk.clone(), self.path.clone());
        let log = AppendLog::open(disk, path, FileAccess::Group, FILE_BYTES_MAX, |line| {
            let LogLine::Whole(text) = line else { return false };
            bytes += text.len() as u64;
            lines.push(text.to_owned());
            true
        })?;
        Ok((log, lines, bytes))
    }
}
