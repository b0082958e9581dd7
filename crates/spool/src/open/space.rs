//! Checks that the disks have space for the files of a configuration.
//!
//! Checked before anything is created: a buffer that is larger than its disk causes an error, and does not
//! fill the disk. Used by `recovery`, by `buffers` for those that are added, grown or moved, and by
//! `inspect`, which also checks whether an existing spool has space to continue.

use disk::about_size;
use disk::{Disk, FileSystem, OpenMode};
use spool_base::config::{BufferConfig, ClassConfig, SpoolConfig};
use spool_base::error::SpoolError;
use spool_methods::cnfs::FoundBuffer;
use std::path::Path;

/// Length of a record in history's log, in bytes.
const HISTORY_RECORD_BYTES: u64 = 32;

/// A file to be created or enlarged.
#[derive(Debug)]
pub(crate) struct SpaceDemand<'a> {
    /// Description for error messages.
    pub what: String,
    pub path: &'a Path,
    /// Additional disk space, in bytes.
    pub bytes: u64,
}

/// Returns the space that a buffer needs beyond that of its file.
pub(crate) fn of_buffer<'a>(
    disk: &dyn Disk,
    buffer: &'a BufferConfig,
    found: Option<&FoundBuffer>,
) -> SpaceDemand<'a> {
    let has = match found {
        Some(found) => found.header.as_ref().map_or(u64::MAX, |h| h.len),
        None => disk.open(&buffer.path, OpenMode::ReadOnly).and_then(|file| file.allocated()).unwrap_or(0),
    };
    let bytes = buffer.size_bytes.saturating_sub(has);
    SpaceDemand { what: format!("buffer \"{}\"", buffer.name), path: &buffer.path, bytes }
}

/// Returns the space needed for opening a spool: buffers that are missing or have become larger, and on a new
/// spool journal and history.
pub(crate) fn of_opening<'a>(
    disk: &dyn Disk,
    config: &'a SpoolConfig,
    found: &[Option<FoundBuffer>],
    new: bool,
) -> Vec<SpaceDemand<'a>> {
    let buffers = config.buffers.iter().zip(found);
    let mut demands: Vec<_> = buffers.map(|(b, found)| of_buffer(disk, b, found.as_ref())).collect();
    if new {
        let history = HISTORY_RECORD_BYTES << config.history.segment_bits;
        let bytes = spool_journal::reserved_bytes(config.journal_file_bytes) + history;
        demands.push(SpaceDemand { what: "journal and history".into(), path: &config.dir, bytes });
    }
    demands
}

/// Returns the space that an existing spool will soon need to continue accepting: the next journal file, and
/// an article in each class that retains its articles.
fn of_accepting(config: &SpoolConfig) -> Vec<SpaceDemand<'_>> {
    let bytes = spool_journal::reserved_bytes(config.journal_file_bytes);
    let journal = SpaceDemand { what: "the next journal file".into(), path: &config.dir, bytes };
    let kept = config.classes.iter().filter(|class| class.method.keeps());
    let article = |class| article_of(class, config.article_bytes_max);
    std::iter::once(journal).chain(kept.map(article)).collect()
}

fn article_of(class: &ClassConfig, bytes: u64) -> SpaceDemand<'_> {
    SpaceDemand { what: format!("an article of class \"{}\"", class.name), path: &class.tree.path, bytes }
}

/// Refuses demands that exceed the space on their disks; the error says how much is needed and how much is
/// free.
pub(crate) fn check(disk: &dyn Disk, demands: &[SpaceDemand<'_>]) -> Result<(), SpoolError> {
    let remedy = "choose a smaller size (--buffer of newsreel init, size in [[buffer]]), \
                  or a path on a larger disk";
    compare(disk, demands, "the disk is too small", remedy)
}

/// Checks whether an existing spool can continue accepting.
pub(crate) fn check_accepting(disk: &dyn Disk, config: &SpoolConfig) -> Result<(), SpoolError> {
    let remedy = "a full disk accepts no articles; make room with newsreel expire, purge or cancel, \
                  or remove other files";
    compare(disk, &of_accepting(config), "the disk is almost full", remedy)
}

/// Compares demands with the free space of their disks; the error begins with the problem and ends with the
/// remedy.
fn compare(
    disk: &dyn Disk,
    demands: &[SpaceDemand<'_>],
    problem: &str,
    remedy: &str,
) -> Result<(), SpoolError> {
    let mut systems: Vec<(FileSystem, Vec<&SpaceDemand<'_>>)> = Vec::new();
    for demand in demands.iter().filter(|demand| demand.bytes > 0) {
        let system =
            disk.file_system(demand.path).map_err(SpoolError::io("look for room at", demand.path))?;
        match systems.iter_mut().find(|(known, _)| known.id == system.id) {
            Some((_, list)) => list.push(demand),
            None => systems.push((system, vec![demand])),
        }
    }
    let too_full = systems.into_iter().find(|(system, list)| needed(list) > system.free_bytes);
    too_full.map_or(Ok(()), |(system, list)| Err(refusal(&system, &list, problem, remedy)))
}

fn needed(list: &[&SpaceDemand<'_>]) -> u64 {
    list.iter().fold(0, |sum, demand| sum.saturating_add(demand.bytes))
}

fn refusal(system: &FileSystem, list: &[&SpaceDemand<'_>], problem: &str, remedy: &str) -> SpoolError {
    let each: Vec<String> =
        list.iter().map(|demand| format!("{} {}", demand.what, about_size(demand.bytes))).collect();
    SpoolError::Unfit(format!(
        "{problem}: {} needed ({}), but {} free on the file system of {}; {remedy}",
        about_size(needed(list)),
        each.join(", "),
        about_size(system.free_bytes),
        system.dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    #[test]
    fn demands_on_one_disk_are_added_up() {
        let disk = SimDisk::new();
        disk.set_free_bytes(3 << 30);
        let demand = |bytes| SpaceDemand { what: "file".into(), path: Path::new("/s/a"), bytes };
        check(&disk, &[demand(1 << 30), demand(2 << 30)]).unwrap();
        let text = check(&disk, &[demand(1 << 30), demand((2 << 30) + 1)]).unwrap_err().to_string();
        assert!(text.contains("3.00 GiB needed (file 1.00 GiB, file 2.00 GiB), but 3.00 GiB free"), "{text}");
    }
}
