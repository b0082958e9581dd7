//! Data to be imported from another newsreel: from its site's directory, its `site.data`, or single
//! buffers.
//!
//! A directory is searched for files with the header of a buffer, and for the directory of a spool, which
//! lists the groups and the hidden articles. Volumes listed there but not found are reported. The other
//! server may be running. Called by `cli::import`.

use disk::{Disk, RealDisk};
use spool::{ArticleKey, BufferApart, GroupApart, MethodKind, SpoolApart};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::conf::OtherGroup;
use super::site::{OtherSite, named};
use site_base::units::counted;

/// Deepest directory searched below a given one, short of the trees of classes that keep articles.
const DEPTH_MAX: u32 = 3;
/// Magic of a buffer.
const MAGIC: &[u8] = b"newsreel cycbuff ";

/// Files found.
#[derive(Debug, Default)]
struct FoundFiles {
    buffers: BTreeSet<PathBuf>,
    spools: BTreeSet<PathBuf>,
    /// Directories that cannot be searched.
    unread: Vec<String>,
}

impl OtherSite {
    /// Finds all data of a newsreel in the given directories and files.
    pub fn newsreel(paths: &[PathBuf]) -> io::Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let mut files = FoundFiles::default();
        for path in paths {
            let about = fs::metadata(path).map_err(|e| named(path, e))?;
            match about.is_dir() {
                true => files.search(&*disk, path, 0).map_err(|e| named(path, e))?,
                // A given file that is not a buffer causes an error when it is opened.
                false => drop(files.buffers.insert(fs::canonicalize(path)?)),
            }
        }
        let mut other = Self::default();
        other.found.notes.append(&mut files.unread);
        match &files.spools.iter().collect::<Vec<_>>()[..] {
            [] => drop(other.buffers(&disk, &files.buffers, None, &HashSet::new())?),
            [dir] => other.spool(&disk, dir, &files.buffers)?,
            [first, second, ..] => {
                let (first, second) = (first.display(), second.display());
                let text = format!("{first} and {second}: they are of different sites; import one of them");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(other)
    }

    /// Adds the data of a spool's directory, and the articles of its buffers.
    fn spool(&mut self, disk: &Arc<dyn Disk>, dir: &Path, buffers: &BTreeSet<PathBuf>) -> io::Result<()> {
        let spool = SpoolApart::read(disk, dir).map_err(|error| named(dir, io::Error::other(error)))?;
        self.told.push(format!("{} with {}", dir.display(), counted(spool.groups.len() as u64, "group")));
        self.groups = spool.groups.iter().map(group).collect::<BTreeMap<_, _>>();
        let names = self.buffers(disk, buffers, Some(&spool.dictionaries), &spool.hidden)?;
        self.note_missing(&spool, &names);
        Ok(())
    }

    /// Adds the articles of buffers; returns their names.
    fn buffers(
        &mut self,
        disk: &Arc<dyn Disk>,
        paths: &BTreeSet<PathBuf>,
        dictionaries: Option<&Path>,
        hidden: &HashSet<ArticleKey>,
    ) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for path in paths {
            let opened = BufferApart::open(disk, path, dictionaries);
            let result = opened.and_then(|buffer| {
                let name = buffer.name().to_owned();
                self.found.add_records(path, buffer, hidden).map(|()| name)
            });
            match result {
                Ok(name) => {
                    self.told.push(format!("buffer {name} in {}", path.display()));
                    names.push(name);
                }
                Err(error) => self.found.notes.push(format!("{} was passed over: {error}", path.display())),
            }
        }
        Ok(names)
    }

    /// Reports volumes of the other server that are not read.
    fn note_missing(&mut self, spool: &SpoolApart, buffers: &[String]) {
        let not_read = |(method, name): &&(MethodKind, String)| match method {
            MethodKind::Cnfs => !buffers.contains(name),
            MethodKind::Trash | MethodKind::Memory => false,
            _ => true,
        };
        for (method, name) in spool.volumes.iter().filter(not_read) {
            self.found.notes.push(match method {
                MethodKind::Cnfs => {
                    format!("buffer {name} of that site is not among the files; name its file or device, too")
                }
                _ => format!(
                    "class {name} of that site does not keep its articles in cyclic buffers; they are not \
                     imported (newsreel export, on that site, writes them)"
                ),
            });
        }
    }
}

impl FoundFiles {
    fn search(&mut self, disk: &dyn Disk, dir: &Path, depth: u32) -> io::Result<()> {
        if SpoolApart::is_one(disk, dir) {
            self.spools.insert(fs::canonicalize(dir)?);
        }
        let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            // Links are followed: a buffer may be on another disk.
            let Ok(about) = fs::metadata(&path) else { continue };
            if entry.file_type()?.is_dir() && depth < DEPTH_MAX {
                // Unreadable directories such as lost+found.
                if let Err(error) = self.search(disk, &path, depth + 1) {
                    self.unread.push(format!("{} was not searched: {error}", path.display()));
                }
            } else if about.is_file() && begins_as_buffer(&path).unwrap_or(false) {
                self.buffers.insert(fs::canonicalize(&path)?);
            }
        }
        Ok(())
    }
}

fn begins_as_buffer(path: &Path) -> io::Result<bool> {
    let mut begun = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut begun)?;
    Ok(begun == MAGIC)
}

fn group(group: &GroupApart) -> (String, OtherGroup) {
    let GroupApart { flag, description, created, creator, high, .. } = group;
    let other = OtherGroup {
        high: *high,
        low: 0,
        flag: flag.to_string(),
        description: description.clone(),
        created: *created,
        creator: creator.clone(),
    };
    (group.name.clone(), other)
}
