//! The only way the spool touches the machine.
//!
//! Two implementations: [`RealDisk`] and, for tests, [`SimDisk`], which counts every write and sync, can fail
//! the n-th call (EIO, ENOSPC) and can crash: what was not synced is then lost, torn or reordered. Invariant:
//! no other module of this crate opens a file, maps memory or asks for the boot id.

mod ahead;
mod dirs;
mod holes;
mod map;
mod open_dirs;
mod real;
#[cfg(any(test, feature = "testing"))]
mod sim;
mod small;
mod uncached;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub(crate) use ahead::{Ahead, STEP_BYTES_MAX};
pub use real::RealDisk;
#[cfg(test)]
pub(crate) use sim::Random;
#[cfg(any(test, feature = "testing"))]
pub use sim::{CrashKind, SimDisk};
pub use small::{
    Access, AppendLog, Checked, Line, NewFile, Replacements, checked_lines, durable_create, durable_replace,
    is_set_aside, read_or_set_aside, read_small, set_aside,
};
pub(crate) use small::{UNFINISHED, copy_aside, duplicate_aside};

/// How [`Disk::open`] treats a file that exists or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Read and write; the file must exist.
    Existing,
    /// Read only; the file must exist.
    ReadOnly,
    /// Read and write; made (empty) if missing.
    Create,
    /// As `Create`, and what is made can be read by its owner alone.
    CreatePrivate,
    /// As `Create`, and what is made can be read by all users of the machine.
    CreatePublic,
    /// Read and write; an error if it exists.
    CreateNew,
}

/// A plain file, as its directory has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was last written to.
    pub modified: SystemTime,
}

/// A file system, as far as its room is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Distinguishes it from the others of this machine.
    pub id: u64,
    /// A directory on it.
    pub dir: PathBuf,
    /// Bytes that are free for us.
    pub free_bytes: u64,
    /// Bytes that it has in all.
    pub total_bytes: u64,
}

/// File names and directories.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file (or block device) for positioned access.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; open handles stay usable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes files of one directory; those that are not there are passed over.
    fn remove_in(&self, dir: &Path, names: &[String]) -> io::Result<()> {
        names.iter().try_for_each(|name| match self.remove(&dir.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }
    /// Makes a directory and its parents, durably; no error if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory and its parents; durable with the next [`Disk::sync_tree`]. No error if it exists.
    /// If it is a bucket, its parent is a managed directory and so is every second one above; those get the
    /// setuid bit, which marks them for the Usenetfs mount (UFS-06).
    fn make_dirs(&self, path: &Path, bucketed: bool) -> io::Result<()>;
    /// Adds a name to a file; an error if that exists.
    fn link(&self, file: &Path, new: &Path) -> io::Result<()>;
    /// Gives `new` the owner of `old`, which it is to replace, and with `mode` its mode; if there is no such
    /// file, the owner of the directory, so that what an administrator makes is the server's. As far as this
    /// process may.
    fn make_like(&self, new: &Path, old: &Path, mode: bool) -> io::Result<()>;
    /// Names of the directories in a directory, sorted; empty if it does not exist.
    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes everything in and below a directory durable: bytes, names and directories.
    fn sync_tree(&self, dir: &Path) -> io::Result<()>;
    /// Names (not paths) of the plain files in a directory, sorted; empty if the directory does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// What is known of a plain file without opening it; `None` if there is none.
    fn about(&self, path: &Path) -> io::Result<Option<About>>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Whether there is a directory of this name.
    fn has_dir(&self, dir: &Path) -> io::Result<bool>;
    /// The identity of a file (or block device), whatever its names are; `None` if there is none.
    fn identity(&self, path: &Path) -> io::Result<Option<(u64, u64)>>;
    /// The file system that `path` is on or would be made on: that of the nearest directory that exists. A
    /// block device is one of its own, without end: what does not fit is refused when it is reserved.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
    /// Changes at each boot of the machine.
    fn boot_id(&self) -> [u8; 16];
    /// Marks a file or directory in the machine's memory alone. The mark outlives this process, and is lost
    /// with what was written and not synced: when the machine goes down, and when the file system is
    /// unmounted.
    fn mark(&self, path: &Path) -> io::Result<()>;
    /// Whether it still has its mark; where it is lost, bytes that were not synced may be lost too.
    fn is_marked(&self, path: &Path) -> io::Result<bool>;
    /// Counts the mapped pages that could not be read, in all mappings so far: where it has risen, some
    /// mapping has [`Mapping::lost`] pages.
    fn lost_pages(&self) -> u64;
    /// Takes an exclusive lock that lives as long as the returned value; `WouldBlock` if another process
    /// holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// One open file. All offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + Debug {
    /// Size of the file or block device.
    fn len(&self) -> io::Result<u64>;
    /// Bytes that the file uses in its file system; fewer than its length where it has holes.
    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
    /// True if the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Locks the file against every other open handle that asks for the same, until this one is closed;
    /// `WouldBlock` if there is one.
    fn try_lock(&self) -> io::Result<()>;
    /// Cuts or extends (with zeroes) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space so that later writes below `len` cannot meet a full disk; extends the file to at least
    /// `len`.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Where bytes may have been written, from `offset` on, as ascending ranges; all else is zeros. Space
    /// that was reserved and never written is left out where the file system tells it, and is not read.
    fn written(&self, offset: u64) -> io::Result<Vec<Range<u64>>> {
        Ok(std::iter::once(offset..self.len()?.max(offset)).collect())
    }
    /// As [`DiskFile::read_at`], but `WouldBlock` where the bytes are not in memory and the disk would have
    /// to be waited for.
    fn read_at_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    /// Writes all of `parts` consecutively, from `offset` on.
    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Makes the bytes written so far (by calls and by mappings) durable.
    fn sync(&self) -> io::Result<()>;
    /// Whether the file lies in memory alone, so that [`DiskFile::release`] does nothing.
    fn is_in_memory(&self) -> bool;
    /// Begins to bring the bytes of a range to the medium. Does not wait for it, promises nothing, and takes
    /// no error away that the next [`DiskFile::sync`] is to report.
    fn write_back(&self, range: Range<u64>) -> io::Result<()>;
    /// Gives back the machine's memory of those pages of a range that the medium has; the others stay. What
    /// is read there is the same as before.
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

/// A mapped part of a file. A page of it that cannot be read when it is touched is *lost*: it becomes zeros
/// in memory alone, until it is restored.
pub trait Mapping: Send + Sync + Debug {
    /// The mapped words.
    fn words(&self) -> &[AtomicU64];
    /// The words of each lost page.
    fn lost(&self) -> Vec<Range<usize>>;
    /// Writes the lost pages to the file as they are in memory now, which makes most media readable again
    /// there, and maps them again. Nobody may store to the mapping meanwhile.
    fn restore(&self) -> io::Result<()>;
}

/// Reads a word of each page of a mapping.
pub(crate) fn touch(map: &dyn Mapping) {
    const WORDS_PER_PAGE: usize = 512;
    let words = map.words().iter().step_by(WORDS_PER_PAGE);
    std::hint::black_box(words.fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed)));
}

/// Whether an error says that the medium cannot read a sector.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// As [`DiskFile::read_at`], but unreadable bytes are returned as 0xFF: for formats whose checksums
/// distinguish them from what was written.
pub(crate) fn read_around(file: &dyn DiskFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    const PAGE_BYTES: usize = 4096;
    match file.read_at(buf, offset) {
        Err(e) if is_unreadable(&e) => {}
        read => return read,
    }
    let there = usize::try_from(file.len()?.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
    let (buf, _) = buf.split_at_mut(there);
    // Page by page of the file, since that is what the kernel reads.
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
