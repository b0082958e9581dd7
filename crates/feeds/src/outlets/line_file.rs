//! The file of a peer to which lines are appended (`docs/formats/outgoing.md`).
//!
//! As with INN's file feeds, programs that want the lines rename the file, have it flushed, and read it;
//! later lines go to a new one. Lines are whole: anything else that a crash has left at the end is cut off,
//! and is written again, since the cursor passes an article after its line is durable. The file is opened by
//! name for each append: a site may have more such peers than a process may have open files.

use disk::{Disk, DiskFile, OpenMode};
use site_base::lock::Leaf;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes read at once in search of the last whole line.
const LOOK_BYTES: usize = 64 << 10;

/// The file of one peer.
#[derive(Debug)]
pub(crate) struct LineFile {
    pub path: PathBuf,
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    written: Leaf<AppendState>,
    /// Whether the file has reached its limit.
    pub is_full: AtomicBool,
    /// Bytes of lines in it, as of the last check.
    pub bytes: AtomicU64,
}

/// The last file appended to, and how durable it is.
#[derive(Debug, Default)]
struct AppendState {
    identity: (u64, u64),
    /// Length after the last line.
    bytes: u64,
    is_synced: bool,
    /// Whether an earlier file, since renamed, is not synced either.
    is_earlier_unsynced: bool,
}

impl LineFile {
    pub fn new(disk: Arc<dyn Disk>, path: &Path) -> Self {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let written = Leaf::new(AppendState { is_synced: true, ..AppendState::default() });
        let (is_full, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let own = Self { path: path.to_owned(), dir: dir.to_owned(), disk, written, is_full, bytes };
        own.look();
        own
    }

    /// Appends whole lines, or nothing; returns false if the file would become longer than `bytes_max`.
    pub fn append(&self, text: &[u8], bytes_max: u64) -> io::Result<bool> {
        let mut written = self.written.lock();
        let file = self.open()?;
        let (identity, mut len) = (file.identity()?, file.len()?);
        if (identity, len) != (written.identity, written.bytes) {
            len = cut_unfinished(&*file, len)?;
        }
        let bytes = len + text.len() as u64;
        if len > 0 && bytes > bytes_max {
            return Ok(false);
        }
        if identity != written.identity && !written.is_synced {
            written.is_earlier_unsynced = true;
        }
        if let Err(error) = file.write_all_at(&[IoSlice::new(text)], len) {
            file.set_len(len)?;
            return Err(error);
        }
        (written.identity, written.bytes, written.is_synced) = (identity, bytes, false);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(true)
    }

    /// Makes the written lines durable, wherever the file is now.
    pub fn sync(&self) -> io::Result<()> {
        let mut written = self.written.lock();
        if written.is_synced {
            return Ok(());
        }
        let synced = match self.disk.open(&self.path, OpenMode::ReadOnly) {
            Ok(file) if !written.is_earlier_unsynced && file.identity()? == written.identity => {
                file.sync().and_then(|()| self.disk.sync_dir(&self.dir))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            // The file has another name now, known only to the program that took it.
            _ => self.disk.sync_tree(&self.dir),
        };
        match synced {
            // The directory was removed, and the lines with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            synced => synced?,
        }
        (written.is_synced, written.is_earlier_unsynced) = (true, false);
        Ok(())
    }

    /// Waits until nothing more is written to a file renamed before.
    pub fn flush(&self) -> io::Result<()> {
        let synced = self.sync();
        self.look();
        synced
    }

    /// Updates the count of bytes in the file.
    fn look(&self) {
        let about = self.disk.about(&self.path).ok().flatten();
        self.bytes.store(about.map_or(0, |about| about.bytes), Ordering::Relaxed);
    }

    /// Opens the file for appending.
    fn open(&self) -> io::Result<Arc<dyn DiskFile>> {
        let open = || self.disk.open(&self.path, OpenMode::CreatePublic);
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.disk.create_dir(&self.dir)?;
                open()
            }
            opened => opened,
        }
    }
}

/// Cuts off what a crash has left after the last whole line, and returns the length that remains. After a
/// power cut that may be later lines too: where blocks between them were not written, there are zeros.
fn cut_unfinished(file: &dyn DiskFile, len: u64) -> io::Result<u64> {
    let mut piece = vec![0; LOOK_BYTES];
    let (mut at, mut end) = (0, 0);
    while at < len {
        let n = file.read_at(&mut piece, at)?;
        let read = piece.get(..n).unwrap_or_default();
        let lines = read.split(|b| *b == 0).next().unwrap_or_default();
        if let Some(last) = memchr::memrchr(b'\n', lines) {
            end = at + last as u64 + 1;
        }
        if lines.len() < n || n == 0 {
            break;
        }
        at += n as u64;
    }
    if end < len {
        file.set_len(end)?;
        // Otherwise a power cut could mix what was cut off with later lines.
        file.sync()?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, RealDisk, SimDisk};
    use std::fs;

    fn real() -> Arc<dyn Disk> {
        Arc::new(RealDisk::new())
    }

    #[test]
    fn lines_are_whole_and_the_file_has_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out/list");
        let own = LineFile::new(real(), &path);
        assert!(own.append(b"one\ntwo\n", 14).unwrap());
        assert!(!own.append(b"three\nfour\n", 14).unwrap());
        fs::rename(&path, dir.path().join("taken")).unwrap();
        assert!(own.append(b"three\nfour\n", 14).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"three\nfour\n");
        own.flush().unwrap();
        for torn in [&b"whole\nto"[..], b"whole\n", b"whole\n\0\0\nlater\n", b"torn", b"\0\n", b""] {
            fs::write(&path, torn).unwrap();
            let own = LineFile::new(real(), &path);
            assert!(own.append(b"next\n", 100).unwrap());
            let whole = if torn.starts_with(b"whole") { &b"whole\n"[..] } else { b"" };
            assert_eq!(fs::read(&path).unwrap(), [whole, b"next\n"].concat());
        }
    }

    #[test]
    fn a_renamed_file_gets_no_further_lines_and_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, taken) = (dir.path().join("list"), dir.path().join("taken"));
        let own = LineFile::new(real(), &path);
        assert!(own.append(b"one\n", 100).unwrap());
        fs::rename(&path, &taken).unwrap();
        own.sync().unwrap();
        assert!(own.append(b"two\n", 100).unwrap());
        fs::rename(&path, dir.path().join("taken too")).unwrap();
        assert!(own.append(b"three\n", 100).unwrap());
        assert!(own.written.lock().is_earlier_unsynced);
        own.flush().unwrap();
        assert!(!own.written.lock().is_earlier_unsynced);
        assert_eq!(fs::read(&taken).unwrap(), b"one\n");
        assert_eq!(fs::read(dir.path().join("taken too")).unwrap(), b"two\n");
        assert_eq!(fs::read(&path).unwrap(), b"three\n");
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(own.append(b"four\n", 100).unwrap());
        fs::remove_dir_all(dir.path()).unwrap();
        own.sync().unwrap();
        assert_eq!(own.bytes.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn the_file_is_closed_between_appends() {
        let dir = tempfile::tempdir().unwrap();
        let own = LineFile::new(real(), &dir.path().join("list"));
        assert!(own.append(b"one\n", 100).unwrap());
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        assert!(!open.any(|target| target == own.path));
    }

    /// Lines that are longer than a sector in sum, so that a power cut tears what is appended at once.
    fn lines(of: std::ops::Range<usize>) -> Vec<u8> {
        of.flat_map(|n| format!("line {n} {}\n", "x".repeat(n * 37 % 200)).into_bytes()).collect()
    }

    /// Returns the text of all files in the directory, the one taken away first.
    fn all_of(disk: &SimDisk) -> Vec<u8> {
        let text = |name| disk::read_small(disk, Path::new(name), 1 << 20).unwrap().unwrap_or_default();
        [text("/out/a-taken"), text("/out/list")].concat()
    }

    /// Appends blocks of ten lines and syncs after every second one, with a crash at every step; with
    /// `is_taken` a program takes the file away between two syncs. Returns the number of steps.
    fn crash(kind: CrashKind, is_taken: bool) -> u64 {
        let path = Path::new("/out/list");
        for step in 0.. {
            let sim = SimDisk::new();
            sim.create_dir(Path::new("/out")).unwrap();
            sim.crash_at(sim.steps() + step, kind, step * 7919 + u64::from(is_taken));
            let own = LineFile::new(Arc::new(sim.clone()), path);
            let mut synced = 0;
            for n in 0..6 {
                let append = |n: usize| own.append(&lines(n * 10..n * 10 + 10), 1 << 20).is_ok();
                // File systems keep the order of changes to a directory; the simulated one does not.
                let take = || {
                    sim.rename(path, Path::new("/out/a-taken"))?;
                    sim.sync_dir(Path::new("/out"))
                };
                let is_renamed = !is_taken || n != 3 || take().is_ok();
                if !append(n) || !is_renamed || n % 2 == 1 && own.sync().is_err() {
                    break;
                }
                synced = if n % 2 == 1 { n + 1 } else { synced };
            }
            let image = sim.image().unwrap();
            let own = LineFile::new(Arc::new(image.clone()), path);
            assert!(own.append(b"next\n", 1 << 20).unwrap());
            own.sync().unwrap();
            let left = all_of(&image);
            let left = left.strip_suffix(b"next\n").unwrap();
            let what = format!("{kind:?} at step {step}, {synced} synced: {}", String::from_utf8_lossy(left));
            if is_taken {
                // What the crash has left of unsynced lines in a file that was taken away stays there.
                let is_left = |line: &[u8]| left.split(|b| *b == b'\n').any(|other| other == line);
                let synced = lines(0..synced * 10);
                assert!(synced.split(|b| *b == b'\n').all(is_left), "{what}");
            } else {
                assert!(left.ends_with(b"\n") || left.is_empty(), "{what}");
                assert!(lines(0..60).starts_with(left), "{what}");
                assert!(left.starts_with(&lines(0..synced * 10)), "{what}");
            }
            if !sim.crashed() {
                return step;
            }
        }
        unreachable!("the last step ends it")
    }

    #[test]
    fn a_crash_at_any_write_leaves_all_synced_lines_and_only_whole_ones() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost, CrashKind::Remount] {
            assert!(crash(kind, false) >= 12, "nothing was tried");
            assert!(crash(kind, true) >= 12, "nothing was tried");
        }
    }
}
