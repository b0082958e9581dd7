//! Writing without root's privileges, in a process that has them.
//!
//! Writes through the mount come from any user, perhaps root. The lower file system must treat them as it
//! would without the mount: blocks reserved for root stay reserved, quotas count, and setuid and setgid bits
//! end with a write. Writing threads therefore take an identity without rights for the duration of a write;
//! other rights do not matter on an open descriptor. For FUSE passthrough the kernel also keeps the identity
//! under which a file was registered.

#![allow(unsafe_code, reason = "setfsuid has no safe wrapper")]

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// User and group without rights.
const NOBODY: u32 = 65_534;

/// Gives up the right to use reserved blocks, for this thread and those that it starts.
pub fn keep_reserves() {
    if let Ok(mut sets) = capabilities(None) {
        sets.effective.remove(CapabilitySet::SYS_RESOURCE);
        // Without the right to change them there was no right to the reserves either.
        let _as_before = set_capabilities(None, sets);
    }
}

/// Calls `write` under an identity without rights.
pub fn unprivileged<T>(write: impl FnOnce() -> T) -> T {
    let _identity = FileIdentity::of_nobody();
    write()
}

/// Former identity with which this thread changes files.
struct FileIdentity {
    user: u32,
    group: u32,
}

impl FileIdentity {
    fn of_nobody() -> Self {
        Self { group: file_group(NOBODY), user: file_user(NOBODY) }
    }
}

impl Drop for FileIdentity {
    fn drop(&mut self) {
        file_user(self.user);
        file_group(self.group);
    }
}

/// Sets the user for this thread's file accesses; returns the previous one. Without privileges nothing
/// changes.
fn file_user(user: u32) -> u32 {
    // SAFETY: setfsuid(2) takes a number and changes this thread's identity only.
    unsafe { libc::setfsuid(user) }.cast_unsigned()
}

/// Like [`file_user`], for the group.
fn file_group(group: u32) -> u32 {
    // SAFETY: setfsgid(2) takes a number and changes this thread's identity only.
    unsafe { libc::setfsgid(group) }.cast_unsigned()
}
