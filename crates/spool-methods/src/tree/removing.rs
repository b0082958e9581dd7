//! Removing the files of many articles, directory by directory.
//!
//! Called without the writer's lock ([`crate::index::removals`]): the articles have left the indexes, and
//! their names are never used again.

use super::FileTree;
use crate::volume::{ArticleRemoval, Retained};
use spool_base::ids::GroupId;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

impl FileTree {
    pub(super) fn remove_all(&self, removals: &[&ArticleRemoval]) -> io::Result<()> {
        let mut by_dir: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
        for removal in removals {
            let ArticleRemoval { place, numbers, is_whole, .. } = removal;
            if !is_whole {
                self.end_names(*place, numbers)?;
                continue;
            }
            for path in self.names_of(*place, numbers) {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
                by_dir.entry(path.parent().unwrap_or(Path::new("")).to_owned()).or_default().push(name);
            }
        }
        self.dirty.store(true, Ordering::Release);
        by_dir.iter().try_for_each(|(dir, names)| self.disk.remove_in(dir, names))
    }

    /// Returns every path at which the file of an article may exist: its own, the held one, and its links in
    /// other groups. `numbers` are all that were alive, or more.
    pub(super) fn names_of(&self, place: u64, numbers: &[(GroupId, u64)]) -> Vec<PathBuf> {
        let first = super::paths::number_of(place);
        // A file is held once its first number is due while others live.
        let was_held = numbers != [first];
        let (own, held) = (self.path(place), was_held.then(|| self.held_path(place)).flatten());
        let others = numbers.iter().filter(|pair| self.has_links() && **pair != first);
        let others = others.filter_map(|(group, number)| self.number_path(*group, *number));
        own.into_iter().chain(held).chain(others).collect()
    }
}
