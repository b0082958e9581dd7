//! SIGBUS handling for pages of a mapping that cannot be read.
//!
//! The handler replaces a lost page of a watched mapping ([`WatchedMapping`]) with a page of zeros and
//! records it; the owner of the mapping then rebuilds its contents and restores the page
//! ([`WatchedMapping::lost`]). See docs/decisions/0030-pages-that-cannot-be-read.md.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

/// Maximum number of watched mappings: 32 MiB of history each, and a few for each buffer. An unreadable page
/// in any further mapping ends the process.
const WATCHED_MAX: usize = 16_384;
/// Maximum number of lost pages not restored yet. One more ends the process.
const LOST_MAX: usize = 4096;

/// Start and end of a watched mapping; both 0 if the entry is free.
struct WatchedRange {
    start: AtomicUsize,
    end: AtomicUsize,
}

static WATCHED: [WatchedRange; WATCHED_MAX] =
    [const { WatchedRange { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; WATCHED_MAX];
/// Addresses of lost pages; 0 if the entry is free.
static LOST: [AtomicUsize; LOST_MAX] = [const { AtomicUsize::new(0) }; LOST_MAX];
static LOST_COUNT: AtomicU64 = AtomicU64::new(0);
/// Held while a page is replaced.
static REPLACING: AtomicBool = AtomicBool::new(false);
/// Page size of this machine, in bytes.
static PAGE: AtomicUsize = AtomicUsize::new(4096);
static INSTALLED: Once = Once::new();
/// Previous handler of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Returns the number of pages lost so far, in all mappings.
pub(crate) fn lost_pages() -> u64 {
    LOST_COUNT.load(Ordering::Acquire)
}

/// Returns the page size of this machine, in bytes.
pub(super) fn page_bytes() -> usize {
    PAGE.load(Ordering::Acquire)
}

/// A mapping whose lost pages are replaced until this is dropped, which must happen before the mapping is.
#[derive(Debug)]
pub(super) struct WatchedMapping {
    start: usize,
    bytes: usize,
    /// Index in [`WATCHED`]; `None` if all entries are taken.
    entry: Option<usize>,
}

impl WatchedMapping {
    pub(super) fn new(start: usize, bytes: usize) -> Self {
        INSTALLED.call_once(install);
        let entry = WATCHED.iter().position(|w| {
            // The end is still 0, so the range is empty so far.
            w.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Acquire).is_ok()
        });
        if let Some(watched) = entry.and_then(|entry| WATCHED.get(entry)) {
            watched.end.store(start + bytes, Ordering::Release);
        }
        Self { start, bytes, entry }
    }

    /// Returns the lost pages of this mapping.
    pub(super) fn lost(&self) -> impl Iterator<Item = LostPage> {
        let (start, bytes) = (self.start, self.bytes);
        LOST.iter().filter_map(move |entry| {
            let first = entry.load(Ordering::Acquire).checked_sub(start)?;
            (first < bytes).then(|| LostPage { entry, bytes: first..(first + page_bytes()).min(bytes) })
        })
    }
}

impl Drop for WatchedMapping {
    fn drop(&mut self) {
        self.lost().for_each(LostPage::forget);
        if let Some(watched) = self.entry.and_then(|entry| WATCHED.get(entry)) {
            watched.end.store(0, Ordering::Release);
            watched.start.store(0, Ordering::Release);
        }
    }
}

/// A page that was replaced.
pub(super) struct LostPage {
    entry: &'static AtomicUsize,
    /// Range of the page in its mapping.
    pub(super) bytes: Range<usize>,
}

impl LostPage {
    pub(super) fn address(&self) -> usize {
        self.entry.load(Ordering::Acquire)
    }

    /// Removes the page from the table of lost pages.
    pub(super) fn forget(self) {
        self.entry.store(0, Ordering::Release);
    }
}

/// Installs [`on_sigbus`] as the handler of SIGBUS.
#[allow(unsafe_code)]
fn install() {
    // SAFETY: `sysconf` has no preconditions. `action` is a valid sigaction (zeroes are one, with an empty
    // mask and the default handler), and both pointers are to live values. The handler is async-signal-safe.
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

/// Replaces an unreadable page of a watched mapping with zeros; passes any other SIGBUS to the previous
/// handler.
///
/// Async-signal-safe: it touches only statics, and calls `mmap` and `sigaction`, which on Linux are plain
/// system calls.
#[allow(unsafe_code)]
extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `info`, whose address is that of the failed access. A page is
    // replaced only if it lies wholly in a mapping of ours, which is entered in the table after it is created
    // and removed before it is unmapped, so the page cannot be other memory; the thread that touches it holds
    // a reference to the mapping. Words are atomics of any bit pattern, so zeros are valid ones. errno is
    // restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        let page_bytes = page_bytes();
        let page = (*info).si_addr() as usize / page_bytes * page_bytes;
        let is_ours = |w: &WatchedRange| {
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
            // The access is repeated and ends the process.
            _ => drop(libc::signal(libc::SIGBUS, libc::SIG_DFL)),
        }
    }
}

/// Replaces a lost page with zeros and records it; returns false if that is not possible. Does nothing if
/// another thread has already replaced the page.
#[allow(unsafe_code)]
fn replace(page: usize, page_bytes: usize) -> bool {
    // A handler must not take a lock of the library. The holder of this one neither waits nor touches a
    // mapping.
    while REPLACING.swap(true, Ordering::AcqRel) {
        std::hint::spin_loop();
    }
    let noted = |value: usize| LOST.iter().find(|entry| entry.load(Ordering::Acquire) == value);
    let mut is_replaced = noted(page).is_some();
    if let Some(entry) = noted(0).filter(|_| !is_replaced) {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the caller knows that the page belongs to a mapping of ours; see there.
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
