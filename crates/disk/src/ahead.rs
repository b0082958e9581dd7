//! Writing ahead: a write that begins a new page or step fills it to the end with zeros.
//!
//! A kernel caches files by pages, and writes in pieces as large as start and length of the call permit. A
//! write that ends within a page must first read the rest of it from the disk, and many small pieces cost
//! more than few large ones. A writer at growing offsets, with nothing of value after them, therefore writes
//! zeros up to the next page, or, if it is busy, up to the next step; later writes then find their pages in
//! memory. Used by the buffers, the journal and the overview.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Page size; whole pages need not be read before they are written.
const PAGE_BYTES: u64 = 4096;
/// Maximum length of a step, in bytes.
pub const STEP_BYTES_MAX: u64 = 64 << 10;
/// A write of at least this fraction of a step counts as a busy writer's.
const BUSY_PART: u64 = 8;

/// Zeros to write. Not a constant, which would be part of the binary.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; STEP_BYTES_MAX as usize]);

/// End of the written part of one writer's file.
#[derive(Debug, Default)]
pub struct ZeroFill {
    end: AtomicU64,
}

impl ZeroFill {
    /// Forgets the position, after a failure or a cut.
    pub fn reset(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    /// Returns the zeros to be written after `len` bytes at `offset`, at most `room`; `step` is a power of
    /// two.
    pub fn spare(&self, offset: u64, len: u64, room: u64, step: u64) -> &'static [u8] {
        let end = offset + len;
        let written = self.end.load(Ordering::Relaxed);
        // A position farther ahead is from before a wrap.
        if written.checked_sub(end).is_some_and(|ahead| ahead <= step) {
            return &[];
        }
        let unit = if len >= step / BUSY_PART { step.max(PAGE_BYTES) } else { PAGE_BYTES };
        let spare = (end.next_multiple_of(unit) - end).min(room).min(STEP_BYTES_MAX);
        self.end.store(end + spare, Ordering::Relaxed);
        ZEROS.get(..spare as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_filled_and_busy_writers_fill_steps() {
        let ahead = ZeroFill::default();
        let spare = |offset, len| ahead.spare(offset, len, 1 << 20, 65_536).len() as u64;
        assert_eq!(spare(8192, 100), 4096 - 100);
        assert_eq!(spare(8292, 3996), 0, "its page is there");
        assert_eq!(spare(12_288, 20_000), 65_536 - 32_288);
        assert_eq!(spare(32_288, 33_248), 0);
        assert_eq!(spare(65_536, 70_000), 3 * 65_536 - 135_536);
        assert_eq!(spare(8192, 64), 4096 - 64, "after a wrap");
        ahead.reset();
        assert_eq!(ahead.spare(8192, 64, 10, 65_536).len(), 10, "no more than there is room");
    }
}
