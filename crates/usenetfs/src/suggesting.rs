//! Suggestions of directories of a spool that are worth managing.
//!
//! The paper managed groups of more than 10,000 articles: 6 of its 11,017 groups, with a quarter of all
//! articles. The gain is stated for directories without an index, where a name is found by reading the
//! directory. Sources: UFS-12, UFS-13, UFS-18.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use netnews::bucket::{self, BucketScheme};

/// Number of files from which the paper manages a directory.
pub const FILES_MIN: u64 = 10_000;
/// Maximum depth of directories in a walk.
const DEPTH_MAX: usize = 128;

/// A directory that would benefit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryCandidate {
    /// Path relative to the spool.
    pub path: PathBuf,
    /// Number of articles in it.
    pub files: u64,
    /// Number of directories, and so inodes, that its buckets need.
    pub buckets: u64,
    /// Factor by which fewer entries are read to find a name, in directories without an index.
    pub gain: u64,
}

/// Results of the examination of a spool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suggestions {
    /// Directories with enough files that are not managed, the largest first.
    pub candidates: Vec<DirectoryCandidate>,
    /// Number of articles in the spool, except in managed directories.
    pub files: u64,
    /// Number of directories in it.
    pub directories: u64,
    /// Number of directories that are managed already.
    pub managed: u64,
}

/// Examines a spool. `progress` is called with the number of directories read.
pub fn suggest(
    spool: &Path,
    scheme: BucketScheme,
    files_min: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Suggestions> {
    let mut found = Suggestions::default();
    let mut left = vec![(spool.to_owned(), 0)];
    while let Some((dir, depth)) = left.pop() {
        found.directories += 1;
        progress(found.directories);
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&dir)?);
        if mode & 0o4000 != 0 {
            found.managed += 1;
            let others = dir.join(bucket::OTHERS);
            if others.is_dir() && depth < DEPTH_MAX {
                left.push((others, depth + 1));
            }
            continue;
        }
        let mut files = 0;
        let mut buckets = BTreeSet::new();
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                if depth < DEPTH_MAX {
                    left.push((entry.path(), depth + 1));
                }
            } else if bucket::is_article(entry.file_name().as_bytes()) {
                files += 1;
                buckets.insert(scheme.bucket(entry.file_name().as_bytes()));
            }
        }
        found.files += files;
        if files >= files_min {
            let buckets = buckets.len() as u64;
            let path = dir.strip_prefix(spool).unwrap_or(&dir).to_owned();
            found.candidates.push(DirectoryCandidate {
                path,
                files,
                buckets,
                gain: files / (buckets + files / buckets.max(1)).max(1),
            });
        }
    }
    found.candidates.sort_by(|a, b| b.files.cmp(&a.files).then_with(|| a.path.cmp(&b.path)));
    Ok(found)
}
