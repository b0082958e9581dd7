//! Archives in the form of a maildir: a file for each article, in `new` until a mail reader moves it to
//! `cur`.
//!
//! The name derives from the article, so a second copy is recognized, even in `cur`.

use super::copy::ArchiveCopy;
use super::tree::{linked, write};
use disk::Disk;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// Suffix of our file names.
const SUFFIX: &str = ".newsreel";

/// Copies articles to the maildir at `root`, durably; returns how many were not there. With `again`, some may
/// have been copied before and read since.
pub fn put(disk: &dyn Disk, root: &Path, copies: &[ArchiveCopy], again: bool) -> io::Result<u64> {
    let [tmp, new, cur] = ["tmp", "new", "cur"].map(|name| root.join(name));
    for dir in [&tmp, &new, &cur] {
        disk.create_dir(dir)?;
    }
    for name in disk.list(&tmp)?.iter().filter(|name| name.ends_with(SUFFIX)) {
        disk.remove(&tmp.join(name))?;
    }
    // Readers add flags after a colon.
    let read = if again { disk.list(&cur)? } else { Vec::new() };
    let read: HashSet<&str> = read.iter().filter_map(|name| name.split(':').next()).collect();
    let name = |copy: &ArchiveCopy| format!("{}.{:032x}{SUFFIX}", copy.arrived, copy.key.0);
    let missing: Vec<(&ArchiveCopy, String)> = copies
        .iter()
        .map(|copy| (copy, name(copy)))
        .filter(|(_, name)| !read.contains(name.as_str()))
        .collect();
    for (copy, name) in &missing {
        write(disk, &tmp.join(name), &copy.text)?;
    }
    disk.sync_tree(&tmp)?;
    let mut fresh = 0;
    for (_, name) in &missing {
        fresh += u64::from(linked(disk, &tmp.join(name), &new.join(name))?);
    }
    disk.sync_tree(root)?;
    missing.iter().try_for_each(|(_, name)| disk.remove(&tmp.join(name)))?;
    Ok(fresh)
}
