//! The write hint of an inode (fcntl(2)), which the spool uses as a mark in the kernel's memory: see
//! docs/decisions/0028-marks-in-memory.md.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// fcntl(2) command that gets an inode's write hint. Neither libc nor rustix has a name for it.
const F_GET_RW_HINT: libc::c_int = 1035;
/// fcntl(2) command that sets an inode's write hint.
const F_SET_RW_HINT: libc::c_int = 1036;

/// Returns the write hint of a file's or directory's inode; 0 if none was set since its file system was
/// mounted.
#[allow(unsafe_code)]
pub(crate) fn write_hint(file: &File) -> io::Result<u64> {
    let mut hint = 0_u64;
    // SAFETY: the descriptor is open, and the kernel writes the 8 bytes of `hint`, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &raw mut hint) } {
        0 => Ok(hint),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the write hint of a file's or directory's inode. The kernel keeps it in memory alone.
#[allow(unsafe_code)]
pub(crate) fn set_write_hint(file: &File, hint: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads the 8 bytes of `hint`, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &raw const hint) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
