//! The device of a mount. The process that mounts, which takes rights or `fusermount3`, answers requests
//! itself, or passes the device to the process that has the articles ([`serve`]), which needs no rights.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use fuser::{Config, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::article_files::ArticleFiles;
use super::articles::ArticleProvider;
use super::helper;
use crate::lower::mounts::mounted_at;

const DEVICE_PATH: &str = "/dev/fuse";
/// Niceness of the answering threads, so that the server's others come first.
const NICE: i32 = 19;

/// A mount whose requests wait for a process to answer them. Dropping it unmounts.
pub struct Device {
    point: PathBuf,
    file: Option<File>,
    is_ours: bool,
}

impl Device {
    /// Mounts at `point`, read-only. `source` is shown in `/proc/mounts`; without `allow_other` only this
    /// user may use the mount.
    pub fn mount(point: &Path, source: &str, allow_other: bool) -> io::Result<Self> {
        let flags = MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::NOATIME;
        Self::with(&free_point(point)?, source, flags, allow_other)
    }

    /// Like [`Device::mount`], at a point without a dead mount; the kernel checks permissions, and there are
    /// neither devices nor setuid programs.
    pub(super) fn with(point: &Path, source: &str, flags: MountFlags, others: bool) -> io::Result<Self> {
        let flags = flags | MountFlags::NOSUID | MountFlags::NODEV;
        let file = match mount_alone(point, source, flags, others) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                helper::mount(point, source, flags, others)
            }
            done => done,
        };
        Ok(Self { point: point.to_owned(), file: Some(file?), is_ours: true })
    }

    /// Takes the device for the answering process; works once.
    pub fn take(&mut self) -> Option<OwnedFd> {
        self.file.take().map(OwnedFd::from)
    }

    /// Records that the mount was unmounted by another process.
    pub fn forget(&mut self) {
        self.is_ours = false;
    }

    /// Returns the mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Detaches the mount: nothing new can be opened. Open files work until they are closed, or the answering
    /// process ends.
    pub fn detach(&mut self) -> io::Result<()> {
        if self.is_ours {
            detach(&self.point)?;
        }
        self.is_ours = false;
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _left = self.detach();
    }
}

/// Mounts without the helper.
fn mount_alone(point: &Path, source: &str, flags: MountFlags, others: bool) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(DEVICE_PATH)?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let others = if others { ",allow_other" } else { "" };
    let data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions{others}",
        file.as_raw_fd()
    );
    rustix::mount::mount(source, point, "fuse", flags, CString::new(data)?.as_c_str())?;
    Ok(file)
}

fn detach(point: &Path) -> io::Result<()> {
    match rustix::mount::unmount(point, UnmountFlags::DETACH) {
        // The mount was removed by another process.
        Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => helper::unmount(point),
        done => Ok(done?),
    }
}

/// Returns the mount point, freed of a dead mount; an error if one of ours is mounted there.
pub(super) fn free_point(point: &Path) -> io::Result<PathBuf> {
    let point = clear_dead_mount(point)?;
    match mounted_at(&point)? {
        None => Ok(point),
        Some(source) => {
            let why =
                format!("{source} is mounted there already; unmount it first (umount {})", point.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
        }
    }
}

/// Returns the mount point, freed of a dead mount.
fn clear_dead_mount(point: &Path) -> io::Result<PathBuf> {
    let found = point.canonicalize();
    let is_dead = |error: &io::Error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
    if found.as_ref().err().is_some_and(is_dead)
        // The kernel may still have the attributes.
        || rustix::fs::statfs(point).is_err_and(|error| error == Errno::NOTCONN)
    {
        detach(point)?;
        return point.canonicalize();
    }
    found
}

/// Answers the requests of a device that another process mounted, until it is unmounted. `ready` is called
/// once it works. To be called on a thread of its own, whose priority it lowers.
pub fn serve<A: ArticleProvider>(device: OwnedFd, articles: A, ready: impl FnOnce()) -> io::Result<()> {
    // Applies to this thread and those that it starts; if refused, they only run at a higher priority.
    let _as_before = rustix::process::setpriority_process(None, NICE);
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut config = Config::default();
    // The kernel decides which users may use it.
    config.acl = SessionACL::All;
    config.n_threads = Some(1);
    let files = ArticleFiles::new(articles, owner)?;
    let notifier = files.notifier();
    let session = Session::from_fd(files, device, SessionACL::All, config)?;
    let _first = notifier.set(session.notifier());
    ready();
    session.run()
}
