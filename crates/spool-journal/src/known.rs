//! [`KnownFiles`]: the names of the files of durable journal readers.
//!
//! The names distinguish a file that was removed from one that never existed: a new reader begins where its
//! configuration says, one whose file is missing goes back to the oldest row. Replaced as a whole whenever a
//! reader is added or removed. Format: `docs/formats/cursor.md`.

use disk::{AppendLog, Disk, FileAccess, LogLine, set_aside};
use spool_base::ordered::{Ordered, rank};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, warn};

/// Suffix of a cursor's file.
pub(super) const CURSOR: &str = ".cursor";
/// Suffix of a file of deferred articles.
pub(super) const DEFERRED: &str = ".deferred";
/// Name of the file.
const FILE_NAME: &str = "readers";
/// Beginning of the first line; the number of names follows.
const FIRST_WORD: &str = "readers ";
/// Maximum length of the file: cursor and deferred articles of all readers.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct KnownNames {
    names: BTreeSet<String>,
    /// The file was damaged, and may have contained any name.
    is_uncertain: bool,
}

/// The known names, and their file.
#[derive(Debug)]
pub(crate) struct KnownFiles {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    names: Ordered<KnownNames, { rank::TABLES }>,
}

impl KnownFiles {
    /// Reads the file in the journal's directory, and adds the existing files with these suffixes: earlier
    /// versions, and crashes, leave files that are not listed.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, endings: &[&str]) -> io::Result<Self> {
        let path = dir.join(FILE_NAME);
        let read = read(disk, &path)?;
        let mut names = read.clone().unwrap_or_default();
        let is_file = |name: &String| endings.iter().any(|ending| name.ends_with(ending));
        names.names.extend(disk.list(dir)?.into_iter().filter(is_file));
        if names.is_uncertain {
            let aside = set_aside(&**disk, &path)?;
            let (file, set_aside) = (path.display(), aside.display());
            error!(
                %file, %set_aside,
                "a file is damaged: readers of the journal without a file begin with its oldest row"
            );
        }
        let known = Self { disk: disk.clone(), path, names: Ordered::new(names.clone()) };
        if names.is_uncertain || read.map_or(!names.names.is_empty(), |read| read != names) {
            known.write(&names.names);
        }
        Ok(known)
    }

    /// Reports whether the file of this name must exist, or may have to.
    pub fn has(&self, name: &str) -> bool {
        let names = self.names.lock();
        names.is_uncertain || names.names.contains(name)
    }

    /// Returns all names.
    pub fn all(&self) -> Vec<String> {
        self.names.lock().names.iter().cloned().collect()
    }

    /// Records that a file was created.
    pub fn add(&self, name: &str) {
        self.change(|names| names.insert(name.to_owned()));
    }

    /// Records that files are about to be removed.
    pub fn remove(&self, removed: &[&str]) {
        self.change(|names| {
            let before = names.len();
            names.retain(|name| !removed.contains(&name.as_str()));
            names.len() < before
        });
    }

    /// Reports whether the file is as it was written.
    pub fn is_whole(&self) -> bool {
        let names = self.names.lock();
        let read = read(&self.disk, &self.path);
        read.is_ok_and(|read| {
            let read = read.unwrap_or_default();
            !read.is_uncertain && read.names == names.names
        })
    }

    /// Rewrites the file.
    pub fn mend(&self) -> io::Result<()> {
        write(&self.disk, &self.path, &self.names.lock().names)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut names = self.names.lock();
        if change(&mut names.names) {
            self.write(&names.names);
        }
    }

    /// Writes the file. After a failure the next start finds the names, as long as the files exist.
    fn write(&self, names: &BTreeSet<String>) {
        if let Err(error) = write(&self.disk, &self.path, names) {
            warn!(file = %self.path.display(), %error, "cannot write which readers the journal has");
        }
    }
}

fn write(disk: &Arc<dyn Disk>, path: &Path, names: &BTreeSet<String>) -> io::Result<()> {
    let mut log = AppendLog::open(disk.clone(), path.into(), FileAccess::Group, FILE_BYTES_MAX, |_| true)?;
    let first = format!("{FIRST_WORD}{}", names.len());
    log.replace(std::iter::once(first.as_str()).chain(names.iter().map(String::as_str)))
}

/// Reads the file; `None`: it does not exist.
fn read(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Option<KnownNames>> {
    if disk.about(path)?.is_none() {
        return Ok(None);
    }
    let (mut names, mut expected) = (BTreeSet::new(), None);
    let read = AppendLog::open(disk.clone(), path.into(), FileAccess::Group, FILE_BYTES_MAX, |line| {
        let LogLine::Whole(text) = line else { return false };
        match text.strip_prefix(FIRST_WORD) {
            Some(number) => expected = number.parse::<usize>().ok(),
            None => _ = names.insert(text.to_owned()),
        }
        true
    });
    let is_whole = match read {
        Ok(log) => log.damaged_lines() == 0 && expected == Some(names.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // An unreadable sector.
        Err(_) => false,
    };
    Ok(Some(KnownNames { names, is_uncertain: !is_whole }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{OpenMode, SimDisk, durable_replace, read_small};

    const DIR: &str = "/j";

    fn known(disk: &Arc<dyn Disk>) -> KnownFiles {
        KnownFiles::open(disk, Path::new(DIR), &[".cursor"]).unwrap()
    }

    #[test]
    fn names_survive_and_damage_makes_every_name_possible() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        disk.create_dir(Path::new(DIR)).unwrap();
        assert!(!known(&disk).has("a.cursor"));
        disk.open(Path::new("/j/old.cursor"), OpenMode::Create).unwrap();
        let names = known(&disk);
        ["a.cursor", "a.deferred", "b.cursor"].iter().for_each(|name| names.add(name));
        names.remove(&["b.cursor", "b.deferred"]);
        let names = known(&disk);
        assert_eq!(names.all(), ["a.cursor", "a.deferred", "old.cursor"]);
        assert!(!names.has("b.cursor") && names.is_whole());
        let path = Path::new(DIR).join(FILE_NAME);
        let whole = read_small(&*disk, &path, 1_000).unwrap().unwrap();
        let damaged = (0..whole.len()).flat_map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            [flipped, whole[..at].to_vec()]
        });
        for bytes in damaged.chain([vec![0; whole.len()]]) {
            durable_replace(&*disk, &path, &[&bytes], FileAccess::Group).unwrap();
            assert!(!names.is_whole());
            let damaged = known(&disk);
            assert!(
                damaged.has("a.cursor") && damaged.has("b.cursor"),
                "{}",
                String::from_utf8_lossy(&bytes)
            );
            assert!(damaged.all().contains(&"old.cursor".to_owned()), "its file is there");
            assert!(damaged.is_whole(), "it was not written again");
        }
        // Without the list, the existing files count.
        disk.remove(&path).unwrap();
        assert_eq!(known(&disk).all(), ["old.cursor"]);
    }
}
