//! The tree as the kernel asks for it: nodes, directories and files by number.
//!
//! Everything that needs both the table of nodes and the lower file system. `filesystem` translates FUSE's
//! requests to it, `naming` changes names.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fuser::FileAttr;
use netnews::bucket::Scheme;
use rustix::fs::{OFlags, Statx};
use rustix::io::Errno;

use crate::directory::{Directory, Found};
use crate::files::{Files, OpenFile};
use crate::lower::{self, Lower};
use crate::nodes::{Nodes, ROOT};

/// Directories above a directory that are looked for again when their descriptors were given up.
const DEPTH_MAX: usize = 256;

/// A mounted tree.
pub struct Tree {
    root: Arc<OwnedFd>,
    /// The root's lower inode number.
    root_inode: u64,
    scheme: Scheme,
    /// What the kernel knows.
    pub nodes: Nodes,
    /// What is open.
    pub files: Files,
}

/// A descriptor that refers to a node.
pub enum NodeFd {
    /// Of a directory, or of a file without names.
    Kept(Arc<OwnedFd>),
    /// Of a file that is open.
    Open(Arc<OpenFile>),
    /// Made for this.
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

impl Tree {
    /// The tree below `root`.
    pub fn new(root: OwnedFd, scheme: Scheme) -> Lower<Self> {
        let stat = lower::stat_fd(&root)?;
        Ok(Self {
            root: Arc::new(root),
            root_inode: stat.stx_ino,
            scheme,
            nodes: Nodes::new(lower::key(&stat)),
            files: Files::default(),
        })
    }

    /// The lower directory at the root.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// A directory as it is now.
    pub fn directory(&self, id: u64) -> Lower<Directory> {
        Directory::new(self.dir_fd(id, 0)?, self.scheme)
    }

    fn dir_fd(&self, id: u64, depth: usize) -> Lower<Arc<OwnedFd>> {
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
        then: impl Fn(&Directory, &Found) -> Lower<T>,
    ) -> Lower<(Found, T)> {
        let key = self.nodes.key(id).filter(|_| depth < DEPTH_MAX).ok_or(Errno::STALE)?;
        for (parent, name) in self.nodes.names(id) {
            let Ok(fd) = self.dir_fd(parent, depth + 1) else { continue };
            let dir = Directory::new(fd, self.scheme)?;
            match dir.find(&name) {
                Ok(found) if lower::key(&found.stat) == key => {
                    let then = then(&dir, &found)?;
                    return Ok((found, then));
                }
                _ => {}
            }
        }
        Err(Errno::STALE)
    }

    /// Something that refers to a node, whatever it is.
    pub fn node_fd(&self, id: u64) -> Lower<NodeFd> {
        if let Some(file) = self.files.of_node(id) {
            return Ok(NodeFd::Open(file));
        }
        if id == ROOT {
            return Ok(NodeFd::Kept(self.root.clone()));
        }
        if let Some(fd) = self.nodes.dir(id).or_else(|| self.nodes.nameless(id)) {
            return Ok(NodeFd::Kept(fd));
        }
        let (_, fd) = self.by_name(id, 0, |dir, found| lower::open_path(&dir.fd, &found.path))?;
        Ok(NodeFd::New(fd))
    }

    /// A regular file, opened with these flags.
    pub fn open(&self, id: u64, flags: OFlags) -> Lower<(OwnedFd, Statx)> {
        let fd = lower::reopen(self.node_fd(id)?.as_fd(), flags)?;
        let stat = lower::stat_fd(&fd)?;
        Ok((fd, stat))
    }

    /// A node's attributes.
    pub fn attributes(&self, id: u64) -> Lower<FileAttr> {
        if self.nodes.dir(id).is_none()
            && id != ROOT
            && self.nodes.nameless(id).is_none()
            && self.files.of_node(id).is_none()
        {
            let (found, links) = self.by_name(id, 0, |dir, found| self.links(dir, found))?;
            return Ok(self.with_links(id, &found.stat, links));
        }
        let fd = self.node_fd(id)?;
        let stat = lower::stat_fd(&fd)?;
        let links = if lower::is_managed(&stat) { self.directory(id)?.links() } else { stat.stx_nlink };
        Ok(self.with_links(id, &stat, links))
    }

    /// An entry that the kernel asked for: its number is known from now on.
    pub fn enter(&self, parent: u64, name: &OsStr, dir: &Directory, found: &Found) -> Lower<FileAttr> {
        let links = self.links(dir, found)?;
        let id = self.nodes.remember(parent, name, &found.stat);
        Ok(self.with_links(id, &found.stat, links))
    }

    fn links(&self, dir: &Directory, found: &Found) -> Lower<u32> {
        if !lower::is_managed(&found.stat) {
            return Ok(found.stat.stx_nlink);
        }
        let fd = lower::open_path(&dir.fd, &found.path)?;
        Ok(Directory::new(Arc::new(fd), self.scheme)?.links())
    }

    fn with_links(&self, id: u64, stat: &Statx, nlink: u32) -> FileAttr {
        let inode = if id == ROOT { self.root_inode } else { id };
        FileAttr { nlink, ..lower::attributes(stat, inode) }
    }

    /// Inode numbers of a directory and of the one above it, for its listing.
    pub fn dots(&self, id: u64, dir: &Directory) -> [u64; 2] {
        let inode = |id| self.nodes.key(id).map_or(self.root_inode, |key| key.inode);
        [dir.stat.stx_ino, self.nodes.parent(id).map_or(self.root_inode, inode)]
    }
}
