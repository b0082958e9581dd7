//! [`ReaderContext`]: the parts of an open journal that its readers use.

use super::follow::FollowState;
use super::known::KnownFiles;
use super::mark::JournalMark;
use super::sync_set::SyncSet;
use super::tail::TailStart;
use super::{JournalReader, row};
use disk::Disk;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Shared state of the readers of an open journal.
#[derive(Debug, Clone)]
pub(super) struct ReaderContext {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) follow: Arc<FollowState>,
    pub(super) set: Arc<SyncSet>,
    /// Names of the files that must exist.
    pub(super) known: Arc<KnownFiles>,
    /// A power cut may have replaced rows that were not durable.
    pub(super) power_lost: bool,
    /// The last run ended without closing, perhaps during a write.
    pub(super) crashed: bool,
}

impl ReaderContext {
    /// Returns the mark at which a new reader begins.
    pub fn place_of(&self, start: TailStart) -> io::Result<JournalMark> {
        let (end, next) = self.follow.end();
        if start == TailStart::Now {
            return Ok(JournalMark { position: end, sequence: Some(next) });
        }
        loop {
            match self.oldest(end) {
                // A checkpoint taken before this reader began has just removed the file.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                oldest => {
                    let (position, sequence) = oldest?;
                    return Ok(JournalMark { position, sequence: sequence.or(Some(next)) });
                }
            }
        }
    }

    /// Returns the position of the oldest row that is kept, and the sequence number of the first article from
    /// there up to `end`, if there is one.
    fn oldest(&self, end: u64) -> io::Result<(u64, Option<u64>)> {
        let oldest = JournalReader::open(&self.disk, &self.dir, None)?.oldest().unwrap_or_default();
        let mut reader = JournalReader::open_to(&self.disk, &self.dir, oldest, end)?;
        while let Some((_, payload)) = reader.next_row()? {
            if let Some(sequence) = row::sequence_of(payload) {
                return Ok((oldest, Some(sequence)));
            }
        }
        Ok((oldest, None))
    }
}
