//! Mounting and unmounting.
//!
//! What is mounted is a tree of files ([`mount`]), or a server's articles: `articles` is what is asked of the
//! server, `group_tree` names its directories, `article_files` answers the kernel, and `device` connects the
//! process that mounts with the one that answers.

mod article_files;
pub mod articles;
pub mod device;
pub mod group_tree;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use netnews::bucket::Scheme;
use parking_lot::Mutex;
use rustix::mount::{UnmountFlags, unmount};

use crate::filesystem::Usenetfs;
use crate::lower::marking;
use crate::tree::Tree;

/// What the source of a mount begins with in `/proc/mounts`; the lower directory follows.
pub const SOURCE: &str = "usenetfs:";

/// How to mount.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which buckets managed directories have.
    pub scheme: Scheme,
    /// For how long the kernel keeps names and attributes that it was told.
    pub keep: Duration,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// Whether nothing can be changed through it.
    pub read_only: bool,
    /// Whether the kernel may read and write the lower files itself.
    pub passthrough: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheme: Scheme::default(),
            keep: Duration::from_secs(1),
            allow_other: rustix::process::geteuid().is_root(),
            read_only: false,
            passthrough: true,
        }
    }
}

/// A mount. Dropping it unmounts.
pub struct Mounted {
    session: Option<BackgroundSession>,
    ended: Mutex<Option<Receiver<io::Result<()>>>>,
    point: PathBuf,
    tree: Arc<Tree>,
}

/// Mounts the tree below `lower` at `point`. Sets the process's file mode creation mask to nothing, since
/// modes come from other processes, which have one of their own.
pub fn mount(lower: &Path, point: &Path, options: &Options) -> io::Result<Mounted> {
    let point = clear_dead_mount(point)?;
    let lower = lower.canonicalize()?;
    if point.starts_with(&lower) && point != lower {
        let why = format!("{} is below {}, which it would show", point.display(), lower.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    marking::check(&lower, options.scheme, !options.read_only)?;
    rustix::process::umask(rustix::fs::Mode::empty());
    let root = OwnedFd::from(File::open(&lower)?);
    let tree = Arc::new(Tree::new(crate::lower::open_path(root, ".".as_ref())?, options.scheme)?);
    let notifier = Arc::new(OnceLock::new());
    let files = Usenetfs::new(tree.clone(), options.keep, options.passthrough, notifier.clone())?;
    let session = Session::new(files, &point, &config(&lower, options))?;
    let _first = notifier.set(session.notifier());
    let mut session = session.spawn()?;
    let (ends, ended) = channel();
    let guard = std::mem::replace(&mut session.guard, std::thread::spawn(|| Ok(())));
    std::thread::Builder::new().name("usenetfs-end".into()).spawn(move || {
        let end = guard.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
        // Whoever mounted may be gone.
        let _unheard = ends.send(end);
    })?;
    Ok(Mounted { session: Some(session), ended: Mutex::new(Some(ended)), point, tree })
}

fn config(lower: &Path, options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{SOURCE}{}", lower.display())),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(1);
    config
}

/// The mount point, without what a killed mount left there.
pub fn clear_dead_mount(point: &Path) -> io::Result<PathBuf> {
    let found = point.canonicalize();
    let is_dead = |error: &io::Error| error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error());
    if found.as_ref().err().is_some_and(is_dead)
        // The kernel may still have the attributes.
        || rustix::fs::statfs(point).is_err_and(|error| error == rustix::io::Errno::NOTCONN)
    {
        unmount(point, UnmountFlags::DETACH)?;
        return point.canonicalize();
    }
    found
}

impl Mounted {
    /// What waits until the mount has ended, for example because somebody unmounted it; the second time what
    /// does not wait.
    pub fn end(&self) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let ended = self.ended.lock().take();
        move || ended.map_or(Ok(()), |ended| ended.recv().unwrap_or(Ok(())))
    }

    /// Takes it out of the tree: nothing new can be opened. What is open works on until it is closed or the
    /// process ends.
    pub fn detach(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match unmount(&self.point, UnmountFlags::DETACH) {
            // `fusermount3` may do it for other users.
            Err(rustix::io::Errno::PERM) => session.umount_and_join(),
            // Somebody else was first.
            Err(rustix::io::Errno::INVAL) | Ok(()) => {
                drop(session);
                Ok(())
            }
            Err(error) => {
                self.session = Some(session);
                Err(error.into())
            }
        }
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Whether the kernel reads and writes the lower files itself, as far as is known by now.
    pub fn passes_through(&self) -> bool {
        self.tree.files.passes_through()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _left = self.detach();
    }
}
