//! Locations of a spool's files.

use std::path::{Path, PathBuf};

/// The spool's directories.
#[derive(Debug, Clone)]
pub(crate) struct SpoolPaths {
    pub dir: PathBuf,
    pub journal: PathBuf,
    pub index: PathBuf,
    pub history: PathBuf,
    pub overview: PathBuf,
    pub residents: PathBuf,
    pub kept: PathBuf,
    pub dictionaries: PathBuf,
    /// Exists while a snapshot is restored, and says which, and how much of it is there.
    pub restoring: PathBuf,
    /// Says of which snapshot the spool was made.
    pub restored: PathBuf,
}

impl SpoolPaths {
    pub fn new(dir: &Path) -> Self {
        let index = dir.join("index");
        Self {
            dir: dir.into(),
            journal: dir.join("journal"),
            dictionaries: dir.join("dictionaries"),
            restoring: dir.join("restoring"),
            restored: dir.join("restored"),
            history: index.join("history"),
            overview: index.join("overview"),
            residents: index.join("residents"),
            kept: index.join("kept"),
            index,
        }
    }
}
