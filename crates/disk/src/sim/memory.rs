//! Bytes of a simulated file, as words that mappings and calls share.
//!
//! Every file has [`FILE_BYTES_MAX`] bytes of address space from the start (untouched pages cost nothing), so
//! that its words never move while they are mapped. A crash test creates and drops thousands of files: their
//! memory returns to a pool, since the kernel needs longer to map and unmap it than the test needs for all
//! else.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::Mapping;
use super::super::map::SharedMap;
use parking_lot::Mutex;

/// Maximum length of a simulated file.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 28;
/// Unit in which changes through mappings reach the disk.
pub(super) const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// Unused areas, all zeroes.
static POOL: Mutex<Vec<SharedMap>> = Mutex::new(Vec::new());
/// Maximum number of areas in the pool.
const POOLED_MAX: usize = 512;
/// Areas with more written bytes than this are not worth keeping.
const POOLED_BYTES_MAX: u64 = 1 << 21;

/// Memory that is zero until written.
#[derive(Debug, Clone)]
pub(super) struct SimMemory(Arc<Area>);

#[derive(Debug)]
struct Area {
    /// `None` only during drop.
    map: Option<SharedMap>,
    /// End of the bytes that may have been changed.
    touched: AtomicU64,
}

impl Area {
    fn words(&self) -> &[AtomicU64] {
        self.map.as_ref().map(SharedMap::words).unwrap_or_default()
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let touched = *self.touched.get_mut();
        let words = self.words().get(..touched as usize / 8);
        let Some(words) = words.filter(|_| touched <= POOLED_BYTES_MAX) else { return };
        words.chunks(PAGE_WORDS).filter(|page| !is_zero(page)).flatten().for_each(clear);
        let mut pool = POOL.lock();
        if pool.len() < POOLED_MAX {
            pool.extend(self.map.take());
        }
    }
}

impl SimMemory {
    pub fn new() -> io::Result<Self> {
        let pooled = POOL.lock().pop();
        let map = pooled.map_or_else(|| SharedMap::anonymous(FILE_BYTES_MAX as usize / 8), Ok)?;
        Ok(Self(Arc::new(Area { map: Some(map), touched: AtomicU64::new(0) })))
    }

    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    /// Records that bytes before `end` may be written from now on, also by holders of the words.
    pub fn touch(&self, end: u64) {
        let end = end.next_multiple_of(PAGE_BYTES).min(FILE_BYTES_MAX);
        self.0.touched.fetch_max(end, Ordering::Relaxed);
    }

    /// Returns the words of page `n`.
    pub fn page(&self, n: u64) -> &[AtomicU64] {
        let first = n as usize * PAGE_WORDS;
        self.words().get(first..first + PAGE_WORDS).unwrap_or_default()
    }

    /// Fills `buf` from `offset` on, with zeroes beyond the end.
    pub fn read(&self, mut buf: &mut [u8], offset: u64) {
        let mut at = offset as usize;
        while !buf.is_empty() {
            if at.is_multiple_of(8) && buf.len() >= 8 {
                // Whole words are copied without a look-up for each: crash tests spend most of their time
                // here.
                let (whole, rest) = buf.as_chunks_mut::<8>();
                let words = self.words().get(at / 8..).unwrap_or_default();
                at += whole.len() * 8;
                let (here, beyond) = whole.split_at_mut(whole.len().min(words.len()));
                for (to, word) in here.iter_mut().zip(words) {
                    *to = word.load(Ordering::Acquire).to_ne_bytes();
                }
                beyond.fill([0; 8]);
                buf = rest;
                continue;
            }
            let bytes = self.words().get(at / 8).map_or(0, |word| word.load(Ordering::Acquire)).to_ne_bytes();
            let from = bytes.get(at % 8..).unwrap_or_default();
            let n = from.len().min(buf.len());
            let (now, later) = buf.split_at_mut(n);
            now.copy_from_slice(from.get(..n).unwrap_or_default());
            buf = later;
            at += n;
        }
    }

    /// Writes `bytes` from `offset` on.
    pub fn write(&self, mut bytes: &[u8], offset: u64) {
        self.touch(offset.saturating_add(bytes.len() as u64));
        let mut at = offset as usize;
        while !bytes.is_empty() {
            let words = self.words().get(at / 8..).unwrap_or_default();
            let Some(word) = words.first() else { return };
            if at.is_multiple_of(8) && bytes.len() >= 8 {
                let (whole, rest) = bytes.as_chunks::<8>();
                for (word, from) in words.iter().zip(whole) {
                    word.store(u64::from_ne_bytes(*from), Ordering::Release);
                }
                at += whole.len() * 8;
                bytes = rest;
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(8 - at % 8));
            let merge = |old: u64| {
                let mut new = old.to_ne_bytes();
                if let Some(part) = new.get_mut(at % 8..at % 8 + now.len()) {
                    part.copy_from_slice(now);
                }
                Some(u64::from_ne_bytes(new))
            };
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, merge);
            at += now.len();
            bytes = later;
        }
    }

    /// Writes `len` zeroes from `offset` on; pages that are zero already stay untouched.
    pub fn zero(&self, mut offset: u64, len: u64) {
        let end = (offset + len).min(FILE_BYTES_MAX);
        while offset < end {
            let next = end.min((offset / PAGE_BYTES + 1) * PAGE_BYTES);
            if !is_zero(self.page(offset / PAGE_BYTES)) {
                self.write(vec![0; (next - offset) as usize].as_slice(), offset);
            }
            offset = next;
        }
    }

    /// Makes the first `len` bytes, and the rest of their last page, equal to another's.
    pub fn copy_from(&self, other: &Self, len: u64) {
        let touched = |memory: &Self| memory.0.touched.load(Ordering::Relaxed);
        // Both are zero beyond that.
        let end = len.min(touched(self).max(touched(other)));
        for n in 0..end.div_ceil(PAGE_BYTES) {
            self.copy_page(other, n);
        }
    }

    /// Makes page `n` equal to another's.
    pub fn copy_page(&self, other: &Self, n: u64) {
        let (here, there) = (self.page(n), other.page(n));
        self.touch((n + 1) * PAGE_BYTES);
        if is_zero(there) {
            // Storing zeros to an untouched page would allocate it.
            let stained = here.iter().filter(|word| word.load(Ordering::Relaxed) != 0);
            stained.for_each(clear);
            return;
        }
        for (to, from) in here.iter().zip(there) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// Reports whether page `n` is the same in both.
    pub fn page_equals(&self, other: &Self, n: u64) -> bool {
        let load = |word: &AtomicU64| word.load(Ordering::Acquire);
        self.page(n).iter().map(load).eq(other.page(n).iter().map(load))
    }
}

fn clear(word: &AtomicU64) {
    word.store(0, Ordering::Release);
}

fn is_zero(words: &[AtomicU64]) -> bool {
    words.iter().all(|word| word.load(Ordering::Acquire) == 0)
}
