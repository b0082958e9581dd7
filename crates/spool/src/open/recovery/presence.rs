//! Whether the files that a spool had when it was last open still exist.
//!
//! A disk that is not mounted must not turn into an empty file on another one, so a buffer that is missing is
//! an error on a spool that knows it, and so is the directory of any buffer on a spool that is not new.
//! Called by `open` and `inspect`. Whether there is a spool at all is for callers to ask before they open
//! ([`exists`]).

use crate::base::config::{BufferConfig, SpoolConfig};
use crate::base::error::SpoolError;
use crate::base::token::MethodKind;
use crate::disk::{Disk, Open};
use crate::index::checkpoint::Checkpoint;
use crate::journal::VolumeRow;
use crate::open::paths::Paths;
use crate::open::rebuild;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a directory has anything of a spool: its secret, a journal or indexes. Without any of them either
/// the spool is new, or the directory is the mount point of a disk that is not mounted.
pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, SpoolError> {
    let paths = Paths::new(dir);
    for part in [&paths.journal, &paths.index] {
        if disk.has_dir(part).map_err(SpoolError::io("look at", part))? {
            return Ok(true);
        }
    }
    // One that cannot be read is reported by whatever opens the spool.
    let secret = disk.open(&dir.join("secret"), Open::ReadOnly);
    Ok(!secret.is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
}

/// The volumes that a spool knows: by its checkpoint, else by its journal.
pub(crate) fn known_volumes(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    checkpoint: Option<&Checkpoint>,
) -> Result<Vec<VolumeRow>, SpoolError> {
    let journal = Paths::new(&config.dir).journal;
    match checkpoint {
        Some(c) => Ok(c.volumes.iter().map(|(volume, _)| volume.clone()).collect()),
        None => rebuild::volumes_told(disk, &journal).map_err(SpoolError::io("read journal in", journal)),
    }
}

/// Checks a buffer without a file of its own, on a spool that is not new; `known` are the volumes it had.
pub(crate) fn check(disk: &dyn Disk, buffer: &BufferConfig, known: &[VolumeRow]) -> Result<(), SpoolError> {
    check_dir(disk, buffer)?;
    let is_known = |v: &&VolumeRow| v.name == buffer.name && v.method == MethodKind::Cnfs as u8;
    if is_absent(disk, &buffer.path)? && known.iter().any(|v| is_known(&v)) {
        return Err(missing(buffer));
    }
    Ok(())
}

/// Refuses a buffer whose directory is missing.
pub(crate) fn check_dir(disk: &dyn Disk, buffer: &BufferConfig) -> Result<(), SpoolError> {
    let dir = buffer.path.parent().unwrap_or(Path::new(""));
    if disk.has_dir(dir).map_err(SpoolError::io("look at", dir))? {
        return Ok(());
    }
    Err(SpoolError::Unfit(format!(
        "buffer \"{}\" has no directory: there is no {}; mount its disk, or make the directory if the buffer \
         is new",
        buffer.name,
        dir.display()
    )))
}

/// A buffer that the spool had and whose file is missing.
pub(crate) fn missing(buffer: &BufferConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "buffer \"{}\" is missing: there is no file {}; mount its disk or put the file back, or run \
         `newsreel rebuild` to go on without its articles",
        buffer.name,
        buffer.path.display()
    ))
}

fn is_absent(disk: &dyn Disk, path: &Path) -> Result<bool, SpoolError> {
    match disk.open(path, Open::ReadOnly) {
        Ok(_) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(SpoolError::io("open buffer", path)(e)),
    }
}

/// The buffers' files that are not there yet.
pub(super) fn absent(disk: &dyn Disk, config: &SpoolConfig) -> Vec<PathBuf> {
    let paths = config.buffers.iter().map(|buffer| &buffer.path);
    paths.filter(|path| is_absent(disk, path).unwrap_or(false)).cloned().collect()
}

/// Removes what an opening has made of a new spool that could not be opened: buffers and journal, which take
/// room. The error stays the one that is reported.
pub(super) fn remove_made(disk: &dyn Disk, config: &SpoolConfig, made: &[PathBuf]) {
    let journal = Paths::new(&config.dir).journal;
    let rows = disk.list(&journal).unwrap_or_default().into_iter().map(|name| journal.join(name));
    for path in made.iter().cloned().chain(rows) {
        let _gone = disk.remove(&path);
    }
}
