//! The file of a peer to which lines are appended (`docs/formats/outgoing.md`).
//!
//! As INN's file feeds: whoever wants the lines renames the file, has it flushed, and reads it; later lines
//! are in a new one. Lines are whole: what a crash has left of one is cut off, and comes again, since the
//! cursor passes an article after its line is written.

use crate::base::lock::Leaf;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The longest piece of a line that a crash can leave.
const TORN_BYTES_MAX: u64 = 64 << 10;

/// The file of one peer.
#[derive(Debug)]
pub(super) struct LineFile {
    pub path: PathBuf,
    file: Leaf<Option<File>>,
    /// It is as long as it may be.
    pub is_full: AtomicBool,
    /// Bytes of lines in it, when it was last looked at.
    pub bytes: AtomicU64,
}

impl LineFile {
    pub fn new(path: &Path) -> Self {
        let bytes = AtomicU64::new(len(path));
        Self { path: path.to_owned(), file: Leaf::default(), is_full: AtomicBool::new(false), bytes }
    }

    /// Appends whole lines, or nothing; false: the file would be longer than `bytes_max`.
    pub fn append(&self, text: &[u8], bytes_max: u64) -> io::Result<bool> {
        let mut own = self.file.lock();
        let file = match &mut *own {
            Some(file) => file,
            None => own.insert(open(&self.path)?),
        };
        let len = file.metadata()?.len();
        if len > 0 && len + text.len() as u64 > bytes_max {
            // It may have been renamed, and this be the old one.
            *own = None;
            return Ok(false);
        }
        if let Err(error) = file.write_all(text) {
            file.set_len(len)?;
            return Err(error);
        }
        self.bytes.store(len + text.len() as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.lock().as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Closes it: what follows goes into the file that has its name then.
    pub fn flush(&self) -> io::Result<()> {
        let mut own = self.file.lock();
        let closed = own.take().map_or(Ok(()), |file| file.sync_all());
        self.bytes.store(len(&self.path), Ordering::Relaxed);
        closed
    }
}

/// The length of a file; none has no bytes.
fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |about| about.len())
}

/// Opens the file for appending; it ends with a whole line.
fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = File::options().read(true).append(true).create(true).open(path)?;
    let len = file.metadata()?.len();
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(len.saturating_sub(TORN_BYTES_MAX)))?;
    Read::by_ref(&mut file).take(TORN_BYTES_MAX).read_to_end(&mut end)?;
    let torn = end.len() - memchr::memrchr(b'\n', &end).map_or(0, |lf| lf + 1);
    if torn > 0 {
        file.set_len(len - torn as u64)?;
    }
    Ok(file)
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
    fn a_flush_ends_a_file_that_was_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, taken) = (dir.path().join("list"), dir.path().join("taken"));
        let own = LineFile::new(&path);
        assert!(own.append(b"one\n", 100).unwrap());
        fs::rename(&path, &taken).unwrap();
        // As with INN, until it is flushed.
        assert!(own.append(b"two\n", 100).unwrap());
        own.flush().unwrap();
        assert!(own.append(b"three\n", 100).unwrap());
        assert_eq!(fs::read(&taken).unwrap(), b"one\ntwo\n");
        assert_eq!(fs::read(&path).unwrap(), b"three\n");
    }
}
