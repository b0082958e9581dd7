//! Checks whether a spool can be opened, without changing, locking or creating anything.
//!
//! For `newsreel check`, even while a server is running. Reads what `recovery` reads and checks the same
//! conditions, but continues after a failure, so that everything is reported at once. Does not look for
//! damage: see `verify`.

use crate::index::checkpoint::Checkpoint;
use crate::open::paths::SpoolPaths;
use crate::open::recovery::{presence, read_secret, trees};
use crate::open::space;
use disk::{Disk, OpenMode};
use spool_base::config::{BufferConfig, SpoolConfig};
use spool_base::error::SpoolError;
use spool_base::ids::GroupFlag;
use spool_journal::{GroupsFile, JournalReader, JournalRow, VolumeRow};
use spool_methods::cnfs::FoundBuffer;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Result of an inspection.
#[derive(Debug, Default)]
pub struct Inspection {
    /// There is no spool yet; it would be created.
    pub new: bool,
    /// The groups, with their flags, in order of name.
    pub groups: Vec<(String, GroupFlag)>,
    /// Reasons why it could not be opened; each says what to do.
    pub problems: Vec<SpoolError>,
}

/// Inspects the spool of a configuration. `running`: a server has it open, so its buffers are expected to be
/// in use.
pub fn inspect(disk: &Arc<dyn Disk>, config: &SpoolConfig, running: bool) -> Inspection {
    let mut seen = Inspection::default();
    look(disk, config, running, &mut seen);
    seen
}

impl Inspection {
    /// Returns the value, or records the error as a problem.
    fn noted<T>(&mut self, result: Result<T, SpoolError>) -> Option<T> {
        result.map_err(|error| self.problems.push(error)).ok()
    }
}

/// Inspects all parts. Unreadable parts are problems, and checks that depend on them are skipped.
fn look(disk: &Arc<dyn Disk>, config: &SpoolConfig, running: bool, seen: &mut Inspection) {
    let paths = SpoolPaths::new(&config.dir);
    let journal = JournalReader::open(disk, &paths.journal, None);
    let journal = seen.noted(journal.map_err(SpoolError::io("read journal in", &paths.journal)));
    let checkpoint = seen.noted(Checkpoint::read(&**disk, &paths.index));
    seen.noted(GroupsFile::open(disk, &paths.dir).map_err(SpoolError::io("read groups file in", &paths.dir)));
    let mut found = Vec::new();
    for buffer in &config.buffers {
        found.push(seen.noted(FoundBuffer::look(&**disk, &buffer.path)).flatten());
    }
    let used = found.iter().flatten().any(|f| f.header.as_ref().is_some_and(|h| h.written > 2));
    let trees = seen.noted(trees::headers(&**disk, config));
    let has_none = journal.as_ref().is_some_and(|journal| journal.oldest().is_none())
        && checkpoint.as_ref().is_some_and(Option::is_none)
        && trees.is_some_and(|trees| trees.is_empty());
    seen.new = has_none && !used;
    let checkpoint = checkpoint.flatten();
    let known = match seen.new || journal.is_none() && checkpoint.is_none() {
        true => Vec::new(),
        false => {
            seen.noted(presence::known_volumes(disk, config, checkpoint.as_ref(), &found)).unwrap_or_default()
        }
    };
    for (buffer, found) in config.buffers.iter().zip(&found) {
        seen.noted(look_at_buffer(&**disk, buffer, found.as_ref(), seen.new, running, &known));
        // A running server may have taken a checkpoint since its header was read.
        if let Some(found) = found.as_ref().filter(|_| !running) {
            seen.noted(presence::check_age(buffer, found, checkpoint.as_ref()));
        }
    }
    seen.noted(presence::check_trees(&**disk, config, &known));
    seen.problems.extend(look_for_twins(&**disk, config));
    seen.noted(look_at_secret(&**disk, config, &found));
    seen.problems.extend(look_for_lost(config, checkpoint.as_ref()));
    if config.buffers.iter().all(|b| disk.file_system(&b.path).is_ok()) {
        seen.noted(space::check(&**disk, &space::of_opening(&**disk, config, &found, seen.new)));
    }
    if !seen.new {
        seen.noted(space::check_accepting(&**disk, config));
    }
    if journal.is_some() {
        let groups = groups(disk, &paths, checkpoint.as_ref());
        let groups = seen.noted(groups.map_err(SpoolError::io("read journal in", &paths.journal)));
        seen.groups = groups.unwrap_or_default();
    }
}

/// Inspects one buffer independently of the others. On a new spool its file may be missing; the file that a
/// running server uses is not locked.
fn look_at_buffer(
    disk: &dyn Disk,
    buffer: &BufferConfig,
    found: Option<&FoundBuffer>,
    is_new: bool,
    is_running: bool,
    known: &[VolumeRow],
) -> Result<(), SpoolError> {
    match found {
        Some(found) => {
            found.check(buffer)?;
            presence::check_known(buffer, found, known)?;
        }
        None if is_new => {}
        None => presence::check(disk, buffer, known)?,
    }
    // A server would write to it; if none runs, no other process may use it.
    match disk.open(&buffer.path, OpenMode::Existing) {
        Ok(file) if !is_running => match file.try_lock() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(spool_methods::cnfs::in_use(&buffer.path)),
            _ => Ok(()),
        },
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy && !is_running => {
            Err(spool_methods::cnfs::in_use(&buffer.path))
        }
        Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy) => {
            Err(SpoolError::io("open buffer", &buffer.path)(e))
        }
        _ => Ok(()),
    }
}

/// Finds buffers that are the same file, under different names.
fn look_for_twins(disk: &dyn Disk, config: &SpoolConfig) -> Vec<SpoolError> {
    let mut seen: BTreeMap<(u64, u64), &str> = BTreeMap::new();
    let mut twins = Vec::new();
    for buffer in &config.buffers {
        // A path that cannot be checked is a problem of its own.
        let Ok(Some(identity)) = disk.identity(&buffer.path) else { continue };
        if let Some(first) = seen.insert(identity, &buffer.name) {
            twins.push(SpoolError::Unfit(format!(
                "buffers \"{first}\" and \"{}\" are the same file, {}; give each a path of its own",
                buffer.name,
                buffer.path.display()
            )));
        }
    }
    twins
}

/// Checks the secret of the Message-ID hash, with which all buffers must have been created.
fn look_at_secret(
    disk: &dyn Disk,
    config: &SpoolConfig,
    found: &[Option<FoundBuffer>],
) -> Result<(), SpoolError> {
    let path = config.dir.join("secret");
    let mut text = vec![0; 64];
    let file = match disk.open(&path, OpenMode::ReadOnly) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(SpoolError::io("open", &path))?,
    };
    let n = file.read_at(&mut text, 0).map_err(SpoolError::io("read", &path))?;
    // A damaged secret is restored from a buffer.
    let Some(secret) = text.get(..n).and_then(read_secret) else { return Ok(()) };
    let headers = found.iter().flatten().filter_map(|found| found.header.as_ref());
    crate::open::recovery::same_secret(&path, &secret, headers)
}

/// Finds volumes with articles that are missing from the configuration.
fn look_for_lost(config: &SpoolConfig, checkpoint: Option<&Checkpoint>) -> Vec<SpoolError> {
    let Some(checkpoint) = checkpoint else { return Vec::new() };
    let names: Vec<&str> = config.buffers.iter().map(|b| b.name.as_str()).collect();
    let classes: Vec<&str> = config.classes.iter().map(|c| c.name.as_str()).collect();
    let lost = checkpoint.volumes.iter().filter(|(v, state)| {
        let named = names.contains(&v.name.as_str()) || classes.contains(&v.name.as_str());
        let used = state.written > state.read || checkpoint.keeps_in(v.id);
        !named && used && v.method != spool_base::token::MethodKind::Memory as u8
    });
    lost.map(|(volume, _)| crate::open::recovery::not_configured(volume)).collect()
}

/// Returns the groups according to checkpoint and journal.
fn groups(
    disk: &Arc<dyn Disk>,
    paths: &SpoolPaths,
    checkpoint: Option<&Checkpoint>,
) -> io::Result<Vec<(String, GroupFlag)>> {
    let mut groups: BTreeMap<String, GroupFlag> = BTreeMap::new();
    groups
        .extend(checkpoint.iter().flat_map(|c| &c.groups).map(|g| (g.row.name.clone(), g.row.flag.clone())));
    let mut rows = JournalReader::open(disk, &paths.journal, checkpoint.map(|c| c.position))?;
    while let Some((_, payload)) = rows.next_row()? {
        match JournalRow::decode(payload) {
            Some(JournalRow::Group(row)) => {
                groups.insert(row.name, row.flag);
            }
            Some(JournalRow::GroupRemoved { name, .. }) => {
                groups.remove(&name);
            }
            _ => {}
        }
    }
    Ok(groups.into_iter().collect())
}
