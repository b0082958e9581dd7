//! `tradspool`, `bucketed`, `hashed`, `timehash`: one file per article (`docs/formats/tree.md`).
//!
//! A file is created with O_EXCL at once in its final place (CN-11, CN-19) and written by one call;
//! crossposts are hard links. Directories are created when one is missing. If a name that the spool never
//! assigned exists nevertheless, it is skipped, unless it holds a remnant of a crash ([`FileTree::is_free`]):
//! indexes may be older than the files. This module does not know whether an article lives: history and
//! numbers do. Invariant: no file is removed before a row recording that is durable, and a removed name is
//! never used again.

mod check;
mod form;
mod paths;
mod removing;

use super::cnfs::record::{self, RECORD_BYTES_MAX, RecordHeader};
use super::tree_header;
use super::volume::{
    ArticleRemoval, Inventory, LivingLookup, PlacementRequest, Retained, Stray, Volume, VolumeBase,
    VolumeKind,
};
use disk::{Disk, DiskFile, OpenMode, ReadMode};
use spool_base::config::{ClassConfig, TreeConfig};
use spool_base::error::ReadError;
use spool_base::ids::{GroupId, GroupNames};
use spool_base::key::ArticleKey;
use spool_base::ordered::{Ordered, rank};
use spool_base::token::MethodKind;
use spool_base::xref::pairs_of_line;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum length of a file that is read: that of a record, with a longer header.
const FILE_BYTES_MAX: u64 = RECORD_BYTES_MAX as u64 + (1 << 10);
/// Maximum number of names within one second that are skipped because other files have them.
const TAKEN_NAMES_MAX: u64 = 1 << 16;
/// Bytes of a file that are read to identify it.
const GLANCE_BYTES: usize = 64 << 10;

/// Reads a file and writes its article again, with CRLF and with LF; `None` if it is damaged or none of ours.
#[cfg(feature = "testing")]
pub fn file_again(file: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut buf = Vec::new();
    form::glance(file)?;
    form::from_file(file, &mut buf).filter(|_| record::is_whole(&buf))?;
    files_of(&buf)
}

/// Returns the files of a record, with CRLF and with LF.
#[cfg(feature = "testing")]
pub fn files_of(record: &[u8]) -> Option<[Vec<u8>; 2]> {
    Some([form::to_file(record, false)?, form::to_file(record, true)?])
}

/// The tree of one class.
#[derive(Debug)]
pub struct FileTree {
    /// The write position is used by `timehash`: one more than the last place assigned.
    base: VolumeBase,
    root: PathBuf,
    lines_end_in_lf: AtomicBool,
    disk: Arc<dyn Disk>,
    names: Arc<GroupNames>,
    dirty: AtomicBool,
    /// Held during a sync: a sync with nothing to do must know that the previous one has finished.
    syncing: Ordered<(), { rank::PLACE_SYNCING }>,
    /// Files that were created when the place was chosen; those of `timehash` are not.
    made: Ordered<HashMap<u64, io::Result<Arc<dyn DiskFile>>>, { rank::TABLES }>,
}

impl FileTree {
    /// Opens the tree of a class, whose directory must exist, as the volume `id`; `head` is the write
    /// position from the journal or a checkpoint.
    pub fn open(
        disk: &Arc<dyn Disk>,
        names: &Arc<GroupNames>,
        id: u16,
        class: &ClassConfig,
        head: Option<u64>,
    ) -> Self {
        Self {
            base: VolumeBase::new(id, &class.name, class.method, head.unwrap_or(0)),
            root: class.tree.path.clone(),
            lines_end_in_lf: AtomicBool::new(class.tree.lines_end_in_lf),
            disk: disk.clone(),
            names: names.clone(),
            dirty: AtomicBool::new(true),
            syncing: Ordered::default(),
            made: Ordered::default(),
        }
    }

    fn is_bucketed(&self) -> bool {
        self.base.method == MethodKind::Bucketed
    }

    fn path(&self, place: u64) -> Option<PathBuf> {
        Some(match self.base.method {
            MethodKind::Hashed => paths::hashed_path(&self.root, place),
            MethodKind::Timehash => paths::timehash_path(&self.root, self.base.id, place),
            _ => {
                let (group, number) = paths::number_of(place);
                self.number_path(group, number)?
            }
        })
    }

    fn number_path(&self, group: GroupId, number: u64) -> Option<PathBuf> {
        let name = self.names.get(group)?;
        Some(paths::number_path(&self.root, &name, number, self.is_bucketed()))
    }

    /// Returns the path of the article at a place once the number of its first name is due; `None` for
    /// methods without names.
    fn held_path(&self, place: u64) -> Option<PathBuf> {
        let (group, number) = paths::number_of(place);
        let name = self.names.get(group).filter(|_| self.has_links())?;
        Some(paths::held_path(&self.root, &name, number, self.is_bucketed()))
    }

    /// Opens the file of the article at a place.
    fn open_own(&self, place: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        for path in self.path(place).into_iter().chain(self.held_path(place)) {
            match self.disk.open(&path, OpenMode::ReadOnly) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                file => return file.map(Some),
            }
        }
        Ok(None)
    }

    /// Reports whether a file of this name exists.
    fn is_there(&self, path: &Path) -> io::Result<bool> {
        match self.disk.open(path, OpenMode::ReadOnly) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
            file => file.map(|_| true),
        }
    }

    /// Removes an article's first name; the file stays under a name that belongs to no number.
    fn hold(&self, name: &Path, held: &Path) -> io::Result<()> {
        self.dirty.store(true, Ordering::Release);
        match self.disk.rename(name, held) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        // A rename leaves both names if they are links to one file.
        self.remove(name)
    }

    fn has_links(&self) -> bool {
        matches!(self.base.method, MethodKind::Tradspool | MethodKind::Bucketed)
    }

    fn make_dir_of(&self, path: &Path) -> io::Result<()> {
        self.disk.make_dirs(path.parent().unwrap_or(&self.root), self.is_bucketed())
    }

    /// Creates a file for the article with a key.
    fn make(&self, path: &Path, key: ArticleKey) -> io::Result<Arc<dyn DiskFile>> {
        self.make_as(path, key, &|| self.disk.open(path, OpenMode::CreateNew))
    }

    /// Creates another name for the file of the article with a key.
    fn link_new(&self, file: &Path, new: &Path, key: ArticleKey) -> io::Result<()> {
        self.make_as(new, key, &|| self.disk.link(file, new))
    }

    /// Creates a name that does not exist yet, removing only the remnant of a crash under it.
    fn make_as<T>(&self, path: &Path, key: ArticleKey, make: &dyn Fn() -> io::Result<T>) -> io::Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            match make() {
                Err(e) if tries < 3 && e.kind() == io::ErrorKind::NotFound => self.make_dir_of(path)?,
                Err(e) if tries < 3 && e.kind() == io::ErrorKind::AlreadyExists => {
                    match self.is_free(path, key) {
                        true => self.disk.remove(path)?,
                        false => return Err(e),
                    }
                }
                made => return made,
            }
        }
    }

    /// Creates a name of a living article, replacing any file that has it.
    fn link(&self, file: &Path, new: &Path) -> io::Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.disk.link(file, new) {
                Err(e) if tries < 3 && e.kind() == io::ErrorKind::NotFound => self.make_dir_of(new)?,
                Err(e) if tries < 3 && e.kind() == io::ErrorKind::AlreadyExists => self.disk.remove(new)?,
                linked => return linked,
            }
        }
    }

    /// Reports whether the article with a key may have a name that no row assigned: nothing has it, or a
    /// remnant of a crash, which is the beginning of a file or this very article. Whole articles that no
    /// index knows and foreign files stay.
    fn is_free(&self, path: &Path, key: ArticleKey) -> bool {
        let file = match self.content(path) {
            Ok(None) => return true,
            Ok(Some(file)) => file,
            // A directory, or an unreadable file.
            Err(_) => return false,
        };
        let mut buf = Vec::new();
        match form::from_file(&file, &mut buf) {
            Some(header) => header.key == key || !record::is_whole(&buf),
            None => form::is_beginning(&file),
        }
    }

    /// Returns the smallest number from `number` on whose name is free.
    fn next_free(&self, group: GroupId, number: u64, key: ArticleKey) -> io::Result<u64> {
        let Some(path) = self.number_path(group, number).filter(|_| self.has_links()) else {
            return Ok(number);
        };
        if self.is_free(&path, key) {
            return Ok(number);
        }
        let Some(name) = self.names.get(group) else { return Ok(number) };
        let dir = paths::group_dir(&self.root, &name, self.is_bucketed());
        let mut dirs = vec![dir.clone()];
        if self.is_bucketed() {
            dirs.extend(self.disk.list_dirs(&dir)?.into_iter().map(|bucket| dir.join(bucket)));
        }
        let mut taken = BTreeSet::new();
        for dir in dirs {
            taken.extend(self.disk.list(&dir)?.iter().filter_map(|name| name.parse::<u64>().ok()));
        }
        // A directory may have the name as well.
        let is_free = |n: &u64| self.number_path(group, *n).is_some_and(|path| self.is_free(&path, key));
        Ok((number + 1..).filter(|n| !taken.contains(n)).find(is_free).unwrap_or(number))
    }

    /// For `tradspool` and `bucketed`: creates the file under the first free number of the article, from
    /// `number` on. As a rule the name is looked up only once.
    fn settle_number(&self, group: GroupId, number: u64, key: ArticleKey) -> io::Result<u64> {
        let named = |number| self.number_path(group, number).zip(paths::number_place(group, number));
        let Some((path, place)) = named(number).filter(|_| self.has_links()) else { return Ok(number) };
        let mut number = number;
        let made = match self.make(&path, key) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                number = self.next_free(group, number, key)?;
                named(number).map(|(path, place)| (place, self.make(&path, key)))
            }
            made => Some((place, made)),
        };
        self.made.lock().extend(made);
        Ok(number)
    }

    /// For `hashed`: creates the file under the first name of its digest that no living article has.
    fn settle_hashed(&self, p: &PlacementRequest<'_>) -> u64 {
        let first = paths::hashed_place(p.message_id);
        let mut last = first;
        for place in first..first + paths::COLLISIONS_MAX {
            last = place;
            if self.made.lock().contains_key(&place) {
                continue;
            }
            let path = paths::hashed_path(&self.root, place);
            let made = match self.disk.open(&path, OpenMode::CreateNew) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    // A file of another article, or one too damaged to know, stays. A remnant of a crash is
                    // replaced.
                    let key = self.glance(&path).ok().flatten().map(|(header, _)| header.key);
                    if key.is_none_or(|key| key != p.key || (p.lives)(place, key)) {
                        continue;
                    }
                    self.make(&path, p.key)
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => self.make(&path, p.key),
                made => made,
            };
            self.made.lock().insert(place, made);
            return place;
        }
        self.made.lock().insert(last, Err(io::Error::other("too many articles have one digest")));
        last
    }

    /// For `timehash`: returns the first number of the second whose name is free.
    fn settle_timehash(&self, p: &PlacementRequest<'_>) -> u64 {
        // If the clock is set back, the second continues.
        let first = p.planned.max(u64::from(p.arrived) << 32);
        let is_free = |place: &u64| self.path(*place).is_some_and(|path| self.is_free(&path, p.key));
        (first..first.saturating_add(TAKEN_NAMES_MAX)).find(is_free).unwrap_or(first)
    }

    /// Returns the fields in a file's first bytes, and its Xref line.
    fn glance(&self, path: &Path) -> io::Result<Option<(RecordHeader, Vec<u8>)>> {
        let mut bytes = vec![0; GLANCE_BYTES];
        let n = self.disk.open(path, OpenMode::ReadOnly)?.read_at(&mut bytes, 0)?;
        Ok(form::glance(bytes.get(..n).unwrap_or_default()).map(|(header, xref)| (header, xref.to_vec())))
    }

    /// Reports whether an Xref line has any of these numbers. Without numbers, or without such a line, there
    /// is nothing to compare, and the answer is yes.
    fn has_any(&self, xref: &[u8], numbers: &[(GroupId, u64)]) -> bool {
        let is_named = |(group, number): &(GroupId, u64)| {
            let name = self.names.get(*group);
            pairs_of_line(xref)
                .any(|(own, n)| n == *number && name.as_ref().is_none_or(|name| name.as_bytes() == own))
        };
        numbers.is_empty() || pairs_of_line(xref).next().is_none() || numbers.iter().any(is_named)
    }

    /// Reports whether the file at a place belongs there.
    fn belongs(&self, place: u64, header: &RecordHeader, record: &[u8]) -> bool {
        let data = record.get(record::HEADER_BYTES..).unwrap_or_default();
        match self.base.method {
            MethodKind::Hashed => paths::is_hashed_of(place, header.message_id(data)),
            MethodKind::Timehash => true,
            _ => {
                let (group, number) = paths::number_of(place);
                let first = pairs_of_line(data).next();
                first.is_some_and(|(name, n)| {
                    n == number && self.names.get(group).is_some_and(|g| g.as_bytes() == name)
                })
            }
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.dirty.store(true, Ordering::Release);
        match self.disk.remove(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Returns sequence and place of the article in a file, if it is under its first name.
    fn own_place(
        &self,
        file: &Path,
        group_named: &mut dyn FnMut(&[u8]) -> Option<GroupId>,
    ) -> io::Result<Option<(u64, u64)>> {
        let Some((header, xref)) = self.glance(file)? else { return Ok(None) };
        let place = if self.has_links() {
            let first = pairs_of_line(&xref).next();
            first.and_then(|(group, number)| paths::number_place(group_named(group)?, number))
        } else {
            let inner = file.strip_prefix(&self.root).unwrap_or(file);
            let parts: Vec<_> = inner.iter().map(|part| part.to_string_lossy()).collect();
            let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
            paths::place_of(&parts, self.base.method == MethodKind::Hashed)
        };
        // A crosspost is found under each of its names, and counted under the first.
        let is_own = |place: &u64| {
            self.path(*place).is_some_and(|own| {
                own == file
                    || self.held_path(*place).is_some_and(|held| held == file)
                        && !self.is_there(&own).unwrap_or(true)
            })
        };
        Ok(place.filter(is_own).map(|place| (header.sequence, place)))
    }

    fn walk(&self, dir: &Path, found: &mut Inventory<'_>) -> io::Result<()> {
        for name in self.disk.list(dir)? {
            if let Ok(Some((sequence, place))) = self.own_place(&dir.join(&name), found.group) {
                (found.visit)(sequence, place);
            }
        }
        for name in self.disk.list_dirs(dir)? {
            self.walk(&dir.join(name), found)?;
        }
        Ok(())
    }
}

impl Volume for FileTree {
    fn base(&self) -> &VolumeBase {
        &self.base
    }

    fn kind(&self) -> VolumeKind<'_> {
        VolumeKind::Retained(self)
    }

    fn padded(&self, len: usize) -> u64 {
        len as u64
    }

    fn end_of(&self, place: u64, _stored_bytes: u64) -> u64 {
        if self.base.method == MethodKind::Timehash { place + 1 } else { 0 }
    }

    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let unfit = || io::Error::new(io::ErrorKind::InvalidInput, "an article has no place in the tree");
        let path = self.path(place).ok_or_else(unfit)?;
        let file = form::to_file(bytes, self.lines_end_in_lf.load(Ordering::Relaxed)).ok_or_else(unfit)?;
        let key = RecordHeader::parse(bytes).ok_or_else(unfit)?.0.key;
        let made = match self.made.lock().remove(&place) {
            Some(made) => made?,
            None => self.make(&path, key)?,
        };
        let written = made.write_all_at(&[IoSlice::new(&file)], 0);
        self.dirty.store(true, Ordering::Release);
        if let Err(e) = written {
            // Half an article would look like a damaged one.
            let _ = self.remove(&path);
            return Err(e);
        }
        if self.has_links() {
            let data = bytes.get(record::HEADER_BYTES..).unwrap_or_default();
            for (group, number) in pairs_of_line(data).skip(1) {
                let group = std::str::from_utf8(group).map_err(|_| unfit())?;
                let name = paths::number_path(&self.root, group, number, self.is_bucketed());
                self.link_new(&path, &name, key)?;
            }
            self.dirty.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn is_alive(&self, _place: u64) -> bool {
        true
    }

    fn mark_alive(&self, place: u64) {
        self.advance(self.end_of(place, 0));
    }

    fn cancel(&self, place: u64, key: ArticleKey, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        let Some(path) = self.path(place) else { return Ok(()) };
        if self.base.method == MethodKind::Hashed
            && self
                .glance(&path)
                .ok()
                .flatten()
                .is_none_or(|(header, xref)| header.key != key || !self.has_any(&xref, numbers))
        {
            // Happens in a replay if the name already belongs to another article, or to the same one filed
            // again after its Message-ID was forgotten.
            return Ok(());
        }
        self.names_of(place, numbers).iter().try_for_each(|path| self.remove(path))
    }

    fn fetch(
        &self,
        place: u64,
        patience: ReadMode,
        buf: &mut Vec<u8>,
    ) -> Result<Option<(RecordHeader, bool)>, ReadError> {
        if patience == ReadMode::CacheOnly {
            // Whether a directory entry is cached cannot be known.
            return Err(ReadError::WouldBlock);
        }
        let Some(file) = self.open_own(place)? else { return Ok(None) };
        let len = file.len()?;
        if len > FILE_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; len as usize];
        let n = file.read_at(&mut bytes, 0)?;
        bytes.truncate(n);
        let header = form::from_file(&bytes, buf).filter(|h| self.belongs(place, h, buf));
        Ok(header.map(|h| (RecordHeader { place, ..h }, true)))
    }

    fn explain_place(&self, place: u64) -> String {
        let there = |path: &PathBuf| self.is_there(path).unwrap_or(false);
        let own = self.path(place);
        let own = self.held_path(place).filter(there).or(own);
        own.map_or_else(|| "no path: its group is not known".into(), |p| p.display().to_string())
    }

    fn sync(&self) -> io::Result<()> {
        let _one_at_a_time = self.syncing.lock();
        if self.dirty.swap(false, Ordering::AcqRel) {
            let synced = self.disk.sync_tree(&self.root);
            synced.inspect_err(|_| self.dirty.store(true, Ordering::Release))?;
        }
        Ok(())
    }
}

impl Retained for FileTree {
    fn configure(&self, tree: &TreeConfig) {
        self.lines_end_in_lf.store(tree.lines_end_in_lf, Ordering::Relaxed);
    }

    fn settle(&self, p: &PlacementRequest<'_>) -> u64 {
        match self.base.method {
            MethodKind::Hashed => self.settle_hashed(p),
            MethodKind::Timehash => self.settle_timehash(p),
            _ => p.first.and_then(|(group, number)| paths::number_place(group, number)).unwrap_or(u64::MAX),
        }
    }

    fn free_number(&self, group: GroupId, number: u64, key: ArticleKey, is_first: bool) -> io::Result<u64> {
        match is_first {
            true => self.settle_number(group, number, key),
            false => self.next_free(group, number, key),
        }
    }

    fn place_of_number(&self, group: GroupId, number: u64) -> io::Result<Option<u64>> {
        let Some(path) = self.number_path(group, number).filter(|_| self.has_links()) else {
            return Ok(None);
        };
        Ok(paths::number_place(group, number).filter(|_| self.is_there(&path).unwrap_or(false)))
    }

    fn record_position(&self, position: u64) -> io::Result<()> {
        self.dirty.store(true, Ordering::Release);
        tree_header::put_position(&*self.disk, &self.root, position)
    }

    fn recorded_position(&self) -> Option<u64> {
        tree_header::position(&*self.disk, &self.root)
    }

    fn place_of_file(
        &self,
        path: &Path,
        group: &mut dyn FnMut(&[u8]) -> Option<GroupId>,
    ) -> io::Result<Option<u64>> {
        Ok(self.own_place(path, group)?.map(|(_, place)| place))
    }

    fn take_back(&self, place: u64, key: ArticleKey, numbers: &[(GroupId, u64)]) {
        if let Some(Ok(_)) = self.made.lock().remove(&place)
            && let Some(path) = self.path(place)
        {
            // The file is still empty.
            let _ = self.remove(&path);
            return;
        }
        // Files that cannot be removed now are replaced when their name is used again.
        let links = numbers.iter().filter(|_| self.has_links());
        let links = links.filter_map(|(group, number)| self.number_path(*group, *number));
        for path in self.path(place).into_iter().chain(links).filter(|path| self.is_free(path, key)) {
            let _ = self.remove(&path);
        }
    }

    fn remove_files(&self, removals: &[&ArticleRemoval]) -> io::Result<()> {
        self.remove_all(removals)
    }

    fn end_names(&self, place: u64, numbers: &[(GroupId, u64)]) -> io::Result<()> {
        let Some(held) = self.held_path(place) else { return Ok(()) };
        for (group, number) in numbers {
            match self.number_path(*group, *number) {
                Some(name) if paths::number_place(*group, *number) == Some(place) => {
                    self.hold(&name, &held)?
                }
                Some(name) => self.remove(&name)?,
                None => {}
            }
        }
        Ok(())
    }

    fn is_found_as(&self, _place: u64, group: GroupId, number: u64) -> io::Result<bool> {
        match self.number_path(group, number).filter(|_| self.has_links()) {
            Some(name) => self.is_there(&name),
            None => Ok(true),
        }
    }

    fn inventory(&self, found: &mut Inventory<'_>) -> io::Result<()> {
        self.walk(&self.root, found)
    }

    fn has_name(&self, place: u64, group: GroupId, number: u64) -> io::Result<bool> {
        self.is_named(place, group, number)
    }

    fn restore_name(&self, place: u64, group: GroupId, number: u64) -> io::Result<()> {
        self.name_again(place, group, number)
    }

    fn restore(
        &self,
        place: u64,
        key: ArticleKey,
        numbers: &[(GroupId, u64)],
        dry_run: bool,
    ) -> io::Result<bool> {
        self.find_again(place, key, numbers, dry_run)
    }

    fn strays(&self, living: &LivingLookup<'_>, found: &mut dyn FnMut(Stray)) -> io::Result<()> {
        self.look_for_strays(living, found)
    }

    fn is_stray(&self, path: &Path, living: &LivingLookup<'_>) -> io::Result<bool> {
        self.is_left_over(path, living)
    }

    fn file_of(&self, place: u64) -> Option<PathBuf> {
        self.path(place)
    }
}
