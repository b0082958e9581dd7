//! Repairs of the findings of [`crate::care::verify`], one by one, on an open spool.
//!
//! Invariants: every repair checks again under the writer's lock and does nothing if the damage no longer
//! exists; none removes readable data. Changes in indexes are durable from the checkpoint that ends a repair;
//! an article given up is a cancel row in the journal. Damage that cannot be repaired stays a finding.

mod error;
mod kept;
mod rows;

use crate::care::finding::{FINDINGS_MAX, Finding, SpoolDamage, VerifyReport};
use crate::care::verify::Verifier;
use crate::index::residents::residents_between;
use crate::index::withdrawing::RemoveFiles;
use crate::write::commit::SpoolWriter;
use disk::clock::unix_secs;
use disk::{FileAccess, Progress, ReadMode, durable_replace};
pub use error::RepairError;
use kept::KeptRepair;
use rows::{LossPolicy, RowSearch};
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_journal::JournalRow;
use spool_methods::Volume;
use spool_methods::cnfs::record;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;

/// Maximum number of rounds: repairs uncover hidden damage, which the next round handles while there is
/// progress.
const ROUNDS_MAX: usize = 20;
/// Maximum number of findings repaired in one round; the rest is left to the next.
const REPAIRED_TOGETHER_MAX: usize = 100_000;

/// Number of history entries above which the indexes are checked while serving, not before.
const ENTRIES_BEFORE_SERVING_MAX: u64 = 1 << 17;
/// Maximum number of findings of a check of the indexes that are logged one by one.
const LOGGED_MAX: usize = 20;
/// Maximum number of rounds of a check of the indexes.
const LOOKS_MAX: usize = 4;

/// Result of repairing a finding.
#[derive(Debug)]
pub struct RepairedFinding {
    /// The finding.
    pub finding: Finding,
    /// Whether it was repaired; otherwise the reason.
    pub result: Result<(), RepairError>,
}

/// Results of a repair.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Report from before the repair.
    pub before: VerifyReport,
    /// Findings one by one; empty after a dry run.
    pub repaired: Vec<RepairedFinding>,
    /// Report from after the repair; `None` after a dry run.
    pub after: Option<VerifyReport>,
}

/// Repairs of an open spool; see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct Repairer<'s> {
    verifier: Verifier<'s>,
    /// Whether the indexes were checked for damage since the spool was opened.
    is_looked_over: &'s AtomicBool,
}

impl<'s> Repairer<'s> {
    pub(crate) fn new(verifier: Verifier<'s>, is_looked_over: &'s AtomicBool) -> Self {
        Self { verifier, is_looked_over }
    }

    /// Verifies; then, unless it is a dry run, repairs the findings and verifies again. Serving continues
    /// meanwhile.
    pub fn repair(&self, dry_run: bool, progress: &dyn Progress) -> RepairReport {
        let most = if dry_run { FINDINGS_MAX } else { REPAIRED_TOGETHER_MAX };
        let before = self.verifier.verify_keeping(most, progress);
        if dry_run || before.problems() == 0 {
            return RepairReport { before, ..RepairReport::default() };
        }
        let mut report = RepairReport { before: before.clone(), ..RepairReport::default() };
        let mut found = before;
        for _ in 0..ROUNDS_MAX {
            let mut repaired = self.mend_all(&found.findings, LossPolicy::Accepted, progress);
            // The journal does not record repairs of indexes.
            if let Err(e) = self.verifier.writer.checkpoint() {
                let e = Arc::new(e);
                for done in repaired.iter_mut().filter(|r| r.result.is_ok()) {
                    done.result = Err(RepairError::NoCheckpoint(e.clone()));
                }
            }
            let goes_on = repaired.iter().any(|r| r.result.is_ok());
            report.repaired.extend(repaired);
            let after = self.verifier.verify_keeping(most, progress);
            // Damage may have been hidden by other damage, or did not fit into the last list.
            let is_done = after.problems() == 0 || !goes_on || after.findings == found.findings;
            found = after;
            if is_done {
                break;
            }
        }
        report.after = Some(found);
        report
    }

    /// Checks the indexes of a spool that has just been opened, if that takes no more than a moment, and
    /// repairs damage. Returns the number of repairs.
    pub(crate) fn look_over_at_opening(&self) -> u64 {
        if self.verifier.shared.history.entries() > ENTRIES_BEFORE_SERVING_MAX {
            return 0;
        }
        self.look_over()
    }

    /// Checks the indexes and repairs damage, unless that was done at opening. Returns the number of repairs.
    /// Serving continues meanwhile.
    pub fn look_over(&self) -> u64 {
        if self.is_looked_over.swap(true, Ordering::AcqRel) {
            return 0;
        }
        let (dir, mut mended) = (self.verifier.shared.config.dir.display(), 0);
        let mut report = self.verifier.verify_indexes(false);
        for _ in 0..LOOKS_MAX {
            if report.problems() == 0 {
                break;
            }
            for finding in report.findings.iter().take(LOGGED_MAX) {
                warn!("spool {dir}: {} {}", finding.place, finding.what);
            }
            let repaired = self.mend_all(&report.findings, LossPolicy::Refused, &());
            let done = repaired.iter().filter(|repaired| repaired.result.is_ok()).count() as u64;
            if let Err(e) = self.verifier.writer.checkpoint() {
                warn!("spool {dir}: what was mended may be damaged again after the next start: {e}");
            }
            mended += done;
            if done == 0 {
                break;
            }
            // Damage to overview does not cause articles missing from history.
            let is_block = |damage: &Option<SpoolDamage>| matches!(damage, Some(SpoolDamage::Block { .. }));
            report = self.verifier.verify_indexes(!report.findings.iter().all(|f| is_block(&f.damage)));
        }
        if mended > 0 {
            let left = report.problems();
            warn!("spool {dir}: {mended} damaged parts of indexes were rebuilt, {left} are left");
        }
        mended
    }

    fn mend_all(
        &self,
        findings: &[Finding],
        loss: LossPolicy,
        progress: &dyn Progress,
    ) -> Vec<RepairedFinding> {
        let mut rows = RowSearch::new(self.verifier.shared, self.verifier.writer, loss);
        findings.iter().for_each(|f| {
            if let Some(SpoolDamage::Block { group, first, last }) = f.damage {
                rows.want(group, first..=last);
            }
        });
        // One pass over the lists of articles serves all damaged blocks.
        rows.find(progress);
        let mend = |finding: &Finding| {
            let result = match &finding.damage {
                None => Err(RepairError::NotPossible),
                Some(SpoolDamage::Block { group, first, .. }) => rows.renew_block(*group, *first),
                Some(damage) => self.mend(damage),
            };
            RepairedFinding { finding: finding.clone(), result }
        };
        // Articles are entered into history in their order, into the records that were emptied before.
        let mut ordered: Vec<(Option<u64>, &Finding)> =
            findings.iter().map(|finding| (self.sequence_of_unknown(finding), finding)).collect();
        ordered.sort_by_key(|(sequence, _)| *sequence);
        ordered.into_iter().map(|(_, finding)| mend(finding)).collect()
    }

    /// Returns the sequence of an article that is missing from history, 0 if it cannot be read; `None` for
    /// other damage.
    fn sequence_of_unknown(&self, finding: &Finding) -> Option<u64> {
        let Some(SpoolDamage::Unknown { token, .. }) = &finding.damage else { return None };
        let volumes = self.verifier.shared.volumes.load();
        let fetch = |volume: &dyn Volume| volume.fetch(token.place, ReadMode::Wait, &mut Vec::new());
        let fetched = volumes.get(token.volume).map(fetch);
        Some(fetched.and_then(|fetched| fetched.ok()?).map_or(0, |(header, _)| header.sequence))
    }

    fn mend(&self, damage: &SpoolDamage) -> Result<(), RepairError> {
        let history = &self.verifier.shared.history;
        match damage {
            SpoolDamage::Dictionary => Ok(self.verifier.shared.packing.mend().map(drop)?),
            SpoolDamage::Secret => Ok(self.write_secret()?),
            SpoolDamage::Cursor { name } => Ok(self.verifier.readers.mend_cursor(name)?),
            SpoolDamage::ReaderNames => Ok(self.verifier.readers.mend_names()?),
            SpoolDamage::Rebuilt | SpoolDamage::Checkpointed | SpoolDamage::Block { .. } => Ok(()),
            SpoolDamage::Journal { start } => Ok(self.leave_journal_file(*start)?),
            SpoolDamage::HistoryIndex { number, key } => {
                history.enter_index(key, *number).then_some(()).ok_or(RepairError::IndexFull)
            }
            SpoolDamage::HistoryWord { word } => {
                history.mend_index(*word);
                Ok(())
            }
            SpoolDamage::HistoryRecord { number } => {
                self.verifier.shared.is_digest_vague.store(true, Ordering::Release);
                Ok(history.empty(*number)?)
            }
            SpoolDamage::Unknown { key, token, arrived } => {
                let _writer = self.verifier.writer.lock();
                let volumes = self.verifier.shared.volumes.load();
                if !volumes.is_alive(token) || history.lookup(key) != HistoryLookup::None {
                    return Ok(());
                }
                let is_ascending = !token.method.is_file_per_article();
                if !history.enter_again(*key, *token, *arrived, is_ascending) {
                    // History assumes that arrivals ascend.
                    self.verifier.shared.is_digest_vague.store(true, Ordering::Release);
                    let arrived = u32::try_from(unix_secs()).unwrap_or(*arrived).max(*arrived);
                    history.insert(*key, Some(*token), arrived)?;
                }
                Ok(())
            }
            SpoolDamage::UsageBit { token } => {
                let _writer = self.verifier.writer.lock();
                if let Some(volume) =
                    self.verifier.shared.volumes.load().get(token.volume).and_then(|v| v.cyclic())
                    && (volume.tail()..volume.head()).contains(&token.place)
                {
                    volume.mark_alive(token.place);
                }
                Ok(())
            }
            SpoolDamage::StrayBit { token } => {
                let _writer = self.verifier.writer.lock();
                let volumes = self.verifier.shared.volumes.load();
                if let Some(volume) = volumes.get(token.volume).and_then(|v| v.cyclic()) {
                    volume.mark_dead(token.place);
                }
                Ok(())
            }
            SpoolDamage::Misplaced { .. }
            | SpoolDamage::Name { .. }
            | SpoolDamage::Unlisted { .. }
            | SpoolDamage::KeptPages { .. }
            | SpoolDamage::Stray { .. }
            | SpoolDamage::NotIndexed { .. }
            | SpoolDamage::TreeFile { .. } => {
                KeptRepair { shared: self.verifier.shared, writer: self.verifier.writer }.mend(damage)
            }
            SpoolDamage::Article { key, token, numbers } => {
                let mut writer = self.verifier.writer.lock();
                self.give_up(&mut writer, *key, *token, numbers)
            }
            SpoolDamage::ResidentsPage { volume, page } => self.mend_residents(*volume, *page),
            SpoolDamage::Number { group, number } => {
                let _writer = self.verifier.writer.lock();
                self.end_number(*group, *number);
                Ok(())
            }
        }
    }

    /// Makes a journal file obsolete, and removes it.
    fn leave_journal_file(&self, start: u64) -> io::Result<()> {
        {
            let mut writer = self.verifier.writer.lock();
            if writer.journal.start() == start {
                writer.next_journal_file()?;
            }
        }
        self.verifier.writer.checkpoint()?;
        let dir = self.verifier.shared.config.dir.join("journal");
        let removed = self.verifier.shared.disk.remove(&dir.join(spool_journal::file_name(start)));
        removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        self.verifier.shared.disk.sync_dir(&dir)
    }

    /// Ends an article whose bytes are damaged, as a cancel does.
    fn give_up(
        &self,
        writer: &mut SpoolWriter,
        key: ArticleKey,
        token: Token,
        numbers: &[(GroupId, u64)],
    ) -> Result<(), RepairError> {
        let table = self.verifier.shared.groups.snapshot();
        let named = |(id, n): &(GroupId, u64)| table.get(*id).is_some_and(|g| g.state().live.contains(*n));
        let volumes = self.verifier.shared.volumes.load();
        let keeps = volumes.get(token.volume).is_some_and(|v| v.retained().is_some());
        // A retained article may be known by its Message-ID only.
        let known = || {
            keeps
                && matches!(self.verifier.shared.history.lookup(&key), HistoryLookup::At(t, _) if t == token)
        };
        let mut buf = Vec::new();
        // An earlier repair may have fixed it. History keeps the upper 96 bits of a key.
        let is_whole = volumes.get(token.volume).is_some_and(|v| {
            let fetched = v.fetch(token.place, ReadMode::Wait, &mut buf);
            matches!(fetched, Ok(Some((h, true))) if (h.key.0 ^ key.0) >> 32 == 0) && record::is_whole(&buf)
        });
        if is_whole || !numbers.iter().any(named) && !known() {
            return Ok(());
        }
        let row = JournalRow::Cancel { key, token, numbers: numbers.to_vec() };
        writer.commit_now(&row)?;
        writer.folds.cancel(key, token, numbers, RemoveFiles::Now);
        Ok(())
    }

    fn end_number(&self, group: GroupId, number: u64) {
        if let Some(group) = self.verifier.shared.groups.get(group) {
            let mut state = group.state();
            if state.end(number) {
                self.verifier.shared.is_digest_vague.store(true, Ordering::Release);
                self.verifier.shared.generation.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Rewrites a damaged page of residents from the volume.
    fn mend_residents(&self, volume: u16, page: u64) -> Result<(), RepairError> {
        let mut writer = self.verifier.writer.lock();
        let volumes = self.verifier.shared.volumes.load_full();
        let Some(index) = volumes.index(volume) else { return Ok(()) };
        let Some(volume) = volumes.all().get(index).and_then(|v| v.cyclic()) else { return Ok(()) };
        let table = self.verifier.shared.groups.snapshot();
        let read = |from, to| residents_between(&table, volume, from, to);
        let Some(residents) = writer.folds.residents.get_mut(index) else { return Ok(()) };
        if residents.skip_damaged_front(page, read)? {
            writer.sync.await_checkpoint()?;
            writer.checkpoint()?;
            writer.sync.await_checkpoint()?;
            writer.accepting()?;
        }
        let Some(residents) = writer.folds.residents.get_mut(index) else { return Ok(()) };
        Ok(residents.mend(page, read)?)
    }

    /// Rewrites the file `secret`.
    fn write_secret(&self) -> io::Result<()> {
        let path = self.verifier.shared.config.dir.join("secret");
        let text = crate::open::recovery::secret_text(self.verifier.shared.hasher.secret());
        durable_replace(&*self.verifier.shared.disk, &path, &[text.as_bytes()], FileAccess::Owner)
    }
}
