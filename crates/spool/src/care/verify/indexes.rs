//! Checks of the indexes alone, at a start: damage that would hide articles is repaired before serving.
//!
//! Covers records and index of history, usage bits of the articles that history leads to, lists of retained
//! articles, residents, blocks of overview. An article is read only if its usage bit is clear or its block of
//! overview is damaged; further passes follow only after damage. A start ends no number: a damaged block
//! stays as it is if not all of its articles are found. Other files with checksums are checked when they are
//! opened.

use super::VerifyReport;
use crate::base::key::ArticleKey;
use crate::base::token::Token;
use crate::care::repair::{LossPolicy, SpoolDamage};
use crate::index::groups::Group;
use crate::index::overview::BlockRows;
use crate::method::cnfs::record;
use crate::method::{Cyclic, Volume};
use crate::read::Lookup;
use crate::spool::Spool;
use disk::ReadMode;
use std::sync::atomic::Ordering;
use tracing::warn;

/// Number of history entries above which the indexes are checked while serving, not before.
const ENTRIES_BEFORE_SERVING_MAX: u64 = 1 << 17;
/// Maximum number of findings that are logged one by one.
const LOGGED_MAX: usize = 20;
/// Maximum number of rounds: repairs may uncover hidden damage.
const ROUNDS_MAX: usize = 4;

impl Spool {
    /// Checks the indexes of a spool that has just been opened, if that takes no more than a moment, and
    /// repairs damage. Returns the number of repairs.
    pub(crate) fn look_over_at_opening(&self) -> u64 {
        if self.shared.history.entries() > ENTRIES_BEFORE_SERVING_MAX {
            return 0;
        }
        self.look_over_indexes()
    }

    /// Checks the indexes and repairs damage, unless that was done at opening. Returns the number of repairs.
    /// Serving continues meanwhile.
    pub fn look_over_indexes(&self) -> u64 {
        if self.is_looked_over.swap(true, Ordering::AcqRel) {
            return 0;
        }
        let (dir, mut mended) = (self.shared.config.dir.display(), 0);
        let mut report = self.verify_indexes(false);
        for _ in 0..ROUNDS_MAX {
            if report.problems() == 0 {
                break;
            }
            for finding in report.findings.iter().take(LOGGED_MAX) {
                warn!("spool {dir}: {} {}", finding.place, finding.what);
            }
            let repaired = self.mend_all(&report.findings, LossPolicy::Refused, &());
            let done = repaired.iter().filter(|repaired| repaired.result.is_ok()).count() as u64;
            if let Err(e) = self.checkpoint() {
                warn!("spool {dir}: what was mended may be damaged again after the next start: {e}");
            }
            mended += done;
            if done == 0 {
                break;
            }
            // Damage to overview does not cause articles missing from history.
            let is_block = |damage: &Option<SpoolDamage>| matches!(damage, Some(SpoolDamage::Block { .. }));
            report = self.verify_indexes(!report.findings.iter().all(|f| is_block(&f.damage)));
        }
        if mended > 0 {
            let left = report.problems();
            warn!("spool {dir}: {mended} damaged parts of indexes were rebuilt, {left} are left");
        }
        mended
    }

    /// Checks all indexes. With `after_damage`, articles may be missing from history: all rows of overview
    /// and all records of buffers are compared with it.
    fn verify_indexes(&self, after_damage: bool) -> VerifyReport {
        let mut report = VerifyReport::keeping_all();
        self.verify_entries(&mut report);
        for group in self.groups().iter() {
            self.verify_blocks(group, after_damage, &mut report);
        }
        if after_damage {
            self.verify_buffers(&(), &mut report);
        }
        self.verify_lists(&mut report);
        self.verify_residents(&mut report);
        report
    }

    /// Checks history, and the usage bits of the articles that it leads to.
    fn verify_entries(&self, report: &mut VerifyReport) {
        let (history, volumes) = (&self.shared.history, self.shared.volumes.load_full());
        let is_dark = |token: &Token| {
            let volume = volumes.get(token.volume).filter(|v| v.method() == token.method);
            let buffer = volume.and_then(|v| v.cycbuff());
            buffer.is_some_and(|v| (v.tail()..v.head()).contains(&token.place) && !v.is_alive(token.place))
        };
        let mut dark = Vec::new();
        history.for_each(0, &mut |number, record| {
            let Some(record) = self.check_record(number, record, report) else { return };
            let token = record.token.filter(is_dark);
            dark.extend(token.map(|token| (record.key_bits, token)));
        });
        self.check_history_words(report);
        // A bit may be clear because its page could not be read.
        if let Err(trouble) = self.writer().lock().mend_lost_pages() {
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
                report.found(self.token_text(&token), what, Some(SpoolDamage::UsageBit { token }));
            }
        }
    }

    /// Checks the blocks of overview of a group; with `compare`, compares their rows with history.
    fn verify_blocks(&self, group: &Group, compare: bool, report: &mut VerifyReport) {
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
                Err(_) => self.found_block(group, block.first, block.last, report),
            }
        }
        self.compare_rows(group, &open, report);
    }

    /// Checks that history leads to the article of each living row.
    fn compare_rows(&self, group: &Group, rows: &BlockRows, report: &mut VerifyReport) {
        for (i, entry) in rows.entries.iter().enumerate() {
            let id = rows.row(i).and_then(|row| netnews::overview_row::field(row, 4)).unwrap_or_default();
            let key: ArticleKey = self.key(id);
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
