//! Marks on files and directories that show whether unsynced data of the last run still exists.
//!
//! A mark is kept in the machine's memory, like unsynced data, and is lost together with it
//! ([`disk::Disk::mark`]): at a reboot, and when a disk was detached or a file system mounted again.
//! Each directory and buffer has its own, since each may lie on a file system of its own. Invariant: marks
//! are set once the findings of this opening are durable in the journal, so that after an interrupted opening
//! they are still missing; one that counts unsynced data as lost although the machine kept running takes a
//! mark away first.

use crate::open::paths::SpoolPaths;
use disk::Disk;
use spool_base::config::{BufferConfig, SpoolConfig};
use std::io;
use std::path::PathBuf;

/// Returns the directories and buffers of an open spool.
fn places(config: &SpoolConfig, buffers: &[BufferConfig]) -> Vec<PathBuf> {
    let SpoolPaths { dir, journal, index, history, overview, .. } = SpoolPaths::new(&config.dir);
    let mut places = vec![dir, journal, index, history, overview];
    places.extend(buffers.iter().map(|b| b.path.clone()));
    places.extend(config.classes.iter().filter(|c| c.method.keeps()).map(|c| c.tree.path.clone()));
    places
}

/// Returns the first directory or buffer that has lost its mark; one that does not exist has nothing to lose.
/// A mark that cannot be read counts as lost.
pub(super) fn first_lost(disk: &dyn Disk, config: &SpoolConfig) -> Option<PathBuf> {
    places(config, &config.buffers).into_iter().find(|place| match disk.is_marked(place) {
        Ok(marked) => !marked,
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    })
}

/// Takes the mark of the spool's directory away before an opening that counts unsynced data as lost changes
/// anything. If it is interrupted, the next one does so too: rows may have been cut off by then whose changes
/// to usage bits are still there.
pub(super) fn remove(disk: &dyn Disk, config: &SpoolConfig) {
    // It has none if it cannot be marked.
    let _ = disk.unmark(&config.dir);
}

/// Marks all of them. If that fails, as in a directory of another user, the next start after a kill treats it
/// as a power cut.
pub(crate) fn set(disk: &dyn Disk, config: &SpoolConfig, buffers: &[BufferConfig]) {
    places(config, buffers).iter().for_each(|place| drop(disk.mark(place)));
}
