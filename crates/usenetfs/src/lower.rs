//! The lower file system: the few calls that all parts need, and attributes in FUSE's form.
//!
//! Invariant: no call follows a symbolic link that is stored in the tree. Paths are relative to a descriptor
//! and consist of translated names.

pub mod marking;
pub mod mounts;
pub mod rank;
pub mod unprivileged;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, Generation, INodeNo};
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

/// Result of a call to the lower file system.
pub type LowerResult<T> = Result<T, Errno>;

/// Bit of a managed directory (UFS-06).
pub const MANAGED: u16 = 0o4000;
/// Bit of a directory whose group new entries inherit.
pub const INHERITED_GROUP: u16 = 0o2000;
/// Attribute of a mount's root, which only root can read: a path to the lower root. No other path leads there
/// when a tree is mounted over itself.
pub const LOWER_ROOT: &str = "trusted.usenetfs.root";
const SET_IDS: u16 = 0o6000;
const GROUP_EXECUTES: u16 = 0o010;

/// Identity of a lower file, regardless of its names: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Major and minor number.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
}

/// Returns the key of the file with these attributes.
pub fn key(stat: &Statx) -> FileKey {
    FileKey { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino }
}

/// Returns attributes by path; a link is not followed.
pub fn stat_at(dir: impl AsFd, path: &OsStr) -> LowerResult<Statx> {
    fs::statx(dir, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Returns the attributes of a descriptor's file, also for one with `O_PATH`.
pub fn stat_fd(fd: impl AsFd) -> LowerResult<Statx> {
    fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Returns whether the file is a directory.
pub fn is_dir(stat: &Statx) -> bool {
    kind(stat) == FileType::Directory
}

/// Returns whether the file is a managed directory.
pub fn is_managed(stat: &Statx) -> bool {
    is_dir(stat) && stat.stx_mode & MANAGED != 0
}

/// Returns whether executing the file changes user or group.
pub fn sets_ids(stat: &Statx) -> bool {
    stat.stx_mode & SET_IDS != 0
}

/// Returns the mode without the bits that a write by another user of this group clears.
pub fn without_set_ids(stat: &Statx, group: u32) -> Mode {
    // Without the group's right to execute, the setgid bit means something else, which its own group may
    // keep.
    let keeps = stat.stx_mode & GROUP_EXECUTES == 0 && stat.stx_gid == group;
    let kept = if keeps { 0o1777 | INHERITED_GROUP } else { 0o1777 };
    Mode::from_raw_mode(u32::from(stat.stx_mode & kept))
}

/// Returns a path by which a descriptor's file can be opened again or changed, even without a name.
pub fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Returns another descriptor of the same file.
pub fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> LowerResult<OwnedFd> {
    fs::openat(CWD, path_of(fd), flags | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a file for reading or writing.
pub fn open_file(dir: impl AsFd, path: &OsStr, flags: OFlags) -> LowerResult<OwnedFd> {
    fs::openat(dir, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a directory for listing.
pub fn open_dir(dir: impl AsFd, path: &OsStr) -> LowerResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(dir, path, flags, Mode::empty())
}

/// Opens a descriptor that only refers to a file.
pub fn open_path(dir: impl AsFd, path: &OsStr) -> LowerResult<OwnedFd> {
    fs::openat(dir, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Returns `dir/name`.
pub fn below(dir: &str, name: &OsStr) -> OsString {
    join(OsStr::new(dir), name)
}

/// Returns `first/second`.
pub fn join(first: &OsStr, second: &OsStr) -> OsString {
    OsString::from_vec([first.as_bytes(), b"/", second.as_bytes()].concat())
}

/// Returns the type of a file.
pub fn kind(stat: &Statx) -> FileType {
    kind_of(fs::FileType::from_raw_mode(u32::from(stat.stx_mode)))
}

/// Converts a file type to FUSE's.
pub fn kind_of(kind: fs::FileType) -> FileType {
    match kind {
        fs::FileType::Directory => FileType::Directory,
        fs::FileType::Symlink => FileType::Symlink,
        fs::FileType::Fifo => FileType::NamedPipe,
        fs::FileType::Socket => FileType::Socket,
        fs::FileType::CharacterDevice => FileType::CharDevice,
        fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Returns all attributes but the number of links of a managed directory, under the number `inode`.
pub fn attributes(stat: &Statx, inode: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: time(&stat.stx_ctime),
        crtime: UNIX_EPOCH,
        kind: kind(stat),
        perm: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: encode_device(stat.stx_rdev_major, stat.stx_rdev_minor),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

/// Returns attributes of an entry whose own are unknown.
pub fn unknown_attributes(ino: INodeNo, kind: FileType) -> FileAttr {
    FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Returns the time of creation, which distinguishes files that used the same inode number.
pub fn generation(stat: &Statx) -> Generation {
    let born = &stat.stx_btime;
    Generation(u64::from(born.tv_sec as u32).wrapping_mul(0x9e37_79b1) ^ u64::from(born.tv_nsec))
}

fn time(stamp: &StatxTimestamp) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(stamp.tv_nsec));
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    if stamp.tv_sec < 0 { UNIX_EPOCH - seconds + nanoseconds } else { UNIX_EPOCH + seconds + nanoseconds }
}

/// Encodes a device number in FUSE's form.
fn encode_device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Returns major and minor of a device number in FUSE's form.
pub fn decode_device(number: u32) -> (u32, u32) {
    ((number & 0xf_ff00) >> 8, number & 0xff | number >> 12 & 0xf_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_decoded_again() {
        for (major, minor) in [(0, 0), (8, 1), (259, 65_535), (4095, 1_048_575)] {
            assert_eq!(decode_device(encode_device(major, minor)), (major, minor));
        }
    }
}
