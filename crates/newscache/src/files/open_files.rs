//! Open files, so that the next read of one neither opens it nor takes a lock.
//!
//! Each unit has one place, which it shares with others; the last opened file is there. Called by `cache`.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use disk::DiskFile;

use crate::base::packed::CacheFile;

/// Maximum number of open files, and the least.
const PLACES_MAX: u64 = 2048;
const PLACES_MIN: u64 = 16;

/// Returns how many files a cache keeps open at most, in a process that may have this many: the others are
/// for connections.
pub fn open_files_max(limit: Option<u64>) -> usize {
    limit.map_or(PLACES_MAX, |limit| (limit / 8).clamp(PLACES_MIN, PLACES_MAX)) as usize
}

/// An open file.
#[derive(Debug)]
struct OpenUnit {
    unit: u32,
    file: CacheFile,
    open: Arc<dyn DiskFile>,
}

/// Table of open files.
#[derive(Debug)]
pub(crate) struct OpenFiles(Box<[ArcSwapOption<OpenUnit>]>);

impl OpenFiles {
    /// Creates a table for this many files.
    pub fn new(places: usize) -> Self {
        Self((0..places.max(1)).map(|_| ArcSwapOption::empty()).collect())
    }

    fn place(&self, unit: u32) -> Option<&ArcSwapOption<OpenUnit>> {
        self.0.get(unit as usize % self.0.len())
    }

    /// Returns the result of `work` for the file of a unit, if it is open.
    pub fn with<T>(
        &self,
        unit: u32,
        file: CacheFile,
        work: impl FnOnce(&Arc<dyn DiskFile>) -> T,
    ) -> Option<T> {
        let known = self.place(unit)?.load();
        let known = known.as_ref().filter(|known| known.unit == unit && known.file == file);
        known.map(|known| work(&known.open))
    }

    /// Adds an open file.
    pub fn put(&self, unit: u32, file: CacheFile, open: Arc<dyn DiskFile>) {
        if let Some(place) = self.place(unit) {
            place.store(Some(Arc::new(OpenUnit { unit, file, open })));
        }
    }

    /// Closes the file of a unit; with `file`, only if it is that one.
    pub fn close(&self, unit: u32, file: Option<CacheFile>) {
        let Some(place) = self.place(unit) else { return };
        let known = place.load();
        let is_it = known
            .as_ref()
            .is_some_and(|known| known.unit == unit && file.is_none_or(|file| known.file == file));
        if is_it {
            place.compare_and_swap(&known, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk, OpenMode, SimDisk};
    use std::path::Path;

    #[test]
    fn file_is_found_until_it_is_closed_or_replaced() {
        let disk = SimDisk::new();
        let open = disk.open(Path::new("/a"), OpenMode::Create).unwrap();
        const PLACES: usize = 40;
        let files = OpenFiles::new(PLACES);
        let file = |hash| CacheFile::Large(hash);
        let has = |unit, hash| files.with(unit, file(hash), |_| ()).is_some();
        files.put(7, file(1), open.clone());
        assert_eq!((has(7, 1), has(7, 2), has(8, 1)), (true, false, false));
        files.close(7, Some(file(2)));
        assert!(has(7, 1), "another file was closed");
        files.close(7 + PLACES as u32, None);
        assert!(has(7, 1), "another unit's file was closed");
        files.close(7, Some(file(1)));
        assert!(!has(7, 1));
        files.put(7, file(1), open.clone());
        files.close(7, None);
        assert!(!has(7, 1));
        (0..PLACES as u32 * 3).for_each(|unit| files.put(unit, file(1), open.clone()));
        assert_eq!(Arc::strong_count(&open), PLACES + 1);
        assert_eq!((has(7, 1), has(7 + 2 * PLACES as u32, 1)), (false, true));
    }

    #[test]
    fn most_descriptors_are_left_to_connections() {
        assert_eq!([None, Some(64), Some(1024), Some(1 << 20)].map(open_files_max), [2048, 16, 128, 2048]);
    }
}
