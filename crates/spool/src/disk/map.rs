//! Shared mappings as slices of atomics, what happens when one of their pages cannot be read, and an inode's write hint: the
//! only `unsafe` of this crate.
//!
//! Called by [`super::real`] for files and by [`super::sim`] for plain memory. A page that the medium fails to read, or that
//! lies beyond the end of a file somebody has cut, raises SIGBUS where it is touched. A mapping costs no system call to read
//! and is as large as the spool, so it can neither be read by calls nor held in memory: instead the handler puts a page of
//! zeros in its place and notes it as lost ([`Mapping::lost`]), and whoever owns the mapping makes the contents good and
//! calls [`Mapping::restore`]. Invariant: a mapping never reaches past the end of its file at the time it is made.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock};

use memmap2::{MmapOptions, MmapRaw};

use super::Mapping;

/// Offsets of mappings are multiples of this (mmap itself refuses them where the machine's pages are larger).
const PAGE_BYTES: u64 = 4096;
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Mappings of files that are watched at a time: 32 MiB of history each, and a few for each buffer. Any beyond end the
/// process where a page cannot be read.
const WATCHED_MAX: usize = 16_384;
/// Lost pages that are not restored yet. One more ends the process.
const LOST_MAX: usize = 4096;

/// Where a watched mapping begins and ends; both 0 if the entry is free.
struct Watched {
    start: AtomicUsize,
    end: AtomicUsize,
}

static WATCHED: [Watched; WATCHED_MAX] =
    [const { Watched { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; WATCHED_MAX];
/// Addresses of lost pages; 0 if the entry is free.
static LOST: [AtomicUsize; LOST_MAX] = [const { AtomicUsize::new(0) }; LOST_MAX];
static LOST_COUNT: AtomicU64 = AtomicU64::new(0);
/// Held while a page is replaced.
static REPLACING: AtomicBool = AtomicBool::new(false);
static PAGE: AtomicUsize = AtomicUsize::new(PAGE_BYTES as usize);
static WATCH: Once = Once::new();
/// What handled SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Pages lost so far, in all mappings.
pub(super) fn lost_pages() -> u64 {
    LOST_COUNT.load(Ordering::Acquire)
}

/// Makes [`on_sigbus`] the handler of SIGBUS.
#[allow(unsafe_code)]
fn watch() {
    // SAFETY: `sysconf` has no preconditions. `action` is a valid sigaction (zeroes are one, with an empty mask and the
    // default handler), and both pointers are to live values. The handler does only what may be done in one.
    unsafe {
        if let Ok(bytes) = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)) {
            PAGE.store(bytes, Ordering::Release);
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) == 0 {
            let _first = BEFORE.set(before);
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Puts zeros in the place of a page of a watched mapping that cannot be read. Any other SIGBUS goes the way it went before.
///
/// Async-signal-safe: it touches only statics, and calls `mmap` and `sigaction`, which on Linux are plain system calls.
#[allow(unsafe_code)]
extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `info`, whose address is that of the access that failed. A page is replaced only if
    // it lies wholly in a mapping of ours, which is entered in the table after it is made and leaves it before it is
    // unmapped, so nobody else's memory can be there; the thread that touches it holds a reference to it. Words are atomics
    // of any bit pattern, so zeros are valid ones. errno is put back for whoever was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let page_bytes = PAGE.load(Ordering::Acquire);
        let page = (*info).si_addr() as usize / page_bytes * page_bytes;
        let is_ours = |w: &Watched| {
            let (start, end) = (w.start.load(Ordering::Acquire), w.end.load(Ordering::Acquire));
            start <= page && page < end
        };
        if WATCHED.iter().any(is_ours) && replace(page, page_bytes) {
            *libc::__errno_location() = errno;
            return;
        }
        match BEFORE.get() {
            Some(before) if before.sa_sigaction > 1 && before.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(before.sa_sigaction);
                handler(signal, info, context);
            }
            // The access is tried again and ends the process.
            _ => drop(libc::signal(libc::SIGBUS, libc::SIG_DFL)),
        }
    }
}

/// Puts a page of zeros in the place of a lost one, and notes it; false if that is not possible. Where another thread was
/// first nothing is left to do.
#[allow(unsafe_code)]
fn replace(page: usize, page_bytes: usize) -> bool {
    // No lock of the library may be taken in a handler. Whoever holds this one neither waits nor touches a mapping.
    while REPLACING.swap(true, Ordering::AcqRel) {
        std::hint::spin_loop();
    }
    let noted = |value: usize| LOST.iter().find(|entry| entry.load(Ordering::Acquire) == value);
    let mut is_replaced = noted(page).is_some();
    if let Some(entry) = noted(0).filter(|_| !is_replaced) {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the caller knows that the page is one of a mapping of ours; see there.
        let mapped = unsafe { libc::mmap(page as *mut libc::c_void, page_bytes, protection, flags, -1, 0) };
        is_replaced = mapped != libc::MAP_FAILED;
        if is_replaced {
            entry.store(page, Ordering::Release);
            LOST_COUNT.fetch_add(1, Ordering::AcqRel);
        }
    }
    REPLACING.store(false, Ordering::Release);
    is_replaced
}

/// A shared mapping of a file, or of memory that belongs to no file.
#[derive(Debug)]
pub(super) struct SharedMap {
    map: MmapRaw,
    words: usize,
    /// The file, where the mapping begins in it, and the entry of [`WATCHED`].
    of: Option<(Arc<File>, u64, Option<usize>)>,
}

impl SharedMap {
    /// Maps `words` words of `file`, whose length is `len`, from `offset` on.
    pub(super) fn new(file: &Arc<File>, len: u64, offset: u64, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).filter(|&b| b > 0);
        let bytes = bytes.ok_or_else(|| invalid("a mapping has at least one word"))?;
        let end = u64::try_from(bytes).ok().and_then(|b| b.checked_add(offset));
        if !offset.is_multiple_of(PAGE_BYTES) || end.is_none_or(|end| end > len) {
            return Err(invalid("mapping is not page-aligned within the file"));
        }
        WATCH.call_once(watch);
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(&**file)?;
        let start = map.as_ptr() as usize;
        let entry = WATCHED.iter().position(|w| {
            // The end is 0 meanwhile, so nothing is in the range yet.
            w.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Acquire).is_ok()
        });
        if let Some(watched) = entry.and_then(|entry| WATCHED.get(entry)) {
            watched.end.store(start + bytes, Ordering::Release);
        }
        Ok(Self { map, words, of: Some((file.clone(), offset, entry)) })
    }

    /// Zeroed memory; pages take room only once they are written.
    pub(super) fn anonymous(words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or_else(|| invalid("too much memory"))?;
        let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?.into();
        Ok(Self { map, words, of: None })
    }

    /// The lost pages of this mapping: entry in [`LOST`], and the words.
    fn lost_entries(&self) -> impl Iterator<Item = (&'static AtomicUsize, Range<usize>)> {
        let (start, words) = (self.map.as_ptr() as usize, self.words);
        let page_words = PAGE.load(Ordering::Acquire) / WORD_BYTES;
        LOST.iter().filter_map(move |entry| {
            let first = entry.load(Ordering::Acquire).checked_sub(start)? / WORD_BYTES;
            (first < words).then(|| (entry, first..(first + page_words).min(words)))
        })
    }
}

impl Mapping for SharedMap {
    #[allow(unsafe_code)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `map` is a live mapping of `words * 8` bytes (`new` asked for exactly that, and MmapRaw has
        // no call that shrinks it through a shared reference), readable and writable, page-aligned and so
        // aligned for AtomicU64, and it is unmapped only when `self` is dropped, which the returned lifetime
        // forbids. Any bit pattern is a valid u64. The memory is reached by this process only through these
        // atomics; what other processes or file writes do to it counts as concurrent relaxed stores. A page
        // that cannot be read is replaced by one of zeros when it is touched.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.words) }
    }

    fn lost(&self) -> Vec<Range<usize>> {
        self.lost_entries().map(|(_, words)| words).collect()
    }

    #[allow(unsafe_code)]
    fn restore(&self) -> io::Result<()> {
        let Some((file, offset, _)) = &self.of else { return Ok(()) };
        for (entry, words) in self.lost_entries() {
            let page = self.words().get(words.clone()).unwrap_or_default();
            let bytes: Vec<u8> = page.iter().flat_map(|w| w.load(Ordering::Acquire).to_ne_bytes()).collect();
            let at = offset + (words.start * WORD_BYTES) as u64;
            file.write_all_at(&bytes, at)?;
            let address = entry.load(Ordering::Acquire);
            let at = libc::off_t::try_from(at).map_err(|_| invalid("too far in the file"))?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: the page is one of this mapping, which lives for as long as `self`; it shows the same bytes before
            // and after, since they have just been written to the file and the caller sees to it that nobody stores here.
            let mapped = unsafe {
                let page_bytes = PAGE.load(Ordering::Acquire);
                libc::mmap(address as *mut libc::c_void, page_bytes, protection, flags, file.as_raw_fd(), at)
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            entry.store(0, Ordering::Release);
        }
        Ok(())
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        let Some((_, _, entry)) = &self.of else { return };
        self.lost_entries().for_each(|(entry, _)| entry.store(0, Ordering::Release));
        if let Some(watched) = entry.and_then(|entry| WATCHED.get(entry)) {
            watched.end.store(0, Ordering::Release);
            watched.start.store(0, Ordering::Release);
        }
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
