//! The machine's memory of what was written: whether there is any beside the medium, and giving it back.
//! Called by [`super::real`]; see `docs/decisions/0042-hot-memory.md`.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

use rustix::fs::{Advice, FsWord, fadvise, fstatfs};

/// Types of file systems that have nothing but memory (statfs(2)).
const IN_MEMORY: [FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether a file lies in memory alone (tmpfs, ramfs).
pub(super) fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| IN_MEMORY.contains(&system.f_type))
}

/// Gives back the memory of those whole pages of a range that are as the medium has them. The kernel passes
/// over all others, so nothing is lost whenever this is called.
pub(super) fn release(file: &File, range: Range<u64>) -> io::Result<()> {
    let Some(len) = NonZeroU64::new(range.end.saturating_sub(range.start)) else { return Ok(()) };
    Ok(fadvise(file, range.start, Some(len), Advice::DontNeed)?)
}
