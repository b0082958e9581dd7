//! Checks spool and indexes against each other, while serving.
//!
//! Covers each group with its rows, articles and history entries; each entry of history; each record of the
//! buffers with its usage bit and history entry ([`buffers`]); lists and files of retained articles
//! ([`kept`]); the files that have checksums ([`files`]). Articles that die meanwhile are not findings.
//! [`crate::care::repair`] repairs the findings where possible.

mod buffers;
mod files;
mod indexes;
mod kept;

use crate::base::key::ArticleKey;
use crate::base::token::MethodKind;
use crate::care::repair::SpoolDamage;
use crate::index::groups::Group;
use crate::index::history::{HistoryLookup, HistoryRecord};
use crate::index::overview::{BlockRows, RowEntry};
use crate::method::cnfs::record;
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::spool::Spool;
use crate::write::mending::touch_maps;
use disk::Progress;
use disk::ReadMode;

/// A problem found by a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Group and number concerned, or name of a buffer and place.
    pub place: String,
    /// Problem and its consequence.
    pub what: String,
    pub(crate) damage: Option<SpoolDamage>,
}

impl Finding {
    /// Returns the action of `--repair`; `None`: no repair is possible.
    pub fn repair(&self) -> Option<&'static str> {
        self.damage.as_ref().map(SpoolDamage::repair)
    }
}

/// Results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Groups checked.
    pub groups: u64,
    /// Group:number pairs checked.
    pub numbers: u64,
    /// History entries checked.
    pub history: u64,
    /// Hidden articles checked.
    pub hidden: u64,
    /// Records of the buffers checked.
    pub records: u64,
    /// Problems, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Number of further problems.
    pub more: u64,
    /// Maximum number of findings kept.
    most: usize,
}

/// Maximum number of findings kept; further ones are only counted.
pub const FINDINGS_MAX: usize = 1000;

impl VerifyReport {
    /// Returns the number of problems.
    pub fn problems(&self) -> u64 {
        self.findings.len() as u64 + self.more
    }

    /// Returns an empty report that keeps all findings.
    fn keeping_all() -> Self {
        Self { most: usize::MAX, ..Self::default() }
    }

    fn found(&mut self, place: impl Into<String>, what: impl Into<String>, damage: Option<SpoolDamage>) {
        if self.findings.len() < self.most {
            self.findings.push(Finding { place: place.into(), what: what.into(), damage });
        } else {
            self.more += 1;
        }
    }
}

impl Spool {
    /// Checks everything against everything; see the module's documentation. Reads each article twice.
    pub fn verify(&self, progress: &dyn Progress) -> VerifyReport {
        self.verify_keeping(FINDINGS_MAX, progress)
    }

    /// Like [`Spool::verify`], keeping at most this many findings.
    pub(crate) fn verify_keeping(&self, most: usize, progress: &dyn Progress) -> VerifyReport {
        let mut report = VerifyReport { most, ..VerifyReport::default() };
        self.verify_maps(&mut report);
        let groups = self.groups();
        progress.start("checking groups", groups.iter().map(|g| g.marks().count).sum());
        let mut buf = ArticleBuf::default();
        for group in groups.iter() {
            self.verify_group(group, &mut buf, &mut report);
            report.groups += 1;
            progress.step(report.numbers);
        }
        progress.finish();
        self.verify_hidden(&mut report);
        self.verify_history(progress, &mut report);
        self.verify_buffers(progress, &mut report);
        self.verify_kept(progress, &mut report);
        self.verify_files(&mut report);
        report
    }

    /// Restores unreadable pages of mapped files at once: until then their content is missing.
    fn verify_maps(&self, report: &mut VerifyReport) {
        touch_maps(&self.shared);
        match self.writer().lock().mend_lost_pages() {
            Ok(0) => {}
            Ok(n) => {
                let what =
                    format!("{n} pages of usage bitmaps or history could not be read, and were rebuilt");
                report.found("mapped files", what, Some(SpoolDamage::Rebuilt));
            }
            Err(trouble) => report.found("mapped files", trouble.to_string(), None),
        }
    }

    fn verify_group(&self, group: &Group, buf: &mut ArticleBuf, report: &mut VerifyReport) {
        let (blocks, open) = {
            let state = group.state();
            (state.overview.blocks.iter().cloned().collect::<Vec<_>>(), state.overview.open.clone())
        };
        let (mut rows, mut raw) = (BlockRows::default(), Vec::new());
        let mut seen = 0;
        for block in blocks.iter().filter(|b| b.live > 0) {
            match block.read(group.id, ReadMode::Wait, &mut rows, &mut raw) {
                Ok(()) => seen += self.verify_rows(group, &rows, buf, report),
                Err(_) => self.found_block(group, block.first, block.last, report),
            }
        }
        seen += self.verify_rows(group, &open, buf, report);
        report.numbers += seen;
        self.verify_living(group, report);
    }

    fn found_block(&self, group: &Group, first: u64, last: u64, report: &mut VerifyReport) {
        let place = format!("{}:{first}-{last}", group.name);
        let what = "the block of overview rows is damaged: OVER of these numbers fails";
        report.found(place, what, Some(SpoolDamage::Block { group: group.id, first, last }));
    }

    /// Checks that each hidden article is stored, and that exactly its living numbers are hidden.
    fn verify_hidden(&self, report: &mut VerifyReport) {
        // The lock prevents hiding and displacement meanwhile.
        let _writer = self.writer().lock();
        let table = self.shared.groups.snapshot();
        let mut numbers = 0;
        for hidden in self.shared.hidden.all() {
            report.hidden += 1;
            if self.shared.lookup(&hidden.key) != Lookup::Present(hidden.token) {
                let what = "it is listed as hidden, and not stored";
                report.found(hidden.message_id.clone(), what, None);
            }
            for (id, number) in &hidden.numbers {
                let Some(group) = table.get(*id) else { continue };
                let state = group.state();
                numbers += u64::from(state.hidden.contains(*number));
                if state.shows(*number) {
                    let what = format!("{} is hidden, and shown here", hidden.message_id);
                    report.found(format!("{}:{number}", group.name), what, None);
                }
            }
        }
        let all: u64 = table.sorted().iter().map(|group| group.state().hidden.count()).sum();
        if all != numbers {
            let what = format!("{all} numbers are hidden, {numbers} of them belong to hidden articles");
            report.found("hidden articles", what, None);
        }
    }

    /// Checks that every living number has a row.
    fn verify_living(&self, group: &Group, report: &mut VerifyReport) {
        let state = group.state();
        let without: Vec<u64> = state
            .live
            .range(0..=u64::MAX)
            .filter(|n| state.overview.open.find(*n).is_none() && state.overview.block_of(*n).is_none())
            .collect();
        drop(state);
        for number in without {
            let damage = SpoolDamage::Number { group: group.id, number };
            let what = "the number lives, but there is no overview row to it";
            report.found(format!("{}:{number}", group.name), what, Some(damage));
        }
    }

    fn verify_rows(
        &self,
        group: &Group,
        rows: &BlockRows,
        buf: &mut ArticleBuf,
        report: &mut VerifyReport,
    ) -> u64 {
        let mut seen = 0;
        for (i, entry) in rows.entries.iter().enumerate() {
            let lives = || group.state().live.contains(entry.number);
            if !lives() {
                continue;
            }
            seen += 1;
            let place = || format!("{}:{}", group.name, entry.number);
            let row = rows.row(i).unwrap_or_default();
            let key = self.key(netnews::overview_row::field(row, 4).unwrap_or_default());
            match self.shared.read(&entry.token, Some(&key), ReadMode::Wait, buf) {
                Ok(true) => {
                    let numbers = self.shared.groups.table().numbers_in(buf.head());
                    if !numbers.contains(&(group.id, entry.number)) {
                        let damage = SpoolDamage::Number { group: group.id, number: entry.number };
                        report.found(place(), "the article's Xref does not name it", Some(damage));
                    }
                    self.verify_name(&place(), entry.token, (group.id, entry.number), report);
                }
                // The article may have been overwritten meanwhile.
                _ if !lives() => continue,
                read => {
                    let damage = self.unreadable(entry, key, group, row);
                    let why = read.err().map_or_else(|| "damaged or missing".to_owned(), |e| e.to_string());
                    report.found(place(), format!("its article cannot be read: {why}"), Some(damage));
                }
            }
            if self.shared.lookup(&key) != Lookup::Present(entry.token) && lives() {
                let what = "history does not lead to its article: it cannot be had by Message-ID, and may \
                    be taken again";
                let (token, arrived) = (entry.token, entry.arrived);
                report.found(place(), what, Some(SpoolDamage::Unknown { key, token, arrived }));
            }
        }
        seen
    }

    /// Returns the damage of a row whose article cannot be read.
    fn unreadable(&self, entry: &RowEntry, key: ArticleKey, group: &Group, row: &[u8]) -> SpoolDamage {
        let (token, volumes) = (entry.token, self.shared.volumes.load());
        let volume = volumes.get(token.volume);
        let mut buf = Vec::new();
        let whole = volume.is_some_and(|v| {
            let read = v.fetch(token.place, ReadMode::Wait, &mut buf);
            matches!(read, Ok(Some((h, true))) if h.key == key) && record::is_whole(&buf)
        });
        if whole {
            return SpoolDamage::UsageBit { token };
        }
        // The row repeats the Xref header of the article.
        let xref = netnews::overview_row::field(row, netnews::overview_row::index::XREF).unwrap_or_default();
        let mut numbers = self.shared.groups.table().numbers_in(xref);
        if !numbers.contains(&(group.id, entry.number)) {
            numbers = vec![(group.id, entry.number)];
        }
        let retained = volume.and_then(|v| v.retained());
        let elsewhere =
            retained.is_some_and(|v| matches!(v.restore(token.place, key, &numbers, true), Ok(true)));
        if elsewhere {
            return SpoolDamage::Misplaced { key, token, numbers };
        }
        SpoolDamage::Article { key, token, numbers }
    }

    fn verify_history(&self, progress: &dyn Progress, report: &mut VerifyReport) {
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
            let fetched = volume.fetch(token.place, ReadMode::Wait, &mut buf);
            let whole = matches!(fetched, Ok(Some((_, true))) if record::is_whole(&buf));
            // A number that still names it is reported as well, with the possible repair.
            let key = ArticleKey(record.key_bits);
            let still = matches!(history.lookup(&key), HistoryLookup::At(t, _) if t == token);
            if !whole && still && volumes.is_alive(&token) {
                // An article that a number names is repaired through that finding.
                let damage =
                    volume.retained().map(|_| SpoolDamage::Article { key, token, numbers: Vec::new() });
                report.found(self.token_text(&token), "the article is damaged or missing", damage);
            }
        });
        report.history = n;
        self.check_history_words(report);
        progress.finish();
    }

    /// Checks that a record of history is whole, and found through the index.
    fn check_record(
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

    fn check_history_words(&self, report: &mut VerifyReport) {
        self.shared.history.check_index(&mut |word| {
            let what = "leads to a record that is not its own, or its check is wrong: look-ups may stop \
                short or go astray";
            let place = format!("history index, shard {} word {}", word.0, word.1);
            report.found(place, what, Some(SpoolDamage::HistoryWord { word }));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_beyond_the_most_kept_are_counted() {
        let mut report = VerifyReport { most: FINDINGS_MAX, ..VerifyReport::default() };
        (0..FINDINGS_MAX + 3).for_each(|n| report.found(format!("a:{n}"), "is wrong", None));
        assert_eq!((report.findings.len(), report.problems()), (FINDINGS_MAX, FINDINGS_MAX as u64 + 3));
    }
}
