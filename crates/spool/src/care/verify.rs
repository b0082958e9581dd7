//! Checks spool and indexes against each other, while serving.
//!
//! Covers each group with its rows, articles and history entries ([`groups`]); each entry of history
//! ([`history`]); each record of the buffers with its usage bit and history entry ([`buffers`]); lists and
//! files of retained articles ([`kept`]); the files that have checksums ([`files`]). Articles that die
//! meanwhile are not findings. [`crate::care::repair`] repairs the findings where possible.

mod buffers;
mod files;
mod groups;
mod history;
mod indexes;
mod kept;

use crate::care::finding::{FINDINGS_MAX, SpoolDamage, VerifyReport};
use crate::index::fold::SharedIndexes;
use crate::read::Lookup;
use crate::write::locked::LockedWriter;
use crate::write::mending::touch_maps;
use buffers::BufferCheck;
use disk::Progress;
use files::FileCheck;
use groups::GroupCheck;
use history::HistoryCheck;
use indexes::IndexCheck;
use kept::KeptCheck;
use spool_journal::Readers;

/// Checks of an open spool; see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct Verifier<'s> {
    pub(super) shared: &'s SharedIndexes,
    pub(super) writer: &'s LockedWriter,
    pub(super) readers: &'s Readers,
}

impl<'s> Verifier<'s> {
    pub(crate) fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter, readers: &'s Readers) -> Self {
        Self { shared, writer, readers }
    }

    /// Checks everything against everything. Reads each article twice.
    pub fn verify(&self, progress: &dyn Progress) -> VerifyReport {
        self.verify_keeping(FINDINGS_MAX, progress)
    }

    /// Like [`Verifier::verify`], keeping at most this many findings.
    pub(super) fn verify_keeping(&self, most: usize, progress: &dyn Progress) -> VerifyReport {
        let Self { shared, writer, readers } = *self;
        let mut report = VerifyReport { most, ..VerifyReport::default() };
        self.check_maps(&mut report);
        GroupCheck::new(shared, writer).check_all(progress, &mut report);
        self.check_hidden(&mut report);
        HistoryCheck { shared }.check(progress, &mut report);
        BufferCheck { shared }.check(progress, &mut report);
        KeptCheck { shared, writer }.check(progress, &mut report);
        FileCheck::new(shared, writer, readers).check(&mut report);
        report
    }

    /// Checks the indexes alone, as at a start; see [`indexes`].
    pub(super) fn verify_indexes(&self, after_damage: bool) -> VerifyReport {
        IndexCheck { shared: self.shared, writer: self.writer }.check(after_damage)
    }

    /// Restores unreadable pages of mapped files at once: until then their content is missing.
    fn check_maps(&self, report: &mut VerifyReport) {
        touch_maps(self.shared);
        match self.writer.lock().mend_lost_pages() {
            Ok(0) => {}
            Ok(n) => {
                let what =
                    format!("{n} pages of usage bitmaps or history could not be read, and were rebuilt");
                report.found("mapped files", what, Some(SpoolDamage::Rebuilt));
            }
            Err(trouble) => report.found("mapped files", trouble.to_string(), None),
        }
    }

    /// Checks that each hidden article is stored, and that exactly its living numbers are hidden.
    fn check_hidden(&self, report: &mut VerifyReport) {
        // The lock prevents hiding and displacement meanwhile.
        let _writer = self.writer.lock();
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
}
