//! Changes of names: create, link, rename and remove, in managed and in other directories.
//!
//! Each change is one call that changes the lower tree, after those that make a bucket. After a kill a name
//! is either at its old or at its new position, and there is at most one superfluous empty bucket.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use fuser::FileAttr;
use rustix::fs::{self, AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Statx, Uid};
use rustix::io::Errno;

use crate::directory::{FoundEntry, LowerDirectory, MARKER, MOVES_MAX};
use crate::failpoint;
use crate::listing::{self, DirectoryListing, LowerEntry};
use crate::lower::{self, LowerResult};
use crate::tree::MountedTree;

/// User and group that make an entry.
#[derive(Debug, Clone, Copy)]
pub struct EntryCreator {
    /// User ID.
    pub user: u32,
    /// Group ID.
    pub group: u32,
}

/// Kind of a new entry.
#[derive(Debug, Clone, Copy)]
pub enum NewEntry<'a> {
    /// A directory.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a OsStr),
    /// A file, pipe, socket or device with this number.
    Node(FileType, u64),
}

impl MountedTree {
    /// Looks a name up.
    pub fn look_up(&self, parent: u64, name: &OsStr) -> LowerResult<FileAttrAndBirth> {
        let dir = self.directory(parent)?;
        let found = dir.find(name)?;
        self.entered(parent, name, &dir, &found)
    }

    fn entered(
        &self,
        parent: u64,
        name: &OsStr,
        dir: &LowerDirectory,
        found: &FoundEntry,
    ) -> LowerResult<FileAttrAndBirth> {
        Ok((self.enter(parent, name, dir, found)?, found.stat))
    }

    /// Returns the path for a new entry; an error if the name exists.
    fn free_place(dir: &LowerDirectory, name: &OsStr, is_dir: bool) -> LowerResult<OsString> {
        match dir.find(name) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => dir.place(name, is_dir),
            Err(error) => Err(error),
        }
    }

    /// Makes an entry without opening it.
    pub fn make(
        &self,
        parent: u64,
        name: &OsStr,
        made: NewEntry<'_>,
        mode: u32,
        maker: EntryCreator,
    ) -> LowerResult<FileAttrAndBirth> {
        let dir = self.directory(parent)?;
        let is_dir = matches!(made, NewEntry::Directory);
        let place = Self::free_place(&dir, name, is_dir)?;
        // Setuid and setgid bits are set after the change of the owner.
        let bits = Mode::from_raw_mode(mode & 0o1777);
        let path = dir.with_bucket(&place, |path| {
            failpoint::reached("step");
            match made {
                NewEntry::Directory => fs::mkdirat(&dir.fd, path, bits)?,
                NewEntry::Symlink(target) => fs::symlinkat(target, &dir.fd, path)?,
                NewEntry::Node(kind, device) => fs::mknodat(&dir.fd, path, kind, bits, device)?,
            }
            Ok(path.to_owned())
        })?;
        failpoint::reached("step");
        let inherits = is_dir && dir.stat.stx_mode & lower::INHERITED_GROUP != 0;
        let extra = if inherits { u32::from(lower::INHERITED_GROUP) } else { 0 };
        let lost = !is_dir && mode & 0o6000 != 0;
        let mode = ((inherits || lost) && !matches!(made, NewEntry::Symlink(_)))
            .then(|| Mode::from_raw_mode(mode & 0o7777 | extra));
        let settle = |path: &OsStr| {
            let stat = dir.give_to(path, maker.user, dir.group_of_new(maker.group))?;
            failpoint::reached("step");
            let Some(mode) = mode else { return Ok(stat) };
            fs::chmodat(&dir.fd, path, mode, AtFlags::empty())?;
            lower::stat_at(&dir.fd, path)
        };
        let settled = match settle(&path) {
            Err(Errno::NOENT) => while_moved(|| Ok(settle(&dir.find(name)?.path))),
            settled => settled,
        };
        let stat = settled.inspect_err(|_| {
            let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let _left = fs::unlinkat(&dir.fd, &path, flags);
        })?;
        dir.touch();
        self.entered(parent, name, &dir, &FoundEntry { path, stat })
    }

    /// Creates a file and opens it; an existing file is opened, unless it must not exist.
    pub fn create(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
        exclusive: bool,
        maker: EntryCreator,
    ) -> LowerResult<(FileAttrAndBirth, OwnedFd)> {
        let dir = self.directory(parent)?;
        let place = match dir.find(name) {
            Ok(_) if exclusive => return Err(Errno::EXIST),
            Ok(found) => {
                let fd = lower::open_file(&dir.fd, &found.path, flags)?;
                return Ok((self.entered(parent, name, &dir, &found)?, fd));
            }
            Err(Errno::NOENT) => dir.place(name, false)?,
            Err(error) => return Err(error),
        };
        let how = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Setuid and setgid bits are set after the change of the owner.
        let (bits, first) = (Mode::from_raw_mode(mode & 0o7777), Mode::from_raw_mode(mode & 0o1777));
        let (fd, path) = dir.with_bucket(&place, |path| {
            failpoint::reached("step");
            fs::openat(&dir.fd, path, how, first).map(|fd| (fd, path.to_owned()))
        })?;
        failpoint::reached("step");
        // A conversion may have moved it already, so its path is not used.
        let settled = give_file(&fd, maker.user, dir.group_of_new(maker.group)).and_then(|stat| {
            failpoint::reached("step");
            if mode & 0o6000 == 0 {
                return Ok(stat);
            }
            fs::fchmod(&fd, bits)?;
            lower::stat_fd(&fd)
        });
        let stat = settled.inspect_err(|_| {
            let _left = fs::unlinkat(&dir.fd, &path, AtFlags::empty());
        })?;
        dir.touch();
        Ok((self.entered(parent, name, &dir, &FoundEntry { path, stat })?, fd))
    }

    /// Adds a name to a file.
    pub fn link(&self, id: u64, parent: u64, name: &OsStr) -> LowerResult<FileAttrAndBirth> {
        let dir = self.directory(parent)?;
        let place = Self::free_place(&dir, name, false)?;
        let fd = self.node_fd(id)?;
        let path = dir.with_bucket(&place, |path| {
            failpoint::reached("link");
            fs::linkat(CWD, lower::path_of(fd.as_fd()), &dir.fd, path, AtFlags::SYMLINK_FOLLOW)?;
            failpoint::reached("linked");
            Ok(path.to_owned())
        })?;
        dir.touch();
        let stat = lower::stat_fd(&fd)?;
        self.entered(parent, name, &dir, &FoundEntry { path, stat })
    }

    /// Removes a name of anything but a directory.
    pub fn unlink(&self, parent: u64, name: &OsStr) -> LowerResult<()> {
        let dir = self.directory(parent)?;
        let (found, last) = while_moved(|| {
            let found = dir.find(name)?;
            if lower::is_dir(&found.stat) {
                return Err(Errno::ISDIR);
            }
            let last = self.last_descriptor(&dir, &found);
            failpoint::reached("step");
            let removed = fs::unlinkat(&dir.fd, &found.path, AtFlags::empty());
            Ok(removed.map(|()| (found, last)))
        })?;
        self.removed(parent, name, &found.stat, last);
        dir.touch();
        Ok(())
    }

    /// Removes an empty directory with its buckets.
    pub fn rmdir(&self, parent: u64, name: &OsStr) -> LowerResult<()> {
        let dir = self.directory(parent)?;
        let found = dir.find(name)?;
        if !lower::is_dir(&found.stat) {
            return Err(Errno::NOTDIR);
        }
        self.strip(&dir, &found)?;
        let last = self.last_descriptor(&dir, &found);
        failpoint::reached("step");
        fs::unlinkat(&dir.fd, &found.path, AtFlags::REMOVEDIR)?;
        self.removed(parent, name, &found.stat, last);
        dir.touch();
        Ok(())
    }

    /// Removes the buckets of an empty managed directory.
    fn strip(&self, dir: &LowerDirectory, found: &FoundEntry) -> LowerResult<()> {
        if !lower::is_managed(&found.stat) {
            return Ok(());
        }
        let fd = lower::open_path(&dir.fd, &found.path)?;
        let inner = LowerDirectory::new(fd.into(), dir.scheme)?;
        let mut is_empty = true;
        DirectoryListing::new(inner.clone(), [0; 2])?.read(0, |entry| {
            is_empty &= entry.name == "." || entry.name == "..";
            is_empty
        })?;
        if !is_empty {
            return Err(Errno::NOTEMPTY);
        }
        remove_buckets(&inner)?;
        remove_dir(&inner, OsStr::new(MARKER))
    }

    /// Moves a name from one directory to another, or exchanges two names.
    pub fn rename(
        &self,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> LowerResult<()> {
        let (dir, new_dir) = (self.directory(parent)?, self.directory(new_parent)?);
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        let moved = while_moved(|| {
            let found = dir.find(name)?;
            let target = match new_dir.find(new_name) {
                Err(Errno::NOENT) => None,
                target => Some(target?),
            };
            let place = match &target {
                Some(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
                // Two names of one file stay as they are.
                Some(target) if !exchange && lower::key(&target.stat) == lower::key(&found.stat) => {
                    return Ok(Ok(None));
                }
                Some(target) => target.path.clone(),
                None if exchange => return Err(Errno::NOENT),
                None => new_dir.place(new_name, lower::is_dir(&found.stat))?,
            };
            let mut last = None;
            if let Some(target) = target.as_ref().filter(|_| !exchange) {
                if lower::is_dir(&found.stat) {
                    self.strip(&new_dir, target)?;
                }
                last = self.last_descriptor(&new_dir, target);
            }
            let moved = new_dir.with_bucket(&place, |path| {
                failpoint::reached("rename");
                fs::renameat_with(&dir.fd, &found.path, &new_dir.fd, path, flags)
            });
            Ok(moved.map(|()| Some((found, target, last))))
        })?;
        let Some((found, target, last)) = moved else { return Ok(()) };
        failpoint::reached("renamed");
        if let Some(target) = &target {
            self.removed(new_parent, new_name, &target.stat, last);
            if let (true, Some(id)) = (exchange, self.nodes.known(&target.stat)) {
                self.nodes.add_name(id, parent, name);
            }
        }
        if let Some(id) = self.nodes.known(&found.stat) {
            self.nodes.drop_name(id, parent, name);
            self.nodes.add_name(id, new_parent, new_name);
        }
        dir.touch();
        new_dir.touch();
        Ok(())
    }

    /// Returns a descriptor of a file that is about to lose its last name, if the kernel knows the file.
    fn last_descriptor(&self, dir: &LowerDirectory, found: &FoundEntry) -> Option<OwnedFd> {
        let is_last = lower::is_dir(&found.stat) || found.stat.stx_nlink <= 1;
        (is_last && self.nodes.known(&found.stat).is_some())
            .then(|| lower::open_path(&dir.fd, &found.path).ok())
            .flatten()
    }

    fn removed(&self, parent: u64, name: &OsStr, stat: &Statx, last: Option<OwnedFd>) {
        if let Some(id) = self.nodes.known(stat) {
            self.nodes.drop_name(id, parent, name);
            if let Some(fd) = last {
                self.nodes.keep_nameless(id, fd);
            }
        }
    }
}

/// Attributes for the kernel, and those of the lower file.
pub type FileAttrAndBirth = (FileAttr, Statx);

/// Finds an entry and changes it, and repeats that if a conversion moves it in between. The inner result is
/// that of the change.
fn while_moved<T>(attempt: impl Fn() -> LowerResult<LowerResult<T>>) -> LowerResult<T> {
    for _ in 0..MOVES_MAX {
        match attempt()? {
            Err(Errno::NOENT) => {}
            done => return done,
        }
    }
    Err(Errno::NOENT)
}

/// Changes the owner of a new file; returns its attributes.
fn give_file(fd: &OwnedFd, user: u32, group: u32) -> LowerResult<Statx> {
    let stat = lower::stat_fd(fd)?;
    if (stat.stx_uid, stat.stx_gid) == (user, group) {
        return Ok(stat);
    }
    fs::fchown(fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    lower::stat_fd(fd)
}

/// Removes all buckets of a directory, which must be empty.
pub fn remove_buckets(dir: &LowerDirectory) -> LowerResult<()> {
    for path in listing::bucket_paths(dir)? {
        remove_dir(dir, &path)?;
    }
    if dir.scheme.levels() > 1 {
        let is_level = |entry: &LowerEntry| dir.scheme.is_level(entry.name.as_bytes());
        for entry in listing::all(dir, OsStr::new("."))?.into_iter().filter(is_level) {
            remove_dir(dir, &entry.name)?;
        }
    }
    Ok(())
}

/// Removes a directory if it exists.
fn remove_dir(dir: &LowerDirectory, path: &OsStr) -> LowerResult<()> {
    failpoint::reached("step");
    match fs::unlinkat(&dir.fd, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}
