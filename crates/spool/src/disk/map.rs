//! Shared mappings as slices of atomics, and an inode's write hint: the only `unsafe` of this crate.
//!
//! Called by [`super::real`] for files and by [`super::sim`] for plain memory. Invariants: a mapping never
//! reaches past the end of its file at the time it is made, and no module cuts a file that it has mapped (a
//! touch beyond the end is SIGBUS, not an error).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

use super::Mapping;

/// Offsets of mappings are multiples of this (mmap itself refuses them where the machine's pages are larger).
const PAGE_BYTES: u64 = 4096;
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// A shared mapping of a file, or of memory that belongs to no file.
#[derive(Debug)]
pub(super) struct SharedMap {
    map: MmapRaw,
    words: usize,
}

impl SharedMap {
    /// Maps `words` words of `file`, whose length is `len`, from `offset` on.
    pub(super) fn new(file: &File, len: u64, offset: u64, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).filter(|&b| b > 0);
        let bytes = bytes.ok_or_else(|| invalid("a mapping has at least one word"))?;
        let end = u64::try_from(bytes).ok().and_then(|b| b.checked_add(offset));
        if !offset.is_multiple_of(PAGE_BYTES) || end.is_none_or(|end| end > len) {
            return Err(invalid("mapping is not page-aligned within the file"));
        }
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(file)?;
        Ok(Self { map, words })
    }

    /// Zeroed memory; pages take room only once they are written.
    pub(super) fn anonymous(words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or_else(|| invalid("too much memory"))?;
        let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?.into();
        Ok(Self { map, words })
    }
}

impl Mapping for SharedMap {
    #[allow(unsafe_code)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `map` is a live mapping of `words * 8` bytes (`new` asked for exactly that, and MmapRaw has
        // no call that shrinks it through a shared reference), readable and writable, page-aligned and so
        // aligned for AtomicU64, and it is unmapped only when `self` is dropped, which the returned lifetime
        // forbids. Any bit pattern is a valid u64. The memory is reached by this process only through these
        // atomics; what other processes or file writes do to it counts as concurrent relaxed stores. Pages
        // exist: `new` checked the length, and the spool's lock keeps the file from being cut by another
        // newsreel.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.words) }
    }
}

/// fcntl(2): asks for an inode's write hint. Neither libc nor rustix has a name for it.
const F_GET_RW_HINT: libc::c_int = 1035;
/// fcntl(2): sets an inode's write hint.
const F_SET_RW_HINT: libc::c_int = 1036;

/// The write hint of a file's or directory's inode; 0 if none has been set since its file system was mounted.
#[allow(unsafe_code)]
pub(super) fn write_hint(file: &File) -> io::Result<u64> {
    let mut hint = 0_u64;
    // SAFETY: the descriptor is open, and the kernel writes the 8 bytes of `hint`, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &raw mut hint) } {
        0 => Ok(hint),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the write hint of a file's or directory's inode. The kernel keeps it in memory alone.
#[allow(unsafe_code)]
pub(super) fn set_write_hint(file: &File, hint: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads the 8 bytes of `hint`, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &raw const hint) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
