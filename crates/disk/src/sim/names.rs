//! Directories of a simulated disk: names as processes see them, names that certainly survive a power cut,
//! and the changes between.
//!
//! Directories created by `create_dir` are durable at once, as its contract says; those by `make_dirs` after
//! a sync of the parent directory. Files in a directory that a power cut removes are lost with it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::random::SimRandom;

/// Number of a file within its disk.
pub(super) type NodeId = u64;
type NameTable = BTreeMap<PathBuf, NodeId>;

/// A change since the last sync of the directory.
#[derive(Debug, Clone)]
enum NameChange {
    Create(PathBuf, NodeId),
    Rename(PathBuf, PathBuf, NodeId),
    Remove(PathBuf),
    MakeDir(PathBuf),
}

impl NameChange {
    fn apply(&self, names: &mut NameTable, dirs: &mut BTreeSet<PathBuf>) {
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
            Self::MakeDir(path) => {
                dirs.insert(path.clone());
            }
        }
    }

    /// Returns the path whose directory must be synced to make the change durable; for a rename the target's.
    fn path(&self) -> &Path {
        match self {
            Self::Create(path, _) | Self::Remove(path) | Self::Rename(_, path, _) | Self::MakeDir(path) => {
                path
            }
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct SimNames {
    live: NameTable,
    durable: NameTable,
    changes: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    durable_dirs: BTreeSet<PathBuf>,
}

impl SimNames {
    pub fn get(&self, path: &Path) -> Option<NodeId> {
        self.live.get(path).copied()
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live, &mut self.dirs);
        self.changes.push(change);
    }

    pub fn create(&mut self, path: &Path, id: NodeId) -> io::Result<()> {
        let in_dir = path.parent().is_some_and(|dir| self.is_dir(dir));
        if !in_dir || self.is_dir(path) {
            return Err(not_found(path));
        }
        self.change(NameChange::Create(path.to_path_buf(), id));
        Ok(())
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.get(from).ok_or_else(|| not_found(from))?;
        if !to.parent().is_some_and(|dir| self.is_dir(dir)) {
            return Err(not_found(to));
        }
        self.change(NameChange::Rename(from.to_path_buf(), to.to_path_buf(), id));
        Ok(())
    }

    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.get(path).ok_or_else(|| not_found(path))?;
        self.change(NameChange::Remove(path.to_path_buf()));
        Ok(())
    }

    pub fn create_dir(&mut self, path: &Path) {
        self.dirs.extend(path.ancestors().map(Path::to_path_buf));
        self.durable_dirs.extend(path.ancestors().map(Path::to_path_buf));
    }

    pub fn make_dirs(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<_> = path.ancestors().take_while(|dir| !self.is_dir(dir)).collect();
        for dir in missing.into_iter().rev() {
            if self.live.contains_key(dir) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.change(NameChange::MakeDir(dir.to_path_buf()));
        }
        Ok(())
    }

    pub fn link(&mut self, file: &Path, new: &Path) -> io::Result<()> {
        let id = self.get(file).ok_or_else(|| not_found(file))?;
        if self.get(new).is_some() || self.is_dir(new) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.create(new, id)
    }

    pub fn list_dirs(&self, dir: &Path) -> Vec<String> {
        let here = self.dirs.iter().filter(|path| is_right_in(path, dir));
        here.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect()
    }

    /// Makes all names in and below a directory durable; returns their files.
    pub fn sync_tree(&mut self, dir: &Path) -> Vec<NodeId> {
        let (durable, dirs) = (&mut self.durable, &mut self.durable_dirs);
        self.changes.retain(|change| {
            let here = change.path().parent().is_some_and(|d| d.starts_with(dir));
            if here {
                change.apply(durable, dirs);
            }
            !here
        });
        self.live.iter().filter(|(path, _)| path.starts_with(dir)).map(|(_, id)| *id).collect()
    }

    pub fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || path.as_os_str().is_empty() || self.dirs.contains(path)
    }

    pub fn list(&self, dir: &Path) -> Vec<String> {
        let here = self.live.keys().filter(|path| is_right_in(path, dir));
        here.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect()
    }

    pub fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if !self.is_dir(dir) {
            return Err(not_found(dir));
        }
        let (durable, dirs) = (&mut self.durable, &mut self.durable_dirs);
        self.changes.retain(|change| {
            let here = is_right_in(change.path(), dir);
            if here {
                change.apply(durable, dirs);
            }
            !here
        });
        Ok(())
    }

    /// Returns the names that certainly survive a power cut.
    pub fn as_synced(&self) -> Self {
        let mut names = Self {
            live: self.durable.clone(),
            dirs: self.durable_dirs.clone(),
            changes: Vec::new(),
            ..self.clone()
        };
        names.drop_lost();
        names
    }

    /// Returns the names as they may be after a power cut: any of the later changes have happened, each
    /// wholly.
    pub fn after_power_cut(&self, random: &mut SimRandom) -> Self {
        let mut names = self.as_synced();
        let survival = random.survival();
        for change in &self.changes {
            if survival.of(random) {
                change.apply(&mut names.live, &mut names.dirs);
            }
        }
        names.drop_lost();
        names
    }

    /// Drops entries of directories that do not exist, and treats the rest as durable.
    fn drop_lost(&mut self) {
        let all = std::mem::take(&mut self.dirs);
        let whole = |dir: &&PathBuf| dir.ancestors().all(|d| d.as_os_str().is_empty() || all.contains(d));
        self.dirs = all.iter().filter(whole).cloned().collect();
        let dirs = &self.dirs;
        self.live
            .retain(|path, _| path.parent().is_none_or(|dir| dir.parent().is_none() || dirs.contains(dir)));
        self.durable = self.live.clone();
        self.durable_dirs = self.dirs.clone();
    }

    /// Returns the files that have a name.
    pub fn live_ids(&self) -> BTreeSet<NodeId> {
        self.live.values().copied().collect()
    }

    /// Returns the files that have a name, or may have one again after a power cut.
    pub fn ids(&self) -> BTreeSet<NodeId> {
        let changed = self.changes.iter().filter_map(|change| match change {
            NameChange::Create(_, id) | NameChange::Rename(_, _, id) => Some(*id),
            NameChange::Remove(_) | NameChange::MakeDir(_) => None,
        });
        self.live.values().chain(self.durable.values()).copied().chain(changed).collect()
    }
}

/// Reports whether the directory of `path` is `dir`. Called so often by crash tests that it must not compare
/// components.
fn is_right_in(path: &Path, dir: &Path) -> bool {
    let dir = dir.as_os_str().as_encoded_bytes();
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    let rest = path.as_os_str().as_encoded_bytes().strip_prefix(dir);
    rest.and_then(|rest| rest.strip_prefix(b"/"))
        .is_some_and(|name| !name.is_empty() && !name.contains(&b'/'))
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}
