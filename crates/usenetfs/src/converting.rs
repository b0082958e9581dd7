//! Conversion of a directory to the managed form, and back to the flat one.
//!
//! Works on the lower directory; if that is in use through a mount, the mount does it itself, between two of
//! its answers (`online`). Each entry is moved by one rename, so it is always at exactly one place; while
//! [`MARKER`] exists a mount looks at all places at which it may be. A kill leaves a usable directory and a
//! marker; the same command, or the opposite one, continues from there.
//!
//! To managed: marker; the bit (new entries are put into buckets from now on); entries with the name of a
//! bucket into the marker; everything else into its bucket; those in the marker into their buckets; marker
//! removed.
//!
//! To flat: marker; everything out of the buckets, entries with the name of a bucket into the marker; buckets
//! removed; the bit; entries added meanwhile; those in the marker out of it; marker removed.
//!
//! Source: UFS-10.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuser::FileType;
use netnews::bucket::{self, BucketScheme};
use rustix::fs::{self, AtFlags, FlockOperation, Mode, RenameFlags};
use rustix::io::Errno;

use crate::directory::{LowerDirectory, MARKER};
use crate::failpoint;
use crate::listing::{self, LowerEntry};
use crate::lower::{self, LowerResult};
use crate::naming;
use crate::tree::{MountedTree, TreeTurn};

/// Maximum number of names that an error shows.
const SHOWN_MAX: usize = 5;
/// Maximum number of passes over a directory in which new entries keep appearing.
const PASSES_MAX: usize = 1000;

/// Form of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryForm {
    /// Stored in buckets.
    Managed,
    /// Stored as it looks.
    Flat,
}

impl DirectoryForm {
    /// Returns the name of the form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Flat => "flat",
        }
    }

    /// Returns the form of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Managed, Self::Flat].into_iter().find(|form| form.name().as_bytes() == name)
    }
}

/// Result of a conversion, or its extent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversionReport {
    /// Number of entries that were moved.
    pub moved: u64,
    /// Number of directories that exist for buckets.
    pub buckets: u64,
}

/// Reason why a directory was not converted, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// Error of the file system.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// Subdirectories have names that buckets need.
    #[error("it has subdirectories with the names of buckets ({}); it stays as it is", listed(.0))]
    Names(Vec<OsString>),
    /// The directory has an entry that no managed directory of this scheme has.
    #[error("{name} in it is no bucket of scheme {0}; it stays as it is", name = .1.to_string_lossy())]
    OtherScheme(BucketScheme, OsString),
    /// Two different files have the same name, one in its bucket and one outside.
    #[error(
        "these names exist in a bucket and outside, as different files: {}; remove one of each, and run the \
         command again",
        listed(.0)
    )]
    Twice(Vec<OsString>),
    /// Another process is converting it.
    #[error("another process is converting it")]
    Busy,
}

/// Returns the first of some names.
fn listed(names: &[OsString]) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN_MAX).map(|name| name.to_string_lossy()).collect();
    let more = if names.len() > SHOWN_MAX { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

impl From<Errno> for ConvertError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Converts a lower directory to a form; `progress` is called with the number of entries done and the total.
/// `tree` is the mount through which it is in use.
pub fn convert(
    dir: LowerDirectory,
    form: DirectoryForm,
    tree: Option<&MountedTree>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConversionReport, ConvertError> {
    let (_lock, mut work) = Conversion::new(dir, form, tree, progress)?;
    work.run()
}

/// Returns the extent of what [`convert`] would do.
pub fn count(dir: LowerDirectory, form: DirectoryForm) -> Result<ConversionReport, ConvertError> {
    let mut unheard = |_, _| {};
    let (_lock, work) = Conversion::new(dir, form, None, &mut unheard)?;
    work.count()
}

/// Returns whether a directory without the bit has the contents of a managed one, as a copy without modes
/// has: at least two buckets, in which everything belongs there, and no articles beside them.
fn has_lost_mark(dir: &LowerDirectory) -> LowerResult<bool> {
    if dir.is_managed() || dir.is_converting() {
        return Ok(false);
    }
    let top = listing::all(dir, OsStr::new("."))?;
    if top.iter().any(|entry| !is_dir(entry) && bucket::is_article(entry.name.as_bytes())) {
        return Ok(false);
    }
    let mut filled = 0;
    for path in listing::bucket_paths(dir)? {
        let entries = listing::all(dir, &path)?;
        if !entries.iter().all(|entry| listing::is_visible(dir, &path, &entry.name)) {
            return Ok(false);
        }
        filled += usize::from(!entries.is_empty());
    }
    Ok(filled >= 2)
}

fn is_dir(entry: &LowerEntry) -> bool {
    entry.kind == FileType::Directory
}

/// Checks that subdirectories can be distinguished from buckets.
pub fn check(dir: &LowerDirectory, form: DirectoryForm) -> Result<(), ConvertError> {
    if dir.is_converting() {
        return Ok(());
    }
    let top = listing::all(dir, OsStr::new("."))?;
    let has_name_of_bucket =
        |entry: &&LowerEntry| is_dir(entry) && dir.scheme.is_first_level(entry.name.as_bytes());
    let is_level_of_any = |entry: &&LowerEntry| {
        is_dir(entry) && BucketScheme::ALL.iter().any(|scheme| scheme.is_level(entry.name.as_bytes()))
    };
    let alien = |mut entries: std::slice::Iter<'_, LowerEntry>, is_alien: &dyn Fn(&&LowerEntry) -> bool| {
        let alien = entries.find(is_alien).map(|entry| entry.name.clone());
        alien.map_or(Ok(()), |name| Err(ConvertError::OtherScheme(dir.scheme, name)))
    };
    let mut names: Vec<OsString> = Vec::new();
    match (dir.is_managed(), form) {
        (false, DirectoryForm::Managed) if !has_lost_mark(dir)? => {
            names.extend(top.iter().filter(has_name_of_bucket).map(|entry| entry.name.clone()));
        }
        (true, DirectoryForm::Managed) => {
            alien(top.iter(), &|entry| is_level_of_any(entry) && !has_name_of_bucket(entry))?;
        }
        (true, DirectoryForm::Flat) => {
            alien(top.iter(), &|entry| is_level_of_any(entry) && !has_name_of_bucket(entry))?;
            for path in listing::bucket_paths(dir)? {
                let entries = listing::all(dir, &path)?;
                names.extend(entries.iter().filter(has_name_of_bucket).map(|entry| entry.name.clone()));
            }
        }
        (false, _) => {}
    }
    if names.is_empty() { Ok(()) } else { Err(ConvertError::Names(names)) }
}

struct Conversion<'a> {
    dir: LowerDirectory,
    form: DirectoryForm,
    /// Mount through which the directory is in use.
    tree: Option<&'a MountedTree>,
    progress: &'a mut dyn FnMut(u64, u64),
    done: ConversionReport,
    total: u64,
    twice: Vec<OsString>,
}

impl<'a> Conversion<'a> {
    /// Creates a conversion, with a lock that prevents others of the same directory.
    fn new(
        dir: LowerDirectory,
        form: DirectoryForm,
        tree: Option<&'a MountedTree>,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Result<(OwnedFd, Self), ConvertError> {
        let lock = lower::open_dir(&dir.fd, OsStr::new("."))?;
        match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(ConvertError::Busy),
            locked => locked?,
        }
        check(&dir, form)?;
        Ok((
            lock,
            Self {
                dir,
                form,
                tree,
                progress,
                done: ConversionReport::default(),
                total: 0,
                twice: Vec::new(),
            },
        ))
    }

    fn run(&mut self) -> Result<ConversionReport, ConvertError> {
        self.total = self.count()?.moved;
        match self.form {
            DirectoryForm::Managed => self.make_managed()?,
            DirectoryForm::Flat => self.make_flat()?,
        }
        self.done.buckets = listing::bucket_paths(&self.dir)?.len() as u64;
        fs::syncfs(lower::open_dir(&self.dir.fd, OsStr::new("."))?)?;
        Ok(self.done)
    }

    /// Takes a turn at the tree: no request is answered until it is dropped.
    fn turn(&self) -> Option<TreeTurn<'a>> {
        self.tree.map(MountedTree::turn)
    }

    /// Returns the extent of the conversion.
    fn count(&self) -> Result<ConversionReport, ConvertError> {
        let staged =
            if self.dir.is_converting() { listing::all(&self.dir, OsStr::new(MARKER))? } else { Vec::new() };
        let mut moved = staged.len() as u64;
        let mut buckets = std::collections::BTreeSet::new();
        match self.form {
            DirectoryForm::Managed => {
                for entry in self.outside()?.iter().chain(&staged) {
                    let others = is_dir(entry) || !bucket::is_article(entry.name.as_bytes());
                    let bucket = self.dir.scheme.bucket(if others { b"" } else { entry.name.as_bytes() });
                    buckets.insert(bucket);
                }
                moved += self.outside()?.len() as u64;
            }
            DirectoryForm::Flat if self.has_buckets()? => {
                for path in listing::bucket_paths(&self.dir)? {
                    moved += listing::all(&self.dir, &path)?.len() as u64;
                }
            }
            DirectoryForm::Flat => {}
        }
        Ok(ConversionReport { moved, buckets: buckets.len() as u64 })
    }

    /// Returns whether entries may be in buckets.
    fn has_buckets(&self) -> LowerResult<bool> {
        Ok(self.dir.is_managed() || self.dir.is_converting() || has_lost_mark(&self.dir)?)
    }

    /// Returns the entries that are not in a bucket.
    fn outside(&self) -> LowerResult<Vec<LowerEntry>> {
        let is_own =
            |entry: &LowerEntry| is_dir(entry) && self.dir.scheme.is_first_level(entry.name.as_bytes());
        let top = listing::all(&self.dir, OsStr::new("."))?;
        Ok(top.into_iter().filter(|entry| entry.name != MARKER && !is_own(entry)).collect())
    }

    fn begin(&self) -> LowerResult<()> {
        let _turn = self.turn();
        if let Some(tree) = self.tree {
            tree.listings.keep(lower::key(&self.dir.stat))?;
        }
        match fs::mkdirat(&self.dir.fd, MARKER, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
        failpoint::reached("convert");
        Ok(())
    }

    /// Sets or clears the bit.
    fn mark(&mut self, managed: bool) -> LowerResult<()> {
        let stat = lower::stat_fd(&self.dir.fd)?;
        let rest = stat.stx_mode & 0o7777 & !lower::MANAGED;
        let mode = if managed { rest | lower::MANAGED } else { rest };
        fs::chmod(lower::path_of(self.dir.fd.as_fd()), Mode::from_raw_mode(u32::from(mode)))?;
        self.dir = LowerDirectory::new(self.dir.fd.clone(), self.dir.scheme)?;
        failpoint::reached("convert");
        Ok(())
    }

    /// Moves an entry from one place to another that must be free.
    fn move_entry(&mut self, from: &OsStr, name: &OsStr, to: &OsStr) -> LowerResult<()> {
        let dir = &self.dir;
        let turn = self.turn();
        let moved =
            dir.with_bucket(to, |to| fs::renameat_with(&dir.fd, from, &dir.fd, to, RenameFlags::NOREPLACE));
        drop(turn);
        match moved {
            Err(Errno::EXIST) => self.twice.push(name.to_owned()),
            // Another process has removed it.
            Err(Errno::NOENT) => {}
            moved => {
                moved?;
                // An entry that waits in the marker for its place is counted when it gets there.
                if !Path::new(to).starts_with(MARKER) {
                    self.done.moved += 1;
                }
                (self.progress)(self.done.moved.min(self.total), self.total);
                failpoint::reached("convert");
            }
        }
        Ok(())
    }

    fn make_managed(&mut self) -> Result<(), ConvertError> {
        if self.dir.is_managed() && !self.dir.is_converting() && self.outside()?.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let turn = self.turn();
        self.mark(true)?;
        drop(turn);
        for _ in 0..PASSES_MAX {
            let outside = self.outside()?;
            let has_name_of_bucket =
                |entry: &&LowerEntry| self.dir.scheme.is_first_level(entry.name.as_bytes());
            let (first, rest) = outside.iter().partition::<Vec<_>, _>(has_name_of_bucket);
            for entry in first {
                self.move_entry(&entry.name, &entry.name, &lower::below(MARKER, &entry.name))?;
            }
            for entry in rest {
                let place = self.dir.place(&entry.name, is_dir(entry))?;
                self.move_entry(&entry.name, &entry.name, &place)?;
            }
            for entry in listing::all(&self.dir, OsStr::new(MARKER))? {
                let place = self.dir.place(&entry.name, is_dir(&entry))?;
                self.move_entry(&lower::below(MARKER, &entry.name), &entry.name, &place)?;
            }
            if self.ends()? {
                return Ok(());
            }
        }
        Err(ConvertError::Busy)
    }

    fn make_flat(&mut self) -> Result<(), ConvertError> {
        if !self.has_buckets()? {
            return Ok(());
        }
        self.begin()?;
        for _ in 0..PASSES_MAX {
            self.empty_buckets()?;
            let turn = self.turn();
            match naming::remove_buckets(&self.dir) {
                // An entry was added meanwhile.
                Err(Errno::NOTEMPTY | Errno::EXIST) => continue,
                removed => removed?,
            }
            if self.dir.is_managed() {
                self.mark(false)?;
                continue;
            }
            drop(turn);
            for entry in listing::all(&self.dir, OsStr::new(MARKER))? {
                self.move_entry(&lower::below(MARKER, &entry.name), &entry.name, &entry.name)?;
            }
            if self.ends()? {
                return Ok(());
            }
        }
        Err(ConvertError::Busy)
    }

    /// Moves all entries out of the buckets.
    fn empty_buckets(&mut self) -> Result<(), ConvertError> {
        for path in listing::bucket_paths(&self.dir)? {
            for entry in listing::all(&self.dir, &path)? {
                let from = lower::join(&path, &entry.name);
                let name = entry.name.as_os_str();
                let to = if self.dir.scheme.is_first_level(name.as_bytes()) {
                    lower::below(MARKER, name)
                } else {
                    name.to_owned()
                };
                self.move_entry(&from, name, &to)?;
            }
        }
        if !self.twice.is_empty() {
            return Err(ConvertError::Twice(std::mem::take(&mut self.twice)));
        }
        Ok(())
    }

    /// Removes the marker if nothing is left to do.
    fn ends(&mut self) -> Result<bool, ConvertError> {
        if !self.twice.is_empty() {
            return Err(ConvertError::Twice(std::mem::take(&mut self.twice)));
        }
        let _turn = self.turn();
        if self.form == DirectoryForm::Managed && !self.outside()?.is_empty() {
            return Ok(false);
        }
        failpoint::reached("convert");
        match fs::unlinkat(&self.dir.fd, MARKER, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            removed => Ok(removed.map(|()| true)?),
        }
    }
}
