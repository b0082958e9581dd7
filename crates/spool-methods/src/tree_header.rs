//! The file `newsreel.tree` in the directory of a volume that retains its articles.
//!
//! The file and its copy identify the owner of the directory, so that a foreign directory is left alone and a
//! missing one is noticed. Written when the directory is first used; a damaged copy is rewritten from the
//! other one by the next opening, or by a repair. Layout: `docs/formats/tree.md`.

use disk::{Disk, FileAccess, OpenMode, UNFINISHED, durable_replace, read_around};
use spool_base::error::SpoolError;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

/// Name of the file, in the directory of the volume.
pub const FILE: &str = "newsreel.tree";
/// The file and its copy.
const FILES: [&str; 2] = [FILE, "newsreel.tree.copy"];
/// File with the last recorded position of the journal.
const POSITION: &str = "newsreel.position";
/// Length of that file: digits, blank, checksum, LF.
const POSITION_BYTES: usize = 26;
const MAGIC: &str = "newsreel tree 1";
const FILE_BYTES_MAX: usize = 4096;

/// Contents of `newsreel.tree`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeHeader {
    /// Name of the volume.
    pub name: String,
    /// Name of its storage method.
    pub method: String,
    /// Number of the volume in tokens.
    pub volume: u16,
    /// Secret of the Message-ID hash, hexadecimal.
    pub secret: String,
}

impl TreeHeader {
    fn encode(&self) -> Vec<u8> {
        let Self { name, method, volume, secret } = self;
        let body = format!("{MAGIC}\nname {name}\nmethod {method}\nvolume {volume}\nsecret {secret}\n");
        format!("{body}crc32c {:08x}\n", disk::crc::crc32c(body.as_bytes())).into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = std::str::from_utf8(bytes).ok()?.split_once("crc32c ")?;
        if u32::from_str_radix(crc.trim_end(), 16).ok()? != disk::crc::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned);
        Some(Self {
            name: value("name")?,
            method: value("method")?,
            volume: value("volume")?.parse().ok()?,
            secret: value("secret")?,
        })
    }

    /// Reads the header of a directory; `None` if there is none, or its writing was cut off.
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Self>> {
        for name in FILES {
            let read = Self::read_file(disk, &dir.join(name))?;
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }

    fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Self>> {
        let file = match disk.open(path, OpenMode::ReadOnly) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = vec![0; FILE_BYTES_MAX];
        let n = read_around(&*file, &mut bytes, 0)?;
        let bytes = bytes.get(..n).unwrap_or_default();
        Ok(Self::decode(bytes).filter(|header| header.encode() == bytes))
    }

    /// Rewrites the copies that differ from this header.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        for name in FILES {
            let path = dir.join(name);
            if Self::read_file(disk, &path)?.as_ref() != Some(self) {
                durable_replace(disk, &path, &[&self.encode()], FileAccess::Owner)?;
            }
        }
        Ok(())
    }
}

/// Returns the copies of `newsreel.tree` that are damaged or missing.
pub fn damaged(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    let paths = FILES.map(|name| dir.join(name));
    let whole = |path: &PathBuf| matches!(TreeHeader::read_file(disk, path), Ok(Some(_)));
    paths.into_iter().filter(|path| !whole(path)).collect()
}

/// Rewrites a damaged copy from the other one; an error if there is none.
pub fn mend(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let header = TreeHeader::read(disk, dir)?;
    header.ok_or_else(|| io::Error::other("both copies are damaged"))?.write(disk, dir)
}

/// Reports whether a directory has no header.
pub fn is_blank(disk: &dyn Disk, dir: &Path) -> Result<bool, SpoolError> {
    let header = TreeHeader::read(disk, dir).map_err(SpoolError::io("look at", dir.join(FILE)))?;
    Ok(header.is_none())
}

/// Returns the paths of a directory's header and its copy.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    FILES.iter().map(|name| dir.join(name)).collect()
}

/// Reports whether a file in such a directory is one of ours other than an article.
pub fn is_ours(name: &str) -> bool {
    // A crash may leave the unfinished replacement of a file.
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    FILES.contains(&name) || name == POSITION
}

/// Returns the journal's position when the directory was last synced for a checkpoint; `None` if not
/// recorded.
pub fn position(disk: &dyn Disk, dir: &Path) -> Option<u64> {
    let file = disk.open(&dir.join(POSITION), OpenMode::ReadOnly).ok()?;
    let mut bytes = [0; POSITION_BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let position = u64::from_str_radix(text.get(..16)?, 16).ok()?;
    (position_text(position).as_bytes() == bytes).then_some(position)
}

/// Records the journal's position, in place; the caller syncs. A value cut off by a crash counts as missing.
pub(crate) fn put_position(disk: &dyn Disk, dir: &Path, position: u64) -> io::Result<()> {
    let file = disk.open(&dir.join(POSITION), OpenMode::Create)?;
    file.write_all_at(&[IoSlice::new(position_text(position).as_bytes())], 0)
}

fn position_text(position: u64) -> String {
    let digits = format!("{position:016x}");
    format!("{digits} {:08x}\n", disk::crc::crc32c(digits.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remnants_of_a_crash_in_our_files_are_ours() {
        for name in ["newsreel.tree", "newsreel.tree.copy", "newsreel.tree.new", "newsreel.position"] {
            assert!(is_ours(name), "{name}");
        }
        for name in ["newsreel.new", "newsreel.tree.old", "12.new", ".new"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
