//! Small files that are there whole or not at all: replaced, created, or appended to line by line.
//!
//! For state beside the spool, such as users, secrets, queues and the configuration. A machine that crashes
//! at any moment leaves what was there or what is to be there; after a call has returned, what is to be
//! there.
//! Whoever writes the same file from several places keeps them apart with a lock. A file that is damaged is
//! set aside before another one takes its place ([`aside`]); lines have checksums of their own ([`lines`]).

mod aside;
mod lines;

pub use aside::{Checked, is_set_aside, read_or_set_aside, set_aside};
pub(crate) use aside::{copy_aside, duplicate_aside};
pub use lines::{AppendLog, Line, checked_lines};

use super::{Disk, DiskFile, Open};
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the name of a file ends that is not there yet.
pub(crate) const UNFINISHED: &str = ".new";

/// Who may read a file that did not exist. One that is replaced keeps its owner and, unless its owner alone
/// may read it, its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its owner and the site's group.
    Group,
    /// Its owner alone.
    Owner,
    /// All users of the machine.
    All,
}

impl Access {
    fn open(self) -> Open {
        match self {
            Self::Group => Open::Create,
            Self::Owner => Open::CreatePrivate,
            Self::All => Open::CreatePublic,
        }
    }
}

/// Puts a file with these bytes, one part after the other, in the place of `path`.
pub fn durable_replace(disk: &dyn Disk, path: &Path, parts: &[&[u8]], access: Access) -> io::Result<()> {
    let mut new = Replacements::new(disk, parent(path));
    new.add(path, parts, access)?;
    new.sync()?;
    new.name()
}

/// Files of one directory that are replaced together, each as by [`durable_replace`]: they wait for the disk
/// once. Dropped before [`Replacements::name`] they are removed; a crash leaves some of them unfinished, and
/// while they get their names it leaves some of them there.
#[derive(Debug)]
pub struct Replacements<'a> {
    disk: &'a dyn Disk,
    dir: PathBuf,
    /// What each is to be called; those before `named` are.
    paths: Vec<PathBuf>,
    named: usize,
    /// The first of them, open: as many as are synced one by one.
    few: Vec<Arc<dyn DiskFile>>,
}

impl<'a> Replacements<'a> {
    /// Up to so many files are synced by themselves; more share one sync of the file system.
    const FEW_MAX: usize = 4;

    /// None yet; all will be in `dir`.
    pub fn new(disk: &'a dyn Disk, dir: &Path) -> Self {
        Self { disk, dir: dir.to_owned(), paths: Vec::new(), named: 0, few: Vec::new() }
    }

    /// Writes a file with these bytes, one part after the other, that is to be called `path`.
    pub fn add(&mut self, path: &Path, parts: &[&[u8]], access: Access) -> io::Result<()> {
        // What is written of it by an error goes as well.
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

    /// Makes what is in them durable.
    pub fn sync(&self) -> io::Result<()> {
        match self.paths.len() <= Self::FEW_MAX {
            true => self.few.iter().try_for_each(|file| file.sync()),
            false => self.disk.sync_tree(&self.dir),
        }
    }

    /// Gives them their names, in order, and makes these durable.
    pub fn name(mut self) -> io::Result<()> {
        for path in &self.paths {
            self.disk.rename(&unfinished(path), path)?;
            self.named += 1;
        }
        self.disk.sync_dir(&self.dir)
    }

    /// Removes those from the `first` on that have no name yet.
    fn remove_from(&mut self, first: usize) {
        for path in self.paths.drain(first..) {
            // It may never have been made.
            let _gone = self.disk.remove(&unfinished(&path));
        }
    }
}

impl Drop for Replacements<'_> {
    fn drop(&mut self) {
        self.remove_from(self.named);
    }
}

/// Makes a file with these bytes. False, and nothing is changed, if there is one.
pub fn durable_create(disk: &dyn Disk, path: &Path, parts: &[&[u8]], access: Access) -> io::Result<bool> {
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

/// A file that is written bit by bit, and gets its name once it is whole and durable. Dropped before that it
/// is removed; a crash leaves it under the name `unfinished`.
#[derive(Debug)]
pub struct NewFile {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    unfinished: PathBuf,
    end: u64,
    is_finished: bool,
}

impl NewFile {
    /// Begins it; an error if `unfinished` exists. It gets the owner of `like`, a file or a directory.
    pub fn begin(disk: Arc<dyn Disk>, unfinished: PathBuf, like: &Path) -> io::Result<Self> {
        let file = disk.open(&unfinished, Open::CreateNew)?;
        let new = Self { disk, file, unfinished, end: 0, is_finished: false };
        new.disk.make_like(&new.unfinished, like, false)?;
        Ok(new)
    }

    /// Others see it with this length from now on.
    pub fn announce(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    /// Appends.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&[IoSlice::new(bytes)], self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes it durable under the name `path`, in place of what has that name.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.sync()?;
        self.disk.rename(&self.unfinished, path)?;
        self.is_finished = true;
        self.disk.sync_dir(parent(path))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // It may not have been made.
            let _gone = self.disk.remove(&self.unfinished);
        }
    }
}

/// The bytes of a file, at most so many; `None` if there is none.
pub fn read_small(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::ReadOnly) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(Some(bytes))
}

/// Writes the file `new`, which is to be called `path`.
fn write(
    disk: &dyn Disk,
    path: &Path,
    new: &Path,
    parts: &[&[u8]],
    access: Access,
) -> io::Result<Arc<dyn DiskFile>> {
    // One that a crash has left may be a second name of `path`.
    match disk.remove(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(new, access.open())?;
    disk.make_like(new, path, access != Access::Owner)?;
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
    use crate::disk::{CrashKind, SimDisk};

    pub(super) const PATH: &str = "/d/state";

    pub(super) fn on(sim: &SimDisk) -> Option<Vec<u8>> {
        read_small(sim, Path::new(PATH), 1 << 20).unwrap()
    }

    /// Lets `change` meet every crash, and looks at what is left.
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
            |sim: &SimDisk, text: &[u8]| durable_replace(sim, Path::new(PATH), &[text], Access::Owner);
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
    fn a_crash_leaves_of_several_replacements_each_whole_or_as_it_was() {
        // As many as are synced one by one, and more.
        for files in [3, 7] {
            let path = |n: usize| PathBuf::from(format!("/d/{n}"));
            let replace = |sim: &SimDisk, text: &str| {
                let mut new = Replacements::new(sim, Path::new("/d"));
                for n in 0..files {
                    new.add(&path(n), &[text.as_bytes(), n.to_string().as_bytes()], Access::Group)?;
                }
                new.sync()?;
                new.name()
            };
            let read = |sim: &SimDisk, n| read_small(sim, &path(n), 100).unwrap();
            crashes(
                // The last of them is new.
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
            (0..files).for_each(|n| new.add(&path(n), &[b"x"], Access::Group).unwrap());
            drop(new);
            assert_eq!(sim.list(Path::new("/d")).unwrap(), Vec::<String>::new(), "none has got its name");
        }
    }

    #[test]
    fn a_crash_leaves_no_file_or_a_whole_one_and_an_old_one_stays() {
        let create = |sim: &SimDisk, text: &[u8]| {
            durable_create(sim, Path::new(PATH), &[text, b" in parts"], Access::Group)
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
                new.announce(9)?;
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
        assert_eq!(sim.about(Path::new("/d/.part")).unwrap().map(|about| about.bytes), Some(9));
        assert!(begin(&sim).is_err(), "it is being written");
        drop(new);
        assert_eq!(sim.list(Path::new("/d")).unwrap(), Vec::<String>::new());
    }
}
