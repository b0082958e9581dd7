//! A disk that keeps track of what was written and not flushed: one file in a FUSE file system, for a loop
//! device.
//!
//! A cut leaves what was flushed and, of each sector, any number of the writes since, in their order: lost,
//! torn between sectors and reordered. What the old machine still writes after that is discarded; the next
//! one finds the image under another name, so that nothing of it can be in a cache.

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

/// The unit in which writes reach a disk.
const SECTOR_BYTES: usize = 512;

/// A seeded source of chance (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}

#[derive(Default)]
struct State {
    /// How often the power went; names and inodes follow from it.
    cuts: u64,
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last flush.
    writes: Vec<(usize, Vec<u8>)>,
    /// What the next machine finds.
    image: Option<Vec<u8>>,
    /// The shortest duration of a flush.
    flush_time: Duration,
}

impl State {
    fn inode(&self) -> INodeNo {
        INodeNo(2 + self.cuts)
    }

    fn name(&self) -> String {
        format!("disk-{}", self.cuts)
    }

    fn attr(&self, inode: INodeNo) -> FileAttr {
        let root = inode == INodeNo::ROOT;
        let size = if root { 0 } else { self.live.len() as u64 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / SECTOR_BYTES as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if root { FileType::Directory } else { FileType::RegularFile },
            perm: if root { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn write(&mut self, offset: usize, data: &[u8]) -> Option<()> {
        self.live.get_mut(offset..offset + data.len())?.copy_from_slice(data);
        if self.image.is_none() {
            self.writes.push((offset, data.to_vec()));
        }
        Some(())
    }

    fn flush(&mut self) {
        for (offset, data) in self.writes.drain(..) {
            self.durable[offset..offset + data.len()].copy_from_slice(&data);
        }
    }

    /// What is there after a power cut now; also how many sectors had unflushed writes.
    fn image_after_cut(&self, random: &mut Random) -> (Vec<u8>, usize) {
        let mut image = self.durable.clone();
        let mut writes_of: HashMap<usize, Vec<usize>> = HashMap::new();
        for (n, (offset, data)) in self.writes.iter().enumerate() {
            for sector in offset / SECTOR_BYTES..(offset + data.len()).div_ceil(SECTOR_BYTES) {
                writes_of.entry(sector).or_default().push(n);
            }
        }
        let sectors = writes_of.len();
        // Sometimes nearly all is lost, sometimes nearly nothing.
        let survive_percent = [0, 10, 50, 90, 100][random.below(5) as usize];
        let mut sorted: Vec<_> = writes_of.into_iter().collect();
        sorted.sort_unstable();
        for (sector, writes) in sorted {
            if random.below(100) >= survive_percent {
                continue;
            }
            let surviving = 1 + random.below(writes.len() as u64) as usize;
            for (offset, data) in writes.iter().take(surviving).filter_map(|n| self.writes.get(*n)) {
                let from = (sector * SECTOR_BYTES).max(*offset);
                let to = ((sector + 1) * SECTOR_BYTES).min(offset + data.len());
                image[from..to].copy_from_slice(&data[from - offset..to - offset]);
            }
        }
        (image, sectors)
    }
}

struct Files(Arc<Mutex<State>>);

impl Files {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.state();
        match name.to_str() == Some(&state.name()) {
            true => reply.entry(&Duration::ZERO, &state.attr(state.inode()), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &self.state().attr(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
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
        let state = self.state();
        let from = (offset as usize).min(state.live.len());
        let to = (from + size as usize).min(state.live.len());
        reply.data(&state.live[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        if inode == state.inode() && state.write(offset as usize, data).is_none() {
            return reply.error(Errno::ENOSPC);
        }
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let flush_time = self.state().flush_time;
        std::thread::sleep(flush_time);
        let mut state = self.state();
        if inode == state.inode() {
            state.flush();
        }
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// The disk.
pub struct Device {
    state: Arc<Mutex<State>>,
    mount_point: PathBuf,
    session: Option<BackgroundSession>,
}

impl Device {
    /// An empty one of this size, under a directory.
    pub fn new(mount_point: &Path, bytes: usize) -> std::io::Result<Self> {
        let state = State { live: vec![0; bytes], durable: vec![0; bytes], ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let session = fuser::spawn_mount(Files(state.clone()), mount_point, &Config::default())?;
        Ok(Self { state, mount_point: mount_point.into(), session: Some(session) })
    }

    /// From now on each flush takes at least this long.
    pub fn slow_down(&self, flush_time: Duration) {
        self.state.lock().unwrap().flush_time = flush_time;
    }

    /// Its file as of now.
    pub fn path(&self) -> PathBuf {
        self.mount_point.join(self.state.lock().unwrap().name())
    }

    /// The power fails; returns how many sectors had writes that were not flushed.
    pub fn cut(&self, random: &mut Random) -> usize {
        let mut state = self.state.lock().unwrap();
        let (image, sectors) = state.image_after_cut(random);
        state.image = Some(image);
        state.writes.clear();
        sectors
    }

    /// The power comes back: [`Device::path`] is the image from here on.
    pub fn restart(&self) {
        let mut state = self.state.lock().unwrap();
        if let Some(image) = state.image.take() {
            state.durable.clone_from(&image);
            state.live = image;
            state.writes.clear();
            state.cuts += 1;
        }
    }

    /// Unmounts its directory.
    pub fn remove(&mut self) {
        if let Some(session) = self.session.take() {
            let _ends_with_the_process = session.umount_and_join();
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.remove();
    }
}
