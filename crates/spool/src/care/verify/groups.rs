//! Checks of the groups: each living number has a row, each row its article, and history leads to it.

use crate::care::finding::{SpoolDamage, VerifyReport};
use crate::index::fold::SharedIndexes;
use crate::index::groups::Group;
use crate::index::overview::{BlockRows, RowEntry};
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::write::locked::LockedWriter;
use disk::{Progress, ReadMode};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_methods::cnfs::record;

/// Checks groups one by one.
pub(super) struct GroupCheck<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    buf: ArticleBuf,
}

impl<'s> GroupCheck<'s> {
    pub fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter) -> Self {
        Self { shared, writer, buf: ArticleBuf::default() }
    }

    /// Checks all groups.
    pub fn check_all(&mut self, progress: &dyn Progress, report: &mut VerifyReport) {
        let groups = self.shared.groups.sorted();
        progress.start("checking groups", groups.iter().map(|g| g.marks().count).sum());
        for group in groups.iter() {
            self.check_group(group, report);
            report.groups += 1;
            progress.step(report.numbers);
        }
        progress.finish();
    }

    fn check_group(&mut self, group: &Group, report: &mut VerifyReport) {
        let (blocks, open) = {
            let state = group.state();
            (state.overview.blocks.iter().cloned().collect::<Vec<_>>(), state.overview.open.clone())
        };
        let (mut rows, mut raw) = (BlockRows::default(), Vec::new());
        let mut seen = 0;
        for block in blocks.iter().filter(|b| b.live > 0) {
            match block.read(group.id, ReadMode::Wait, &mut rows, &mut raw) {
                Ok(()) => seen += self.check_rows(group, &rows, report),
                Err(_) => report.found_block(group, block.first, block.last),
            }
        }
        seen += self.check_rows(group, &open, report);
        report.numbers += seen;
        check_living(group, report);
    }

    fn check_rows(&mut self, group: &Group, rows: &BlockRows, report: &mut VerifyReport) -> u64 {
        let mut seen = 0;
        for (i, entry) in rows.entries.iter().enumerate() {
            let lives = || group.state().live.contains(entry.number);
            if !lives() {
                continue;
            }
            seen += 1;
            let place = || format!("{}:{}", group.name, entry.number);
            let row = rows.row(i).unwrap_or_default();
            let key = self.shared.hasher.key(netnews::overview_row::field(row, 4).unwrap_or_default());
            match self.shared.read(&entry.token, Some(&key), ReadMode::Wait, &mut self.buf) {
                Ok(true) => {
                    let numbers = self.shared.groups.table().numbers_in(self.buf.head());
                    if !numbers.contains(&(group.id, entry.number)) {
                        let damage = SpoolDamage::Number { group: group.id, number: entry.number };
                        report.found(place(), "the article's Xref does not name it", Some(damage));
                    }
                    self.check_name(&place(), entry.token, (group.id, entry.number), report);
                }
                // The article may have been overwritten meanwhile.
                _ if !lives() => continue,
                // Another of its numbers.
                _ if report.is_unreadable_at(&entry.token, (group.id, entry.number)) => {}
                read => {
                    let numbers = self.numbers_of(row, (group.id, entry.number));
                    let damage = self.unreadable(entry, key, &numbers);
                    let why = read.err().map_or_else(|| "damaged or missing".to_owned(), |e| e.to_string());
                    let what = format!("its article cannot be read: {why}");
                    let places = self.places(&numbers);
                    report.note_unreadable(entry.token, numbers);
                    report.found(places, what, Some(damage));
                }
            }
            let is_known = || self.shared.lookup(&key) == Lookup::Present(entry.token);
            if !report.is_unreadable(&entry.token) && !is_known() && lives() {
                let what = "history does not lead to its article: it cannot be had by Message-ID, and may \
                    be taken again";
                let (token, arrived) = (entry.token, entry.arrived);
                report.found(place(), what, Some(SpoolDamage::Unknown { key, token, arrived }));
            }
        }
        seen
    }

    /// Returns the numbers of a row's article, that of the row among them.
    fn numbers_of(&self, row: &[u8], own: (GroupId, u64)) -> Vec<(GroupId, u64)> {
        // The row repeats the Xref header of the article.
        let xref = netnews::overview_row::field(row, netnews::overview_row::index::XREF).unwrap_or_default();
        let numbers = self.shared.groups.table().numbers_in(xref);
        if numbers.contains(&own) { numbers } else { vec![own] }
    }

    /// Returns numbers as text.
    fn places(&self, numbers: &[(GroupId, u64)]) -> String {
        let table = self.shared.groups.table();
        let name = |id: GroupId| table.get(id).map_or_else(String::new, |group| group.name.to_string());
        let places = numbers.iter().map(|(id, number)| format!("{}:{number}", name(*id)));
        places.collect::<Vec<_>>().join(", ")
    }

    /// Returns the damage of a row whose article, with these numbers, cannot be read.
    fn unreadable(&self, entry: &RowEntry, key: ArticleKey, numbers: &[(GroupId, u64)]) -> SpoolDamage {
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
        let numbers = numbers.to_vec();
        let retained = volume.and_then(|v| v.retained());
        let elsewhere =
            retained.is_some_and(|v| matches!(v.restore(token.place, key, &numbers, true), Ok(true)));
        if elsewhere {
            return SpoolDamage::Misplaced { key, token, numbers };
        }
        SpoolDamage::Article { key, token, numbers }
    }

    /// Checks that a crosspost is found under the name of each of its numbers.
    fn check_name(&self, place: &str, token: Token, at: (GroupId, u64), report: &mut VerifyReport) {
        let volumes = self.shared.volumes.load();
        let Some(volume) = volumes.get(token.volume).and_then(|v| v.retained()) else { return };
        match volume.has_name(token.place, at.0, at.1) {
            Ok(true) => {}
            Ok(false) => {
                // The name may be in the middle of a change.
                let _writer = self.writer.lock();
                let lives = self.shared.groups.get(at.0).is_some_and(|g| g.state().live.contains(at.1));
                if lives && matches!(volume.has_name(token.place, at.0, at.1), Ok(false)) {
                    let what = "the file of this number is missing or another one: other programs do not \
                        find the article there";
                    report.found(place, what, Some(SpoolDamage::Name { token, group: at.0, number: at.1 }));
                }
            }
            Err(e) => report.found(place, format!("the file of this number cannot be read: {e}"), None),
        }
    }
}

/// Checks that every living number has a row.
fn check_living(group: &Group, report: &mut VerifyReport) {
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
