//! [`RealDisk`]: the machine's files, block devices and page cache (Linux).
//!
//! Every call retries EINTR and finishes short reads and writes, so that callers see everything or an error.
//! Files are opened with O_CLOEXEC (std does so). Used everywhere through the traits in [`super`].

use std::fmt::{self, Debug};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::fs::{Advice, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::fs::{fadvise, fallocate, fdatasync, flock, fsync, linkat, openat, syncfs, unlinkat};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev};

use super::dirs::{here, is_device, list, make_dir, make_levels, open_to_read};
use super::holes;
use super::map::{self, SharedMap, set_write_hint, write_hint};
use super::open_dirs::{self, OpenDirs};
use super::uncached;
use super::{Disk, DiskFile, FileMetadata, FileSystem, Mapping, OpenMode};

/// Slices the kernel accepts in one pwritev (UIO_MAXIOV).
const SLICES_PER_WRITE_MAX: usize = 1024;
/// Bytes of zeroes written at once if the file system cannot allocate.
const ZERO_CHUNK_BYTES: usize = 1 << 20;
/// Modes of new files, before the process's umask: articles are readable by the site's group, not by all.
const FILE_MODE: u32 = 0o640;
const PRIVATE_FILE_MODE: u32 = 0o600;
const PUBLIC_FILE_MODE: u32 = 0o644;
/// The mark: an inode's write hint, set to "no particular lifetime" (`RWH_WRITE_LIFE_NONE`), which changes
/// nothing else. It "persists until either it is explicitly modified or the underlying filesystem is
/// unmounted" (fcntl(2)), in all mount namespaces. An inode loses it when the kernel drops it from memory; by
/// then its bytes are written.
const MARK: u64 = 1;
/// Write hint of files without a mark.
const UNMARKED: u64 = 0;
/// Path at which Linux provides the boot id.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// The machine's disk.
#[derive(Debug, Clone)]
pub struct RealDisk {
    boot_id: [u8; 16],
    dirs: Arc<OpenDirs>,
}

impl RealDisk {
    /// Reads the boot id; without /proc every start counts as a new boot.
    pub fn new() -> Self {
        let text = fs::read_to_string(BOOT_ID_PATH).unwrap_or_default();
        Self { boot_id: parse_boot_id(&text).unwrap_or_else(invented_boot_id), dirs: Arc::default() }
    }
}

#[cfg(any(test, feature = "testing"))]
impl RealDisk {
    /// Returns the same disk after another boot.
    pub fn with_boot_id(boot_id: [u8; 16]) -> Self {
        Self { boot_id, dirs: Arc::default() }
    }
}

/// Parses the 32 hexadecimal digits of a UUID.
fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Returns a boot id that differs at each call, so that nothing from before is ever trusted.
fn invented_boot_id() -> [u8; 16] {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() ^ (u128::from(std::process::id()) << 96)).to_be_bytes()
}

impl Default for RealDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl RealDisk {
    /// Creates a file, which must not exist.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let file = self.dirs.with(path, |dir, name| again(|| openat(dir, name, flags, mode)))?;
        Ok(Arc::new(RealFile { file: Arc::new(file.into()), device: false, lock: OnceLock::new() }))
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(how != OpenMode::ReadOnly).mode(FILE_MODE);
        // Without it, opening a pipe in place of a file would block.
        let mut flags = OFlags::NONBLOCK;
        match how {
            OpenMode::Existing | OpenMode::ReadOnly => {}
            OpenMode::Create => {
                options.create(true).truncate(false);
            }
            OpenMode::CreatePrivate => {
                options.create(true).truncate(false).mode(PRIVATE_FILE_MODE);
            }
            OpenMode::CreatePublic => {
                options.create(true).truncate(false).mode(PUBLIC_FILE_MODE);
            }
            OpenMode::CreateNew => return self.create_new(path),
        }
        // The kernel opens a device this way only once: no file system is mounted on it, and none can be.
        if how != OpenMode::ReadOnly && fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device()) {
            options.create(false);
            flags |= OFlags::EXCL;
        }
        let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
        let kind = file.metadata()?.file_type();
        if !(kind.is_file() || kind.is_block_device()) {
            let what = format!("{} is neither a file nor a block device", path.display());
            return Err(invalid(&what));
        }
        Ok(Arc::new(RealFile { file: Arc::new(file), device: kind.is_block_device(), lock: OnceLock::new() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_in(&self, dir: &Path, names: &[String]) -> io::Result<()> {
        // Only the names are looked up, not the whole path each time.
        let dir = match open_dirs::open(dir) {
            Err(Errno::NOENT) => return Ok(()),
            dir => dir?,
        };
        names.iter().try_for_each(|name| match unlinkat(&dir, name.as_str(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        self.create_dir(parent)?;
        match make_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
            made => made?,
        }
        self.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    }

    fn make_dirs(&self, path: &Path, bucketed: bool) -> io::Result<()> {
        make_levels(path, bucketed.then_some(false))
    }

    fn link(&self, file: &Path, new: &Path) -> io::Result<()> {
        let old_name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let (old_dir, _) = self.dirs.get(file.parent().unwrap_or(Path::new("")))?;
        match self.dirs.with(new, |dir, name| linkat(&old_dir, old_name, dir, name, AtFlags::empty())) {
            // The file's directory may have been replaced since.
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::hard_link(file, new),
            linked => linked,
        }
    }

    fn make_like(&self, new: &Path, old: &Path, mode: bool) -> io::Result<()> {
        let model = match fs::metadata(old) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::metadata(
                new.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            )?,
            model => model?,
        };
        let own = fs::metadata(new)?;
        if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
            // A link in its place is not followed.
            match lchown(new, Some(model.uid()), Some(model.gid())) {
                // Only root may do this; a process that may write to the directory can at least replace the
                // file.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                changed => changed?,
            }
        }
        if mode && model.is_file() { fs::set_permissions(new, model.permissions()) } else { Ok(()) }
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        list(dir, fs::FileType::is_dir)
    }

    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        // One call serves thousands of small files; since Linux 5.8 it reports errors of earlier writes.
        let dir = open_to_read(dir)?;
        Ok(again(|| syncfs(&dir))?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        list(dir, fs::FileType::is_file)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = open_to_read(dir)?;
        Ok(again(|| fsync(&dir))?)
    }

    fn has_dir(&self, dir: &Path) -> io::Result<bool> {
        match fs::metadata(here(dir)) {
            Ok(found) => Ok(found.is_dir()),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn about(&self, path: &Path) -> io::Result<Option<FileMetadata>> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                Ok(Some(FileMetadata { bytes: found.len(), modified: found.modified()? }))
            }
            Ok(_) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn has_name(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn identity(&self, path: &Path) -> io::Result<Option<(u64, u64)>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(identity(&found))),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        if let Some(device) = fs::metadata(path).ok().filter(|m| m.file_type().is_block_device()) {
            let (free_bytes, total_bytes) = (u64::MAX, u64::MAX);
            return Ok(FileSystem { id: device.rdev(), dir: path.to_owned(), free_bytes, total_bytes });
        }
        let mut dir = here(path);
        while !self.has_dir(dir)? {
            dir = here(dir.parent().ok_or(io::ErrorKind::NotFound)?);
        }
        let room = rustix::fs::statvfs(dir)?;
        Ok(FileSystem {
            id: fs::metadata(dir)?.dev(),
            dir: dir.to_owned(),
            free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
            total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        })
    }

    fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    fn mark(&self, path: &Path) -> io::Result<()> {
        match is_device(path)? {
            true => Ok(()),
            false => set_write_hint(&open_to_read(path)?, MARK),
        }
    }

    fn unmark(&self, path: &Path) -> io::Result<()> {
        match is_device(path)? {
            true => Ok(()),
            false => set_write_hint(&open_to_read(path)?, UNMARKED),
        }
    }

    fn is_marked(&self, path: &Path) -> io::Result<bool> {
        // Data written to a device is on the medium once its last user, here the spool, has closed it.
        Ok(is_device(path)? || write_hint(&open_to_read(path)?)? == MARK)
    }

    fn lost_pages(&self) -> u64 {
        map::lost_pages()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        // It is emptied, so it may be no link to another file.
        let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        // EWOULDBLOCK, which std calls WouldBlock, if another process holds the lock.
        again(|| flock(&file, FlockOperation::NonBlockingLockExclusive))?;
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Box::new(FileLock(Arc::new(file))))
    }
}

/// A lock, released when dropped. Closing the file is not enough: a program that is being started has all
/// descriptors of this process until it runs, and the lock lasts as long as one of them.
struct FileLock(Arc<File>);

impl Drop for FileLock {
    fn drop(&mut self) {
        // A lock that cannot be released ends with its last descriptor.
        let _refused = flock(&self.0, FlockOperation::Unlock);
    }
}

/// One open file or block device.
struct RealFile {
    file: Arc<File>,
    device: bool,
    lock: OnceLock<FileLock>,
}

impl Debug for RealFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl RealFile {
    /// Writes zeros from the current end on, for file systems without fallocate. Existing bytes are
    /// unchanged.
    fn fill_with_zeroes(&self, len: u64) -> io::Result<()> {
        let zeroes = vec![0; ZERO_CHUNK_BYTES];
        let mut at = self.len()?;
        while at < len {
            let part = usize::try_from(len - at).unwrap_or(usize::MAX).min(zeroes.len());
            self.file.write_all_at(zeroes.get(..part).unwrap_or_default(), at)?;
            at += part as u64;
        }
        Ok(())
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        if self.device {
            // The file offset is shared, but all other accesses are positioned.
            return (&*self.file).seek(SeekFrom::End(0));
        }
        Ok(self.file.metadata()?.len())
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(identity(&self.file.metadata()?))
    }

    fn allocated(&self) -> io::Result<u64> {
        // In units of 512 bytes for any block size of the file system.
        if self.device { self.len() } else { Ok(self.file.metadata()?.blocks().saturating_mul(512)) }
    }

    fn written(&self, offset: u64) -> io::Result<Vec<Range<u64>>> {
        Ok(holes::between(&self.file, offset, self.len()?.max(offset)))
    }

    fn try_lock(&self) -> io::Result<()> {
        again(|| flock(&self.file, FlockOperation::NonBlockingLockExclusive))?;
        self.lock.get_or_init(|| FileLock(self.file.clone()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.device {
            return self.allocate(len);
        }
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.device {
            let size = self.len()?;
            if size >= len {
                return Ok(());
            }
            let text = format!("the device has {size} bytes, fewer than {len}");
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        if len == 0 {
            return Ok(());
        }
        match again(|| fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.fill_with_zeroes(len),
            done => Ok(done?),
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn read_at_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let read = again(|| {
            let mut parts = [IoSliceMut::new(&mut *buf)];
            preadv2(&self.file, &mut parts, offset, ReadWriteFlags::NOWAIT)
        });
        let n = match read {
            Ok(n) if n == buf.len() => return Ok(n),
            Ok(n) => n,
            Err(Errno::AGAIN) => 0,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.read_at(buf, offset),
            Err(e) => return Err(e.into()),
        };
        if offset.saturating_add(n as u64) >= self.len()? {
            return Ok(n);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn begin_read(&self, range: Range<u64>) -> io::Result<()> {
        let Some(len) = range.end.checked_sub(range.start).and_then(NonZeroU64::new) else { return Ok(()) };
        Ok(fadvise(&self.file, range.start, Some(len), Advice::WillNeed)?)
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for group in parts.chunks(SLICES_PER_WRITE_MAX) {
            let total: u64 = group.iter().map(|part| part.len() as u64).sum();
            let written = again(|| pwritev(&self.file, group, at))? as u64;
            if written < total {
                self.finish_write(group, written, at)?;
            }
            at = at.saturating_add(total);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(again(|| fdatasync(&self.file))?)
    }

    fn is_in_memory(&self) -> bool {
        !self.device && uncached::is_in_memory(&self.file)
    }

    fn write_back(&self, range: Range<u64>) -> io::Result<()> {
        map::write_back(&self.file, range)
    }

    fn release(&self, range: Range<u64>) -> io::Result<()> {
        uncached::release(&self.file, range)
    }

    fn map_words(&self, offset: u64, words: usize) -> io::Result<Arc<dyn Mapping>> {
        Ok(Arc::new(SharedMap::new(&self.file, self.len()?, offset, words)?))
    }
}

impl RealFile {
    /// Writes the part of `group` that a short pwritev at `offset` left out, slice by slice. Rare: a signal,
    /// or a full disk.
    fn finish_write(&self, group: &[IoSlice<'_>], written: u64, offset: u64) -> io::Result<()> {
        let mut start = 0_u64;
        for part in group {
            let skip = usize::try_from(written.saturating_sub(start)).unwrap_or(usize::MAX).min(part.len());
            let rest = part.get(skip..).unwrap_or_default();
            self.file.write_all_at(rest, offset.saturating_add(start).saturating_add(skip as u64))?;
            start += part.len() as u64;
        }
        Ok(())
    }
}

/// Returns the identity of a file, or of a block device, which may have several inodes.
fn identity(found: &fs::Metadata) -> (u64, u64) {
    if found.file_type().is_block_device() { (found.rdev(), 0) } else { (found.dev(), found.ino()) }
}

/// Repeats a system call until no signal interrupts it.
fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{FileAccess, durable_replace};

    /// A temporary directory for each test, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let dir = std::env::temp_dir().join(format!("newsreel-disk-{}-{n}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn parts_are_written_in_order_past_the_kernels_slice_limit() {
        let scratch = Scratch::new();
        let file = RealDisk::new().open(&scratch.path("a"), OpenMode::CreateNew).unwrap();
        let bytes: Vec<u8> = (0..5000_u32).map(|n| n as u8).collect();
        let parts: Vec<IoSlice<'_>> = bytes.chunks(2).map(IoSlice::new).collect();
        assert!(parts.len() > SLICES_PER_WRITE_MAX);
        file.write_all_at(&parts, 10).unwrap();
        assert_eq!(file.len().unwrap(), 5010);
        let mut back = vec![0; 6000];
        assert_eq!(file.read_at(&mut back, 10).unwrap(), 5000);
        assert_eq!(back[..5000], bytes);
        assert_eq!(file.read_exact_at(&mut back, 10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn directories_are_made_with_their_parents() {
        let scratch = Scratch::new();
        let (disk, dir) = (RealDisk::new(), scratch.path("a/b/c"));
        disk.create_dir(&dir).unwrap();
        disk.create_dir(&dir).unwrap();
        disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        assert!(disk.create_dir(&dir.join("file")).is_err());
        assert!(disk.create_dir(&dir.join("file/d")).is_err());
    }

    /// A blocking open would wait until the other end is opened.
    #[test]
    fn a_pipe_in_place_of_a_file_is_refused_at_once() {
        let scratch = Scratch::new();
        let (disk, pipe) = (RealDisk::new(), scratch.path("pipe"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        for how in [OpenMode::ReadOnly, OpenMode::Existing, OpenMode::Create, OpenMode::CreatePrivate] {
            let refused = disk.open(&pipe, how).unwrap_err().to_string();
            assert!(refused.ends_with("pipe is neither a file nor a block device"), "{how:?}: {refused}");
        }
        assert!(disk.open(&pipe, OpenMode::CreateNew).is_err());
        assert!(disk.lock(&pipe).is_err());
        assert!(disk.sync_tree(&pipe.join("below")).is_err());
        assert!(!disk.is_marked(&pipe).unwrap_or(false));
    }

    #[test]
    fn private_files_are_for_their_owner_and_others_for_the_group_too() {
        let scratch = Scratch::new();
        let disk = RealDisk::new();
        let mode = |name: &str| fs::metadata(scratch.path(name)).unwrap().permissions().mode() & 0o4777;
        disk.open(&scratch.path("secret"), OpenMode::CreatePrivate).unwrap();
        disk.open(&scratch.path("new"), OpenMode::CreateNew).unwrap();
        disk.open(&scratch.path("file"), OpenMode::Create).unwrap();
        disk.lock(&scratch.path("lock")).unwrap();
        disk.create_dir(&scratch.path("a/b")).unwrap();
        disk.make_dirs(&scratch.path("c/d"), false).unwrap();
        assert_eq!(mode("secret"), 0o600);
        assert_eq!(["new", "file", "lock"].map(mode), [0o640; 3]);
        assert_eq!(["a", "a/b", "c", "c/d"].map(mode), [0o750; 4]);
        // Managed directories have the bit; `aaa` and buckets never do.
        disk.make_dirs(&scratch.path("e/aaa/f/345"), true).unwrap();
        assert_eq!(["e", "e/aaa", "e/aaa/f", "e/aaa/f/345"].map(mode), [0o4750, 0o750, 0o4750, 0o750]);
    }

    #[test]
    fn a_lock_ends_even_if_a_starting_program_has_its_descriptor() {
        let scratch = Scratch::new();
        let path = scratch.path("lock");
        let open = || {
            Arc::new(File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap())
        };
        let file = open();
        let of_a_child = file.try_clone().unwrap();
        let locked = RealFile { file, device: false, lock: OnceLock::new() };
        let other = RealFile { file: open(), device: false, lock: OnceLock::new() };
        locked.try_lock().unwrap();
        locked.try_lock().unwrap();
        assert_eq!(other.try_lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(locked);
        other.try_lock().unwrap();
        drop(of_a_child);
        assert!(RealDisk::new().lock(&path).is_err());
        drop(other);
        drop(RealDisk::new().lock(&path).unwrap());
        RealDisk::new().lock(&path).unwrap();
    }

    #[test]
    fn a_short_write_is_finished_where_it_stopped() {
        let scratch = Scratch::new();
        let file = File::options().read(true).write(true).create_new(true).open(scratch.path("a")).unwrap();
        let file = RealFile { file: Arc::new(file), device: false, lock: OnceLock::new() };
        let parts = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defg"), IoSlice::new(b"hi")];
        for written in 0..=9 {
            file.set_len(0).unwrap();
            file.write_all_at(&[IoSlice::new(&b"abcdefghi"[..written])], 3).unwrap();
            file.finish_write(&parts, written as u64, 3).unwrap();
            let mut back = [0; 20];
            assert_eq!(file.read_at(&mut back, 3).unwrap(), 9);
            assert_eq!(&back[..9], b"abcdefghi", "{written} written before");
        }
    }

    #[test]
    fn cached_reads_see_fresh_writes_and_the_end_of_the_file() {
        let scratch = Scratch::new();
        let file = RealDisk::new().open(&scratch.path("a"), OpenMode::Create).unwrap();
        file.write_all_at(&[IoSlice::new(b"hello")], 0).unwrap();
        let mut buf = [0; 8];
        assert_eq!(file.read_at_cached(&mut buf, 0).unwrap(), 5);
        assert_eq!(&buf[..5], b"hello");
        assert_eq!(file.read_at_cached(&mut buf, 5).unwrap(), 0);
        assert_eq!(file.read_at_cached(&mut buf, 1 << 40).unwrap(), 0);
    }

    #[test]
    fn allocate_keeps_bytes_and_extends() {
        let scratch = Scratch::new();
        let path = scratch.path("a");
        let file = RealDisk::new().open(&path, OpenMode::Create).unwrap();
        file.write_all_at(&[IoSlice::new(b"x")], 0).unwrap();
        file.allocate(100_000).unwrap();
        file.allocate(10).unwrap();
        assert_eq!(file.len().unwrap(), 100_000);
        let plain = RealFile {
            file: Arc::new(File::options().read(true).write(true).open(&path).unwrap()),
            device: false,
            lock: OnceLock::new(),
        };
        plain.fill_with_zeroes(3_000_000).unwrap();
        let mut back = vec![1; 3_000_000];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back[0] == b'x' && back[1..].iter().all(|&b| b == 0));
    }

    #[test]
    fn mappings_and_calls_share_their_bytes() {
        let scratch = Scratch::new();
        let file = RealDisk::new().open(&scratch.path("a"), OpenMode::Create).unwrap();
        file.allocate(8192).unwrap();
        let map = file.map_words(4096, 512).unwrap();
        file.write_all_at(&[IoSlice::new(&7_u64.to_le_bytes())], 4096 + 8).unwrap();
        assert_eq!(u64::from_le(map.words()[1].load(Ordering::Relaxed)), 7);
        map.words()[511].store(u64::to_le(9), Ordering::Relaxed);
        let mut back = [0; 8];
        file.read_exact_at(&mut back, 8184).unwrap();
        assert_eq!(u64::from_le_bytes(back), 9);
        file.sync().unwrap();
        assert_eq!(file.map_words(4096, 513).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(file.map_words(8, 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_page_that_cannot_be_read_is_zeros_until_it_is_restored() {
        let scratch = Scratch::new();
        let disk = RealDisk::new();
        let file = disk.open(&scratch.path("a"), OpenMode::Create).unwrap();
        file.write_all_at(&[IoSlice::new(&[7; 5 * 4096])], 0).unwrap();
        let map = file.map_words(4096, 2048).unwrap();
        let (word, before) = (|n: usize| map.words()[n].load(Ordering::Relaxed), disk.lost_pages());
        let sevens = u64::from_ne_bytes([7; 8]);
        // A page beyond the end raises SIGBUS, as a bad sector does.
        file.set_len(3 * 4096).unwrap();
        assert_eq!((word(0), word(1024), word(1025), word(1536)), (sevens, 0, 0, 0));
        let mut lost = map.lost();
        lost.sort_by_key(|words| words.start);
        assert_eq!(lost, [1024..1536, 1536..2048]);
        assert!(disk.lost_pages() >= before + 2);
        map.words()[1030].store(9, Ordering::Relaxed);
        assert_eq!(file.len().unwrap(), 3 * 4096);
        map.restore().unwrap();
        assert!(map.lost().is_empty());
        assert_eq!((file.len().unwrap(), word(1030), word(0)), (5 * 4096, 9, sevens));
        // The page is shared with the file again.
        file.write_all_at(&[IoSlice::new(&11_u64.to_ne_bytes())], 4 * 4096 + 8).unwrap();
        assert_eq!(word(1537), 11);
        map.words()[1031].store(13, Ordering::Relaxed);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 4096 + 1031 * 8).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 13);
    }

    #[test]
    fn threads_that_meet_a_lost_page_together_lose_no_store() {
        let scratch = Scratch::new();
        for n in 0..50 {
            let file = RealDisk::new().open(&scratch.path(&format!("{n}")), OpenMode::Create).unwrap();
            file.allocate(4096).unwrap();
            let map = file.map_words(0, 512).unwrap();
            file.set_len(0).unwrap();
            std::thread::scope(|scope| {
                for t in 0..4 {
                    let map = &map;
                    scope.spawn(move || map.words()[t * 64].store(1 + t as u64, Ordering::Relaxed));
                }
            });
            let found: Vec<u64> = (0..4).map(|t| map.words()[t * 64].load(Ordering::Relaxed)).collect();
            assert_eq!(found, [1, 2, 3, 4]);
        }
    }

    #[test]
    fn names_open_modes_and_directories() {
        let scratch = Scratch::new();
        let disk = RealDisk::new();
        assert!(disk.list(&scratch.path("none")).unwrap().is_empty());
        disk.create_dir(&scratch.path("d/e")).unwrap();
        disk.create_dir(&scratch.path("d/e")).unwrap();
        assert_eq!(
            disk.open(&scratch.path("d/x"), OpenMode::Existing).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(disk.open(&scratch.path("d"), OpenMode::ReadOnly).is_err());
        disk.open(&scratch.path("d/b"), OpenMode::Create).unwrap();
        disk.open(&scratch.path("d/a"), OpenMode::CreateNew).unwrap();
        let again = disk.open(&scratch.path("d/a"), OpenMode::CreateNew).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(disk.open(&scratch.path("d/a"), OpenMode::ReadOnly).unwrap().set_len(1).is_err());
        assert_eq!(disk.list(&scratch.path("d")).unwrap(), ["a", "b"]);
        disk.rename(&scratch.path("d/a"), &scratch.path("d/b")).unwrap();
        disk.sync_dir(&scratch.path("d")).unwrap();
        assert_eq!(disk.list(&scratch.path("d")).unwrap(), ["b"]);
        disk.remove(&scratch.path("d/b")).unwrap();
        assert!(disk.list(&scratch.path("d")).unwrap().is_empty());
    }

    #[test]
    fn a_lock_excludes_and_names_its_holder() {
        let scratch = Scratch::new();
        let disk = RealDisk::new();
        let path = scratch.path("lock");
        let held = disk.lock(&path).unwrap();
        assert_eq!(disk.lock(&path).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), std::process::id().to_string());
        drop(held);
        assert!(disk.lock(&path).is_ok());
    }

    #[test]
    fn a_mark_stays_with_the_file_and_is_not_copied() {
        let scratch = Scratch::new();
        let disk = RealDisk::new();
        for path in [scratch.path("d"), scratch.path("f")] {
            assert_eq!(disk.is_marked(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        disk.create_dir(&scratch.path("d")).unwrap();
        disk.open(&scratch.path("f"), OpenMode::Create).unwrap();
        for name in ["d", "f"] {
            let path = scratch.path(name);
            assert!(!disk.is_marked(&path).unwrap());
            disk.mark(&path).unwrap();
            assert!(disk.is_marked(&path).unwrap());
            disk.unmark(&path).unwrap();
            assert!(!disk.is_marked(&path).unwrap());
            disk.mark(&path).unwrap();
        }
        fs::copy(scratch.path("f"), scratch.path("copy")).unwrap();
        assert!(!disk.is_marked(&scratch.path("copy")).unwrap());
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_mode() {
        let scratch = Scratch::new();
        let (path, disk) = (scratch.path("state"), RealDisk::new());
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let replace = |access| durable_replace(&disk, &path, &[b"text"], access).unwrap();
        replace(FileAccess::Owner);
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(FileAccess::Group);
        assert_eq!(mode(), 0o644);
        replace(FileAccess::Owner);
        assert_eq!(mode(), 0o600, "others must never read it");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    }

    #[test]
    fn boot_id_is_read_from_a_uuid() {
        let id = parse_boot_id("81fff007-bfcc-4456-892e-d751421176d4\n").unwrap();
        assert_eq!((id[0], id[15]), (0x81, 0xd4));
        assert_eq!(parse_boot_id("none"), None);
        assert_eq!(RealDisk::new().boot_id(), RealDisk::new().boot_id());
    }
}
