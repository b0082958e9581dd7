//! Directories that are kept open for a moment, so that of a new file its name alone is looked up and not the
//! way to it. Called by [`super::real`].
//!
//! Invariant: none is used for longer than [`AGE_MAX`], so what was moved or replaced meanwhile is noticed.

use super::dirs::here;
use lock_order::Innermost;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Directories that are open at a time: each takes a descriptor.
const DIRS_MAX: usize = 64;
/// For so long one is used.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The directories.
#[derive(Debug, Default)]
pub(super) struct OpenDirs {
    open: Innermost<HashMap<PathBuf, (Instant, Arc<OwnedFd>)>>,
}

impl OpenDirs {
    /// Does something with a name in its directory, and once more in the directory as it is now if nothing
    /// was found.
    pub fn with<T>(
        &self,
        path: &Path,
        act: impl Fn(&OwnedFd, &OsStr) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let (fd, is_new) = self.get(dir)?;
        match act(&fd, name) {
            // It may have been removed.
            Err(Errno::NOENT) if !is_new => {
                self.open.lock().remove(dir);
                Ok(act(&self.get(dir)?.0, name)?)
            }
            done => Ok(done?),
        }
    }

    /// A directory, and whether it was opened just now.
    pub fn get(&self, dir: &Path) -> io::Result<(Arc<OwnedFd>, bool)> {
        let now = Instant::now();
        let known = self.open.lock().get(dir).map(|(since, fd)| (*since, fd.clone()));
        if let Some((since, fd)) = known
            && now.duration_since(since) < AGE_MAX
        {
            return Ok((fd, false));
        }
        let fd = Arc::new(open(dir)?);
        let mut open = self.open.lock();
        if open.len() >= DIRS_MAX {
            open.retain(|_, (since, _)| now.duration_since(*since) < AGE_MAX);
        }
        if open.len() >= DIRS_MAX {
            let oldest = open.iter().min_by_key(|(_, (since, _))| *since).map(|(dir, _)| dir.clone());
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        open.insert(dir.to_owned(), (now, fd.clone()));
        Ok((fd, true))
    }
}

/// Opens a directory to look up names in it.
pub(super) fn open(dir: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(here(dir), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
