//! What of batches cannot be filed: a directory in the site, where an operator can look at it.
//!
//! One file for each piece, named by a hash of its content, so that a batch that comes again adds nothing. A
//! file is written whole and synced before it has its name. The directory is bounded: the oldest files are
//! removed first. Called by `ledger`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};

use super::give;

/// Directory below `site.data`.
const DIR: &str = "quarantine";
/// Files that there may be.
const FILES_MAX: usize = 1_000;
/// Bytes that they may have together.
const BYTES_MAX: u64 = 256 << 20;
/// Pieces of one batch that are kept.
const PIECES_MAX: usize = 100;
/// Bytes of a piece's SHA-256 hash that name its file, in hexadecimal.
const NAME_BYTES: usize = 16;

/// Where pieces of one batch go.
pub(super) struct Quarantine {
    dir: PathBuf,
    kept: usize,
}

impl Quarantine {
    /// The quarantine of the site whose spool is in `data`; made when it is needed.
    pub fn of(data: &Path) -> Self {
        Self { dir: data.join(DIR), kept: 0 }
    }

    /// Keeps a piece; returns its file, or `None` if the batch has too many pieces, or this one too many
    /// bytes.
    pub fn put(&mut self, piece: &[u8]) -> io::Result<Option<PathBuf>> {
        if self.kept >= PIECES_MAX || piece.len() as u64 > BYTES_MAX {
            return Ok(None);
        }
        let site = fs::metadata(self.dir.parent().unwrap_or(Path::new(".")))?;
        if !self.dir.is_dir() {
            fs::create_dir(&self.dir)?;
            give(&self.dir, &site)?;
        }
        let hash = digest(&SHA256, piece);
        let name: String = hash.as_ref().iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
        let (path, unfinished) =
            (self.dir.join(&name), self.dir.join(format!("{name}.{}.new", std::process::id())));
        self.kept += 1;
        if path.is_file() {
            return Ok(Some(path));
        }
        self.make_room(piece.len() as u64)?;
        let mut file = File::create(&unfinished)?;
        file.write_all(piece)?;
        file.sync_all()?;
        give(&unfinished, &site)?;
        fs::rename(&unfinished, &path)?;
        File::open(&self.dir)?.sync_all()?;
        Ok(Some(path))
    }

    /// Removes the oldest files until there is room for one of so many bytes.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let about = entry.metadata()?;
            files.push((about.modified()?, entry.path(), about.len()));
        }
        files.sort_unstable();
        let mut all: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        let mut count = files.len();
        for (_, path, own) in files {
            if count < FILES_MAX && all + bytes <= BYTES_MAX {
                break;
            }
            fs::remove_file(path)?;
            (count, all) = (count - 1, all - own);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_make_room() {
        let data = tempfile::tempdir().unwrap();
        let mut quarantine = Quarantine::of(data.path());
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
    fn a_piece_that_comes_again_is_kept_once() {
        let data = tempfile::tempdir().unwrap();
        let path = Quarantine::of(data.path()).put(b"piece").unwrap();
        let mut again = Quarantine::of(data.path());
        assert_eq!(again.put(b"piece").unwrap(), path);
        assert_ne!(again.put(b"Piece").unwrap(), path);
        assert_eq!(fs::read_dir(data.path().join(DIR)).unwrap().count(), 2);
    }

    #[test]
    fn of_one_batch_so_many_pieces_are_kept() {
        let data = tempfile::tempdir().unwrap();
        let mut quarantine = Quarantine::of(data.path());
        let mut put = |n: usize| quarantine.put(n.to_string().as_bytes()).unwrap();
        assert_eq!((0..PIECES_MAX + 50).filter(|n| put(*n).is_some()).count(), PIECES_MAX);
    }
}
