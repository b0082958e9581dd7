//! The device of a mount whose requests another process answers: one process mounts, which takes rights, and
//! hands the device to the one that has the articles ([`serve`]), which needs none.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use fuser::{Config, Session, SessionACL};
use rustix::mount::{MountFlags, UnmountFlags};

use super::article_files::ArticleFiles;
use super::articles::Articles;
use super::clear_dead_mount;

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
    /// user may use it. Needs the right to mount.
    pub fn mount(point: &Path, source: &str, allow_other: bool) -> io::Result<Self> {
        let point = clear_dead_mount(point)?;
        let file = File::options().read(true).write(true).open(DEVICE_PATH)?;
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let others = if allow_other { ",allow_other" } else { "" };
        let data = format!(
            "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions{others}",
            file.as_raw_fd()
        );
        let flags = MountFlags::RDONLY
            | MountFlags::NOSUID
            | MountFlags::NODEV
            | MountFlags::NOEXEC
            | MountFlags::NOATIME;
        rustix::mount::mount(source, &point, "fuse", flags, CString::new(data)?.as_c_str())?;
        Ok(Self { point, file: Some(file), is_ours: true })
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
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_ours {
            // Somebody else may have been first.
            let _left = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
        }
    }
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
    let session = Session::from_fd(ArticleFiles::new(articles, owner)?, device, SessionACL::All, config)?;
    ready();
    session.run()
}
