//! Search for the articles below INN's patharticles.
//!
//! A crossposted article of tradspool is one file; its other names, symbolic or hard links, only show its
//! numbers in its other groups. Called by `import::site`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::names::{SpoolFileKind, named};

/// Deepest tree walked.
const DEPTH_MAX: usize = 64;

/// Contents of a tree.
#[derive(Debug, Default)]
pub(crate) struct SpoolTree {
    /// Articles of tradspool: file and modification time.
    pub trad: Vec<(PathBuf, u32)>,
    /// Articles of timehash: file and arrival.
    pub hashed: Vec<(PathBuf, u32)>,
    /// Files of timecaf.
    pub cafs: Vec<PathBuf>,
    /// Other names of files in `trad`.
    pub links: HashMap<PathBuf, Vec<PathBuf>>,
    /// Files with several hard links, by device and inode.
    linked: HashMap<(u64, u64), PathBuf>,
}

impl SpoolTree {
    /// Walks the tree below `root`, which is an absolute path without symbolic links.
    pub fn walk(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.directory(root, &mut Vec::new())?;
        Ok(tree)
    }

    fn directory(&mut self, path: &Path, parts: &mut Vec<String>) -> io::Result<()> {
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type()?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            parts.push(name);
            if kind.is_dir() && parts.len() < DEPTH_MAX {
                self.directory(&entry.path(), parts)?;
            } else if kind.is_file() {
                self.file(&entry, parts)?;
            } else if let (true, Ok(file)) = (kind.is_symlink(), fs::canonicalize(entry.path())) {
                self.links.entry(file).or_default().push(entry.path());
            }
            parts.pop();
        }
        Ok(())
    }

    fn file(&mut self, entry: &fs::DirEntry, parts: &[String]) -> io::Result<()> {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match named(&parts) {
            SpoolFileKind::TimeHash { arrived } => self.hashed.push((entry.path(), arrived)),
            SpoolFileKind::TimeCaf => self.cafs.push(entry.path()),
            SpoolFileKind::Trad { .. } => {
                let about = entry.metadata()?;
                if about.nlink() > 1 {
                    let first = self.linked.entry((about.dev(), about.ino())).or_insert_with(|| entry.path());
                    if *first != entry.path() {
                        self.links.entry(first.clone()).or_default().push(entry.path());
                        return Ok(());
                    }
                }
                self.trad.push((entry.path(), u32::try_from(about.mtime()).unwrap_or(0)));
            }
            SpoolFileKind::Other => {}
        }
        Ok(())
    }
}
