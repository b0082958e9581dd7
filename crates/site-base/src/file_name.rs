//! [`FileName`]: the name of a file in the directory of a queue.

use std::fmt;
use std::path::{Path, PathBuf};

/// The name of a file of a queue, as listed in its directory or chosen by the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Returns the names that end with `end`, in their order.
    pub fn ending_with(names: Vec<String>, end: &str) -> impl Iterator<Item = Self> {
        names.into_iter().filter(move |name| name.ends_with(end)).map(Self)
    }

    /// Creates a name chosen by the queue.
    pub fn new(name: String) -> Self {
        Self(name)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path of the file in a directory.
    pub fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(&self.0)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
