//! Archives in the form of a tree: a file for each number, by group, such as `comp/lang/c/4711`.
//!
//! Files are written below [`NEW_DIR`], synced, and then linked to their names: a name exists only with the
//! whole article. An existing article stays as it is, so a second copy changes nothing.

use super::copy::ArchiveCopy;
use disk::{Disk, OpenMode, read_small};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};

/// Directory of files that do not have their names yet.
const NEW_DIR: &str = ".newsreel-new";

/// Copies articles to the tree at `root`, durably; returns how many were not there.
pub(super) fn put(disk: &dyn Disk, root: &Path, copies: &[ArchiveCopy]) -> io::Result<u64> {
    let new_dir = root.join(NEW_DIR);
    disk.create_dir(&new_dir)?;
    clear(disk, &new_dir)?;
    let new = |n: usize| new_dir.join(n.to_string());
    for (n, copy) in copies.iter().enumerate() {
        write(disk, &new(n), &copy.text)?;
    }
    disk.sync_tree(&new_dir)?;
    let mut fresh = 0;
    for (n, copy) in copies.iter().enumerate() {
        let mut is_fresh = false;
        for (group, number) in &copy.numbers {
            is_fresh |= link(disk, &new(n), &group_dir(root, group), *number, copy)?;
        }
        fresh += u64::from(is_fresh);
    }
    disk.sync_tree(root)?;
    clear(disk, &new_dir)?;
    Ok(fresh)
}

/// Writes a new file; durable after the next sync of its directory's tree.
pub(super) fn write(disk: &dyn Disk, path: &Path, text: &[u8]) -> io::Result<()> {
    disk.open(path, OpenMode::CreateNew)?.write_all_at(&[IoSlice::new(text)], 0)
}

/// Removes files that a crash or an error has left.
fn clear(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.list(dir)?.iter().try_for_each(|name| disk.remove(&dir.join(name)))
}

/// Returns the directory of a group. A name component of digits alone, which would look like an article, gets
/// a final dot.
fn group_dir(root: &Path, group: &str) -> PathBuf {
    let mut dir = root.to_path_buf();
    for part in group.split('.') {
        let is_number = part.bytes().all(|b| b.is_ascii_digit());
        if is_number { dir.push(format!("{part}.")) } else { dir.push(part) }
    }
    dir
}

/// Links a file to its name; returns false if the article is there already. If another article has the name,
/// the file gets one with the article's key.
fn link(disk: &dyn Disk, new: &Path, dir: &Path, number: u64, copy: &ArchiveCopy) -> io::Result<bool> {
    disk.make_dirs(dir, false)?;
    let path = dir.join(number.to_string());
    if linked(disk, new, &path)? {
        return Ok(true);
    }
    let there = read_small(disk, &path, copy.text.len() as u64 + 1)?;
    if there.as_deref() == Some(&copy.text[..]) {
        return Ok(false);
    }
    linked(disk, new, &dir.join(format!("{number}.{:032x}", copy.key.0)))
}

/// Adds a name; returns false if there is a file of that name.
pub(super) fn linked(disk: &dyn Disk, new: &Path, path: &Path) -> io::Result<bool> {
    match disk.link(new, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_component_of_digits_is_no_article() {
        let dir = |group| group_dir(Path::new("/a"), group).display().to_string();
        assert_eq!(dir("comp.lang.c"), "/a/comp/lang/c");
        assert_eq!(dir("alt.2600.17"), "/a/alt/2600./17.");
    }
}
