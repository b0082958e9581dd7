//! The directories of a simulated disk: names as processes see them, as they surely are after a power cut,
//! and the changes between.
//!
//! Simpler than a real machine in one point: directories themselves are durable as soon as they are made.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::random::Random;

/// Number of a file within its disk.
pub(super) type NodeId = u64;
type Table = BTreeMap<PathBuf, NodeId>;

/// A change since the last sync of the directory.
#[derive(Debug, Clone)]
enum Change {
    Create(PathBuf, NodeId),
    Rename(PathBuf, PathBuf, NodeId),
    Remove(PathBuf),
}

impl Change {
    fn apply(&self, names: &mut Table) {
        match self {
            Self::Create(path, id) => {
                names.insert(path.clone(), *id);
            }
            Self::Rename(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }

    /// The directory whose sync makes it durable; for a rename the target's.
    fn dir(&self) -> Option<&Path> {
        match self {
            Self::Create(path, _) | Self::Remove(path) | Self::Rename(_, path, _) => path.parent(),
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct Names {
    live: Table,
    durable: Table,
    changes: Vec<Change>,
    dirs: BTreeSet<PathBuf>,
}

impl Names {
    pub fn get(&self, path: &Path) -> Option<NodeId> {
        self.live.get(path).copied()
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    pub fn create(&mut self, path: &Path, id: NodeId) -> io::Result<()> {
        let in_dir = path.parent().is_some_and(|dir| self.is_dir(dir));
        if !in_dir || self.is_dir(path) {
            return Err(not_found(path));
        }
        self.change(Change::Create(path.to_path_buf(), id));
        Ok(())
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.get(from).ok_or_else(|| not_found(from))?;
        if !to.parent().is_some_and(|dir| self.is_dir(dir)) {
            return Err(not_found(to));
        }
        self.change(Change::Rename(from.to_path_buf(), to.to_path_buf(), id));
        Ok(())
    }

    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.get(path).ok_or_else(|| not_found(path))?;
        self.change(Change::Remove(path.to_path_buf()));
        Ok(())
    }

    pub fn create_dir(&mut self, path: &Path) {
        self.dirs.extend(path.ancestors().map(Path::to_path_buf));
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || path.as_os_str().is_empty() || self.dirs.contains(path)
    }

    pub fn list(&self, dir: &Path) -> Vec<String> {
        let here = self.live.keys().filter(|path| path.parent() == Some(dir));
        here.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect()
    }

    pub fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if !self.is_dir(dir) {
            return Err(not_found(dir));
        }
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            let here = change.dir() == Some(dir);
            if here {
                change.apply(durable);
            }
            !here
        });
        Ok(())
    }

    /// As they surely are after a power cut.
    pub fn as_synced(&self) -> Self {
        Self { live: self.durable.clone(), changes: Vec::new(), ..self.clone() }
    }

    /// As they may be after a power cut: any of the later changes have happened, each wholly.
    pub fn after_power_cut(&self, random: &mut Random) -> Self {
        let mut names = self.as_synced();
        let survival = random.survival();
        for change in &self.changes {
            if survival.of(random) {
                change.apply(&mut names.live);
            }
        }
        names.durable = names.live.clone();
        names
    }

    /// The files that have a name, or may have one again after a power cut.
    pub fn ids(&self) -> BTreeSet<NodeId> {
        let changed = self.changes.iter().filter_map(|change| match change {
            Change::Create(_, id) | Change::Rename(_, _, id) => Some(*id),
            Change::Remove(_) => None,
        });
        self.live.values().chain(self.durable.values()).copied().chain(changed).collect()
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}
