//! Nodes of the mount: the inodes that the kernel knows, the names by which it found them, and descriptors.
//!
//! A node's number is the inode number of the lower file. The exceptions are the root, which FUSE calls 1,
//! and lower files of another device or with inode 1, which get numbers from 2^63 on. Only directories keep a
//! descriptor, as many as the process may have; everything else, and a directory that lost its descriptor, is
//! found again by its names and recognised by its key. A file whose last name is removed while the kernel
//! knows it keeps a descriptor until the kernel forgets it, so that its inode is not used again meanwhile.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lock_order::Innermost;
use rustix::fs::Statx;

use crate::lower::{self, FileKey};

/// Number of the root.
pub const ROOT: u64 = 1;
/// Maximum number of names of a file that are remembered.
const NAMES_MAX: usize = 16;
const FIRST_FOREIGN: u64 = 1 << 63;

/// A directory and a name in it.
pub type NodeName = (u64, OsString);

/// All nodes.
pub struct Nodes {
    root: FileKey,
    /// Maximum number of descriptors kept for directories.
    descriptors_max: usize,
    table: Innermost<NodeTable>,
}

#[derive(Default)]
struct NodeTable {
    nodes: HashMap<u64, KernelNode>,
    foreign: HashMap<FileKey, u64>,
    foreign_made: u64,
    /// Nodes with a descriptor in `dir`, in the order in which they may lose it.
    turns: VecDeque<u64>,
}

struct KernelNode {
    key: FileKey,
    /// Look-ups by the kernel that it has not forgotten.
    lookups: u64,
    /// Known names, the latest last.
    names: Vec<NodeName>,
    dir: Option<Arc<OwnedFd>>,
    was_used: bool,
    nameless: Option<Arc<OwnedFd>>,
}

impl Nodes {
    /// Creates the nodes of a tree with this root, and a limit for descriptors of directories.
    pub fn new(root: FileKey, descriptors_max: usize) -> Self {
        Self { root, descriptors_max, table: Innermost::default() }
    }

    /// Returns the number of a file, for a listing.
    pub fn number(&self, inode: u64) -> u64 {
        if inode == self.root.inode { ROOT } else { inode }
    }

    /// Returns the number of a file if the kernel knows it.
    pub fn known(&self, stat: &Statx) -> Option<u64> {
        let key = lower::key(stat);
        let table = self.table.lock();
        if key == self.root {
            return Some(ROOT);
        }
        let id = table.foreign.get(&key).copied().unwrap_or(key.inode);
        table.nodes.get(&id).filter(|node| node.key == key).map(|_| id)
    }

    /// Records a look-up by the kernel; returns the file's number.
    pub fn remember(&self, parent: u64, name: &OsStr, stat: &Statx) -> u64 {
        let key = lower::key(stat);
        let mut table = self.table.lock();
        let id = table.number_of(key, self.root);
        let node = table.nodes.entry(id).or_insert_with(|| KernelNode {
            key,
            lookups: 0,
            names: Vec::new(),
            dir: None,
            was_used: false,
            nameless: None,
        });
        node.lookups += 1;
        node.add_name(parent, name);
        id
    }

    /// Subtracts look-ups that the kernel has forgotten.
    pub fn forget(&self, id: u64, lookups: u64) {
        let mut table = self.table.lock();
        let Some(node) = table.nodes.get_mut(&id) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0
            && let Some(node) = table.nodes.remove(&id)
        {
            table.foreign.remove(&node.key);
        }
    }

    /// Returns the key of a node; `None` for the root and for unknown nodes.
    pub fn key(&self, id: u64) -> Option<FileKey> {
        self.table.lock().nodes.get(&id).map(|node| node.key)
    }

    /// Returns the known names of a node, the latest first.
    pub fn names(&self, id: u64) -> Vec<NodeName> {
        let table = self.table.lock();
        table.nodes.get(&id).map(|node| node.names.iter().rev().cloned().collect()).unwrap_or_default()
    }

    /// Returns the directory in which the node was found last.
    pub fn parent(&self, id: u64) -> Option<u64> {
        self.table.lock().nodes.get(&id)?.names.last().map(|(parent, _)| *parent)
    }

    /// Returns the known names in a directory.
    pub fn children(&self, parent: u64) -> Vec<OsString> {
        let table = self.table.lock();
        let names = table.nodes.values().flat_map(|node| &node.names);
        names.filter(|(of, _)| *of == parent).map(|(_, name)| name.clone()).collect()
    }

    /// Adds a name to a node.
    pub fn add_name(&self, id: u64, parent: u64, name: &OsStr) {
        if let Some(node) = self.table.lock().nodes.get_mut(&id) {
            node.add_name(parent, name);
        }
    }

    /// Removes a name from a node.
    pub fn drop_name(&self, id: u64, parent: u64, name: &OsStr) {
        if let Some(node) = self.table.lock().nodes.get_mut(&id) {
            node.names.retain(|(of, known)| (*of, known.as_os_str()) != (parent, name));
        }
    }

    /// Returns a directory's descriptor, if it still has one.
    pub fn dir(&self, id: u64) -> Option<Arc<OwnedFd>> {
        let mut table = self.table.lock();
        let node = table.nodes.get_mut(&id)?;
        node.was_used = true;
        node.dir.clone()
    }

    /// Keeps a directory's descriptor, perhaps in place of one that was not used lately.
    pub fn keep_dir(&self, id: u64, fd: &Arc<OwnedFd>) {
        let mut table = self.table.lock();
        let Some(node) = table.nodes.get_mut(&id) else { return };
        if node.dir.replace(fd.clone()).is_none() {
            table.turns.push_back(id);
        }
        while table.turns.len() > self.descriptors_max
            && let Some(id) = table.turns.pop_front()
        {
            match table.nodes.get_mut(&id) {
                Some(node) if node.was_used => {
                    node.was_used = false;
                    table.turns.push_back(id);
                }
                Some(node) => node.dir = None,
                None => {}
            }
        }
    }

    /// Returns the descriptor of a file without names.
    pub fn nameless(&self, id: u64) -> Option<Arc<OwnedFd>> {
        self.table.lock().nodes.get(&id)?.nameless.clone()
    }

    /// Keeps a file that has lost its last name.
    pub fn keep_nameless(&self, id: u64, fd: OwnedFd) {
        if let Some(node) = self.table.lock().nodes.get_mut(&id) {
            node.nameless = Some(Arc::new(fd));
        }
    }
}

impl NodeTable {
    fn number_of(&mut self, key: FileKey, root: FileKey) -> u64 {
        if key.device == root.device && key.inode != ROOT && key.inode < FIRST_FOREIGN {
            return key.inode;
        }
        if let Some(id) = self.foreign.get(&key) {
            return *id;
        }
        let id = FIRST_FOREIGN + self.foreign_made;
        self.foreign_made += 1;
        self.foreign.insert(key, id);
        id
    }
}

impl KernelNode {
    fn add_name(&mut self, parent: u64, name: &OsStr) {
        if self.names.last().is_some_and(|(of, known)| (*of, known.as_os_str()) == (parent, name)) {
            return;
        }
        self.names.retain(|(of, known)| (*of, known.as_os_str()) != (parent, name));
        if self.names.len() == NAMES_MAX {
            self.names.remove(0);
        }
        self.names.push((parent, name.to_owned()));
    }
}
