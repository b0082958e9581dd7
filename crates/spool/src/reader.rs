//! [`SpoolReader`]: look-ups and reads, repeated after unreadable pages of mapped files.
//!
//! Lost pages show zeros, which mean "overwritten" and "never seen", so they are rebuilt before a look-up
//! reports that something is missing (decision 30).

use crate::index::fold::SharedIndexes;
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::write::locked::LockedWriter;
use disk::ReadMode;
use spool_base::error::ReadError;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use std::io;
use std::sync::atomic::Ordering;

/// Looks up and reads articles of an open spool.
#[derive(Debug, Clone, Copy)]
pub struct SpoolReader<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
}

impl<'s> SpoolReader<'s> {
    pub(crate) fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter) -> Self {
        Self { shared, writer }
    }

    /// Looks up a Message-ID in the history.
    pub fn lookup(&self, key: &ArticleKey) -> Lookup {
        loop {
            let mended = self.shared.lost_pages.load(Ordering::Acquire);
            let found = match self.shared.lookup(key) {
                Lookup::Present(token) if self.shared.hidden.covers(key, &token) => Lookup::Hidden(token),
                found => found,
            };
            // If the pages cannot be rebuilt, the spool has stopped and reports why.
            if !matches!(found, Lookup::Unknown | Lookup::Gone)
                || self.shared.disk.lost_pages() == mended
                || self.writer.lock().mend_lost_pages().is_err()
            {
                return found;
            }
        }
    }

    /// Reads an article; see [`crate::Spool::read`].
    pub fn read(
        &self,
        token: &Token,
        expect: Option<&ArticleKey>,
        patience: ReadMode,
        out: &mut ArticleBuf,
    ) -> Result<bool, ReadError> {
        self.read_whole(patience, out, |out| self.shared.read_shown(token, expect, patience, out))
    }

    /// Calls `read`, and again if the article is missing and pages of mapped files were lost or rebuilt
    /// meanwhile; an error if the pages cannot be rebuilt.
    pub(crate) fn read_whole(
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
