//! The device of a mount. The process that mounts, which takes rights or `fusermount3`, answers its requests
//! itself, or hands the device to one that has the articles ([`serve`]), which needs no rights.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use fuser::{Config, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::article_files::ArticleFiles;
use super::articles::Articles;
use super::helper;
use crate::lower::mounts::mounted_at;

const DEVICE_PATH: &str = "/dev/fuse";
/// How willingly the threads that answer leave the processor to the server's others.
const NICE: i32 = 19;

/// A mount whose requests wait for somebody to answer them. Dropping it unmounts.
pub struct Device {
    point: PathBuf,
    file: Option<File>,
    is_ours: bool,
}

impl Device {
    /// Mounts at `point`, read-only. `source` is what `/proc/mounts` shows; without `allow_other` only this
    /// user may use it.
    pub fn mount(point: &Path, source: &str, allow_other: bool) -> io::Result<Self> {
        let flags = MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::NOATIME;
        Self::with(&free_point(point)?, source, flags, allow_other)
    }

    /// As [`Device::mount`] at a point where no dead mount is; the kernel checks permissions, and there are
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

    /// The device, for whoever answers; once.
    pub fn take(&mut self) -> Option<OwnedFd> {
        self.file.take().map(OwnedFd::from)
    }

    /// Somebody has unmounted it: it is nothing to us any more.
    pub fn forget(&mut self) {
        self.is_ours = false;
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Takes it out of the tree: nothing new can be opened. What is open works on until it is closed, or
    /// whoever answers ends.
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
        // There is nobody to tell.
        let _left = self.detach();
    }
}

/// Mounts without help.
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
        // Somebody else was first.
        Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => helper::unmount(point),
        done => Ok(done?),
    }
}

/// The mount point, without what a killed mount left there; an error if one of ours is mounted there.
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

/// The mount point, without what a killed mount left there.
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
pub fn serve<A: Articles>(device: OwnedFd, articles: A, ready: impl FnOnce()) -> io::Result<()> {
    // This thread and those that it starts; without it they only take more than they should.
    let _as_before = rustix::process::setpriority_process(None, NICE);
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut config = Config::default();
    // The kernel decides who may use it.
    config.acl = SessionACL::All;
    config.n_threads = Some(1);
    let files = ArticleFiles::new(articles, owner)?;
    let notifier = files.notifier();
    let session = Session::from_fd(files, device, SessionACL::All, config)?;
    let _first = notifier.set(session.notifier());
    ready();
    session.run()
}
