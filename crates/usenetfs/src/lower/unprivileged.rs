//! Writing without root's privileges, although the process has them.
//!
//! What is written through the mount is written by somebody, perhaps root. The lower file system must see
//! neither: blocks reserved for root stay reserved, quotas count, and bits that set user or group end with a
//! write, as they would without the mount. So writing threads take an identity of no rights for the moment
//! of a write; nothing else of their rights matters on a descriptor that is open. The kernel keeps the
//! identity under which a file was passed to it, too (FUSE passthrough).

#![allow(unsafe_code, reason = "setfsuid has no safe wrapper")]

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// User and group without rights.
const NOBODY: u32 = 65_534;

/// Gives up the right to use what is reserved, for this thread and those that it starts.
pub fn keep_reserves() {
    if let Ok(mut sets) = capabilities(None) {
        sets.effective.remove(CapabilitySet::SYS_RESOURCE);
        // Without the right to change them there was no right to the reserves either.
        let _as_before = set_capabilities(None, sets);
    }
}

/// Writes as nobody.
pub fn unprivileged<T>(write: impl FnOnce() -> T) -> T {
    let _identity = Identity::of_nobody();
    write()
}

/// The identity with which this thread changes files, as it was before.
struct Identity {
    user: u32,
    group: u32,
}

impl Identity {
    fn of_nobody() -> Self {
        Self { group: file_group(NOBODY), user: file_user(NOBODY) }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        file_user(self.user);
        file_group(self.group);
    }
}

/// Sets the user for this thread's work on files; returns the one before. Refused without privileges, when
/// nothing changes.
fn file_user(user: u32) -> u32 {
    // SAFETY: it takes a number and changes this thread's identity only (setfsuid(2)).
    unsafe { libc::setfsuid(user) }.cast_unsigned()
}

/// Like [`file_user`], for the group.
fn file_group(group: u32) -> u32 {
    // SAFETY: as above (setfsgid(2)).
    unsafe { libc::setfsgid(group) }.cast_unsigned()
}
