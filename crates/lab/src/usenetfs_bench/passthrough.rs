//! The least that a FUSE file system can do: every request is one call to the lower file system, by the
//! descriptor that each inode has, as long as there are enough of them. What a mount costs beyond this is its
//! own.

use fuser::{
    BackingId, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, Request, SessionACL, WriteFlags,
};
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

/// As that of the mount.
const KEPT: Duration = Duration::from_secs(1);
const ROOT: u64 = 1;
/// Files that have a descriptor; of others, which were looked up before them, it is opened again.
const DESCRIPTORS_MAX: usize = 10_000;

/// Mounts `lower` at `point` and answers until it is unmounted.
pub fn serve(lower: &Path, point: &Path) -> io::Result<()> {
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::DefaultPermissions, MountOption::NoDev, MountOption::NoSuid, MountOption::RW];
    config.acl = SessionACL::All;
    config.n_threads = Some(1);
    // For those, and for what is open.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let root = fs::openat(CWD, lower, OFlags::PATH, Mode::empty())?;
    let files = Passthrough::default();
    if let Ok(mut nodes) = files.nodes.lock() {
        let found = (INodeNo::ROOT, OsString::new());
        nodes.map.insert(ROOT, Node { fd: Some(root), found, lookups: 1 });
    }
    fuser::mount(files, point, &config)
}

struct Node {
    fd: Option<OwnedFd>,
    /// Where it was found last.
    found: (INodeNo, OsString),
    lookups: u64,
}

#[derive(Default)]
struct Nodes {
    map: HashMap<u64, Node>,
    /// Files with a descriptor, in the order in which they lose it.
    turns: VecDeque<u64>,
}

impl Nodes {
    /// Does something with a node's descriptor.
    fn with<T>(&self, inode: INodeNo, work: impl FnOnce(BorrowedFd<'_>) -> Done<T>) -> Done<T> {
        let node = self.map.get(&inode.0).ok_or(Errno::ESTALE)?;
        if let Some(fd) = &node.fd {
            return work(fd.as_fd());
        }
        // Directories keep theirs, so this is not asked again.
        let parent =
            self.map.get(&node.found.0.0).and_then(|parent| parent.fd.as_ref()).ok_or(Errno::ESTALE)?;
        let again = fs::openat(parent, &node.found.1, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
        work(again.map_err(errno)?.as_fd())
    }

    fn add(&mut self, inode: u64, fd: OwnedFd, is_dir: bool, found: (INodeNo, OsString)) {
        let node =
            self.map.entry(inode).or_insert_with(|| Node { fd: None, found: found.clone(), lookups: 0 });
        node.lookups += 1;
        node.found = found;
        if node.fd.replace(fd).is_none() && !is_dir {
            self.turns.push_back(inode);
        }
        while self.turns.len() > DESCRIPTORS_MAX
            && let Some(first) = self.turns.pop_front()
        {
            if let Some(node) = self.map.get_mut(&first) {
                node.fd = None;
            }
        }
    }
}

struct Open {
    file: File,
    _backing: Option<BackingId>,
}

/// A listing: inode, kind and name of each entry.
type Listing = Vec<(u64, FileType, Vec<u8>)>;

#[derive(Default)]
struct Passthrough {
    nodes: Mutex<Nodes>,
    open: Mutex<(u64, HashMap<u64, Open>)>,
    listings: Mutex<(u64, HashMap<u64, Listing>)>,
}

type Done<T> = Result<T, Errno>;

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn io_errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(5))
}

fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn attributes(stat: &Metadata, inode: u64) -> FileAttr {
    let time = |secs: i64, nanos: i64| UNIX_EPOCH + Duration::new(secs as u64, nanos as u32);
    let mtime = time(stat.mtime(), stat.mtime_nsec());
    FileAttr {
        ino: INodeNo(inode),
        size: stat.size(),
        blocks: stat.blocks(),
        atime: time(stat.atime(), stat.atime_nsec()),
        mtime,
        ctime: time(stat.ctime(), stat.ctime_nsec()),
        crtime: mtime,
        kind: FileType::from_std(stat.file_type()).unwrap_or(FileType::RegularFile),
        perm: (stat.mode() & 0o7777) as u16,
        nlink: stat.nlink() as u32,
        uid: stat.uid(),
        gid: stat.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Passthrough {
    fn with<T>(&self, inode: INodeNo, work: impl FnOnce(BorrowedFd<'_>) -> Done<T>) -> Done<T> {
        let nodes = self.nodes.lock().map_err(|_| Errno::EIO)?;
        nodes.with(inode, work)
    }

    fn enter(&self, parent: INodeNo, name: &OsStr) -> Done<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let fd = self.with(parent, |dir| fs::openat(dir, name, flags, Mode::empty()).map_err(errno))?;
        let file = File::from(fd);
        let stat = file.metadata().map_err(|error| io_errno(&error))?;
        let mut nodes = self.nodes.lock().map_err(|_| Errno::EIO)?;
        nodes.add(stat.ino(), file.into(), stat.is_dir(), (parent, name.to_owned()));
        Ok(attributes(&stat, stat.ino()))
    }

    fn stat(&self, inode: INodeNo) -> Done<FileAttr> {
        let copy = self.with(inode, |fd| fd.try_clone_to_owned().map_err(|error| io_errno(&error)))?;
        let stat = File::from(copy).metadata().map_err(|error| io_errno(&error))?;
        Ok(attributes(&stat, inode.0))
    }

    fn keep(&self, fd: OwnedFd, register: impl FnOnce(&OwnedFd) -> io::Result<BackingId>) -> Done<u64> {
        let backing = register(&fd).ok();
        let mut open = self.open.lock().map_err(|_| Errno::EIO)?;
        open.0 += 1;
        let handle = open.0;
        open.1.insert(handle, Open { file: File::from(fd), _backing: backing });
        Ok(handle)
    }

    fn list(&self, inode: INodeNo) -> Done<u64> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.with(inode, |dir| fs::openat(dir, ".", flags, Mode::empty()).map_err(errno))?;
        let mut listing = Listing::new();
        for entry in fs::Dir::new(fd).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let kind = match entry.file_type() {
                fs::FileType::Directory => FileType::Directory,
                fs::FileType::Symlink => FileType::Symlink,
                _ => FileType::RegularFile,
            };
            listing.push((entry.ino(), kind, entry.file_name().to_bytes().to_vec()));
        }
        let mut listings = self.listings.lock().map_err(|_| Errno::EIO)?;
        listings.0 += 1;
        let handle = listings.0;
        listings.1.insert(handle, listing);
        Ok(handle)
    }
}

fn entry(found: Done<FileAttr>, reply: ReplyEntry) {
    match found {
        Ok(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn done(result: Done<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

#[allow(clippy::too_many_arguments, reason = "the trait's")]
impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel does not have it does in its own way.
        let _without = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        if config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok() {
            let _without = config.set_max_stack_depth(2);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.enter(parent, name), reply);
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        if let Ok(mut nodes) = self.nodes.lock()
            && let Some(node) = nodes.map.get_mut(&inode.0)
        {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                nodes.map.remove(&inode.0);
            }
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.stat(inode) {
            Ok(attributes) => reply.attr(&KEPT, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let mode = Mode::from_raw_mode(mode);
        let made = self.with(parent, |dir| fs::mkdirat(dir, name, mode).map_err(errno));
        entry(made.and_then(|()| self.enter(parent, name)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.with(parent, |dir| fs::unlinkat(dir, name, AtFlags::empty()).map_err(errno)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.with(parent, |dir| fs::unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(errno)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let to = self.with(new_parent, |dir| dir.try_clone_to_owned().map_err(|error| io_errno(&error)));
        let renamed =
            to.and_then(|to| self.with(parent, |dir| fs::renameat(dir, name, &to, new_name).map_err(errno)));
        done(renamed, reply);
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let from = self.with(inode, |fd| fd.try_clone_to_owned().map_err(|error| io_errno(&error)));
        let linked = from.and_then(|from| {
            let (path, follow) = (path_of(from.as_fd()), AtFlags::SYMLINK_FOLLOW);
            self.with(parent, |dir| fs::linkat(CWD, path, dir, name, follow).map_err(errno))
        });
        entry(linked.and_then(|()| self.enter(parent, name)), reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = OFlags::from_bits_retain(flags.0 as u32) & OFlags::RWMODE;
        let fd = self.with(inode, |fd| fs::openat(CWD, path_of(fd), flags, Mode::empty()).map_err(errno));
        match fd.and_then(|fd| self.keep(fd, |fd| reply.open_backing(fd))) {
            Err(error) => reply.error(error),
            Ok(handle) => {
                let Ok(open) = self.open.lock() else { return reply.error(Errno::EIO) };
                let none = FopenFlags::empty();
                match open.1.get(&handle).and_then(|open| open._backing.as_ref()) {
                    Some(backing) => reply.opened_passthrough(FileHandle(handle), none, backing),
                    None => reply.opened(FileHandle(handle), none),
                }
            }
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OFlags::from_bits_retain(flags as u32) & (OFlags::RWMODE | OFlags::EXCL) | OFlags::CREATE;
        let mode = Mode::from_raw_mode(mode);
        let fd = self.with(parent, |dir| fs::openat(dir, name, flags, mode).map_err(errno));
        let made = fd
            .and_then(|fd| self.keep(fd, |fd| reply.open_backing(fd)))
            .and_then(|handle| Ok((handle, self.enter(parent, name)?)));
        match made {
            Err(error) => reply.error(error),
            Ok((handle, attributes)) => {
                let Ok(open) = self.open.lock() else { return reply.error(Errno::EIO) };
                let (file, none, first) = (FileHandle(handle), FopenFlags::empty(), Generation(0));
                match open.1.get(&handle).and_then(|open| open._backing.as_ref()) {
                    Some(backing) => {
                        reply.created_passthrough(&KEPT, &attributes, first, file, none, backing);
                    }
                    None => reply.created(&KEPT, &attributes, first, file, none),
                }
            }
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
        let Ok(open) = self.open.lock() else { return reply.error(Errno::EIO) };
        let Some(open) = open.1.get(&handle.0) else { return reply.error(Errno::EBADF) };
        let mut bytes = vec![0; size as usize];
        match open.file.read_at(&mut bytes, offset) {
            Ok(read) => reply.data(bytes.get(..read).unwrap_or_default()),
            Err(error) => reply.error(io_errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: fuser::ReplyWrite,
    ) {
        let Ok(open) = self.open.lock() else { return reply.error(Errno::EIO) };
        let Some(open) = open.1.get(&handle.0) else { return reply.error(Errno::EBADF) };
        match open.file.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(io_errno(&error)),
        }
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
        if let Ok(mut open) = self.open.lock() {
            open.1.remove(&handle.0);
        }
        reply.ok();
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(inode) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Ok(listings) = self.listings.lock() else { return reply.error(Errno::EIO) };
        let Some(listing) = listings.1.get(&handle.0) else { return reply.error(Errno::EBADF) };
        for (at, (inode, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*inode), at as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        if let Ok(mut listings) = self.listings.lock() {
            listings.1.remove(&handle.0);
        }
        reply.ok();
    }
}
