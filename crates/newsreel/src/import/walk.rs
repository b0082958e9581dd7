//! Finding the articles below INN's patharticles.
//!
//! Symbolic links are passed over: tradspool makes them for cross-posted articles whose own file is in the tree too.
//! Of hard links the first counts. Called by `import::site`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::names::{Named, named};

/// Deepest tree that is walked.
const DEPTH_MAX: usize = 64;

/// What a tree holds.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// tradspool: the file and its time.
    pub trad: Vec<(PathBuf, u32)>,
    /// timehash: the file and its arrival.
    pub hashed: Vec<(PathBuf, u32)>,
    /// timecaf files.
    pub cafs: Vec<PathBuf>,
    links: HashSet<(u64, u64)>,
}

impl Tree {
    /// Walks the tree below `root`.
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
            }
            parts.pop();
        }
        Ok(())
    }

    fn file(&mut self, entry: &fs::DirEntry, parts: &[String]) -> io::Result<()> {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match named(&parts) {
            Named::TimeHash { arrived } => self.hashed.push((entry.path(), arrived)),
            Named::TimeCaf => self.cafs.push(entry.path()),
            Named::Trad { .. } => {
                let about = entry.metadata()?;
                if about.nlink() == 1 || self.links.insert((about.dev(), about.ino())) {
                    self.trad.push((entry.path(), u32::try_from(about.mtime()).unwrap_or(0)));
                }
            }
            Named::Other => {}
        }
        Ok(())
    }
}
