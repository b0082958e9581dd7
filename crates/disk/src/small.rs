//! Small files that exist whole or not at all: replaced, created, or appended to line by line.
//!
//! Used for state beside the spool, such as users, secrets, queues and the configuration. A crash at any
//! moment leaves the old contents or the new ones; after a call has returned, the new ones.
//! Callers that write the same file from several places exclude each other with a lock. A damaged file is set
//! aside before another one takes its place ([`aside`]); lines have checksums of their own ([`lines`]).

mod aside;
mod lines;
mod rolling;

pub use aside::{CheckedFile, is_set_aside, read_or_set_aside, set_aside};
pub use aside::{copy_aside, duplicate_aside};
pub use lines::{AppendLog, LogLine, checked_lines};
pub use rolling::{RollingFiles, RollingLog};

use super::{Disk, DiskFile, OpenMode};
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffix of the name of an unfinished file.
pub const UNFINISHED: &str = ".new";

/// Access rights of a new file. A replaced file keeps its owner and, unless only its owner may read it, its
/// mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Readable by its owner and the site's group.
    Group,
    /// Readable by its owner alone.
    Owner,
    /// Readable by all users of the machine.
    All,
}

impl FileAccess {
    fn open(self) -> OpenMode {
        match self {
            Self::Group => OpenMode::Create,
            Self::Owner => OpenMode::CreatePrivate,
            Self::All => OpenMode::CreatePublic,
        }
    }
}

/// Replaces the file at `path` with one that has these bytes, one part after the other.
pub fn durable_replace(disk: &dyn Disk, path: &Path, parts: &[&[u8]], access: FileAccess) -> io::Result<()> {
    let mut new = Replacements::new(disk, parent(path));
    new.add(path, parts, access)?;
    new.sync()?;
    new.name()
}

/// Files of one directory that are replaced together, each as by [`durable_replace`], with a single wait for
/// the disk. If dropped before [`Replacements::name`], they are removed; a crash leaves some of them
/// unfinished, and a crash while they get their names leaves some of them renamed.
#[derive(Debug)]
pub struct Replacements<'a> {
    disk: &'a dyn Disk,
    dir: PathBuf,
    /// Final paths; the first `named` of them have been renamed.
    paths: Vec<PathBuf>,
    named: usize,
    /// Handles of the first files: as many as are synced one by one.
    few: Vec<Arc<dyn DiskFile>>,
}

impl<'a> Replacements<'a> {
    /// Maximum number of files that are synced one by one; more share one sync of the file system.
    const FEW_MAX: usize = 4;

    /// Creates an empty set of replacements in `dir`.
    pub fn new(disk: &'a dyn Disk, dir: &Path) -> Self {
        Self { disk, dir: dir.to_owned(), paths: Vec::new(), named: 0, few: Vec::new() }
    }

    /// Writes a file with these bytes, one part after the other, that will get the name `path`.
    pub fn add(&mut self, path: &Path, parts: &[&[u8]], access: FileAccess) -> io::Result<()> {
        // A partly written file is removed as well if an error follows.
        self.paths.push(path.to_owned());
        let file = write(self.disk, path, &unfinished(path), parts, access);
        match file {
            Ok(file) if self.few.len() < Self::FEW_MAX => self.few.push(file),
            Ok(_) => {}
            Err(error) => {
                self.remove_from(self.paths.len() - 1);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the contents of the files durable.
    pub fn sync(&self) -> io::Result<()> {
        match self.paths.len() <= Self::FEW_MAX {
            true => self.few.iter().try_for_each(|file| file.sync()),
            false => self.disk.sync_tree(&self.dir),
        }
    }

    /// Renames the files to their final names, in order, and makes the names durable.
    pub fn name(mut self) -> io::Result<()> {
        for path in &self.paths {
            self.disk.rename(&unfinished(path), path)?;
            self.named += 1;
        }
        self.disk.sync_dir(&self.dir)
    }

    /// Removes the unnamed files from the `first` on.
    fn remove_from(&mut self, first: usize) {
        for path in self.paths.drain(first..) {
            // The file may never have been created.
            let _gone = self.disk.remove(&unfinished(&path));
        }
    }
}

impl Drop for Replacements<'_> {
    fn drop(&mut self) {
        self.remove_from(self.named);
    }
}

/// Creates a file with these bytes. Returns false and changes nothing if the file exists.
pub fn durable_create(disk: &dyn Disk, path: &Path, parts: &[&[u8]], access: FileAccess) -> io::Result<bool> {
    let new = unfinished(path);
    let written = write(disk, path, &new, parts, access).and_then(|file| file.sync());
    let linked = match written.and_then(|()| disk.link(&new, path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    };
    let removed = disk.remove(&new);
    let created = linked?;
    removed.and_then(|()| disk.sync_dir(parent(path)))?;
    Ok(created)
}

/// A file that is written piece by piece, and gets its name once it is whole and durable. If dropped before
/// that, it is removed; a crash leaves it under the name `unfinished`.
#[derive(Debug)]
pub struct NewFile {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    unfinished: PathBuf,
    end: u64,
    is_finished: bool,
}

impl NewFile {
    /// Creates the file; an error if `unfinished` exists. It gets the owner of `like`, a file or a directory.
    pub fn begin(disk: Arc<dyn Disk>, unfinished: PathBuf, like: &Path) -> io::Result<Self> {
        let file = disk.open(&unfinished, OpenMode::CreateNew)?;
        let new = Self { disk, file, unfinished, end: 0, is_finished: false };
        new.disk.make_like(&new.unfinished, like, false)?;
        Ok(new)
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&[IoSlice::new(bytes)], self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes the file durable under the name `path`, replacing any file of that name.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        self.file.sync()?;
        self.disk.rename(&self.unfinished, path)?;
        self.is_finished = true;
        self.disk.sync_dir(parent(path))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // The file may not have been created.
            let _gone = self.disk.remove(&self.unfinished);
        }
    }
}

/// Returns the first `bytes_max` bytes of a file; `None` if it does not exist.
pub fn read_small(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, OpenMode::ReadOnly) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(Some(bytes))
}

/// Writes the file `new`, which will get the name `path`.
fn write(
    disk: &dyn Disk,
    path: &Path,
    new: &Path,
    parts: &[&[u8]],
    access: FileAccess,
) -> io::Result<Arc<dyn DiskFile>> {
    // A file left by a crash may be a second name of `path`.
    match disk.remove(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(new, access.open())?;
    disk.make_like(new, path, access != FileAccess::Owner)?;
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    file.write_all_at(&parts, 0)?;
    Ok(file)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    path.with_file_name(name)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrashKind, SimDisk};

    pub(super) const PATH: &str = "/d/state";

    pub(super) fn on(sim: &SimDisk) -> Option<Vec<u8>> {
        read_small(sim, Path::new(PATH), 1 << 20).unwrap()
    }

    /// Runs `change` with a crash at every step, and checks what is left.
    pub(super) fn crashes(
        prepare: impl Fn(&SimDisk) -> io::Result<()>,
        change: impl Fn(&SimDisk) -> io::Result<()>,
        check: impl Fn(&SimDisk, bool, &str),
    ) {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(Path::new("/d")).unwrap();
                prepare(&sim).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let done = change(&sim).is_ok();
                check(&sim.image().unwrap(), done, &format!("{kind:?} at step {step}"));
                if !sim.crashed() {
                    assert!(step > 3, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_crash_leaves_the_old_file_or_the_new_one() {
        let write =
            |sim: &SimDisk, text: &[u8]| durable_replace(sim, Path::new(PATH), &[text], FileAccess::Owner);
        crashes(
            |sim| write(sim, b"the old one, which is longer"),
            |sim| write(sim, b"the new one"),
            |sim, done, what| {
                let found = on(sim).unwrap();
                assert!(
                    found == b"the new one" || (!done && found == b"the old one, which is longer"),
                    "{what}"
                );
                write(sim, b"another").unwrap();
                assert_eq!(on(sim).unwrap(), b"another", "{what}");
            },
        );
    }

    #[test]
    fn each_of_several_replacements_is_whole_or_unchanged_after_a_crash() {
        // Few files are synced one by one, more of them together.
        for files in [3, 7] {
            let path = |n: usize| PathBuf::from(format!("/d/{n}"));
            let replace = |sim: &SimDisk, text: &str| {
                let mut new = Replacements::new(sim, Path::new("/d"));
                for n in 0..files {
                    new.add(&path(n), &[text.as_bytes(), n.to_string().as_bytes()], FileAccess::Group)?;
                }
                new.sync()?;
                new.name()
            };
            let read = |sim: &SimDisk, n| read_small(sim, &path(n), 100).unwrap();
            crashes(
                // The last file is new.
                |sim| {
                    replace(sim, "old ")
                        .and_then(|()| sim.remove(&path(files - 1)))
                        .and_then(|()| sim.sync_dir(Path::new("/d")))
                },
                |sim| replace(sim, "new "),
                |sim, done, what| {
                    for n in 0..files {
                        let (found, old) = (read(sim, n), (n + 1 < files).then(|| format!("old {n}")));
                        let is_new = found.as_deref() == Some(format!("new {n}").as_bytes());
                        assert!(is_new || !done && found == old.map(String::into_bytes), "{what}: {n}");
                    }
                },
            );
            let sim = SimDisk::new();
            sim.create_dir(Path::new("/d")).unwrap();
            let mut new = Replacements::new(&sim, Path::new("/d"));
            (0..files).for_each(|n| new.add(&path(n), &[b"x"], FileAccess::Group).unwrap());
            drop(new);
            assert_eq!(sim.list(Path::new("/d")).unwrap(), Vec::<String>::new(), "none has got its name");
        }
    }

    #[test]
    fn a_crash_leaves_no_file_or_a_whole_one_and_an_old_one_stays() {
        let create = |sim: &SimDisk, text: &[u8]| {
            durable_create(sim, Path::new(PATH), &[text, b" in parts"], FileAccess::Group)
        };
        crashes(
            |_| Ok(()),
            |sim| create(sim, b"new").map(|made| assert!(made)),
            |sim, done, what| {
                let found = on(sim);
                assert!(found.as_deref() == Some(b"new in parts") || (!done && found.is_none()), "{what}");
                assert_eq!(create(sim, b"later").unwrap(), found.is_none(), "{what}");
                assert_eq!(on(sim).is_some_and(|now| now == b"later in parts"), found.is_none(), "{what}");
            },
        );
    }

    #[test]
    fn a_crash_leaves_a_file_under_its_name_only_if_it_is_whole() {
        let begin = |sim: &SimDisk| {
            NewFile::begin(Arc::new(sim.clone()), "/d/.part".into(), Path::new("/d")).and_then(|mut new| {
                new.append(b"in ")?;
                new.append(b"parts")?;
                Ok(new)
            })
        };
        crashes(
            |_| Ok(()),
            |sim| begin(sim)?.finish(Path::new(PATH)),
            |sim, done, what| {
                let found = on(sim);
                assert!(found.as_deref() == Some(b"in parts") || (!done && found.is_none()), "{what}");
            },
        );
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let new = begin(&sim).unwrap();
        assert_eq!(sim.about(Path::new("/d/.part")).unwrap().map(|about| about.bytes), Some(8));
        assert!(begin(&sim).is_err(), "it is being written");
        drop(new);
        assert_eq!(sim.list(Path::new("/d")).unwrap(), Vec::<String>::new());
    }
}
