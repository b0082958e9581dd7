//! Look-ups repeated after unreadable pages of mapped files: lost pages show zeros, which mean "overwritten"
//! and "never seen", so they are rebuilt before a look-up reports that something is missing (decision 30).

use super::Spool;
use crate::base::error::ReadError;
use crate::read::article::ArticleBuf;
use disk::ReadMode;
use std::io;
use std::sync::atomic::Ordering;

impl Spool {
    /// Calls `ask`, and repeats it for as long as something is missing from the answer and pages of mapped
    /// files were lost or rebuilt meanwhile.
    pub(super) fn ask_whole_maps<T>(&self, is_missing: impl Fn(&T) -> bool, ask: impl Fn() -> T) -> T {
        loop {
            let mended = self.shared.lost_pages.load(Ordering::Acquire);
            let answer = ask();
            // If the pages cannot be rebuilt, the spool has stopped and reports why.
            if !is_missing(&answer)
                || self.shared.disk.lost_pages() == mended
                || self.writer.lock().mend_lost_pages().is_err()
            {
                return answer;
            }
        }
    }

    /// Like [`Spool::ask_whole_maps`], for reading an article; an error if the pages cannot be rebuilt.
    pub(super) fn read_whole_maps(
        &self,
        patience: ReadMode,
        out: &mut ArticleBuf,
        read: impl Fn(&mut ArticleBuf) -> Result<bool, ReadError>,
    ) -> Result<bool, ReadError> {
        loop {
            let mended = self.shared.lost_pages.load(Ordering::Acquire);
            let found = read(out)?;
            if found || self.shared.disk.lost_pages() == mended {
                return Ok(found);
            }
            if patience == ReadMode::CacheOnly {
                return Err(ReadError::WouldBlock);
            }
            let mended = self.writer.lock().mend_lost_pages();
            mended.map_err(|trouble| ReadError::Failed(io::Error::other(trouble.text)))?;
        }
    }
}
