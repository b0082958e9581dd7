//! Checks spool and indexes against each other, while serving.

use crate::groups::Group;
use crate::method::cnfs::record;
use crate::overview::Rows;
use crate::progress::Progress;
use crate::reading::{ArticleBuf, Lookup, Patience};
use crate::spool::Spool;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The group and number concerned, or a buffer's name and a place.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Groups looked at.
    pub groups: u64,
    /// Group:number pairs looked at.
    pub numbers: u64,
    /// History entries looked at.
    pub history: u64,
    /// Everything that is wrong, at most [`FINDINGS_MAX`] of it.
    pub findings: Vec<Finding>,
    /// How much more is wrong.
    pub more: u64,
}

/// Findings kept; what is found beyond is only counted.
pub const FINDINGS_MAX: usize = 1000;

impl VerifyReport {
    /// How much is wrong.
    pub fn problems(&self) -> u64 {
        self.findings.len() as u64 + self.more
    }

    fn found(&mut self, place: impl Into<String>, what: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { place: place.into(), what: what.into() });
        } else {
            self.more += 1;
        }
    }
}

impl Spool {
    /// Reads every article by every number, checks its bytes, its overview row and its history entry, and that every
    /// entry of history with a living article leads to whole bytes. Articles that die meanwhile are no findings.
    pub fn verify(&self, progress: &dyn Progress) -> VerifyReport {
        let mut report = VerifyReport::default();
        let groups = self.groups();
        progress.start("checking groups", groups.iter().map(|g| g.marks().count).sum());
        let mut buf = ArticleBuf::default();
        for group in groups.iter() {
            self.verify_group(group, &mut buf, &mut report);
            report.groups += 1;
            progress.step(report.numbers);
        }
        progress.finish();
        self.verify_history(progress, &mut report);
        self.verify_residents(&mut report);
        self.shared.packing.verify(&mut |place, what| report.found(place, what));
        report
    }

    fn verify_group(&self, group: &Group, buf: &mut ArticleBuf, report: &mut VerifyReport) {
        let (blocks, open) = {
            let state = group.state();
            (state.overview.blocks.iter().cloned().collect::<Vec<_>>(), state.overview.open.clone())
        };
        let (mut rows, mut raw) = (Rows::default(), Vec::new());
        let mut seen = 0;
        for block in blocks.iter().filter(|b| b.live > 0) {
            match block.read(group.id, Patience::Wait, &mut rows, &mut raw) {
                Ok(()) => seen += self.verify_rows(group, &rows, buf, report),
                Err(e) => {
                    report.found(format!("{}:{}-{}", group.name, block.first, block.last), e.to_string())
                }
            }
        }
        seen += self.verify_rows(group, &open, buf, report);
        report.numbers += seen;
    }

    fn verify_rows(
        &self,
        group: &Group,
        rows: &Rows,
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
            let id = rows.row(i).and_then(|row| netnews::overview_row::field(row, 4)).unwrap_or_default();
            let key = self.key(id);
            match self.read(&entry.token, Some(&key), Patience::Wait, buf) {
                Ok(true) => {
                    let numbers = crate::rebuild::xref_numbers(&self.shared, buf.head());
                    if !numbers.contains(&(group.id, entry.number)) {
                        report.found(place(), "the article's Xref does not name it");
                    }
                }
                // It may have been overwritten while we looked.
                Ok(false) if lives() => {
                    report.found(place(), "its article cannot be read: damaged or missing")
                }
                Ok(false) => continue,
                Err(e) => report.found(place(), e.to_string()),
            }
            if self.lookup(&key) != Lookup::Present(entry.token) && lives() {
                report.found(place(), "history does not lead to its article");
            }
        }
        seen
    }

    fn verify_residents(&self, report: &mut VerifyReport) {
        let mut writer = self.writer.lock();
        let volumes = self.shared.volumes.load();
        for (volume, residents) in volumes.all().iter().zip(&mut writer.folds.residents) {
            let found = &mut |page| {
                let what = "is damaged; what it told is read from the buffer when it is needed";
                report.found(format!("residents of {}, page at {page}", volume.name()), what);
            };
            residents.verify(found);
        }
    }

    fn verify_history(&self, progress: &dyn Progress, report: &mut VerifyReport) {
        progress.start("checking history", self.shared.history.entries());
        let mut buf = Vec::new();
        let mut n = 0;
        self.shared.history.for_each(0, &mut |number, record| {
            n += 1;
            if n % 65_536 == 0 {
                progress.step(n);
            }
            let Some(record) = record else {
                report.found(format!("history record {number}"), "is damaged");
                return;
            };
            if !self.shared.history.is_indexed(&record) {
                report.found(format!("history record {number}"), "is not in the index");
            }
            let Some(token) = record.token.filter(|t| self.shared.volumes.load().is_alive(t)) else { return };
            let volumes = self.shared.volumes.load();
            let Some(volume) = volumes.get(token.volume) else { return };
            let whole = matches!(volume.fetch(token.place, Patience::Wait, &mut buf), Ok(Some((_, true))) if record::is_whole(&buf));
            if !whole && volume.is_alive(token.place) {
                report.found(format!("{} {}", volume.name(), self.token_text(&token)), "the record is damaged");
            }
        });
        report.history = n;
        progress.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_beyond_the_most_kept_are_counted() {
        let mut report = VerifyReport::default();
        (0..FINDINGS_MAX + 3).for_each(|n| report.found(format!("a:{n}"), "is wrong"));
        assert_eq!((report.findings.len(), report.problems()), (FINDINGS_MAX, FINDINGS_MAX as u64 + 3));
    }
}
