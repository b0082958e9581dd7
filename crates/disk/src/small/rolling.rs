//! [`RollingLog`]: files of lines of which the newest are kept (`docs/formats/lines.md`).
//!
//! A full file becomes the old one, in place of the one before, and another is begun; so between one and two
//! files of the newest lines are kept. Until the change of names is durable there are both files, or the old
//! one alone.

use super::lines::{AppendLog, LogLine};
use super::{Disk, FileAccess, parent};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Place and limits of the two files.
#[derive(Debug, Clone)]
pub struct RollingFiles {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    old: PathBuf,
    access: FileAccess,
    bytes_max: u64,
}

impl RollingFiles {
    /// Returns the files `path` and `path.old`, each of at most `bytes_max` bytes.
    pub fn at(disk: Arc<dyn Disk>, path: PathBuf, access: FileAccess, bytes_max: u64) -> Self {
        let mut old = path.clone().into_os_string();
        old.push(".old");
        Self { disk, path, old: old.into(), access, bytes_max }
    }

    /// Passes each line to `each`, the oldest first, which returns whether it understands the line.
    pub fn read(&self, mut each: impl FnMut(LogLine<'_>) -> bool) -> io::Result<()> {
        [&self.old, &self.path].into_iter().try_for_each(|path| self.open(path, &mut each).map(drop))
    }

    fn open(&self, path: &Path, each: impl FnMut(LogLine<'_>) -> bool) -> io::Result<AppendLog> {
        AppendLog::open(self.disk.clone(), path.to_owned(), self.access, self.bytes_max, each)
    }
}

/// Files of lines to which lines are appended.
#[derive(Debug)]
pub struct RollingLog {
    files: RollingFiles,
    /// The newer file, once a line was appended.
    log: Option<AppendLog>,
}

impl RollingLog {
    /// Returns the log in these files, which are opened with the first line.
    pub fn new(files: RollingFiles) -> Self {
        Self { files, log: None }
    }

    /// Appends a line, which the next [`RollingLog::sync`] makes durable.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        self.append_all(&[text])
    }

    /// Appends lines in as few writes as there are files for them.
    pub fn append_all(&mut self, texts: &[impl AsRef<str>]) -> io::Result<()> {
        let mut rest = texts;
        let mut is_begun = false;
        while !rest.is_empty() {
            let appended = self.opened()?.append_some(rest)?;
            match rest.split_at_checked(appended) {
                Some((_, more)) if !more.is_empty() => rest = more,
                _ => break,
            }
            if appended == 0 && is_begun {
                return Err(ErrorKind::FileTooLarge.into());
            }
            self.begin()?;
            is_begun = true;
        }
        Ok(())
    }

    /// Makes the file the old one, and begins another.
    fn begin(&mut self) -> io::Result<()> {
        self.sync()?;
        self.log = None;
        self.files.disk.rename(&self.files.path, &self.files.old)?;
        self.files.disk.sync_dir(parent(&self.files.path))
    }

    /// Makes all lines durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), AppendLog::sync)
    }

    fn opened(&mut self) -> io::Result<&mut AppendLog> {
        match &mut self.log {
            Some(log) => Ok(log),
            log => Ok(log.insert(self.files.open(&self.files.path, |_| true)?)),
        }
    }
}
