//! Checks of a tree: files without a living article, misleading names, articles found under another name.
//!
//! Called by `verify` and `repair` through [`Volume`](crate::Volume).

use super::{FILE_BYTES_MAX, FileTree, GLANCE_BYTES, form, paths};
use crate::cnfs::record;
use crate::tree_header;
use crate::volume::{LivingLookup, Stray, StrayKind};
use disk::{DiskFile, OpenMode};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::MethodKind;
use std::io;
use std::path::Path;

/// Directory that a file system itself has at its root.
const FILE_SYSTEMS_OWN: &str = "lost+found";

/// Owner of a file.
enum FileOwner {
    /// The file no longer exists, or holds a living article that has other names too.
    Fine,
    Stray(StrayKind),
}

impl FileTree {
    pub(super) fn look_for_strays(
        &self,
        living: &LivingLookup<'_>,
        found: &mut dyn FnMut(Stray),
    ) -> io::Result<()> {
        self.look_over(&self.root, &mut Vec::new(), living, found)
    }

    fn look_over(
        &self,
        dir: &Path,
        parts: &mut Vec<String>,
        living: &LivingLookup<'_>,
        found: &mut dyn FnMut(Stray),
    ) -> io::Result<()> {
        for name in self.disk.list(dir)? {
            let path = dir.join(&name);
            if parts.is_empty() && tree_header::is_ours(&name) || self.is_known(parts, &name, &path, living) {
                continue;
            }
            match self.whose(parts, &name, &path, living) {
                FileOwner::Fine => {}
                FileOwner::Stray(kind) => found(Stray { path, kind }),
            }
        }
        for name in self.disk.list_dirs(dir)? {
            if parts.is_empty() && name == FILE_SYSTEMS_OWN {
                continue;
            }
            parts.push(name);
            self.look_over(&dir.join(parts.last().map_or("", String::as_str)), parts, living, found)?;
            parts.pop();
        }
        Ok(())
    }

    pub(super) fn is_left_over(&self, path: &Path, living: &LivingLookup<'_>) -> io::Result<bool> {
        let inner = path.strip_prefix(&self.root).unwrap_or(path);
        let mut parts: Vec<String> = inner.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let name = parts.pop().unwrap_or_default();
        if self.is_known(&parts, &name, path, living) {
            return Ok(false);
        }
        Ok(matches!(self.whose(&parts, &name, path, living), FileOwner::Stray(StrayKind::Left)))
    }

    /// Returns the owner of a file that no living article must have.
    fn whose(&self, parts: &[String], name: &str, path: &Path, living: &LivingLookup<'_>) -> FileOwner {
        let mut bytes = vec![0; GLANCE_BYTES];
        match self.disk.open(path, OpenMode::ReadOnly).and_then(|file| file.read_at(&mut bytes, 0)) {
            Ok(n) => bytes.truncate(n),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return FileOwner::Fine,
            Err(_) => return FileOwner::Stray(StrayKind::Unreadable),
        }
        if let Some((header, _)) = form::glance(&bytes) {
            if (living.key)(header.key) {
                return FileOwner::Fine;
            }
            let unknown = StrayKind::Unknown { sequence: header.sequence };
            if (living.known)(header.key) {
                return FileOwner::Stray(StrayKind::Left);
            }
            return FileOwner::Stray(match self.is_whole(path) {
                Ok(true) => unknown,
                Ok(false) => StrayKind::Left,
                Err(_) => StrayKind::Unreadable,
            });
        }
        // Cut off by a crash: empty, the beginning, or zeros, under a name of our form.
        let any = LivingLookup { number: &|_, _| true, place: &|_| true, ..*living };
        let torn = bytes.first().is_none_or(|b| *b == 0) || form::begins(&bytes);
        let named = self.is_known(parts, name, path, &any) || self.is_held_name(parts, name, path);
        FileOwner::Stray(if torn && named { StrayKind::Left } else { StrayKind::Foreign })
    }

    /// Reports whether an article whose first name was removed may be here.
    fn is_held_name(&self, parts: &[String], name: &str, path: &Path) -> bool {
        let number = name.strip_prefix('.').filter(|_| self.has_links());
        let of = number.and_then(|number| paths::group_and_number(parts, number, self.is_bucketed()));
        of.is_some_and(|(group, number)| {
            paths::held_path(&self.root, &group, number, self.is_bucketed()) == path
        })
    }

    /// Reports whether a living article must be under this name.
    fn is_known(&self, parts: &[String], name: &str, path: &Path, living: &LivingLookup<'_>) -> bool {
        if self.has_links() {
            let of = paths::group_and_number(parts, name, self.is_bucketed());
            return of.is_some_and(|(group, number)| {
                paths::number_path(&self.root, &group, number, self.is_bucketed()) == path
                    && (living.number)(&group, number)
            });
        }
        let all: Vec<&str> = parts.iter().map(String::as_str).chain([name]).collect();
        paths::place_of(&all, self.base.method == MethodKind::Hashed)
            .is_some_and(|place| self.path(place).is_some_and(|p| p == path) && (living.place)(place))
    }

    /// Reports whether a file holds a whole article of ours.
    fn is_whole(&self, path: &Path) -> io::Result<bool> {
        let (Some(file), mut buf) = (self.content(path)?, Vec::new()) else { return Ok(false) };
        Ok(form::from_file(&file, &mut buf).is_some() && record::is_whole(&buf))
    }

    pub(super) fn content(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.disk.open(path, OpenMode::ReadOnly) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            file => Self::content_of(&*file?).map(Some),
        }
    }

    fn content_of(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
        let len = file.len()?.min(FILE_BYTES_MAX);
        let mut bytes = vec![0; len as usize];
        let n = file.read_at(&mut bytes, 0)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    pub(super) fn is_named(&self, place: u64, group: GroupId, number: u64) -> io::Result<bool> {
        let (Some(own), Some(name)) = (self.path(place), self.number_path(group, number)) else {
            return Ok(true);
        };
        if !self.has_links() || own == name {
            return Ok(true);
        }
        let there = self.content(&name)?;
        let own = self.open_own(place)?.map(|file| Self::content_of(&*file)).transpose()?;
        Ok(there.is_some() && there == own)
    }

    pub(super) fn name_again(&self, place: u64, group: GroupId, number: u64) -> io::Result<()> {
        let (Some(own), Some(name)) = (self.path(place), self.number_path(group, number)) else {
            return Ok(());
        };
        if self.is_named(place, group, number)? {
            return Ok(());
        }
        self.dirty.store(true, std::sync::atomic::Ordering::Release);
        let held = self.held_path(place).filter(|_| !self.is_there(&own).unwrap_or(true));
        self.link(&held.unwrap_or(own), &name)
    }

    pub(super) fn find_again(
        &self,
        place: u64,
        key: ArticleKey,
        numbers: &[(GroupId, u64)],
        dry_run: bool,
    ) -> io::Result<bool> {
        let Some(own) = self.path(place).filter(|_| self.has_links()) else { return Ok(false) };
        let mut buf = Vec::new();
        for name in numbers.iter().filter_map(|(group, number)| self.number_path(*group, *number)) {
            let Some(bytes) = self.content(&name)?.filter(|_| name != own) else { continue };
            let header = form::from_file(&bytes, &mut buf).filter(|h| h.key == key);
            if header.is_some_and(|h| record::is_whole(&buf) && self.belongs(place, &h, &buf)) {
                if !dry_run {
                    self.dirty.store(true, std::sync::atomic::Ordering::Release);
                    self.link(&name, &own)?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}
