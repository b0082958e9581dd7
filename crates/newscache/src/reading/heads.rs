//! Header lines of articles that are cached without their bodies, since no reader has asked for more.
//!
//! They are stored as articles of another name, so they are kept and removed like articles. Called by the
//! crate's users.

use std::io;

use disk::ReadMode;

use crate::cache::Cache;
use crate::reading::group::{CacheGroup, GroupOutcome, NumberLookup};

/// Returns the name under which an article's header lines are stored: unlike a Message-ID it does not begin
/// with `<`.
pub(crate) fn name_of_head(id: &[u8]) -> Vec<u8> {
    [b"HEAD ", id].concat()
}

impl Cache {
    /// Appends the header lines of an article that were stored alone.
    ///
    /// # Errors
    /// Errors of the disk; without patience `WouldBlock` if the disk must be waited for.
    pub fn head(&self, id: &[u8], patience: ReadMode, into: &mut Vec<u8>, now: u64) -> io::Result<bool> {
        let mut bytes = Vec::new();
        let found = self.find(&name_of_head(id), patience, &mut bytes, now)?;
        Ok(found.map_or(Ok(None), |found| found.whole(&bytes, into))?.is_some())
    }

    /// Stores the header lines of an article, with the empty line; `origin` is the upstream that they came
    /// from.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn put_head(&self, origin: &str, id: &[u8], head: &[u8], now: u64) -> io::Result<()> {
        self.put_by_id(origin, &name_of_head(id), head, now)
    }

    /// Returns whether the header lines of an article seem to be cached, without reading them.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn has_head(&self, id: &[u8], now: u64) -> io::Result<bool> {
        self.holds(&name_of_head(id), None, now)
    }
}

impl CacheGroup {
    /// Appends the header lines of an article that were stored alone; returns its Message-ID.
    ///
    /// # Errors
    /// Errors of the disk; without patience `WouldBlock` if the disk must be waited for.
    pub fn head(
        &self,
        number: u64,
        patience: ReadMode,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let NumberLookup::Elsewhere(id, _) = self.locate(number, patience)? else { return Ok(None) };
        Ok(self.cache().head(&id, patience, into, now)?.then_some(id))
    }

    /// Stores the header lines, with the empty line, that upstream sent for a number. If another article was
    /// known under it, the group is reset.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn put_head(&self, number: u64, id: &[u8], head: &[u8], now: u64) -> io::Result<GroupOutcome> {
        let change = self.check_id(number, id, now)?;
        if self.id_of(number)?.is_none() {
            self.put_link(number, id, now)?;
        }
        self.cache().put_head(self.origin(), id, head, now)?;
        Ok(change)
    }
}
