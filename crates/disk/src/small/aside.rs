//! Handling of damaged small files: they are set aside, as `NAME.damaged`, before anything is written in
//! their place. They are never removed: a person may want what is left of them.

use super::{Disk, FileAccess, durable_replace, parent, read_small};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tracing::error;

/// Suffix of the name of a file that was set aside; later ones have a number after it.
const ASIDE: &str = ".damaged";
/// Maximum number of files of one name that are set aside; further ones replace the last.
const ASIDE_MAX: usize = 9;

/// A small file that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedFile<T> {
    /// The file does not exist.
    Absent,
    /// The file is whole.
    Whole(T),
    /// The file was damaged and has been moved to this path.
    SetAside(PathBuf),
}

impl<T> CheckedFile<T> {
    /// Returns the contents if the file is whole.
    pub fn whole(self) -> Option<T> {
        match self {
            Self::Whole(value) => Some(value),
            Self::Absent | Self::SetAside(_) => None,
        }
    }
}

/// Reads a file of at most `bytes_max` bytes. If `parse` does not understand it, the file is set aside, and
/// logged with the consequences in `costs`.
pub fn read_or_set_aside<T>(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: u64,
    costs: &str,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> io::Result<CheckedFile<T>> {
    let Some(bytes) = read_small(disk, path, bytes_max)? else { return Ok(CheckedFile::Absent) };
    if let Some(value) = parse(&bytes) {
        return Ok(CheckedFile::Whole(value));
    }
    let aside = set_aside(disk, path)?;
    error!(file = %path.display(), set_aside = %aside.display(), "a file is damaged: {costs}");
    Ok(CheckedFile::SetAside(aside))
}

/// Renames a damaged file to the name under which it is set aside, durably; returns that name.
pub fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let aside = free_name(disk, path)?;
    disk.rename(path, &aside)?;
    disk.sync_dir(parent(path))?;
    Ok(aside)
}

/// Like [`set_aside`], but the file also keeps its own name until it is replaced.
pub fn copy_aside(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let aside = free_name(disk, path)?;
    match disk.remove(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    disk.link(path, &aside)?;
    disk.sync_dir(parent(path))?;
    Ok(aside)
}

/// As [`copy_aside`], for a file that is overwritten in place: its bytes are written once more.
pub fn duplicate_aside(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<PathBuf> {
    let bytes = read_small(disk, path, bytes_max)?.ok_or(ErrorKind::NotFound)?;
    let aside = free_name(disk, path)?;
    durable_replace(disk, &aside, &[&bytes], FileAccess::Group)?;
    Ok(aside)
}

/// Reports whether a file of this name was set aside.
pub fn is_set_aside(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.strip_suffix('-').unwrap_or(name).ends_with(ASIDE)
}

/// Returns a name for setting aside the file at `path`: the first free one, or the last.
fn free_name(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    for n in 1..ASIDE_MAX {
        let aside = aside_name(path, n);
        if disk.about(&aside)?.is_none() {
            return Ok(aside);
        }
    }
    Ok(aside_name(path, ASIDE_MAX))
}

fn aside_name(path: &Path, n: usize) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(ASIDE);
    if n > 1 {
        name.push(format!("-{n}"));
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::super::{FileAccess, durable_replace};
    use super::*;
    use crate::SimDisk;

    #[test]
    fn damaged_files_are_set_aside_under_names_of_their_own() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let path = Path::new("/d/state");
        let read = || {
            read_or_set_aside(&sim, path, 100, "nothing is lost", |bytes| {
                (bytes == b"whole").then(|| bytes.to_vec())
            })
        };
        assert_eq!(read().unwrap(), CheckedFile::Absent);
        durable_replace(&sim, path, &[b"whole"], FileAccess::Owner).unwrap();
        assert_eq!(read().unwrap().whole().unwrap(), b"whole");
        for n in 1..=ASIDE_MAX + 2 {
            durable_replace(&sim, path, &[b"damaged ", n.to_string().as_bytes()], FileAccess::Owner).unwrap();
            assert!(matches!(read().unwrap(), CheckedFile::SetAside(_)), "{n}");
            assert_eq!(read().unwrap(), CheckedFile::Absent, "{n}");
        }
        let names = sim.list(Path::new("/d")).unwrap();
        assert!(names.len() == ASIDE_MAX && names.iter().all(|name| is_set_aside(name)), "{names:?}");
        let text = |n| read_small(&sim, &aside_name(path, n), 100).unwrap().unwrap();
        assert_eq!((text(1), text(2)), (b"damaged 1".to_vec(), b"damaged 2".to_vec()));
        assert_eq!(text(ASIDE_MAX), format!("damaged {}", ASIDE_MAX + 2).into_bytes());
        assert!(!is_set_aside("state") && !is_set_aside("state-2"));
    }
}
