//! Checks that the files which a spool had when it was last open still exist.
//!
//! A disk that is not mounted must not turn into an empty file on another one, so a missing buffer is an
//! error on a spool that knows it, and so is a missing directory of any buffer on a spool that is not new.
//! Used by `open` and `inspect`. Callers check beforehand whether there is a spool at all ([`exists`]).

use crate::index::checkpoint::Checkpoint;
use crate::index::residents::Residents;
use crate::open::paths::SpoolPaths;
use crate::open::rebuild::{self, LeftOutVolumes, VolumesNamed};
use disk::{Disk, OpenMode};
use spool_base::config::{BufferConfig, ClassConfig, SpoolConfig};
use spool_base::error::SpoolError;
use spool_base::token::MethodKind;
use spool_journal::VolumeRow;
use spool_methods::cnfs::FoundBuffer;
use spool_methods::tree_header::TreeHeader;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reports whether a directory has any part of a spool: its secret, a journal or indexes. Otherwise either
/// the spool is new, or the directory is the mount point of a disk that is not mounted.
pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, SpoolError> {
    let paths = SpoolPaths::new(dir);
    for part in [&paths.journal, &paths.index] {
        if disk.has_dir(part).map_err(SpoolError::io("look at", part))? {
            return Ok(true);
        }
    }
    // An unreadable secret is reported when the spool is opened.
    let secret = disk.open(&dir.join("secret"), OpenMode::ReadOnly);
    Ok(!secret.is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
}

/// Returns the volumes known from the checkpoint and, unless it has the volumes of all files `found`, from
/// the rows after it; otherwise from the journal. The write position is the first one known of each.
pub(crate) fn known_volumes(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    checkpoint: Option<&Checkpoint>,
    found: &[Option<FoundBuffer>],
) -> Result<Vec<VolumeRow>, SpoolError> {
    let saved = checkpoint.map(|c| c.volumes.as_slice()).unwrap_or_default();
    let mut headers = found.iter().map(|found| found.as_ref().and_then(|found| found.header.as_ref()));
    if headers.all(|header| header.is_some_and(|header| saved.iter().any(|(v, _)| v.id == header.volume))) {
        return Ok(saved.iter().map(|(volume, _)| volume.clone()).collect());
    }
    Ok(all_volumes(disk, config, checkpoint)?.volumes)
}

/// Returns the volumes of the checkpoint and of the rows after it; otherwise those of the journal. `used` are
/// those that hold articles.
fn all_volumes(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    checkpoint: Option<&Checkpoint>,
) -> Result<VolumesNamed, SpoolError> {
    let journal = SpoolPaths::new(&config.dir).journal;
    let mut named = rebuild::volumes_named(disk, &journal, checkpoint.map(|c| c.position))
        .map_err(SpoolError::io("read journal in", journal))?;
    for (checkpoint, (volume, state)) in checkpoint.iter().flat_map(|c| c.volumes.iter().map(move |v| (c, v)))
    {
        if state.written > state.read || checkpoint.keeps_in(volume.id) {
            named.used.insert(volume.id);
        }
        if named.volumes.iter().all(|other| other.id != volume.id) {
            named.volumes.push(volume.clone());
        }
    }
    Ok(named)
}

fn is_cnfs(volume: &VolumeRow) -> bool {
    volume.method == MethodKind::Cnfs as u8
}

/// Checks that a buffer's file agrees with the known volumes: it may be an earlier file of that name, or one
/// that a rebuild has given up. `known` are the volumes of checkpoint and journal; empty if both are lost.
pub(crate) fn check_known(
    buffer: &BufferConfig,
    found: &FoundBuffer,
    known: &[VolumeRow],
) -> Result<(), SpoolError> {
    let Some(header) = &found.header else { return Ok(()) };
    if known.is_empty() || known.iter().any(|v| is_cnfs(v) && v.id == header.volume) {
        return Ok(());
    }
    if known.iter().any(|v| is_cnfs(v) && v.name == buffer.name) {
        return Err(older(buffer));
    }
    // A crash took the row of a new buffer, or an empty one was removed from the configuration.
    if found.is_empty(buffer).map_err(SpoolError::io("read", &buffer.path))? {
        return Ok(());
    }
    Err(SpoolError::Unfit(format!(
        "{} holds articles of buffer \"{}\" that are in no index: a rebuild has given it up, or it comes \
         from elsewhere; run `newsreel rebuild` to take its articles back, or move the file away",
        buffer.path.display(),
        buffer.name
    )))
}

/// Refuses an old copy of a buffer. A checkpoint is written after the headers with its write positions are
/// durable, and headers are not written otherwise. If one copy of a header is damaged, the other may be that
/// of the previous checkpoint.
pub(crate) fn check_age(
    buffer: &BufferConfig,
    found: &FoundBuffer,
    checkpoint: Option<&Checkpoint>,
) -> Result<(), SpoolError> {
    let Some(header) = found.header.as_ref().filter(|_| !found.is_alone) else { return Ok(()) };
    let mut saved = checkpoint.iter().flat_map(|c| &c.volumes);
    match saved.any(|(v, _)| is_cnfs(v) && v.id == header.volume && header.head < v.head) {
        true => Err(older_copy(buffer)),
        false => Ok(()),
    }
}

/// Refuses the directory of a class that is not the one in use.
fn check_known_tree(class: &ClassConfig, header: &TreeHeader, known: &[VolumeRow]) -> Result<(), SpoolError> {
    let is_of_class = |v: &&VolumeRow| v.name == class.name && v.method == class.method as u8;
    match known.iter().find(is_of_class).filter(|v| v.id != header.volume) {
        None => Ok(()),
        Some(_) => Err(older_tree(class)),
    }
}

/// Returns the error for another file under the name of the buffer in use.
fn older(buffer: &BufferConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "{1} is an older file of buffer \"{0}\", not the one that is in use; put that one back, or run \
         `newsreel rebuild --without {0}` to go on with the articles of the older file instead",
        buffer.name,
        buffer.path.display()
    ))
}

/// Returns the error for an old copy of the buffer in use.
fn older_copy(buffer: &BufferConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "{1} is a copy of buffer \"{0}\" from before, and lacks what was written to it since; put the newest \
         one back, or run `newsreel rebuild` to go on with what this one has",
        buffer.name,
        buffer.path.display()
    ))
}

/// Returns the error for another directory under the name of the class.
fn older_tree(class: &ClassConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "{1} is an older directory of class \"{0}\", not the one that is in use; put that one back, or run \
         `newsreel rebuild --without {0}` to go on with the articles of the older one instead",
        class.name,
        class.tree.path.display()
    ))
}

/// Returns the error for a volume with articles that the caller did not allow to be given up.
fn not_named(config: &SpoolConfig, found: &[Option<FoundBuffer>], volume: &VolumeRow) -> SpoolError {
    if is_cnfs(volume) {
        let buffer = config.buffers.iter().zip(found).find(|(buffer, _)| buffer.name == volume.name);
        return match buffer {
            None => super::not_configured(volume),
            Some((buffer, None)) => missing(buffer),
            Some((buffer, Some(_))) => older(buffer),
        };
    }
    let class = config.classes.iter().find(|class| class.name == volume.name && class.method.keeps());
    class.map_or_else(|| super::not_configured(volume), super::trees::missing)
}

/// Returns the volumes that a rebuild leaves out: those known from checkpoint or journal whose files differ
/// from those in the configuration. Each that holds articles must be named in `without`, and nothing else.
/// `found` are the configured buffers' files.
pub(crate) fn left_out(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    found: &[Option<FoundBuffer>],
    checkpoint: Option<&Checkpoint>,
    without: &[String],
) -> Result<Vec<VolumeRow>, SpoolError> {
    let trees = super::trees::headers(&**disk, config)?;
    let is_here = |v: &VolumeRow| {
        if !is_cnfs(v) {
            return trees.iter().any(|header| header.volume == v.id);
        }
        config.buffers.iter().zip(found).any(|(buffer, found)| {
            let header = found.as_ref().map(|found| found.header.as_ref());
            // Damaged headers are reconstructed as those of the volume with that name.
            header.is_some_and(|header| header.map_or(v.name == buffer.name, |header| header.volume == v.id))
        })
    };
    let VolumesNamed { mut volumes, used } = all_volumes(disk, config, checkpoint)?;
    volumes.retain(|v| v.method != MethodKind::Memory as u8 && !is_here(v));
    if let Some(volume) = volumes.iter().find(|v| used.contains(&v.id) && !without.contains(&v.name)) {
        return Err(not_named(config, found, volume));
    }
    match without.iter().find(|name| volumes.iter().all(|v| v.name != **name)) {
        None => Ok(volumes),
        Some(name) => Err(nothing_to_give_up(config, name)),
    }
}

/// Returns the error for a name in `without` that a rebuild cannot give up.
fn nothing_to_give_up(config: &SpoolConfig, name: &str) -> SpoolError {
    SpoolError::Unfit(match config.buffers.iter().find(|buffer| buffer.name == *name) {
        Some(buffer) => format!(
            "buffer \"{name}\" is not missing: {} is its file; `newsreel buffer retire {name}` and `newsreel \
             buffer remove {name} --articles` take it away",
            buffer.path.display()
        ),
        None if config.classes.iter().any(|class| class.name == *name) => {
            format!("class \"{name}\" is not missing; leave --without {name} out")
        }
        None => format!("no index knows of a buffer \"{name}\"; leave --without {name} out"),
    })
}

/// Collects the data for counting the articles of volumes that are left out, from the indexes that the
/// rebuild replaces.
pub(crate) fn tails(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    checkpoint: Option<&Checkpoint>,
    volumes: &[VolumeRow],
) -> LeftOutVolumes {
    let (mut tails, mut is_known) = (BTreeMap::new(), checkpoint.is_some());
    for volume in volumes {
        let saved = checkpoint.and_then(|c| c.volumes.iter().find(|(v, _)| v.id == volume.id));
        let front = saved.filter(|_| is_cnfs(volume)).map(|(_, state)| {
            let dir = SpoolPaths::new(&config.dir).residents.join(format!("{:05}", volume.id));
            let front = Residents::open(disk, dir, *state)?.front()?.map_or(u64::MAX, |front| front.place);
            Ok::<u64, io::Error>(front)
        });
        is_known &= !matches!(front, Some(Err(_)));
        tails.insert(volume.id, front.and_then(Result::ok).unwrap_or(0));
    }
    LeftOutVolumes { tails, since: checkpoint.map_or(0, |c| c.position), is_known }
}

/// Volumes of a spool according to its checkpoint and its journal.
#[derive(Default)]
pub(crate) struct PresentVolumes {
    /// Result of [`known_volumes`].
    pub known: Vec<VolumeRow>,
    /// Volumes that a rebuild leaves out.
    pub left_out: Vec<VolumeRow>,
}

/// Refuses a spool that lacks a buffer it had, or the directory of any buffer, or that has another file in
/// its place. A rebuild (`without` is not `None`) reads the existing files, and continues without the volumes
/// in `without`.
pub(crate) fn check_all(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    found: &[Option<FoundBuffer>],
    checkpoint: Option<&Checkpoint>,
    without: Option<&[String]>,
) -> Result<PresentVolumes, SpoolError> {
    let known = known_volumes(disk, config, checkpoint, found)?;
    for (buffer, found) in config.buffers.iter().zip(found) {
        match found {
            None => check(&**disk, buffer, &known)?,
            Some(found) if without.is_none() => {
                check_known(buffer, found, &known)?;
                check_age(buffer, found, checkpoint)?;
            }
            Some(_) => {}
        }
    }
    let left_out = match without {
        Some(without) => left_out(disk, config, found, checkpoint, without)?,
        None => check_trees(&**disk, config, &known).map(|()| Vec::new())?,
    };
    Ok(PresentVolumes { known, left_out })
}

/// Refuses directories of classes that are not the ones in use.
pub(crate) fn check_trees(
    disk: &dyn Disk,
    config: &SpoolConfig,
    known: &[VolumeRow],
) -> Result<(), SpoolError> {
    let headers = super::trees::headers(disk, config)?;
    let classes = config.classes.iter().filter(|class| class.method.keeps());
    let mut pairs = classes.filter_map(|class| Some((class, headers.iter().find(|h| h.name == class.name)?)));
    pairs.try_for_each(|(class, header)| check_known_tree(class, header, known))
}

/// Returns the names of the configured buffers whose files do not exist.
///
/// # Errors
/// If a path cannot be checked.
pub fn away(disk: &dyn Disk, config: &SpoolConfig) -> Result<Vec<String>, SpoolError> {
    let mut away = Vec::new();
    for buffer in &config.buffers {
        if is_absent(disk, &buffer.path)? {
            away.push(buffer.name.clone());
        }
    }
    Ok(away)
}

/// Checks a buffer that has no file, on a spool that is not new; `known` are the volumes it had.
pub(crate) fn check(disk: &dyn Disk, buffer: &BufferConfig, known: &[VolumeRow]) -> Result<(), SpoolError> {
    check_dir(disk, buffer)?;
    if is_absent(disk, &buffer.path)? && known.iter().any(|v| is_cnfs(v) && v.name == buffer.name) {
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

/// Returns the error for a known buffer whose file is missing.
pub(crate) fn missing(buffer: &BufferConfig) -> SpoolError {
    SpoolError::Unfit(format!(
        "buffer \"{0}\" is missing: there is no file {1}; mount its disk or put the file back, or run \
         `newsreel rebuild --without {0}` to go on without its articles",
        buffer.name,
        buffer.path.display()
    ))
}

fn is_absent(disk: &dyn Disk, path: &Path) -> Result<bool, SpoolError> {
    match disk.open(path, OpenMode::ReadOnly) {
        Ok(_) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(SpoolError::io("open buffer", path)(e)),
    }
}

/// Returns the buffers' files that do not exist yet.
pub(super) fn absent(disk: &dyn Disk, config: &SpoolConfig) -> Vec<PathBuf> {
    let paths = config.buffers.iter().map(|buffer| &buffer.path);
    paths.filter(|path| is_absent(disk, path).unwrap_or(false)).cloned().collect()
}

/// Removes the files of a new spool that could not be opened: buffers and journal, which take space. The
/// original error is reported.
pub(super) fn remove_made(disk: &dyn Disk, config: &SpoolConfig, made: &[PathBuf]) {
    let journal = SpoolPaths::new(&config.dir).journal;
    let rows = disk.list(&journal).unwrap_or_default().into_iter().map(|name| journal.join(name));
    for path in made.iter().cloned().chain(rows) {
        let _gone = disk.remove(&path);
    }
}
