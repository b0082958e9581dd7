//! Shared mappings as slices of atomics ([`SharedMap`]), the handling of unreadable pages ([`sigbus`]), an
//! inode's write hint ([`write_hint`]), and writing back a range ([`write_back`]). All `unsafe` code of
//! `disk` is in this folder.
//!
//! Used by [`super::real`] for files and by [`super::sim`] for plain memory. Invariant: a mapping never
//! extends past the end of its file at the time it is created.

mod sigbus;
mod write_back;
mod write_hint;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::Mapping;

pub(super) use sigbus::lost_pages;
use sigbus::{WatchedMapping, page_bytes};
pub(super) use write_back::write_back;
pub(super) use write_hint::{set_write_hint, write_hint};

/// Alignment of mapping offsets (mmap itself refuses them where the machine's pages are larger).
const PAGE_BYTES: u64 = 4096;
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// A shared mapping of a file, or of memory that belongs to no file.
#[derive(Debug)]
pub(super) struct SharedMap {
    /// The file, and the mapping's offset in it. Dropped before the mapping.
    of: Option<(WatchedMapping, Arc<File>, u64)>,
    map: MmapRaw,
    words: usize,
}

impl SharedMap {
    /// Maps `words` words of `file`, whose length is `len`, starting at `offset`.
    pub(super) fn new(file: &Arc<File>, len: u64, offset: u64, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).filter(|&b| b > 0);
        let bytes = bytes.ok_or_else(|| invalid("a mapping has at least one word"))?;
        let end = u64::try_from(bytes).ok().and_then(|b| b.checked_add(offset));
        if !offset.is_multiple_of(PAGE_BYTES) || end.is_none_or(|end| end > len) {
            return Err(invalid("mapping is not page-aligned within the file"));
        }
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(&**file)?;
        let watched = WatchedMapping::new(map.as_ptr() as usize, bytes);
        Ok(Self { of: Some((watched, file.clone(), offset)), map, words })
    }

    /// Maps zeroed memory; pages take space only once they are written.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn anonymous(words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or_else(|| invalid("too much memory"))?;
        let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?.into();
        Ok(Self { of: None, map, words })
    }
}

impl Mapping for SharedMap {
    #[allow(unsafe_code)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `map` is a live mapping of `words * 8` bytes (`new` asked for exactly that, and MmapRaw has
        // no call that shrinks it through a shared reference), readable and writable, page-aligned and so
        // aligned for AtomicU64, and it is unmapped only when `self` is dropped, which the returned lifetime
        // forbids. Any bit pattern is a valid u64. This process accesses the memory only through these
        // atomics; changes by other processes or file writes count as concurrent relaxed stores. An
        // unreadable page is replaced by one of zeros when it is touched.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.words) }
    }

    fn lost(&self) -> Vec<Range<usize>> {
        let lost = self.of.iter().flat_map(|(watched, ..)| watched.lost());
        lost.map(|page| page.bytes.start / WORD_BYTES..page.bytes.end / WORD_BYTES).collect()
    }

    #[allow(unsafe_code)]
    fn restore(&self) -> io::Result<()> {
        let Some((watched, file, offset)) = &self.of else { return Ok(()) };
        for page in watched.lost() {
            let words = self
                .words()
                .get(page.bytes.start / WORD_BYTES..page.bytes.end / WORD_BYTES)
                .unwrap_or_default();
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Ordering::Acquire).to_ne_bytes()).collect();
            let at = offset + page.bytes.start as u64;
            file.write_all_at(&bytes, at)?;
            let at = libc::off_t::try_from(at).map_err(|_| invalid("too far in the file"))?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            let address = page.address() as *mut libc::c_void;
            // SAFETY: the page belongs to this mapping, which lives as long as `self`. Its contents do not
            // change: the same bytes have just been written to the file, and the caller ensures that nothing
            // stores here meanwhile.
            let mapped =
                unsafe { libc::mmap(address, page_bytes(), protection, flags, file.as_raw_fd(), at) };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            page.forget();
        }
        Ok(())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
