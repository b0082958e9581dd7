//! Pages of mapped files that could not be read when they were touched ([`disk::Mapping::lost`]):
//! usage bitmaps, history and its index. All of it can be recovered from elsewhere, except Message-IDs on a
//! page of the history log that were remembered without an article.
//!
//! Used while opening; by the writer, which checks whether the disk's count of lost pages has risen before it
//! accepts anything; and for readers, before a look-up reports that something is missing ([`crate::reader`]).
//! The caller is or holds the writer: nothing else stores to the mappings meanwhile.

use crate::index::fold::SharedIndexes;
use crate::write::commit::SpoolWriter;
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::token::MethodKind;
use spool_history::HistoryLookup;
use spool_methods::cnfs::Cycbuff;
use spool_methods::scan::Scan;
use spool_methods::{Cyclic, Volume};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use tracing::warn;

impl SpoolWriter {
    /// Repairs the unreadable pages of mapped files since the last call; returns how many there were.
    pub fn mend_lost_pages(&mut self) -> Result<u64, SpoolTrouble> {
        let shared = self.folds.shared.clone();
        if shared.disk.lost_pages() == shared.lost_pages.load(Ordering::Acquire) {
            return Ok(0);
        }
        // Writing one page of a truncated file turns those before it into holes, which read as zeros: all
        // unreadable pages must be detected first.
        touch_maps(&shared);
        let lost = shared.disk.lost_pages();
        let mended = mend_lost_pages(&shared).map_err(|e| {
            let text = format!("pages of mapped files can be neither read nor written: {e}");
            self.sync.stop(SpoolTrouble::new(TroubleKind::Io, text))
        })?;
        shared.lost_pages.store(lost, Ordering::Release);
        shared.mended_pages.fetch_add(mended, Ordering::Relaxed);
        if mended > 0 {
            // Message-IDs on lost pages are not known any more.
            shared.is_digest_vague.store(true, Ordering::Release);
            let dir = shared.config.dir.display();
            warn!(
                "spool {dir}: {mended} pages of usage bitmaps or history could not be read and were rebuilt"
            );
        }
        Ok(mended)
    }
}

/// Repairs all lost pages and writes them to their files; returns how many there were.
fn mend_lost_pages(shared: &SharedIndexes) -> io::Result<u64> {
    let mut pages = shared.history.mend_lost_pages()?;
    for buffer in shared.volumes.load().cycbuffs() {
        let lost = buffer.lost_bits();
        lost.iter().for_each(|offsets| mark_articles(shared, buffer, offsets));
        if !lost.is_empty() {
            buffer.restore_bitmap()?;
        }
        pages += lost.len() as u64;
    }
    Ok(pages)
}

/// Reads all mapped pages, so that unreadable ones are detected now.
pub(crate) fn touch_maps(shared: &SharedIndexes) {
    shared.history.touch_maps();
    shared.volumes.load().cycbuffs().for_each(Cycbuff::touch_bitmap);
}

/// Sets the usage bits of the living articles in a part of a buffer: whole records that history leads to.
fn mark_articles(shared: &SharedIndexes, buffer: &Cycbuff, offsets: &Range<u64>) {
    let (head, tail) = (buffer.head(), buffer.tail());
    let cycle = buffer.cycle(head);
    // Records before the write position belong to its cycle, those after it to the previous one.
    for cycle in [cycle.saturating_sub(1), cycle] {
        let Some(start) = buffer.place_in(cycle, offsets.start) else { continue };
        let mut scan = Scan::new(buffer);
        scan.at = start.max(tail).max(buffer.first()).next_multiple_of(buffer.block());
        scan.end = (start + (offsets.end - offsets.start)).min(head);
        while let Some(header) = scan.next_record() {
            let leads_here = |found| {
                matches!(found, HistoryLookup::At(t, _) if t.method == MethodKind::Cnfs
                    && t.volume == buffer.id() && t.place == header.place)
            };
            if scan.live && leads_here(shared.history.lookup(&header.key)) {
                buffer.mark_alive(header.place);
            }
        }
    }
}
