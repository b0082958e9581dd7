//! Page cache control: detects files without a medium besides memory, and releases cached pages. Used by
//! [`super::real`]; see `docs/decisions/0042-hot-memory.md`.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

use rustix::fs::{Advice, FsWord, fadvise, fstatfs};

/// Types of file systems that are in memory only (statfs(2)).
const IN_MEMORY: [FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// Reports whether a file is in memory only (tmpfs, ramfs).
pub(super) fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| IN_MEMORY.contains(&system.f_type))
}

/// Releases the cached pages that lie wholly in a range and are clean. The kernel skips all others, so no
/// data is lost.
pub(super) fn release(file: &File, range: Range<u64>) -> io::Result<()> {
    let Some(len) = NonZeroU64::new(range.end.saturating_sub(range.start)) else { return Ok(()) };
    Ok(fadvise(file, range.start, Some(len), Advice::DontNeed)?)
}
