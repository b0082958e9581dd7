//! Files of the index: tantivy's reads and writes go through [`Disk`], like all others.
//!
//! A file is written once, from beginning to end, and is durable when finished; the list of the index's files
//! is replaced whole. No other process opens the directory, since the spool is locked: locks are always
//! granted. Called by `index`.

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, IoSlice, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, DiskFile, FileAccess, OpenMode, durable_replace};
use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, DirectoryLock, FileHandle, Lock, OwnedBytes, TerminatingWrite, WatchCallback,
    WatchCallbackList, WatchHandle, WritePtr,
};

/// File that lists the others of the index; readers reload when it is replaced.
const META: &str = "meta.json";

/// Directory of an index.
#[derive(Clone)]
pub struct IndexDirectory {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    watchers: Arc<WatchCallbackList>,
}

impl fmt::Debug for IndexDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexDirectory").field("dir", &self.dir).finish()
    }
}

impl IndexDirectory {
    /// Opens the directory; creates it if it is missing.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<Self> {
        disk.create_dir(dir)?;
        Ok(Self { disk: disk.clone(), dir: dir.to_owned(), watchers: Arc::default() })
    }

    /// Removes all files.
    pub fn clear(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        // The list is removed first: without it there is no index.
        let meta = dir.join(META);
        if disk.about(&meta)?.is_some() {
            disk.remove(&meta)?;
            disk.sync_dir(dir)?;
        }
        for name in disk.list(dir)? {
            disk.remove(&dir.join(name))?;
        }
        Ok(())
    }

    fn existing(&self, path: &Path) -> Result<Arc<dyn DiskFile>, OpenReadError> {
        self.disk.open(&self.dir.join(path), OpenMode::ReadOnly).map_err(|error| match error.kind() {
            ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
            _ => OpenReadError::wrap_io_error(error, path.to_owned()),
        })
    }
}

impl tantivy::Directory for IndexDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let file = self.existing(path)?;
        let len = file.len().map_err(|error| OpenReadError::wrap_io_error(error, path.to_owned()))?;
        Ok(Arc::new(IndexFile { file, len: usize::try_from(len).unwrap_or(usize::MAX) }))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.disk.remove(&self.dir.join(path)).map_err(|error| match error.kind() {
            ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        let about = self.disk.about(&self.dir.join(path));
        about.map(|about| about.is_some()).map_err(|e| OpenReadError::wrap_io_error(e, path.to_owned()))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        // Remains of a file that a crash left outside the index are overwritten.
        let file = self.disk.open(&self.dir.join(path), OpenMode::Create).and_then(|file| {
            file.set_len(0)?;
            Ok(file)
        });
        let file = file.map_err(|error| OpenWriteError::wrap_io_error(error, path.to_owned()))?;
        Ok(BufWriter::with_capacity(1 << 16, Box::new(IndexFileWriter { file, at: 0 })))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let file = self.existing(path)?;
        let read = || {
            let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        read().map_err(|error| OpenReadError::wrap_io_error(error, path.to_owned()))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        durable_replace(&*self.disk, &self.dir.join(path), &[data], FileAccess::Group)?;
        if path == Path::new(META) {
            // There is no need to wait for the readers.
            drop(self.watchers.broadcast());
        }
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_dir(&self.dir)
    }

    fn acquire_lock(&self, _lock: &Lock) -> Result<DirectoryLock, LockError> {
        Ok(DirectoryLock::from(Box::new(())))
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(self.watchers.subscribe(callback))
    }
}

/// A file that is complete.
#[derive(Debug)]
struct IndexFile {
    file: Arc<dyn DiskFile>,
    len: usize,
}

impl HasLen for IndexFile {
    fn len(&self) -> usize {
        self.len
    }
}

impl FileHandle for IndexFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let mut bytes = vec![0; range.len()];
        self.file.read_exact_at(&mut bytes, range.start as u64)?;
        Ok(OwnedBytes::new(bytes))
    }
}

/// A file that is being written.
struct IndexFileWriter {
    file: Arc<dyn DiskFile>,
    at: u64,
}

impl Write for IndexFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(&[IoSlice::new(bytes)], self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for IndexFileWriter {
    fn terminate_ref(&mut self, _token: AntiCallToken) -> io::Result<()> {
        self.file.sync()
    }
}
