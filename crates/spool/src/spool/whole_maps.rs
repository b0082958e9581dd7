//! Before readers are told that something is not here: pages of mapped files that could not be read show
//! zeros, which mean "overwritten" and "never seen", and are rebuilt first (decision 30).

use super::Spool;
use crate::base::error::ReadError;
use crate::read::article::ArticleBuf;
use disk::Patience;
use std::io;
use std::sync::atomic::Ordering;

impl Spool {
    /// Asks, and asks again for as long as the answer says that something is missing and pages of mapped
    /// files were lost or rebuilt meanwhile.
    pub(super) fn ask_whole_maps<T>(&self, is_missing: impl Fn(&T) -> bool, ask: impl Fn() -> T) -> T {
        loop {
            let mended = self.shared.lost_pages.load(Ordering::Acquire);
            let answer = ask();
            // If they cannot be rebuilt the spool has stopped, and says why.
            if !is_missing(&answer)
                || self.shared.disk.lost_pages() == mended
                || self.writer.lock().mend_lost_pages().is_err()
            {
                return answer;
            }
        }
    }

    /// As [`Spool::ask_whole_maps`], to read an article; an error if the pages cannot be rebuilt.
    pub(super) fn read_whole_maps(
        &self,
        patience: Patience,
        out: &mut ArticleBuf,
        read: impl Fn(&mut ArticleBuf) -> Result<bool, ReadError>,
    ) -> Result<bool, ReadError> {
        loop {
            let mended = self.shared.lost_pages.load(Ordering::Acquire);
            let found = read(out)?;
            if found || self.shared.disk.lost_pages() == mended {
                return Ok(found);
            }
            if patience == Patience::CacheOnly {
                return Err(ReadError::WouldBlock);
            }
            let mended = self.writer.lock().mend_lost_pages();
            mended.map_err(|trouble| ReadError::Failed(io::Error::other(trouble.text)))?;
        }
    }
}
