//! Directories kept open for a moment, so that opening a new file looks up only its name and not the whole
//! path. Used by [`super::real`].
//!
//! Invariant: no handle is used for longer than [`AGE_MAX`], so that moved or replaced directories are
//! noticed.

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

/// Maximum number of open directories: each takes a descriptor.
const DIRS_MAX: usize = 64;
/// Maximum age of a handle.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Cache of open directories.
#[derive(Debug, Default)]
pub(super) struct OpenDirs {
    open: Innermost<HashMap<PathBuf, (Instant, Arc<OwnedFd>)>>,
}

impl OpenDirs {
    /// Calls `act` with a name and its directory, and once more with the directory opened again if the name
    /// was not found.
    pub fn with<T>(
        &self,
        path: &Path,
        act: impl Fn(&OwnedFd, &OsStr) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let (fd, is_new) = self.get(dir)?;
        match act(&fd, name) {
            // The directory may have been removed.
            Err(Errno::NOENT) if !is_new => {
                self.open.lock().remove(dir);
                Ok(act(&self.get(dir)?.0, name)?)
            }
            done => Ok(done?),
        }
    }

    /// Returns a directory, and whether it was opened just now.
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

/// Opens a directory for looking up names in it.
pub(super) fn open(dir: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(here(dir), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
