//! FUSE requests, translated to [`MountedTree`] and answered.
//!
//! One thread at a time looks up and changes names, holding a turn at the tree; several threads read and
//! write, so that a slow file delays no other requests. Requests that may wait for the disk for long (syncs,
//! allocation, copies) are answered by [`WorkerPool`]. The kernel checks permissions (`default_permissions`),
//! keeps locks, and caches names and attributes for a moment; changes through the mount are visible at once.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    self, AtFlags, FallocateFlags, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};

use crate::files::OpenFile;
use crate::listing::{self, DirectoryListing};
use crate::lower::unprivileged::unprivileged;
use crate::lower::{self, LowerResult};
use crate::naming::{EntryCreator, NewEntry};
use crate::online::{CONVERSION, Conversions};
use crate::tree::MountedTree;
use crate::workers::WorkerPool;

/// Maximum number of stacked file systems that the kernel allows, this one included.
const STACK_DEPTH_MAX: u32 = 2;
/// Maximum size of a single read or write, in bytes.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Values of `whence` for holes and data, the only ones that the kernel requests.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// FUSE server of a mount.
pub struct Usenetfs {
    tree: Arc<MountedTree>,
    workers: WorkerPool,
    conversions: Conversions,
    keep: Duration,
    notifier: Arc<OnceLock<Notifier>>,
    wants_passthrough: bool,
}

impl Usenetfs {
    /// Creates the server of a tree. The kernel caches names and attributes for `keep`.
    pub fn new(
        tree: Arc<MountedTree>,
        keep: Duration,
        wants_passthrough: bool,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> io::Result<Self> {
        let workers = WorkerPool::start()?;
        Ok(Self { tree, workers, conversions: Conversions::default(), keep, notifier, wants_passthrough })
    }

    fn file(&self, handle: FileHandle) -> LowerResult<Arc<OpenFile>> {
        self.tree.files.get(handle.0).ok_or(rustix::io::Errno::BADF)
    }

    fn enter(&self, entered: LowerResult<(fuser::FileAttr, fs::Statx)>, reply: ReplyEntry) {
        match entered {
            Ok((attr, stat)) => reply.entry(&self.keep, &attr, lower::generation(&stat)),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Invalidates the names that the kernel knows in a directory that has become managed or flat.
    fn forget_names(&self, dir: INodeNo) {
        let names = self.tree.nodes.children(dir.0);
        let notifier = self.notifier.clone();
        self.workers.notify(move || {
            for name in names {
                // Names that the kernel no longer knows need no invalidation.
                let _gone = notifier.get().map(|notifier| notifier.inval_entry(dir, &name));
            }
        });
    }

    /// Returns the mode that a directory is given. Only an empty directory gains or loses the mark of a
    /// managed one with it: entries of others would no longer be visible. Programs that restore modes (rsync,
    /// tar) mean the permissions.
    fn kept_mark(&self, ino: INodeNo, stat: &fs::Statx, mode: u32) -> LowerResult<u32> {
        let mark = u32::from(lower::MANAGED);
        let present = u32::from(stat.stx_mode) & mark;
        if !lower::is_dir(stat) || mode & mark == present || self.tree.is_empty(ino.0)? {
            return Ok(mode);
        }
        Ok(mode & !mark | present)
    }

    /// Returns the mode of a new entry: without the bits of the creator's umask, unless the directory has a
    /// default ACL (acl(5)).
    fn masked(&self, parent: INodeNo, mode: u32, umask: u32) -> u32 {
        let inherits = || {
            let dir = self.tree.node_fd(parent.0)?;
            fs::getxattr_query(lower::path_of(dir.as_fd()), DEFAULT_LIST)
        };
        if umask & mode == 0 || inherits().is_ok() { mode } else { mode & !umask }
    }

    /// Changes an attribute of a node; a default ACL is also set on its buckets, in which entries are made.
    fn with_buckets(
        &self,
        ino: INodeNo,
        name: &OsStr,
        change: impl Fn(BorrowedFd<'_>) -> LowerResult<()>,
    ) -> LowerResult<()> {
        let node = self.tree.node_fd(ino.0)?;
        change(node.as_fd())?;
        if name != DEFAULT_LIST || !lower::is_managed(&lower::stat_fd(&node)?) {
            return Ok(());
        }
        let dir = self.tree.directory(ino.0)?;
        for path in listing::bucket_paths(&dir)? {
            match change(lower::open_path(&dir.fd, &path)?.as_fd()) {
                Ok(()) | Err(rustix::io::Errno::NODATA) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn change(&self, ino: INodeNo, change: &AttributeChange) -> LowerResult<()> {
        let node = self.tree.node_fd(ino.0)?;
        let fd = node.as_fd();
        let path = lower::path_of(fd);
        if change.uid.is_some() || change.gid.is_some() {
            let (user, group) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            fs::chownat(fd, c"", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            let stat = lower::stat_fd(fd)?;
            let was_managed = lower::is_managed(&stat);
            let mode = self.kept_mark(ino, &stat, mode & 0o7777)?;
            fs::chmod(&path, Mode::from_raw_mode(mode))?;
            if was_managed != lower::is_managed(&lower::stat_fd(fd)?) {
                self.forget_names(ino);
            }
        }
        if let Some(size) = change.size {
            match change.file.as_ref() {
                Some(file) => fs::ftruncate(&file.fd, size)?,
                None => fs::ftruncate(lower::reopen(fd, OFlags::WRONLY)?, size)?,
            }
            if let Some(group) = change.by_stranger {
                clear_set_ids(fd, group)?;
            }
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(change.atime), last_modification: timespec(change.mtime) };
            fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

/// Default ACL, which new entries of a directory inherit.
const DEFAULT_LIST: &str = "system.posix_acl_default";

/// Changes requested by SETATTR.
struct AttributeChange {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
    file: Option<Arc<OpenFile>>,
    /// Group of the requesting user, unless that is root.
    by_stranger: Option<u32>,
}

/// Clears the setuid and setgid bits after a write by a user who may not set them.
fn clear_set_ids(fd: impl AsFd, group: u32) -> LowerResult<()> {
    let stat = lower::stat_fd(&fd)?;
    if lower::sets_ids(&stat) && !lower::is_dir(&stat) {
        fs::chmod(lower::path_of(fd.as_fd()), lower::without_set_ids(&stat, group))?;
    }
    Ok(())
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => since_epoch(time),
    }
}

/// Converts a time sent by the kernel. Before 1970 `fuser` subtracts the nanoseconds instead of adding them,
/// which is corrected here.
fn since_epoch(time: SystemTime) -> Timespec {
    let (sign, length) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (1, after),
        Err(before) => (-1, before.duration()),
    };
    Timespec { tv_sec: sign * length.as_secs() as i64, tv_nsec: i64::from(length.subsec_nanos()) }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// Returns the flags with which the lower file is opened: without `O_APPEND`, since the kernel keeps
/// positions, and without `O_DIRECT`, since our buffers are not aligned; files that pass through have both
/// all the same.
fn open_flags(flags: i32) -> OFlags {
    let wanted = OFlags::RWMODE | OFlags::SYNC | OFlags::DSYNC | OFlags::NOATIME;
    OFlags::from_bits_retain(flags as u32) & wanted | OFlags::CLOEXEC
}

fn maker(request: &Request) -> EntryCreator {
    EntryCreator { user: request.uid(), group: request.gid() }
}

fn done(result: LowerResult<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &OpenFile, offset: u64, size: u32) -> LowerResult<Vec<u8>> {
    let mut buffer = vec![0; size as usize];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(&file.fd, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

/// Writes all of `data`, or as much as there is room for.
fn write_at(file: &OpenFile, offset: u64, data: &[u8]) -> LowerResult<u32> {
    let mut written = 0;
    while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pwrite(&file.fd, rest, offset + written as u64) {
            Ok(more) => written += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(written as u32)
}

/// Replies with an attribute's value or list, or with its size if the caller has no room.
fn reply_xattr(value: LowerResult<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

/// Reads a value that may grow between asking for its size and reading it.
fn whole(
    size: impl Fn() -> LowerResult<usize>,
    read: impl Fn(&mut [u8]) -> LowerResult<usize>,
) -> LowerResult<Vec<u8>> {
    loop {
        let mut value = vec![0; size()?];
        match read(&mut value) {
            Err(rustix::io::Errno::RANGE) => {}
            read => {
                value.truncate(read?);
                return Ok(value);
            }
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the trait's")]
impl Filesystem for Usenetfs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            // The kernel requests access control lists and enforces them.
            InitFlags::FUSE_POSIX_ACL,
            // Default ACLs of a directory apply to its entries, instead of a umask.
            InitFlags::FUSE_DONT_MASK,
            // Listings include attributes while the reading program asks for them.
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
        ];
        for capability in wanted {
            // Capabilities that the kernel lacks are replaced by its own ways.
            let _without = config.add_capabilities(capability);
        }
        let _smaller = config.set_max_write(REQUEST_BYTES_MAX);
        if self.wants_passthrough
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(STACK_DEPTH_MAX).is_ok()
        {
            self.tree.files.allow_passthrough();
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.tree.turn();
        self.enter(self.tree.look_up(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.tree.nodes.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.tree.turn();
        match self.tree.attributes(ino.0) {
            Ok(attr) => reply.attr(&self.keep, &attr),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.tree.turn();
        let file = handle.and_then(|handle| self.tree.files.get(handle.0));
        let by_stranger = (request.uid() != 0).then(|| request.gid());
        let change = AttributeChange { mode, uid, gid, size, atime, mtime, file, by_stranger };
        match self.change(ino, &change).and_then(|()| self.tree.attributes(ino.0)) {
            Ok(attr) => reply.attr(&self.keep, &attr),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let _turn = self.tree.turn();
        let target = self.tree.node_fd(ino.0).and_then(|fd| fs::readlinkat(fd, c"", Vec::new()));
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.tree.turn();
        let mode = self.masked(parent, mode, umask);
        let (major, minor) = lower::decode_device(device);
        let kind = match fs::FileType::from_raw_mode(mode) {
            fs::FileType::Unknown => fs::FileType::RegularFile,
            kind => kind,
        };
        let made = NewEntry::Node(kind, fs::makedev(major, minor));
        self.enter(self.tree.make(parent.0, name, made, mode, maker(request)), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.tree.turn();
        let mode = self.masked(parent, mode, umask);
        self.enter(self.tree.make(parent.0, name, NewEntry::Directory, mode & 0o1777, maker(request)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _turn = self.tree.turn();
        let made = NewEntry::Symlink(target.as_os_str());
        self.enter(self.tree.make(parent.0, name, made, 0, maker(request)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.tree.turn();
        done(self.tree.unlink(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.tree.turn();
        done(self.tree.rmdir(parent.0, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.tree.turn();
        let flags = fs::RenameFlags::from_bits_retain(flags.bits());
        done(self.tree.rename(parent.0, name, new_parent.0, new_name, flags), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.tree.turn();
        self.enter(self.tree.link(ino.0, parent.0, name), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _turn = self.tree.turn();
        match self.tree.open(ino.0, open_flags(flags.0)) {
            Ok((fd, stat)) => {
                let (handle, file) =
                    self.tree.files.add(ino.0, fd, &stat, |fd| unprivileged(|| reply.open_backing(fd)));
                let (handle, none) = (FileHandle(handle), FopenFlags::empty());
                match &file.backing {
                    Some(backing) => reply.opened_passthrough(handle, none, backing),
                    None => reply.opened(handle, none),
                }
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.tree.turn();
        let mode = self.masked(parent, mode, umask);
        let exclusive = OFlags::from_bits_retain(flags as u32).contains(OFlags::EXCL);
        match self.tree.create(parent.0, name, mode, open_flags(flags), exclusive, maker(request)) {
            Ok(((attr, stat), fd)) => {
                let register = |fd: BorrowedFd<'_>| unprivileged(|| reply.open_backing(fd));
                let (handle, file) = self.tree.files.add(attr.ino.0, fd, &stat, register);
                let (handle, none, generation) =
                    (FileHandle(handle), FopenFlags::empty(), lower::generation(&stat));
                match &file.backing {
                    Some(backing) => {
                        reply.created_passthrough(&self.keep, &attr, generation, handle, none, backing);
                    }
                    None => reply.created(&self.keep, &attr, generation, handle, none),
                }
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.file(handle).and_then(|file| read_at(&file, offset, size)) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.file(handle).and_then(|file| {
            let written = unprivileged(|| write_at(&file, offset, data))?;
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                clear_set_ids(&file.fd, request.gid())?;
            }
            Ok(written)
        });
        match written {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Does nothing, since no output is held back; the error makes the kernel stop asking.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.tree.files.close(handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty) {
        match self.file(handle) {
            Ok(file) => self.workers.run(move || {
                done(if datasync { fs::fdatasync(&file.fd) } else { fs::fsync(&file.fd) }, reply);
            }),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.tree.turn();
        let opened = self.tree.directory(ino.0).and_then(|dir| {
            let dots = self.tree.dots(ino.0, &dir);
            DirectoryListing::new(dir, dots)
        });
        match opened {
            Ok(listing) => {
                reply.opened(FileHandle(self.tree.listings.add(listing)), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let _turn = self.tree.turn();
        let read = self.tree.listings.get(handle.0).and_then(|listing| {
            listing.lock().read(from, |entry| {
                let inode = INodeNo(self.tree.nodes.number(entry.inode));
                !reply.add(inode, entry.next, entry.kind, &entry.name)
            })
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Lists entries with their attributes. `.` and `..`, and entries removed meanwhile, have none.
    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.tree.turn();
        // Why the entry after those in the answer cannot be shown, and whether there are any.
        let (mut trouble, mut is_begun) = (None, false);
        let read = self.tree.listings.get(handle.0).and_then(|listing| {
            listing.lock().read(from, |entry| {
                let known = if entry.name == "." || entry.name == ".." {
                    // The kernel takes no node of these.
                    let inode = INodeNo(self.tree.nodes.number(entry.inode));
                    Ok((lower::unknown_attributes(inode, entry.kind), None))
                } else {
                    self.tree.look_up(ino.0, &entry.name).map(|(attr, stat)| (attr, Some(stat)))
                };
                let (attr, stat) = match known {
                    Ok(known) => known,
                    // It was removed since its directory was read; another file may have its inode by now.
                    Err(rustix::io::Errno::NOENT) => return true,
                    Err(error) => {
                        trouble = Some(error);
                        return false;
                    }
                };
                let keep = if stat.is_some() { self.keep } else { Duration::ZERO };
                let generation = stat.as_ref().map_or(Generation(0), lower::generation);
                let is_full = reply.add(attr.ino, entry.next, &entry.name, &keep, &attr, generation);
                if is_full && stat.is_some() {
                    self.tree.nodes.forget(attr.ino.0, 1);
                }
                is_begun |= !is_full;
                !is_full
            })
        });
        match read.and(trouble.filter(|_| !is_begun).map_or(Ok(()), Err)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.tree.listings.close(handle.0);
        reply.ok();
    }

    /// Syncs the whole file system, since the names of a managed directory are in many lower ones.
    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let _turn = self.tree.turn();
        let dir = self.tree.listings.get(handle.0).map(|listing| listing.lock().dir().clone());
        let opened = dir.and_then(|dir| Ok((lower::open_dir(&dir.fd, OsStr::new("."))?, dir.is_managed())));
        match opened {
            Ok((fd, is_managed)) => self.workers.run(move || {
                done(if is_managed { fs::syncfs(&fd) } else { fs::fsync(&fd) }, reply);
            }),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match fs::fstatvfs(self.tree.root()) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.tree.turn();
        if name == CONVERSION {
            return self.conversions.start(&self.tree, ino.0, value, request.uid(), reply);
        }
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let set = |fd: BorrowedFd<'_>| fs::setxattr(lower::path_of(fd), name, value, flags);
        done(self.with_buckets(ino, name, set), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.tree.turn();
        if ino == INodeNo::ROOT && name == lower::LOWER_ROOT {
            let path = format!("/proc/{}/fd/{}", std::process::id(), self.tree.root().as_raw_fd());
            return reply_xattr(Ok(path.into_bytes()), size, reply);
        }
        if name == CONVERSION {
            return reply_xattr(self.conversions.state(&self.tree, ino.0), size, reply);
        }
        let value = self.tree.node_fd(ino.0).and_then(|fd| {
            let path = lower::path_of(fd.as_fd());
            whole(|| fs::getxattr_query(&path, name), |buffer| fs::getxattr(&path, name, buffer))
        });
        reply_xattr(value, size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.tree.turn();
        let names = self.tree.node_fd(ino.0).and_then(|fd| {
            let path = lower::path_of(fd.as_fd());
            whole(|| fs::listxattr_query(&path), |buffer| fs::listxattr(&path, buffer))
        });
        reply_xattr(names, size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.tree.turn();
        let remove = |fd: BorrowedFd<'_>| fs::removexattr(lower::path_of(fd), name);
        done(self.with_buckets(ino, name, remove), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.file(handle) {
            Ok(file) => self.workers.run(move || {
                let mode = FallocateFlags::from_bits_retain(mode as u32);
                done(unprivileged(|| fs::fallocate(&file.fd, mode, offset, length)), reply);
            }),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let found = self.file(handle).and_then(|file| {
            let from = u64::try_from(offset).map_err(|_| rustix::io::Errno::NXIO)?;
            match whence {
                SEEK_DATA => fs::seek(&file.fd, SeekFrom::Data(from)),
                SEEK_HOLE => fs::seek(&file.fd, SeekFrom::Hole(from)),
                _ => Err(rustix::io::Errno::INVAL),
            }
        });
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        mut offset: u64,
        _: INodeNo,
        new_handle: FileHandle,
        mut new_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let files = self.file(handle).and_then(|from| Ok((from, self.file(new_handle)?)));
        match files {
            Ok((from, to)) => self.workers.run(move || {
                let length = usize::try_from(length.min(1 << 30)).unwrap_or_default();
                let copied = unprivileged(|| {
                    fs::copy_file_range(&from.fd, Some(&mut offset), &to.fd, Some(&mut new_offset), length)
                });
                match copied {
                    Ok(copied) => reply.written(copied as u32),
                    Err(error) => reply.error(errno(error)),
                }
            }),
            Err(error) => reply.error(errno(error)),
        }
    }
}
