//! The file of a peer to which lines are appended (`docs/formats/outgoing.md`).
//!
//! As with INN's file feeds, programs that want the lines rename the file, have it flushed, and read it;
//! later lines go to a new one. Lines are whole: a partial line left by a crash is cut off, and is written
//! again, since the cursor passes an article after its line is written. The file is opened by name for each
//! append: a site may have more such peers than a process may have open files.

use rustix::fs::syncfs;
use site_base::lock::Leaf;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Longest partial line that a crash can leave.
const TORN_BYTES_MAX: u64 = 64 << 10;

/// The file of one peer.
#[derive(Debug)]
pub(super) struct LineFile {
    pub path: PathBuf,
    written: Leaf<AppendState>,
    /// Whether the file has reached its limit.
    pub is_full: AtomicBool,
    /// Bytes of lines in it, as of the last check.
    pub bytes: AtomicU64,
}

/// The last file appended to, and how durable it is.
#[derive(Debug, Default)]
struct AppendState {
    inode: u64,
    /// Length after the last line.
    bytes: u64,
    is_synced: bool,
    /// Whether an earlier file, since renamed, is not synced either.
    is_earlier_unsynced: bool,
}

impl LineFile {
    pub fn new(path: &Path) -> Self {
        let bytes = AtomicU64::new(len(path));
        let written = Leaf::new(AppendState { is_synced: true, ..AppendState::default() });
        Self { path: path.to_owned(), written, is_full: AtomicBool::new(false), bytes }
    }

    /// Appends whole lines, or nothing; returns false if the file would become longer than `bytes_max`.
    pub fn append(&self, text: &[u8], bytes_max: u64) -> io::Result<bool> {
        let mut written = self.written.lock();
        let mut file = open(&self.path)?;
        let mut about = file.metadata()?;
        if (about.ino(), about.len()) != (written.inode, written.bytes) {
            cut_torn_line(&mut file)?;
            about = file.metadata()?;
        }
        let len = about.len();
        if len > 0 && len + text.len() as u64 > bytes_max {
            return Ok(false);
        }
        if about.ino() != written.inode && !written.is_synced {
            written.is_earlier_unsynced = true;
        }
        if let Err(error) = file.write_all(text) {
            file.set_len(len)?;
            return Err(error);
        }
        let bytes = len + text.len() as u64;
        (written.inode, written.bytes, written.is_synced) = (about.ino(), bytes, false);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(true)
    }

    /// Makes the written lines durable, wherever the file is now.
    pub fn sync(&self) -> io::Result<()> {
        let mut written = self.written.lock();
        if written.is_synced {
            return Ok(());
        }
        match File::open(&self.path) {
            Ok(file) if !written.is_earlier_unsynced && file.metadata()?.ino() == written.inode => {
                file.sync_data()?;
            }
            // The file has another name now, known only to the program that took it.
            Ok(_) => sync_file_system_of(&self.path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => sync_file_system_of(&self.path)?,
            Err(error) => return Err(error),
        }
        (written.is_synced, written.is_earlier_unsynced) = (true, false);
        Ok(())
    }

    /// Waits until nothing more is written to a file renamed before.
    pub fn flush(&self) -> io::Result<()> {
        let synced = self.sync();
        self.bytes.store(len(&self.path), Ordering::Relaxed);
        synced
    }
}

/// Returns the length of a file; 0 if there is none.
fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |about| about.len())
}

/// Opens the file for appending.
fn open(path: &Path) -> io::Result<File> {
    let open = || File::options().read(true).append(true).create(true).open(path);
    match (open(), path.parent()) {
        (Err(error), Some(dir)) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir)?;
            open()
        }
        (opened, _) => opened,
    }
}

/// Cuts off a partial line at the end.
fn cut_torn_line(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(len.saturating_sub(TORN_BYTES_MAX)))?;
    Read::by_ref(file).take(TORN_BYTES_MAX).read_to_end(&mut end)?;
    let torn = end.len() - memchr::memrchr(b'\n', &end).map_or(0, |lf| lf + 1);
    if torn > 0 { file.set_len(len - torn as u64) } else { Ok(()) }
}

/// Syncs the file system on which `path` is.
fn sync_file_system_of(path: &Path) -> io::Result<()> {
    match path.parent().map(File::open) {
        Some(Ok(dir)) => Ok(syncfs(dir)?),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
        // The directory was removed, and the lines with it.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_the_file_has_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out/list");
        let own = LineFile::new(&path);
        assert!(own.append(b"one\ntwo\n", 14).unwrap());
        assert!(!own.append(b"three\nfour\n", 14).unwrap());
        fs::rename(&path, dir.path().join("taken")).unwrap();
        assert!(own.append(b"three\nfour\n", 14).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"three\nfour\n");
        own.flush().unwrap();
        for torn in [&b"whole\nto"[..], b"whole\n", b"torn", b""] {
            fs::write(&path, torn).unwrap();
            let own = LineFile::new(&path);
            assert!(own.append(b"next\n", 100).unwrap());
            let whole = if torn.starts_with(b"whole") { &b"whole\n"[..] } else { b"" };
            assert_eq!(fs::read(&path).unwrap(), [whole, b"next\n"].concat());
        }
    }

    #[test]
    fn a_renamed_file_gets_no_further_lines_and_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, taken) = (dir.path().join("list"), dir.path().join("taken"));
        let own = LineFile::new(&path);
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
        let own = LineFile::new(&dir.path().join("list"));
        assert!(own.append(b"one\n", 100).unwrap());
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        assert!(!open.any(|target| target == own.path));
    }
}
