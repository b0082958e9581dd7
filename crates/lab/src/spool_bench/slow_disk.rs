//! A disk of limited speed, so that somebody waits: one file in a FUSE file system below a loop device.
//!
//! It has one arm. A request that begins elsewhere than the last one ended costs an access, and every
//! request the time of its bytes; meanwhile no other is carried out. What is written is kept in memory. The
//! file system on it writes directories at once, as the paper's did.

use crate::volume::{Kind, Volume};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// The file.
const NAME: &str = "disk";
const INODE: INodeNo = INodeNo(2);
/// For how long the kernel may know its size.
const KNOWN: Duration = Duration::from_secs(3600);
/// Room for a site and its articles, and for all their files.
const BYTES: usize = 2 << 30;
const INODES: u64 = 150_000;

/// How fast it is.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    /// To where a request begins, if the last one ended elsewhere.
    pub access: Duration,
    pub bytes_per_second: f64,
}

impl Speed {
    /// How long a request takes.
    fn time(&self, is_elsewhere: bool, bytes: usize) -> Duration {
        let access = if is_elsewhere { self.access } else { Duration::ZERO };
        access + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }
}

/// Its content, and where its arm is.
struct Content {
    bytes: Vec<u8>,
    arm: usize,
}

struct Disk {
    content: Mutex<Content>,
    speed: Speed,
    is_slow: AtomicBool,
}

impl Disk {
    /// Carries out a request.
    fn request<T>(&self, from: u64, length: usize, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let mut content = self.content.lock().ok()?;
        let from = from as usize;
        if self.is_slow.load(Ordering::Relaxed) {
            std::thread::sleep(self.speed.time(content.arm != from, length));
        }
        content.arm = from + length;
        content.bytes.get_mut(from..from + length).map(work)
    }
}

fn attributes(inode: INodeNo) -> FileAttr {
    let is_root = inode == INodeNo::ROOT;
    let size = if is_root { 0 } else { BYTES as u64 };
    FileAttr {
        ino: inode,
        size,
        blocks: size / 512,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_root { FileType::Directory } else { FileType::RegularFile },
        perm: if is_root { 0o700 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// FUSE's side of the disk.
struct Files(Arc<Disk>);

impl Filesystem for Files {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&KNOWN, &attributes(INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KNOWN, &attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // No cache of the kernel's: each request is the disk's.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = (size as usize).min(BYTES.saturating_sub(offset as usize));
        match self.0.request(offset, length, |bytes| bytes.to_vec()) {
            Some(bytes) => reply.data(&bytes),
            None => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.request(offset, data.len(), |bytes| bytes.copy_from_slice(data)) {
            Some(()) => reply.written(data.len() as u32),
            None => reply.error(Errno::ENOSPC),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // It has no cache of its own: what was written is there.
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// The disk, with a file system on it; both are gone with the value.
pub struct SlowDisk {
    disk: Arc<Disk>,
    volume: Option<Volume>,
    session: Option<BackgroundSession>,
    mount_point: PathBuf,
}

impl SlowDisk {
    /// An empty one, mounted below `dir`. It takes root, /dev/fuse and loop devices.
    pub fn new(dir: &Path, speed: Speed) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mount_point = dir.join("slow-device");
        fs::create_dir_all(&mount_point)?;
        let content = Mutex::new(Content { bytes: vec![0; BYTES], arm: 0 });
        let disk = Arc::new(Disk { content, speed, is_slow: AtomicBool::new(false) });
        let session = fuser::spawn_mount(Files(disk.clone()), &mount_point, &Config::default())?;
        let mut slow = Self { disk, volume: None, session: Some(session), mount_point };
        let image = slow.mount_point.join(NAME);
        slow.volume = Some(Volume::on(Kind::Synchronous, image, dir.join("slow-disk"), INODES)?);
        Ok(slow)
    }

    /// Where its file system is.
    pub fn point(&self) -> &Path {
        self.volume.as_ref().map_or(&self.mount_point, Volume::point)
    }

    /// From now on it has its speed, or none.
    pub fn slow_down(&self, is_slow: bool) {
        self.disk.is_slow.store(is_slow, Ordering::Relaxed);
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.slow_down(false);
        self.volume = None;
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("lab: {}: {error}", self.mount_point.display());
        }
        let _left = fs::remove_dir(&self.mount_point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_request_elsewhere_costs_an_access_and_the_next_one_only_its_bytes() {
        let speed = Speed { access: Duration::from_millis(10), bytes_per_second: 1e6 };
        assert_eq!(speed.time(true, 5_000), Duration::from_millis(15));
        assert_eq!(speed.time(false, 5_000), Duration::from_millis(5));
        let content = Mutex::new(Content { bytes: vec![0; 100], arm: 0 });
        let disk = Disk { content, speed, is_slow: AtomicBool::new(true) };
        let timed = |from: u64, length: usize| {
            let began = Instant::now();
            let done = disk.request(from, length, |bytes| bytes.fill(1)).is_some();
            (done, began.elapsed() >= speed.access)
        };
        assert_eq!(timed(50, 10), (true, true));
        assert_eq!(disk.content.lock().unwrap().arm, 60);
        assert!(timed(60, 10).0);
        assert_eq!(timed(95, 10), (false, true));
        assert_eq!(disk.content.lock().unwrap().bytes.iter().filter(|byte| **byte == 1).count(), 20);
    }
}
