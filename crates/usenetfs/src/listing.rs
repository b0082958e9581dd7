//! Listing a directory: in order, restartable at every entry, without holding it in memory.
//!
//! A managed directory is listed in the paper's order: `.`, `..`, the entries of `aaa`, then the buckets 000,
//! 001 to 999. The lower file system returns a position after each entry; since such a position takes 64
//! bits, an entry's own position is its number in this listing, and a table maps it to the bucket and the
//! position in it (16 bytes an entry while the directory is open). Other directories use the lower positions.
//! Source: UFS-08.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use fuser::FileType;
use lock_order::{Innermost, Ordered};
use netnews::bucket;
use rustix::fs::{self, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::directory::{LowerDirectory, MARKER};
use crate::lower::{self, FileKey, LowerResult, rank};

/// Size of the buffer for entries, in bytes.
const BUFFER_BYTES: usize = 32 * 1024;
/// Number of positions of `.` and `..`.
const DOTS: u64 = 2;

/// A directory entry.
#[derive(Debug, Clone)]
pub struct LowerEntry {
    /// Lower inode number.
    pub inode: u64,
    /// File type.
    pub kind: FileType,
    /// Name of the entry.
    pub name: OsString,
    /// Position at which the listing continues after it.
    pub next: u64,
}

/// A lower directory that is being read.
struct DirectoryReader {
    fd: OwnedFd,
    waiting: VecDeque<LowerEntry>,
}

impl DirectoryReader {
    fn open(dir: &LowerDirectory, path: &OsStr) -> LowerResult<Self> {
        Ok(Self { fd: lower::open_dir(&dir.fd, path)?, waiting: VecDeque::new() })
    }

    fn seek(&mut self, position: u64) -> LowerResult<()> {
        self.waiting.clear();
        fs::seek(&self.fd, SeekFrom::Start(position)).map(drop)
    }

    fn next(&mut self) -> LowerResult<Option<LowerEntry>> {
        if self.waiting.is_empty() {
            self.fill()?;
        }
        Ok(self.waiting.pop_front())
    }

    fn fill(&mut self) -> LowerResult<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut raw = RawDir::new(&self.fd, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            let kind = match entry.file_type() {
                fs::FileType::Unknown => lower::stat_at(&self.fd, &name).map(|stat| lower::kind(&stat)).ok(),
                kind => Some(lower::kind_of(kind)),
            };
            let (inode, next) = (entry.ino(), entry.next_entry_cookie());
            // Entries that were removed meanwhile are left out.
            self.waiting.extend(kind.map(|kind| LowerEntry { inode, kind, name, next }));
            if raw.is_buffer_empty() && !self.waiting.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// Source of a listing.
enum ListingSource {
    /// The lower directory.
    Plain(DirectoryReader),
    /// Buckets, one after the other.
    Buckets(BucketListing),
    /// Memory, while the directory is being converted.
    Whole(Vec<LowerEntry>),
}

struct BucketListing {
    paths: Vec<OsString>,
    at: usize,
    reader: Option<DirectoryReader>,
    /// Bucket of each listed entry, and the position after it.
    listed: Vec<(u32, u64)>,
    /// Next entry, if it was read already.
    waiting: Option<LowerEntry>,
}

/// A directory that is open for listing.
pub struct DirectoryListing {
    dir: LowerDirectory,
    /// Inode numbers of `.` and `..`.
    dots: [u64; 2],
    form: ListingSource,
    /// Position after the last entry that was taken.
    position: u64,
    /// Position at which the last read began, and the entries that it took: a caller with a small buffer asks
    /// for some of them again.
    recent: (u64, Vec<LowerEntry>),
    /// Recent and remaining entries, if a conversion began meanwhile.
    kept: Option<KeptEntries>,
}

/// Entries from a position to the end.
struct KeptEntries {
    begin: u64,
    entries: Vec<LowerEntry>,
    /// Index of the next entry.
    at: usize,
}

impl KeptEntries {
    fn next(&mut self) -> Option<LowerEntry> {
        let entry = self.entries.get(self.at).cloned()?;
        self.at += 1;
        Some(entry)
    }

    /// Continues at a position; returns false if that is not among the entries.
    fn seek(&mut self, position: u64) -> bool {
        let after = self.entries.iter().position(|entry| entry.next == position).map(|before| before + 1);
        let at = if position == self.begin { Some(0) } else { after };
        self.at = at.unwrap_or(self.at);
        at.is_some()
    }
}

/// An open listing.
pub type OpenListing = Arc<Ordered<DirectoryListing, { rank::LISTING }>>;

/// Open listings, by handle.
#[derive(Default)]
pub struct Listings {
    table: Innermost<ListingTable>,
}

#[derive(Default)]
struct ListingTable {
    open: HashMap<u64, OpenListing>,
    last: u64,
}

impl Listings {
    /// Adds a listing; returns its handle.
    pub fn add(&self, listing: DirectoryListing) -> u64 {
        let mut table = self.table.lock();
        table.last += 1;
        let handle = table.last;
        table.open.insert(handle, Arc::new(Ordered::new(listing)));
        handle
    }

    /// Returns the listing of a handle.
    pub fn get(&self, handle: u64) -> LowerResult<OpenListing> {
        self.table.lock().open.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Closes a listing.
    pub fn close(&self, handle: u64) {
        self.table.lock().open.remove(&handle);
    }

    /// Prepares for a conversion of this directory: listings of it that have begun continue from memory.
    pub fn keep(&self, dir: FileKey) -> LowerResult<()> {
        let open: Vec<_> = self.table.lock().open.values().cloned().collect();
        for listing in open {
            let mut listing = listing.lock();
            if lower::key(&listing.dir.stat) == dir {
                listing.keep()?;
            }
        }
        Ok(())
    }
}

impl DirectoryListing {
    /// Creates a listing from the beginning.
    pub fn new(dir: LowerDirectory, dots: [u64; 2]) -> LowerResult<Self> {
        let form = ListingSource::new(&dir)?;
        Ok(Self { dir, dots, form, position: 0, recent: (0, Vec::new()), kept: None })
    }

    /// Returns the directory.
    pub fn dir(&self) -> &LowerDirectory {
        &self.dir
    }

    /// Passes entries from a position on to `take` until it returns false for one, which is not consumed
    /// then.
    pub fn read(&mut self, from: u64, mut take: impl FnMut(&LowerEntry) -> bool) -> LowerResult<()> {
        if from != self.position || from == 0 {
            self.seek(from)?;
        }
        self.recent.0 = from;
        self.recent.1.clear();
        loop {
            let entry = match &mut self.kept {
                Some(kept) => kept.next(),
                None => self.next(self.position)?,
            };
            let Some(entry) = entry else { return Ok(()) };
            if !take(&entry) {
                self.put_back(entry);
                return Ok(());
            }
            self.position = entry.next;
            if self.kept.is_none() {
                self.recent.1.push(entry);
            }
        }
    }

    fn next(&mut self, position: u64) -> LowerResult<Option<LowerEntry>> {
        match &mut self.form {
            ListingSource::Plain(reader) => next_plain(reader, self.dots),
            ListingSource::Whole(entries) => Ok(next_whole(entries, position, self.dots)),
            ListingSource::Buckets(buckets) => buckets.next(&self.dir, position, self.dots),
        }
    }

    /// Reads the remaining entries into memory, if the listing has begun.
    fn keep(&mut self) -> LowerResult<()> {
        if self.position == 0 || self.kept.is_some() {
            return Ok(());
        }
        let (begin, mut entries) = std::mem::take(&mut self.recent);
        let (mut position, at) = (self.position, entries.len());
        while let Some(entry) = self.next(position)? {
            position = entry.next;
            entries.push(entry);
        }
        self.kept = Some(KeptEntries { begin, entries, at });
        Ok(())
    }

    fn put_back(&mut self, entry: LowerEntry) {
        if let Some(kept) = &mut self.kept {
            kept.at -= 1;
            return;
        }
        match &mut self.form {
            ListingSource::Plain(reader) => reader.waiting.push_front(entry),
            ListingSource::Buckets(buckets) => buckets.waiting = Some(entry),
            ListingSource::Whole(_) => {}
        }
    }

    fn seek(&mut self, position: u64) -> LowerResult<()> {
        if position != 0 && self.kept.as_mut().is_some_and(|kept| kept.seek(position)) {
            self.position = position;
            return Ok(());
        }
        self.kept = None;
        if position == 0 {
            self.dir = LowerDirectory::new(self.dir.fd.clone(), self.dir.scheme)?;
            self.form = ListingSource::new(&self.dir)?;
        }
        match &mut self.form {
            ListingSource::Plain(reader) if position != 0 => reader.seek(position)?,
            ListingSource::Buckets(buckets) => buckets.seek(&self.dir, position)?,
            ListingSource::Plain(_) | ListingSource::Whole(_) => {}
        }
        self.position = position;
        Ok(())
    }
}

fn next_plain(reader: &mut DirectoryReader, [own, parent]: [u64; 2]) -> LowerResult<Option<LowerEntry>> {
    while let Some(mut entry) = reader.next()? {
        match entry.name.as_bytes() {
            b"." => entry.inode = own,
            // A directory may be in a bucket of its parent.
            b".." => entry.inode = parent,
            name if name == MARKER.as_bytes() => continue,
            _ => {}
        }
        return Ok(Some(entry));
    }
    Ok(None)
}

fn dot(position: u64, dots: [u64; 2]) -> Option<LowerEntry> {
    let inode = *dots.get(usize::try_from(position).ok()?)?;
    let name = if position == 0 { "." } else { ".." };
    Some(LowerEntry { inode, kind: FileType::Directory, name: name.into(), next: position + 1 })
}

fn next_whole(entries: &[LowerEntry], position: u64, dots: [u64; 2]) -> Option<LowerEntry> {
    dot(position, dots).or_else(|| {
        let entry = entries.get(usize::try_from(position.checked_sub(DOTS)?).ok()?)?;
        Some(LowerEntry { next: position + 1, ..entry.clone() })
    })
}

impl ListingSource {
    fn new(dir: &LowerDirectory) -> LowerResult<Self> {
        Ok(if dir.is_converting() {
            Self::Whole(everything(dir)?)
        } else if dir.is_managed() {
            let paths = bucket_paths(dir)?;
            Self::Buckets(BucketListing { paths, at: 0, reader: None, listed: Vec::new(), waiting: None })
        } else {
            Self::Plain(DirectoryReader::open(dir, OsStr::new("."))?)
        })
    }
}

impl BucketListing {
    fn next(
        &mut self,
        dir: &LowerDirectory,
        position: u64,
        dots: [u64; 2],
    ) -> LowerResult<Option<LowerEntry>> {
        if let Some(entry) = dot(position, dots).or_else(|| self.waiting.take()) {
            return Ok(Some(entry));
        }
        loop {
            let Some(path) = self.paths.get(self.at) else { return Ok(None) };
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => match DirectoryReader::open(dir, path) {
                    Ok(reader) => self.reader.insert(reader),
                    Err(Errno::NOENT | Errno::NOTDIR) => {
                        self.at += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            while let Some(mut entry) = reader.next()? {
                if is_visible(dir, path, &entry.name) {
                    let place = (self.at as u32, entry.next);
                    entry.next = self.number_of(place, position);
                    return Ok(Some(entry));
                }
            }
            self.reader = None;
            self.at += 1;
        }
    }

    /// Returns the number of an entry, which it keeps when it is listed again from the one before it.
    fn number_of(&mut self, place: (u32, u64), position: u64) -> u64 {
        let again = usize::try_from(position - DOTS).ok().and_then(|at| self.listed.get(at));
        if again == Some(&place) {
            return position + 1;
        }
        if self.listed.last() != Some(&place) {
            self.listed.push(place);
        }
        self.listed.len() as u64 + DOTS
    }

    fn seek(&mut self, dir: &LowerDirectory, position: u64) -> LowerResult<()> {
        (self.reader, self.waiting, self.at) = (None, None, 0);
        let Some(index) = position.checked_sub(DOTS + 1) else { return Ok(()) };
        let place = usize::try_from(index).ok().and_then(|index| self.listed.get(index));
        let (at, next) = *place.ok_or(Errno::INVAL)?;
        self.at = at as usize;
        let Some(path) = self.paths.get(self.at) else { return Ok(()) };
        match DirectoryReader::open(dir, path) {
            Ok(mut reader) => {
                reader.seek(next)?;
                self.reader = Some(reader);
            }
            Err(Errno::NOENT) => self.at += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns whether the name would be found at this path.
pub fn is_visible(dir: &LowerDirectory, path: &OsStr, name: &OsStr) -> bool {
    if name == "." || name == ".." {
        return false;
    }
    let own = dir.scheme.bucket(name.as_bytes());
    path == own.as_str() || path == bucket::OTHERS && bucket::is_article(name.as_bytes())
}

/// Returns the buckets of a managed directory, in the order in which they are listed.
pub fn bucket_paths(dir: &LowerDirectory) -> LowerResult<Vec<OsString>> {
    let is_level =
        |entry: &LowerEntry| entry.kind == FileType::Directory && dir.scheme.is_level(entry.name.as_bytes());
    let mut paths = Vec::new();
    let mut others = None;
    for entry in all(dir, OsStr::new("."))? {
        if entry.name == bucket::OTHERS && entry.kind == FileType::Directory {
            others = Some(entry.name);
        } else if is_level(&entry) && dir.scheme.levels() == 1 {
            paths.push(entry.name);
        } else if is_level(&entry) {
            let inner = all(dir, &entry.name)?.into_iter().filter(is_level);
            paths.extend(inner.map(|second| lower::join(&entry.name, &second.name)));
        }
    }
    paths.sort_unstable();
    Ok(others.into_iter().chain(paths).collect())
}

/// Returns all entries of a lower directory but `.` and `..`.
pub fn all(dir: &LowerDirectory, path: &OsStr) -> LowerResult<Vec<LowerEntry>> {
    let mut reader = DirectoryReader::open(dir, path)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        if entry.name != "." && entry.name != ".." {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Returns all entries of a directory that is being converted, read at all places between which they may
/// move.
fn everything(dir: &LowerDirectory) -> LowerResult<Vec<LowerEntry>> {
    let mut seen = BTreeSet::new();
    let mut entries = Vec::new();
    let mut add = |found: LowerResult<Vec<LowerEntry>>, in_bucket: Option<&OsStr>| -> LowerResult<()> {
        let found = match found {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            found => found?,
        };
        for entry in found {
            let hidden = in_bucket.is_some_and(|path| !is_visible(dir, path, &entry.name));
            if !hidden && seen.insert(entry.name.clone()) {
                entries.push(entry);
            }
        }
        Ok(())
    };
    let is_own = |entry: &LowerEntry| {
        let first = dir.scheme.is_first_level(entry.name.as_bytes());
        entry.name == MARKER || first && entry.kind == FileType::Directory
    };
    let top = || all(dir, OsStr::new(".")).map(|found| found.into_iter().filter(|e| !is_own(e)).collect());
    let staged = || all(dir, OsStr::new(MARKER));
    add(top(), None)?;
    add(staged(), None)?;
    for path in bucket_paths(dir)? {
        add(all(dir, &path), Some(&path))?;
    }
    add(staged(), None)?;
    add(top(), None)?;
    Ok(entries)
}
