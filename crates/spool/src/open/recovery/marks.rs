//! Whether what the last run wrote and did not sync is still there: the marks of its files and directories.
//!
//! A mark is kept in the machine's memory, like bytes that are not synced, and is lost with them
//! ([`disk::Disk::mark`]): at a reboot, and when a disk was away or a file system was mounted again.
//! Each directory and buffer has its own, since each may lie on a file system of its own. Invariant: marks
//! are set once the journal durably has what this opening found, so that an opening which was cut off finds
//! them missing again.

use crate::base::config::{BufferConfig, SpoolConfig};
use crate::open::paths::Paths;
use disk::Disk;
use std::io;
use std::path::PathBuf;

/// What every open spool has.
fn places(config: &SpoolConfig, buffers: &[BufferConfig]) -> Vec<PathBuf> {
    let Paths { dir, journal, index, history, overview, .. } = Paths::new(&config.dir);
    let mut places = vec![dir, journal, index, history, overview];
    places.extend(buffers.iter().map(|b| b.path.clone()));
    places.extend(config.classes.iter().filter(|c| c.method.keeps()).map(|c| c.tree.path.clone()));
    places
}

/// The first directory or buffer that has lost its mark; one that is not there has nothing to lose. A mark
/// that cannot be read counts as lost.
pub(super) fn first_lost(disk: &dyn Disk, config: &SpoolConfig) -> Option<PathBuf> {
    places(config, &config.buffers).into_iter().find(|place| match disk.is_marked(place) {
        Ok(marked) => !marked,
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    })
}

/// Marks all of them. Where that cannot be done, as in a directory of another user, the next start after a
/// kill takes it for a power cut.
pub(crate) fn set(disk: &dyn Disk, config: &SpoolConfig, buffers: &[BufferConfig]) {
    places(config, buffers).iter().for_each(|place| drop(disk.mark(place)));
}
