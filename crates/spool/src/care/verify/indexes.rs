//! Checks of the indexes alone, at a start: damage that would hide articles is repaired before serving.
//!
//! Covers records and index of history, usage bits of the articles that history leads to, lists of retained
//! articles, residents, blocks of overview. An article is read only if its usage bit is clear or its block of
//! overview is damaged; further passes follow only after damage. A start ends no number: a damaged block
//! stays as it is if not all of its articles are found. Other files with checksums are checked when they are
//! opened.

use super::buffers::BufferCheck;
use super::files::check_residents;
use super::history::HistoryCheck;
use super::kept::KeptCheck;
use crate::care::finding::{SpoolDamage, VerifyReport};
use crate::index::fold::SharedIndexes;
use crate::index::groups::Group;
use crate::index::overview::BlockRows;
use crate::read::Lookup;
use crate::write::locked::LockedWriter;
use disk::ReadMode;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_methods::cnfs::record;
use spool_methods::{Cyclic, Volume};

/// Checks indexes.
pub(super) struct IndexCheck<'s> {
    pub shared: &'s SharedIndexes,
    pub writer: &'s LockedWriter,
}

impl IndexCheck<'_> {
    /// Checks all indexes. With `after_damage`, articles may be missing from history: all rows of overview
    /// and all records of buffers are compared with it.
    pub fn check(&self, after_damage: bool) -> VerifyReport {
        let mut report = VerifyReport::keeping_all();
        self.check_entries(&mut report);
        for group in self.shared.groups.sorted().iter() {
            self.check_blocks(group, after_damage, &mut report);
        }
        if after_damage {
            BufferCheck { shared: self.shared }.check(&(), &mut report);
        }
        KeptCheck { shared: self.shared, writer: self.writer }.check_lists(&mut report);
        check_residents(self.shared, self.writer, &mut report);
        report
    }

    /// Checks history, and the usage bits of the articles that it leads to.
    fn check_entries(&self, report: &mut VerifyReport) {
        let (history, volumes) = (&self.shared.history, self.shared.volumes.load_full());
        let is_dark = |token: &Token| {
            let volume = volumes.get(token.volume).filter(|v| v.method() == token.method);
            let buffer = volume.and_then(|v| v.cycbuff());
            buffer.is_some_and(|v| (v.tail()..v.head()).contains(&token.place) && !v.is_alive(token.place))
        };
        let (mut dark, records) = (Vec::new(), HistoryCheck { shared: self.shared });
        history.for_each(0, &mut |number, record| {
            let Some(record) = records.check_record(number, record, report) else { return };
            let token = record.token.filter(is_dark);
            dark.extend(token.map(|token| (record.key_bits, token)));
        });
        records.check_words(report);
        // A bit may be clear because its page could not be read.
        if let Err(trouble) = self.writer.lock().mend_lost_pages() {
            report.found("mapped files", trouble.to_string(), None);
        }
        let mut buf = Vec::new();
        for (key_bits, token) in dark.into_iter().filter(|(_, token)| is_dark(token)) {
            let Some(volume) = volumes.get(token.volume) else { continue };
            let fetched = volume.fetch(token.place, ReadMode::Wait, &mut buf);
            // History keeps the upper 96 bits of a key.
            let is_whole = matches!(fetched, Ok(Some((h, true))) if (h.key.0 ^ key_bits) >> 32 == 0)
                && record::is_whole(&buf);
            if is_whole {
                let what = "the article is whole, but the buffer's bitmap does not have it";
                report.found(
                    self.shared.volumes.load().token_text(&token),
                    what,
                    Some(SpoolDamage::UsageBit { token }),
                );
            }
        }
    }

    /// Checks the blocks of overview of a group; with `compare`, compares their rows with history.
    fn check_blocks(&self, group: &Group, compare: bool, report: &mut VerifyReport) {
        let (blocks, open) = {
            let state = group.state();
            let open = if compare { state.overview.open.clone() } else { BlockRows::default() };
            (state.overview.blocks.iter().filter(|b| b.live > 0).cloned().collect::<Vec<_>>(), open)
        };
        let (mut rows, mut raw) = (BlockRows::default(), Vec::new());
        for block in blocks {
            match block.read(group.id, ReadMode::Wait, &mut rows, &mut raw) {
                Ok(()) if compare => self.compare_rows(group, &rows, report),
                Ok(()) => {}
                Err(_) => report.found_block(group, block.first, block.last),
            }
        }
        self.compare_rows(group, &open, report);
    }

    /// Checks that history leads to the article of each living row.
    fn compare_rows(&self, group: &Group, rows: &BlockRows, report: &mut VerifyReport) {
        for (i, entry) in rows.entries.iter().enumerate() {
            let id = rows.row(i).and_then(|row| netnews::overview_row::field(row, 4)).unwrap_or_default();
            let key: ArticleKey = self.shared.hasher.key(id);
            let lives = || group.state().live.contains(entry.number);
            if lives() && self.shared.lookup(&key) == Lookup::Unknown && lives() {
                let place = format!("{}:{}", group.name, entry.number);
                let what = "history does not lead to its article";
                let (token, arrived) = (entry.token, entry.arrived);
                report.found(place, what, Some(SpoolDamage::Unknown { key, token, arrived }));
            }
        }
    }
}
