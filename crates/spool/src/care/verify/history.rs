//! Checks of history: its records, its index, and the articles outside of the buffers that it leads to.

use crate::care::finding::{SpoolDamage, VerifyReport};
use crate::index::fold::SharedIndexes;
use disk::{Progress, ReadMode};
use spool_base::key::ArticleKey;
use spool_base::token::MethodKind;
use spool_history::{HistoryLookup, HistoryRecord};
use spool_methods::cnfs::record;

/// Checks history.
pub(super) struct HistoryCheck<'s> {
    pub shared: &'s SharedIndexes,
}

impl HistoryCheck<'_> {
    /// Checks everything.
    pub fn check(&self, progress: &dyn Progress, report: &mut VerifyReport) {
        let history = &self.shared.history;
        progress.start("checking history", history.entries());
        let mut buf = Vec::new();
        let mut n = 0;
        history.for_each(0, &mut |number, record| {
            n += 1;
            if n % 65_536 == 0 {
                progress.step(n);
            }
            let Some(record) = self.check_record(number, record, report) else { return };
            // The buffers' records are checked one by one; the articles of other methods here.
            let volumes = self.shared.volumes.load();
            let Some(token) = record.token.filter(|t| volumes.is_alive(t)) else { return };
            let Some(volume) = volumes.get(token.volume).filter(|v| v.method() != MethodKind::Cnfs) else {
                return;
            };
            report.records += 1;
            // A number that names it has been reported, with the possible repair.
            if report.is_unreadable(&token) {
                return;
            }
            let fetched = volume.fetch(token.place, ReadMode::Wait, &mut buf);
            let whole = matches!(fetched, Ok(Some((_, true))) if record::is_whole(&buf));
            let key = ArticleKey(record.key_bits);
            let still = matches!(history.lookup(&key), HistoryLookup::At(t, _) if t == token);
            if !whole && still && volumes.is_alive(&token) {
                let damage =
                    volume.retained().map(|_| SpoolDamage::Article { key, token, numbers: Vec::new() });
                report.found(
                    self.shared.volumes.load().token_text(&token),
                    "the article is damaged or missing",
                    damage,
                );
            }
        });
        report.history = n;
        self.check_words(report);
        progress.finish();
    }

    /// Checks that a record of history is whole, and found through the index.
    pub fn check_record(
        &self,
        number: u64,
        record: Option<HistoryRecord>,
        report: &mut VerifyReport,
    ) -> Option<HistoryRecord> {
        let place = || format!("history record {number}");
        let Some(record) = record else {
            let what = "is damaged: its Message-ID is not known any more, and may be taken again";
            report.found(place(), what, Some(SpoolDamage::HistoryRecord { number }));
            return None;
        };
        if !self.shared.history.is_indexed(number, &record) {
            let what = "is not in the index: its Message-ID is not found, and may be taken again";
            let key = ArticleKey(record.key_bits);
            report.found(place(), what, Some(SpoolDamage::HistoryIndex { number, key }));
        }
        Some(record)
    }

    pub fn check_words(&self, report: &mut VerifyReport) {
        self.shared.history.check_index(&mut |word| {
            let what = "leads to a record that is not its own, or its check is wrong: look-ups may stop \
                short or go astray";
            let place = format!("history index, shard {} word {}", word.0, word.1);
            report.found(place, what, Some(SpoolDamage::HistoryWord { word }));
        });
    }
}
