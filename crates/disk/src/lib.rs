//! Files that must survive a crash.
//!
//! [`Disk`] and [`DiskFile`] are the only way to such a file, in every crate. There are two implementations:
//! [`RealDisk`] and, for tests, [`SimDisk`], which counts every write and sync, can fail the n-th call (EIO,
//! ENOSPC) and can crash, which loses, tears or reorders everything that was not synced. Small files are
//! replaced as a whole ([`durable_replace`]) or grow by checked lines ([`AppendLog`]).
//!
//! The checksum of all formats ([`crc`]), hexadecimal digits ([`hex`]), the clocks and the trait for progress
//! reports live here as well, since every crate that writes files needs them.
//!
//! ```
//! use disk::{Disk, FileAccess, RealDisk, durable_replace, read_small};
//!
//! let dir = std::env::temp_dir().join(format!("disk-example-{}", std::process::id()));
//! let disk = RealDisk::new();
//! disk.create_dir(&dir)?;
//! let file = dir.join("state");
//! // After a crash the file has either its old content or all of the new one.
//! durable_replace(&disk, &file, &[b"one ", b"two\n"], FileAccess::All)?;
//! assert_eq!(read_small(&disk, &file, 1 << 10)?.as_deref(), Some(&b"one two\n"[..]));
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod ahead;
pub mod clock;
pub mod crc;
mod dirs;
pub mod hex;
mod holes;
mod map;
mod open_dirs;
mod patience;
mod progress;
mod real;
#[cfg(any(test, feature = "testing"))]
mod sim;
mod size;
mod small;
mod uncached;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub use ahead::{STEP_BYTES_MAX, ZeroFill};
pub use patience::ReadMode;
pub use progress::Progress;
pub use real::RealDisk;
#[cfg(any(test, feature = "testing"))]
pub use sim::{CrashKind, SimDisk, SimRandom};
pub use size::about_size;
pub use small::{
    AppendLog, CheckedFile, FileAccess, LogLine, NewFile, Replacements, RollingFiles, RollingLog, UNFINISHED,
    checked_lines, copy_aside, duplicate_aside, durable_create, durable_replace, is_set_aside,
    read_or_set_aside, read_small, set_aside,
};

/// Mode in which [`Disk::open`] opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Read and write; the file must exist.
    Existing,
    /// Read only; the file must exist.
    ReadOnly,
    /// Read and write; created empty if missing.
    Create,
    /// Like `Create`; a new file is readable by its owner only.
    CreatePrivate,
    /// Like `Create`; a new file is readable by all users of the machine.
    CreatePublic,
    /// Read and write; an error if it exists.
    CreateNew,
}

/// Length and age of a plain file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last write.
    pub modified: SystemTime,
}

/// A file system and its space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Identifier, unique on this machine.
    pub id: u64,
    /// A directory on it.
    pub dir: PathBuf,
    /// Bytes available to this process.
    pub free_bytes: u64,
    /// Total size in bytes.
    pub total_bytes: u64,
}

/// Directory-level operations: names, files and file systems.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file (or block device) for positioned access.
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; open handles stay usable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes files of one directory, skipping those that do not exist.
    fn remove_in(&self, dir: &Path, names: &[String]) -> io::Result<()> {
        names.iter().try_for_each(|name| match self.remove(&dir.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }
    /// Creates a directory and its parents, durably; no error if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory and its parents, which the next [`Disk::sync_tree`] makes durable. No error if it
    /// exists. If the directory is a bucket, its parent is a managed directory, as is every second one above;
    /// managed directories get the setuid bit, which marks them for the Usenetfs mount (UFS-06).
    fn make_dirs(&self, path: &Path, bucketed: bool) -> io::Result<()>;
    /// Creates a hard link; an error if `new` exists.
    fn link(&self, file: &Path, new: &Path) -> io::Result<()>;
    /// Gives `new` the owner and, with `mode`, the mode of `old`, which it is to replace. If `old` does not
    /// exist, `new` gets the owner of the directory, so that files created by an administrator belong to the
    /// server. Limited by what this process may do.
    fn make_like(&self, new: &Path, old: &Path, mode: bool) -> io::Result<()>;
    /// Returns the names of the directories in a directory, sorted; empty if it does not exist.
    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes everything in and below a directory durable: bytes, names and directories.
    fn sync_tree(&self, dir: &Path) -> io::Result<()>;
    /// Returns the names (not paths) of the plain files in a directory, sorted; empty if it does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Returns metadata of a plain file without opening it; `None` if it does not exist.
    fn about(&self, path: &Path) -> io::Result<Option<FileMetadata>>;
    /// Reports whether anything has this name: a file, a directory, a device, a symbolic link to nothing.
    fn has_name(&self, path: &Path) -> io::Result<bool>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Reports whether a directory of this name exists.
    fn has_dir(&self, dir: &Path) -> io::Result<bool>;
    /// Returns the identity of a file (or block device), which all its names share; `None` if it does not
    /// exist.
    fn identity(&self, path: &Path) -> io::Result<Option<(u64, u64)>>;
    /// Returns the file system that `path` is on or would be created on: that of the nearest existing
    /// directory. A block device counts as one of unlimited size: what does not fit is refused when it is
    /// reserved.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
    /// Returns an identifier that changes at each boot of the machine.
    fn boot_id(&self) -> [u8; 16];
    /// Marks a file or directory in the machine's memory alone. The mark survives this process, but is lost
    /// together with unsynced data: when the machine goes down, and when the file system is unmounted.
    fn mark(&self, path: &Path) -> io::Result<()>;
    /// Takes a file's mark away.
    fn unmark(&self, path: &Path) -> io::Result<()>;
    /// Reports whether a file still has its mark. If not, unsynced bytes may be lost too.
    fn is_marked(&self, path: &Path) -> io::Result<bool>;
    /// Returns the number of unreadable mapped pages, in all mappings so far. Once it has risen, some mapping
    /// has [`Mapping::lost`] pages.
    fn lost_pages(&self) -> u64;
    /// Takes an exclusive lock that is held until the returned value is dropped; `WouldBlock` if another
    /// process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// One open file. All offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + Debug {
    /// Returns the size of the file or block device.
    fn len(&self) -> io::Result<u64>;
    /// Returns the identity of the file, under whatever name it has by now; see [`Disk::identity`].
    fn identity(&self) -> io::Result<(u64, u64)>;
    /// Returns the bytes that the file occupies in its file system; fewer than its length if it has holes.
    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
    /// Reports whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Locks the file against other open handles that call this, until this one is closed; `WouldBlock` if
    /// another handle holds the lock.
    fn try_lock(&self) -> io::Result<()>;
    /// Truncates the file, or extends it with zeroes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space so that later writes below `len` cannot run out of space; extends the file to at least
    /// `len`.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Returns the ranges from `offset` on that may have been written, in ascending order; all else is zeros.
    /// Space that was reserved but never written is left out if the file system knows it, and need not be
    /// read.
    fn written(&self, offset: u64) -> io::Result<Vec<Range<u64>>> {
        Ok(std::iter::once(offset..self.len()?.max(offset)).collect())
    }
    /// Like [`DiskFile::read_at`], but returns `WouldBlock` if the bytes are not in memory and would have to
    /// be read from the disk. Linux, since 5.9, then has the disk begin to read them.
    fn read_at_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    /// Has the disk begin to read a range that will be needed soon, without waiting for it. A disk that
    /// cannot do so reads it when it is needed.
    fn begin_read(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }
    /// Writes all of `parts` consecutively, from `offset` on.
    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Makes the bytes written so far (by calls and by mappings) durable.
    fn sync(&self) -> io::Result<()>;
    /// Reports whether the file is in memory only, so that [`DiskFile::release`] does nothing.
    fn is_in_memory(&self) -> bool;
    /// Starts writing a range to the medium, without waiting and without a guarantee. Errors remain for the
    /// next [`DiskFile::sync`] to report.
    fn write_back(&self, range: Range<u64>) -> io::Result<()>;
    /// Drops the clean pages of a range from the machine's memory; dirty ones stay. Reads return the same
    /// bytes as before.
    fn release(&self, range: Range<u64>) -> io::Result<()>;
    /// Maps `words` 64-bit words from `offset` (a multiple of 4096) as shared atomics. The range must be
    /// allocated. Words are stored little-endian: use [`u64::to_le`] and [`u64::from_le`].
    fn map_words(&self, offset: u64, words: usize) -> io::Result<Arc<dyn Mapping>>;

    /// Reads exactly `buf.len()` bytes or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(buf, offset)? == buf.len() {
            return Ok(());
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A mapped part of a file. A page that cannot be read when it is touched is *lost*: it becomes zeros in
/// memory only, until it is restored.
pub trait Mapping: Send + Sync + Debug {
    /// Returns the mapped words.
    fn words(&self) -> &[AtomicU64];
    /// Returns the word ranges of all lost pages.
    fn lost(&self) -> Vec<Range<usize>>;
    /// Writes the current contents of the lost pages to the file, which makes most media readable again
    /// there, and maps them again. Nothing may store to the mapping meanwhile.
    fn restore(&self) -> io::Result<()>;
}

/// Reads one word of each page of a mapping.
pub fn touch(map: &dyn Mapping) {
    const WORDS_PER_PAGE: usize = 512;
    let words = map.words().iter().step_by(WORDS_PER_PAGE);
    std::hint::black_box(words.fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed)));
}

/// Reports whether an error means an unreadable sector.
pub fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Like [`DiskFile::read_at`], but returns unreadable bytes as 0xFF: for formats with checksums that detect
/// them.
pub fn read_around(file: &dyn DiskFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    const PAGE_BYTES: usize = 4096;
    match file.read_at(buf, offset) {
        Err(e) if is_unreadable(&e) => {}
        read => return read,
    }
    let there = usize::try_from(file.len()?.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
    let (buf, _) = buf.split_at_mut(there);
    // Read page by page of the file, as the kernel does.
    let first = PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize;
    let (head, rest) = buf.split_at_mut(first.min(there));
    let mut at = offset;
    for piece in std::iter::once(head).chain(rest.chunks_mut(PAGE_BYTES)) {
        match file.read_at(piece, at) {
            Err(e) if is_unreadable(&e) => piece.fill(0xFF),
            read => _ = read?,
        }
        at += piece.len() as u64;
    }
    Ok(there)
}
