//! The tree as the kernel sees it: nodes, directories and files by number.
//!
//! Contains everything that needs both the table of nodes and the lower file system. `filesystem` translates
//! FUSE's requests to it, `naming` changes names.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fuser::FileAttr;
use lock_order::{Ordered, OrderedGuard};
use netnews::bucket::BucketScheme;
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::directory::{FoundEntry, LowerDirectory, MOVES_MAX};
use crate::files::{FileHandles, OpenFile};
use crate::listing::{DirectoryListing, Listings};
use crate::lower::{self, LowerResult, rank};
use crate::nodes::{Nodes, ROOT};

/// Maximum number of parent directories that are looked up again when their descriptors were given up.
const DEPTH_MAX: usize = 256;

/// A mounted tree.
pub struct MountedTree {
    root: Arc<OwnedFd>,
    /// Lower inode number of the root.
    root_inode: u64,
    scheme: BucketScheme,
    /// Nodes that the kernel knows.
    pub nodes: Nodes,
    /// Open files.
    pub files: FileHandles,
    /// Open listings.
    pub listings: Listings,
    /// Lock held while a request is answered, and while a conversion changes the lower tree.
    turn: Ordered<(), { rank::TURN }>,
}

/// A turn at the lower tree; dropping it passes the turn to a waiting thread.
pub struct TreeTurn<'a>(Option<OrderedGuard<'a, (), { rank::TURN }>>);

impl Drop for TreeTurn<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            guard.unlock_fair();
        }
    }
}

/// A descriptor that refers to a node.
pub enum NodeFd {
    /// Descriptor of a directory, or of a file without names.
    Kept(Arc<OwnedFd>),
    /// Descriptor of an open file.
    Open(Arc<OpenFile>),
    /// New descriptor.
    New(OwnedFd),
}

impl AsFd for NodeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(fd) => fd.as_fd(),
            Self::Open(file) => file.fd.as_fd(),
            Self::New(fd) => fd.as_fd(),
        }
    }
}

impl MountedTree {
    /// Creates the tree below `root`; at most `descriptors_max` descriptors of directories are kept.
    pub fn new(root: OwnedFd, scheme: BucketScheme, descriptors_max: usize) -> LowerResult<Self> {
        let stat = lower::stat_fd(&root)?;
        Ok(Self {
            root: Arc::new(root),
            root_inode: stat.stx_ino,
            scheme,
            nodes: Nodes::new(lower::key(&stat), descriptors_max),
            files: FileHandles::default(),
            listings: Listings::default(),
            turn: Ordered::new(()),
        })
    }

    /// Waits for a turn.
    pub fn turn(&self) -> TreeTurn<'_> {
        TreeTurn(Some(self.turn.lock()))
    }

    /// Returns the lower directory at the root.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Returns a directory in its current state.
    pub fn directory(&self, id: u64) -> LowerResult<LowerDirectory> {
        LowerDirectory::new(self.dir_fd(id, 0)?, self.scheme)
    }

    fn dir_fd(&self, id: u64, depth: usize) -> LowerResult<Arc<OwnedFd>> {
        if id == ROOT {
            return Ok(self.root.clone());
        }
        if let Some(fd) = self.nodes.dir(id).or_else(|| self.nodes.nameless(id)) {
            return Ok(fd);
        }
        let (_, fd) = self.by_name(id, depth, |dir, found| {
            if !lower::is_dir(&found.stat) {
                return Err(Errno::NOTDIR);
            }
            lower::open_path(&dir.fd, &found.path)
        })?;
        let fd = Arc::new(fd);
        self.nodes.keep_dir(id, &fd);
        Ok(fd)
    }

    /// Finds a node by one of its names.
    fn by_name<T>(
        &self,
        id: u64,
        depth: usize,
        then: impl Fn(&LowerDirectory, &FoundEntry) -> LowerResult<T>,
    ) -> LowerResult<(FoundEntry, T)> {
        let key = self.nodes.key(id).filter(|_| depth < DEPTH_MAX).ok_or(Errno::STALE)?;
        for (parent, name) in self.nodes.names(id) {
            let Ok(fd) = self.dir_fd(parent, depth + 1) else { continue };
            let dir = LowerDirectory::new(fd, self.scheme)?;
            for _ in 0..MOVES_MAX {
                match dir.find(&name) {
                    Ok(found) if lower::key(&found.stat) == key => match then(&dir, &found) {
                        // A conversion has moved it meanwhile.
                        Err(Errno::NOENT) => {}
                        then => return then.map(|then| (found, then)),
                    },
                    _ => break,
                }
            }
        }
        Err(Errno::STALE)
    }

    /// Returns an existing descriptor of a node.
    fn kept(&self, id: u64) -> Option<NodeFd> {
        if let Some(file) = self.files.of_node(id) {
            return Some(NodeFd::Open(file));
        }
        if id == ROOT {
            return Some(NodeFd::Kept(self.root.clone()));
        }
        self.nodes.dir(id).or_else(|| self.nodes.nameless(id)).map(NodeFd::Kept)
    }

    /// Returns a descriptor of any node.
    pub fn node_fd(&self, id: u64) -> LowerResult<NodeFd> {
        if let Some(kept) = self.kept(id) {
            return Ok(kept);
        }
        let (_, fd) = self.by_name(id, 0, |dir, found| lower::open_path(&dir.fd, &found.path))?;
        Ok(NodeFd::New(fd))
    }

    /// Opens a regular file with these flags.
    pub fn open(&self, id: u64, flags: OFlags) -> LowerResult<(OwnedFd, Statx)> {
        let fd = match self.kept(id) {
            Some(kept) => lower::reopen(kept.as_fd(), flags)?,
            None => self.by_name(id, 0, |dir, found| lower::open_file(&dir.fd, &found.path, flags))?.1,
        };
        let stat = lower::stat_fd(&fd)?;
        // Another file may have taken the name meanwhile.
        if self.nodes.key(id).is_some_and(|key| key != lower::key(&stat)) {
            return Err(Errno::STALE);
        }
        Ok((fd, stat))
    }

    /// Returns a node's attributes.
    pub fn attributes(&self, id: u64) -> LowerResult<FileAttr> {
        let Some(fd) = self.kept(id) else {
            let (found, links) = self.by_name(id, 0, |dir, found| self.links(dir, found))?;
            return Ok(self.with_links(id, &found.stat, links));
        };
        let stat = lower::stat_fd(&fd)?;
        let links = if lower::is_managed(&stat) { self.directory(id)?.links() } else { stat.stx_nlink };
        Ok(self.with_links(id, &stat, links))
    }

    /// Records an entry that the kernel looked up; returns its attributes.
    pub fn enter(
        &self,
        parent: u64,
        name: &OsStr,
        dir: &LowerDirectory,
        found: &FoundEntry,
    ) -> LowerResult<FileAttr> {
        let links = self.links(dir, found)?;
        let id = self.nodes.remember(parent, name, &found.stat);
        Ok(self.with_links(id, &found.stat, links))
    }

    fn links(&self, dir: &LowerDirectory, found: &FoundEntry) -> LowerResult<u32> {
        if !lower::is_managed(&found.stat) {
            return Ok(found.stat.stx_nlink);
        }
        let fd = lower::open_path(&dir.fd, &found.path)?;
        Ok(LowerDirectory::new(Arc::new(fd), self.scheme)?.links())
    }

    fn with_links(&self, id: u64, stat: &Statx, nlink: u32) -> FileAttr {
        let inode = if id == ROOT { self.root_inode } else { id };
        FileAttr { nlink, ..lower::attributes(stat, inode) }
    }

    /// Returns whether a directory shows no entries.
    pub fn is_empty(&self, id: u64) -> LowerResult<bool> {
        let dir = self.directory(id)?;
        let dots = self.dots(id, &dir);
        let mut is_empty = true;
        DirectoryListing::new(dir, dots)?.read(0, |entry| {
            is_empty = entry.name == "." || entry.name == "..";
            is_empty
        })?;
        Ok(is_empty)
    }

    /// Returns the inode numbers of a directory and of its parent, for its listing.
    pub fn dots(&self, id: u64, dir: &LowerDirectory) -> [u64; 2] {
        let inode = |id| self.nodes.key(id).map_or(self.root_inode, |key| key.inode);
        [dir.stat.stx_ino, self.nodes.parent(id).map_or(self.root_inode, inode)]
    }
}
