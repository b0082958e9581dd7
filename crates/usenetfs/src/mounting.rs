//! Mounting and unmounting.
//!
//! A mount shows a tree of files ([`mount`]), or a server's articles: `articles` is the interface to the
//! server, `group_tree` names its directories, `article_files` answers the kernel, and `device` connects the
//! process that mounts with the one that answers. `helper` mounts for unprivileged users.

mod article_files;
pub mod articles;
pub mod device;
pub mod group_tree;
pub mod helper;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{Config, Session, SessionACL};
use lock_order::Innermost;
use netnews::bucket::BucketScheme;
use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::device::{Device, free_point};
use crate::filesystem::Usenetfs;
use crate::lower::marking;
use crate::lower::mounts::SOURCE;
use crate::lower::unprivileged::keep_reserves;
use crate::tree::MountedTree;

/// Number of threads that answer the kernel: as many slow files may be read or written at once without
/// delaying the others.
const THREADS: usize = 8;
/// Number of descriptors assumed if the system does not report a limit.
const DESCRIPTORS_UNKNOWN: u64 = 1024;
/// Maximum number of descriptors that are planned with.
const DESCRIPTORS_MAX: u64 = 1 << 17;

/// Options of a mount.
#[derive(Debug, Clone)]
pub struct MountSettings {
    /// Scheme of managed directories' buckets.
    pub scheme: BucketScheme,
    /// Time for which the kernel caches names and attributes.
    pub keep: Duration,
    /// True if other users may use the mount.
    pub allow_other: bool,
    /// True if nothing can be changed through the mount.
    pub read_only: bool,
    /// True if the kernel may read and write the lower files itself.
    pub passthrough: bool,
}

impl Default for MountSettings {
    fn default() -> Self {
        Self {
            scheme: BucketScheme::default(),
            keep: Duration::from_secs(1),
            allow_other: rustix::process::geteuid().is_root(),
            read_only: false,
            passthrough: true,
        }
    }
}

/// A mount. Dropping it unmounts.
pub struct Mounted {
    ended: Innermost<Option<Receiver<io::Result<()>>>>,
    device: Device,
    tree: Arc<MountedTree>,
}

/// Mounts the tree below `lower` at `point`. Clears the process's umask, since the kernel sends modes that
/// the umask of the requesting process was applied to.
pub fn mount(lower: &Path, point: &Path, options: &MountSettings) -> io::Result<Mounted> {
    let point = free_point(point)?;
    let lower = lower.canonicalize()?;
    if point.starts_with(&lower) && point != lower {
        let why = format!("{} is below {}, which it would show", point.display(), lower.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    marking::check(&lower, options.scheme, !options.read_only)?;
    rustix::process::umask(rustix::fs::Mode::empty());
    let root = OwnedFd::from(File::open(&lower)?);
    let root = crate::lower::open_path(root, ".".as_ref())?;
    let tree = Arc::new(MountedTree::new(root, options.scheme, raise_descriptors() / 2)?);
    keep_reserves();
    let notifier = Arc::new(OnceLock::new());
    let files = Usenetfs::new(tree.clone(), options.keep, options.passthrough, notifier.clone())?;
    let flags = if options.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    let source = format!("{SOURCE}{}", lower.display());
    let mut device = Device::with(&point, &source, flags, options.allow_other)?;
    let descriptor = device.take().ok_or(io::ErrorKind::NotFound)?;
    let mut config = Config::default();
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    let session = Session::from_fd(files, descriptor, config.acl, config)?;
    let _first = notifier.set(session.notifier());
    let guard = session.spawn()?.guard;
    let (ends, ended) = channel();
    std::thread::Builder::new().name("usenetfs-end".into()).spawn(move || {
        let end = guard.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
        // The receiver may have been dropped.
        let _unheard = ends.send(end);
    })?;
    Ok(Mounted { ended: Innermost::new(Some(ended)), device, tree })
}

/// Returns the number of descriptors that this process may have; raises its limit as far as possible.
fn raise_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused the old limit stays.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let now = if raised.is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(DESCRIPTORS_UNKNOWN).min(DESCRIPTORS_MAX) as usize
}

impl Mounted {
    /// Returns a function that waits until the mount has ended, for example because it was unmounted; the
    /// function of a second call returns at once.
    pub fn end(&self) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let ended = self.ended.lock().take();
        move || ended.map_or(Ok(()), |ended| ended.recv().unwrap_or(Ok(())))
    }

    /// Detaches the mount: nothing new can be opened. Open files work until they are closed or the process
    /// ends.
    pub fn detach(&mut self) -> io::Result<()> {
        self.device.detach()
    }

    /// Returns the mount point.
    pub fn point(&self) -> &Path {
        self.device.point()
    }

    /// Returns whether the kernel reads and writes the lower files itself, as far as is known.
    pub fn passes_through(&self) -> bool {
        self.tree.files.passes_through()
    }
}
