//! Quarantine: a directory of the site for pieces of batches that cannot be filed, where an operator can
//! examine them.
//!
//! One file per piece, named by a hash of its content, so that a repeated batch adds nothing. A file is
//! written whole and synced before it gets its name (`NewFile`). The directory is bounded: the oldest files
//! are removed first. Called by `ledger` and by imports of mails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use disk::{Disk, NewFile, hex};
use ring::digest::{SHA256, digest};

/// Directory below `site.data`.
const DIR: &str = "quarantine";
/// Most files in the directory.
const FILES_MAX: usize = 1_000;
/// Most bytes in all files together.
const BYTES_MAX: u64 = 256 << 20;
/// Most pieces kept of one batch.
const PIECES_MAX: usize = 100;
/// Bytes of a piece's SHA-256 hash that name its file, in hexadecimal.
const NAME_BYTES: usize = 16;

/// Quarantine for the pieces of one batch.
pub struct Quarantine {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    dir: PathBuf,
    kept: usize,
}

impl Quarantine {
    /// Returns the quarantine of the site with its spool in `data`; the directory is created when needed.
    pub fn of(data: &Path, disk: &Arc<dyn Disk>) -> Self {
        Self { disk: disk.clone(), data: data.to_owned(), dir: data.join(DIR), kept: 0 }
    }

    /// Keeps a piece; returns its file, or `None` if the batch has too many pieces or this one is too
    /// large.
    pub fn put(&mut self, piece: &[u8]) -> io::Result<Option<PathBuf>> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if self.kept >= PIECES_MAX || piece.len() as u64 > BYTES_MAX {
            return Ok(None);
        }
        if !self.disk.has_dir(&self.dir)? {
            self.disk.create_dir(&self.dir)?;
            self.disk.make_like(&self.dir, &self.data, false)?;
        }
        let hash = digest(&SHA256, piece);
        let name = hex::start_of(hash, NAME_BYTES);
        let path = self.dir.join(&name);
        self.kept += 1;
        if self.disk.about(&path)?.is_some() {
            return Ok(Some(path));
        }
        self.make_room(piece.len() as u64)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.dir.join(format!("{name}.{}-{count}.new", std::process::id()));
        let mut file = NewFile::begin(self.disk.clone(), unfinished, &self.data)?;
        file.append(piece)?;
        file.finish(&path)?;
        Ok(Some(path))
    }

    /// Removes the oldest files until there is room for a file of `bytes` bytes.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for name in self.disk.list(&self.dir)? {
            let path = self.dir.join(name);
            let Some(about) = self.disk.about(&path)? else { continue };
            files.push((about.modified, path, about.bytes));
        }
        files.sort_unstable();
        let mut all: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        let mut count = files.len();
        for (_, path, own) in files {
            if count < FILES_MAX && all + bytes <= BYTES_MAX {
                break;
            }
            self.disk.remove(&path)?;
            (count, all) = (count - 1, all - own);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, RealDisk, SimDisk};
    use std::fs::{self, File};

    fn of(data: &Path) -> Quarantine {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        Quarantine::of(data, &disk)
    }

    #[test]
    fn a_crash_at_any_step_leaves_whole_pieces_and_every_kept_one() {
        let data = Path::new("/d");
        let pieces = [&b"first piece"[..], b"second"];
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(data).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let disk: Arc<dyn Disk> = Arc::new(sim.clone());
                let mut quarantine = Quarantine::of(data, &disk);
                let kept = pieces.map(|piece| quarantine.put(piece).ok().flatten());
                let (crashed, left) = (sim.crashed(), sim.image().unwrap());
                let context = format!("{kind:?} at step {step}");
                let dir = data.join(DIR);
                let is_whole = |name: &String| name.len() == 2 * NAME_BYTES;
                for name in left.list(&dir).unwrap().iter().filter(|name| is_whole(name)) {
                    let found = disk::read_small(&left, &dir.join(name), 1_000).unwrap().unwrap();
                    assert!(pieces.contains(&found.as_slice()), "{context}: {found:?}");
                }
                for (path, piece) in kept.iter().zip(pieces) {
                    let Some(path) = path else { continue };
                    let found = disk::read_small(&left, path, 1_000).unwrap();
                    assert_eq!(found.as_deref(), Some(piece), "{context}");
                }
                let after: Arc<dyn Disk> = Arc::new(left);
                assert!(Quarantine::of(data, &after).put(pieces[0]).unwrap().is_some(), "{context}");
                if !crashed {
                    assert!(step > 5 && kept.iter().all(Option::is_some), "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn oldest_files_are_removed_to_make_room() {
        let data = tempfile::tempdir().unwrap();
        let mut quarantine = of(data.path());
        let first = quarantine.put(b"first").unwrap().unwrap();
        File::options().write(true).open(&first).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        for n in 0..FILES_MAX {
            fs::write(data.path().join(DIR).join(format!("9{n:014}-1-000")), b"x").unwrap();
        }
        let last = quarantine.put(b"last").unwrap().unwrap();
        assert!(!first.exists());
        assert_eq!(fs::read(&last).unwrap(), b"last");
        assert_eq!(fs::read_dir(data.path().join(DIR)).unwrap().count(), FILES_MAX);
        let large = fs::File::create(data.path().join(DIR).join("0-large")).unwrap();
        large.set_len(BYTES_MAX).unwrap();
        quarantine.put(b"more").unwrap().unwrap();
        assert!(!data.path().join(DIR).join("0-large").exists());
    }

    #[test]
    fn a_repeated_piece_is_kept_once() {
        let data = tempfile::tempdir().unwrap();
        let path = of(data.path()).put(b"piece").unwrap();
        let mut again = of(data.path());
        assert_eq!(again.put(b"piece").unwrap(), path);
        assert_ne!(again.put(b"Piece").unwrap(), path);
        assert_eq!(fs::read_dir(data.path().join(DIR)).unwrap().count(), 2);
    }

    #[test]
    fn pieces_kept_of_one_batch_are_bounded() {
        let data = tempfile::tempdir().unwrap();
        let mut quarantine = of(data.path());
        let mut put = |n: usize| quarantine.put(n.to_string().as_bytes()).unwrap();
        assert_eq!((0..PIECES_MAX + 50).filter(|n| put(*n).is_some()).count(), PIECES_MAX);
    }
}
