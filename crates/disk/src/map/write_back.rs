//! sync_file_range(2), which rustix does not offer.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Starts writing the dirty pages of a range to the medium, without waiting. With this flag alone the kernel
/// neither waits nor reports errors of earlier writes, which remain for the next fdatasync(2).
#[allow(unsafe_code)]
pub(crate) fn write_back(file: &File, range: Range<u64>) -> io::Result<()> {
    let offset = libc::off64_t::try_from(range.start);
    let len = libc::off64_t::try_from(range.end.saturating_sub(range.start));
    let (Ok(offset), Ok(len)) = (offset, len) else { return Err(io::ErrorKind::InvalidInput.into()) };
    if len == 0 {
        // The kernel takes length 0 to mean everything up to the end.
        return Ok(());
    }
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call has no pointers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
