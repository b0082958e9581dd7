//! Open files, and which of them the kernel reads and writes directly.
//!
//! Where the kernel has FUSE passthrough, it does input and output on the lower file itself. All handles of
//! one file must then agree: further handles are opened in the same way as the first. Files that set user or
//! group never pass through, because another user's write must clear those bits.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::BackingId;
use lock_order::Innermost;
use rustix::fs::Statx;

use crate::lower;

/// An open file.
pub struct OpenFile {
    /// Descriptor of the lower file.
    pub fd: OwnedFd,
    node: u64,
    /// Identifier in the kernel, if the file passes through.
    pub backing: Option<Arc<BackingId>>,
}

/// All open files.
#[derive(Default)]
pub struct FileHandles {
    table: Innermost<FileTable>,
    passes_through: AtomicBool,
}

#[derive(Default)]
struct FileTable {
    files: HashMap<u64, Arc<OpenFile>>,
    of_node: HashMap<u64, Vec<u64>>,
    last: u64,
}

impl FileHandles {
    /// Allows files to pass through, since the kernel supports it.
    pub fn allow_passthrough(&self) {
        self.passes_through.store(true, Ordering::Relaxed);
    }

    /// Returns whether files pass through.
    pub fn passes_through(&self) -> bool {
        self.passes_through.load(Ordering::Relaxed)
    }

    /// Adds a file that was just opened; returns its handle. `register` registers it with the kernel.
    pub fn add(
        &self,
        node: u64,
        fd: OwnedFd,
        stat: &Statx,
        register: impl FnOnce(BorrowedFd<'_>) -> io::Result<BackingId>,
    ) -> (u64, Arc<OpenFile>) {
        let mut table = self.table.lock();
        let other = table.of_node.get(&node).and_then(|handles| handles.first());
        let other = other.and_then(|handle| table.files.get(handle)).cloned();
        let backing = match other {
            Some(other) => other.backing.clone(),
            None if lower::sets_ids(stat) || !self.passes_through() => None,
            None => self.backing(&fd, register),
        };
        table.last += 1;
        let handle = table.last;
        let file = Arc::new(OpenFile { fd, node, backing });
        table.files.insert(handle, file.clone());
        table.of_node.entry(node).or_default().push(handle);
        (handle, file)
    }

    /// Registers a file; the first refusal, such as for lack of a privilege or of support in the lower file
    /// system, disables passthrough.
    fn backing(
        &self,
        fd: &OwnedFd,
        register: impl FnOnce(BorrowedFd<'_>) -> io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        use std::os::fd::AsFd;
        let registered = register(fd.as_fd());
        if registered.is_err() {
            self.passes_through.store(false, Ordering::Relaxed);
        }
        registered.ok().map(Arc::new)
    }

    /// Returns the file of a handle.
    pub fn get(&self, handle: u64) -> Option<Arc<OpenFile>> {
        self.table.lock().files.get(&handle).cloned()
    }

    /// Returns any open file of a node.
    pub fn of_node(&self, node: u64) -> Option<Arc<OpenFile>> {
        let table = self.table.lock();
        table.files.get(table.of_node.get(&node)?.first()?).cloned()
    }

    /// Closes a handle.
    pub fn close(&self, handle: u64) {
        let mut table = self.table.lock();
        let closed = table.files.remove(&handle);
        if let Some(node) = closed.as_ref().map(|file| file.node)
            && let Some(handles) = table.of_node.get_mut(&node)
        {
            handles.retain(|other| *other != handle);
            if handles.is_empty() {
                table.of_node.remove(&node);
            }
        }
    }
}
