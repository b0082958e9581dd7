//! A directory of the lower tree: the translation of names to the positions of its entries.
//!
//! In a managed directory a name is in its bucket ([`netnews::bucket`]); in others it is where it appears to
//! be. A subdirectory whose name consists of digits, such as that of alt.2600, is made in `aaa`, where the
//! storage method `bucketed` has it; one in a bucket is found as well. While a directory is converted
//! ([`MARKER`]) its entries are at one of several places. Sources: UFS-02 to UFS-06.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use netnews::bucket::{self, BucketScheme};
use rustix::fs::{self, AtFlags, Gid, Mode, Statx, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::failpoint;
use crate::lower::{self, LowerResult};

/// Name of a directory that exists below another one during its conversion, and has the entries whose names
/// buckets need. The mount never shows it.
pub const MARKER: &str = ".usenetfs-converting";

/// Maximum number of times that conversions move an entry while it is changed.
pub const MOVES_MAX: usize = 4;
/// Maximum number of times that a bucket is made which a conversion removes because it is empty.
const BUCKET_TRIES: usize = 8;

/// A directory in its current state.
#[derive(Debug, Clone)]
pub struct LowerDirectory {
    /// Descriptor of the directory.
    pub fd: Arc<OwnedFd>,
    /// Attributes of the directory.
    pub stat: Statx,
    /// Scheme of its buckets, if it is managed.
    pub scheme: BucketScheme,
}

/// A directory entry.
#[derive(Debug)]
pub struct FoundEntry {
    /// Path relative to the directory.
    pub path: OsString,
    /// Attributes of the entry.
    pub stat: Statx,
}

impl LowerDirectory {
    /// Reads the directory that `fd` refers to.
    pub fn new(fd: Arc<OwnedFd>, scheme: BucketScheme) -> LowerResult<Self> {
        let stat = lower::stat_fd(&fd)?;
        Ok(Self { fd, stat, scheme })
    }

    /// Returns whether the directory is managed.
    pub fn is_managed(&self) -> bool {
        lower::is_managed(&self.stat)
    }

    /// Finds the entry of this name.
    pub fn find(&self, name: &OsStr) -> LowerResult<FoundEntry> {
        if name == MARKER {
            return Err(Errno::NOENT);
        }
        let found = if self.is_managed() { self.find_in_bucket(name) } else { self.at(name.to_owned()) };
        match found {
            Err(Errno::NOENT | Errno::NOTDIR) if self.is_converting() => self.find_anywhere(name),
            found => found,
        }
    }

    fn at(&self, path: OsString) -> LowerResult<FoundEntry> {
        let stat = lower::stat_at(&self.fd, &path)?;
        Ok(FoundEntry { path, stat })
    }

    fn find_in_bucket(&self, name: &OsStr) -> LowerResult<FoundEntry> {
        match self.at(self.place_in_bucket(name)) {
            Err(Errno::NOENT | Errno::NOTDIR) if bucket::is_article(name.as_bytes()) => {
                self.at(lower::below(bucket::OTHERS, name))
            }
            found => found,
        }
    }

    /// Looks in all places between which a conversion may move it meanwhile.
    fn find_anywhere(&self, name: &OsStr) -> LowerResult<FoundEntry> {
        let staged = || self.at(lower::below(MARKER, name));
        let top = || match self.at(name.to_owned()) {
            Ok(found) if self.scheme.is_first_level(name.as_bytes()) && lower::is_dir(&found.stat) => {
                Err(Errno::NOENT)
            }
            found => found,
        };
        top()
            .or_else(|_| staged())
            .or_else(|_| self.find_in_bucket(name))
            .or_else(|_| staged())
            .or_else(|_| top())
            .map_err(|error| if error == Errno::NOTDIR { Errno::NOENT } else { error })
    }

    /// Returns whether the directory is being converted.
    pub fn is_converting(&self) -> bool {
        lower::stat_at(&self.fd, OsStr::new(MARKER)).is_ok_and(|stat| lower::is_dir(&stat))
    }

    fn place_in_bucket(&self, name: &OsStr) -> OsString {
        lower::below(self.scheme.bucket(name.as_bytes()).as_str(), name)
    }

    /// Returns the path of a new entry.
    pub fn place(&self, name: &OsStr, is_dir: bool) -> LowerResult<OsString> {
        Ok(match self.is_managed() {
            _ if name == MARKER => return Err(Errno::PERM),
            false => name.to_owned(),
            true if is_dir => lower::below(bucket::OTHERS, name),
            true => self.place_in_bucket(name),
        })
    }

    /// Calls `make` for the path of a new entry, and creates the bucket that it needs.
    pub fn with_bucket<T>(&self, place: &OsStr, make: impl Fn(&OsStr) -> LowerResult<T>) -> LowerResult<T> {
        let mut made = make(place);
        for _ in 0..BUCKET_TRIES {
            if !self.is_managed() || !matches!(made, Err(Errno::NOENT)) {
                break;
            }
            match self.make_bucket(place) {
                // A conversion has just removed it.
                Err(Errno::NOENT) => {}
                bucket => {
                    bucket?;
                    made = make(place);
                }
            }
        }
        match made {
            // An entry that is still to be moved has the bucket's name.
            Err(Errno::NOTDIR) if self.is_managed() && self.is_converting() => {
                let name = place.as_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
                make(&lower::below(MARKER, OsStr::from_bytes(name)))
            }
            made => made,
        }
    }

    /// Makes the directories above a path: with the permissions of this one, never with its bit.
    fn make_bucket(&self, place: &OsStr) -> LowerResult<()> {
        let mode = Mode::from_raw_mode(u32::from(self.stat.stx_mode & 0o777));
        let bytes = place.as_bytes();
        for end in bytes.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at) {
            let level = OsStr::from_bytes(bytes.get(..end).unwrap_or_default());
            failpoint::reached("step");
            match fs::mkdirat(&self.fd, level, mode) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            failpoint::reached("step");
            self.give_to(level, self.stat.stx_uid, self.stat.stx_gid)?;
        }
        Ok(())
    }

    /// Changes the owner of a new entry at a path, if necessary; returns its attributes.
    pub fn give_to(&self, path: &OsStr, user: u32, group: u32) -> LowerResult<Statx> {
        let stat = lower::stat_at(&self.fd, path)?;
        if (stat.stx_uid, stat.stx_gid) == (user, group) {
            return Ok(stat);
        }
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        fs::chownat(&self.fd, path, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        lower::stat_at(&self.fd, path)
    }

    /// Returns the group of a new entry, made by a process of group `group`.
    pub fn group_of_new(&self, group: u32) -> u32 {
        if self.stat.stx_mode & lower::INHERITED_GROUP == 0 { group } else { self.stat.stx_gid }
    }

    /// Updates the times after a name was added or removed: those of a managed directory do not change
    /// otherwise.
    pub fn touch(&self) {
        failpoint::reached("step");
        if self.is_managed() {
            let omit = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT };
            let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
            let times = Timestamps { last_access: omit, last_modification: now };
            // The name was changed all the same.
            let _unchanged = fs::utimensat(&self.fd, c"", &times, AtFlags::EMPTY_PATH);
        }
    }

    /// Returns the number of links of a flat directory: two, and one for each subdirectory.
    pub fn links(&self) -> u32 {
        if !self.is_managed() || self.stat.stx_nlink < 2 {
            return self.stat.stx_nlink;
        }
        lower::stat_at(&self.fd, OsStr::new(bucket::OTHERS)).map_or(2, |stat| stat.stx_nlink)
    }
}
