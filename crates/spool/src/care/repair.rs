//! Repairs of the findings of [`crate::care::verify`], one by one, on an open spool.
//!
//! Invariants: every repair checks again under the writer's lock and does nothing if the damage no longer
//! exists; none removes readable data. Changes in indexes are durable from the checkpoint that ends a repair;
//! an article given up is a cancel row in the journal. Damage that cannot be repaired stays a finding.

mod error;
mod kept;
mod residents;
mod rows;

use crate::base::ids::GroupId;
use crate::base::key::ArticleKey;
use crate::base::token::Token;
use crate::care::verify::{FINDINGS_MAX, Finding, VerifyReport};
use crate::index::history::HistoryLookup;
use crate::index::withdrawing::RemoveFiles;
use crate::journal::JournalRow;
use crate::method::cnfs::record;
use crate::spool::Spool;
use crate::write::commit::SpoolWriter;
use disk::Progress;
use disk::ReadMode;
pub use error::RepairError;
pub(super) use rows::LossPolicy;
use rows::WantedRows;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of rounds: repairs uncover hidden damage, which the next round handles while there is
/// progress.
const ROUNDS_MAX: usize = 20;
/// Maximum number of findings repaired in one round; the rest is left to the next.
const REPAIRED_TOGETHER_MAX: usize = 100_000;

/// Damaged part, with all data needed to repair it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpoolDamage {
    /// Bytes of an article.
    Article { key: ArticleKey, token: Token, numbers: Vec<(GroupId, u64)> },
    /// A living article whose usage bit is clear.
    UsageBit { token: Token },
    /// A usage bit without an article.
    StrayBit { token: Token },
    /// A living article that is missing from history.
    Unknown { key: ArticleKey, token: Token, arrived: u32 },
    /// A record of history.
    HistoryRecord { number: u64 },
    /// A record of history without a slot in the index.
    HistoryIndex { number: u64, key: ArticleKey },
    /// A word of the history's index.
    HistoryWord { word: (usize, usize) },
    /// A block of overview rows.
    Block { group: GroupId, first: u64, last: u64 },
    /// A living number without article or row.
    Number { group: GroupId, number: u64 },
    /// A file that the next checkpoint rewrites or makes obsolete.
    Checkpointed,
    /// A file of the journal.
    Journal { start: u64 },
    /// The file `secret`.
    Secret,
    /// A copy of a dictionary.
    Dictionary,
    /// A retained article that is missing in its place and whole under another of its names.
    Misplaced { key: ArticleKey, token: Token, numbers: Vec<(GroupId, u64)> },
    /// The name of a number that does not lead to its article.
    Name { token: Token, group: GroupId, number: u64 },
    /// A retained article that is missing from the list of its volume.
    Unlisted { index: usize, key: ArticleKey, token: Token },
    /// Pages of a volume's list of retained articles.
    KeptPages { index: usize },
    /// A page of a volume's residents.
    ResidentsPage { volume: u16, page: u64 },
    /// A file that belongs to no article.
    Stray { volume: u16, path: PathBuf },
    /// A whole article that no index knows.
    NotIndexed { volume: u16, path: PathBuf },
    /// Damage that was repaired when it was found.
    Rebuilt,
    /// A copy of `newsreel.tree`.
    TreeFile { dir: PathBuf },
    /// The file of a durable reader of the journal.
    Cursor { name: String },
    /// The names of the readers' files.
    ReaderNames,
}

impl SpoolDamage {
    /// Returns the action of a repair.
    pub fn repair(&self) -> &'static str {
        match self {
            Self::Article { .. } => "give the article up: its numbers end, its Message-ID stays known",
            Self::UsageBit { .. } => "set the bit: the article can be read again",
            Self::StrayBit { .. } => "clear the bit",
            Self::Unknown { .. } => "enter the Message-ID into history",
            Self::HistoryRecord { .. } => "make it an empty record; a living article gets a new one",
            Self::HistoryIndex { .. } => "enter it into the index",
            Self::HistoryWord { .. } => "make it one that leads nowhere astray",
            Self::Block { .. } => "rebuild the rows from the articles",
            Self::Number { .. } => "end the number",
            Self::Checkpointed => "take a checkpoint, which rewrites it or makes it obsolete",
            Self::Journal { .. } => "take a checkpoint, which makes it obsolete, and remove it",
            Self::Secret => "write it again",
            Self::Dictionary | Self::TreeFile { .. } => "write it again from the other copy",
            Self::Misplaced { .. } => "put the article in its place again from another of its names",
            Self::Name { .. } => "link it to the article again",
            Self::Unlisted { .. } => "enter it into the list",
            Self::KeptPages { .. } => "write the list again without them",
            Self::ResidentsPage { .. } => "write it again from the buffer",
            Self::Stray { .. } => "remove it",
            Self::NotIndexed { .. } => "enter the article into journal and indexes",
            Self::Rebuilt => "rebuilt already",
            Self::Cursor { .. } => {
                "write it again from the other copy, or from what is claimed for the reader"
            }
            Self::ReaderNames => "write them again",
        }
    }
}

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

impl Spool {
    /// Verifies; then, unless it is a dry run, repairs the findings and verifies again. Serving continues
    /// meanwhile.
    pub fn repair(&self, dry_run: bool, progress: &dyn Progress) -> RepairReport {
        let most = if dry_run { FINDINGS_MAX } else { REPAIRED_TOGETHER_MAX };
        let before = self.verify_keeping(most, progress);
        if dry_run || before.problems() == 0 {
            return RepairReport { before, ..RepairReport::default() };
        }
        let mut report = RepairReport { before: before.clone(), ..RepairReport::default() };
        let mut found = before;
        for _ in 0..ROUNDS_MAX {
            let mut repaired = self.mend_all(&found.findings, LossPolicy::Accepted, progress);
            // The journal does not record repairs of indexes.
            if let Err(e) = self.checkpoint() {
                let e = Arc::new(e);
                for done in repaired.iter_mut().filter(|r| r.result.is_ok()) {
                    done.result = Err(RepairError::NoCheckpoint(e.clone()));
                }
            }
            let goes_on = repaired.iter().any(|r| r.result.is_ok());
            report.repaired.extend(repaired);
            let after = self.verify_keeping(most, progress);
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

    pub(super) fn mend_all(
        &self,
        findings: &[Finding],
        loss: LossPolicy,
        progress: &dyn Progress,
    ) -> Vec<RepairedFinding> {
        let mut wanted = WantedRows::default();
        findings.iter().for_each(|f| {
            if let Some(SpoolDamage::Block { group, first, last }) = f.damage {
                wanted.add(group, first..=last);
            }
        });
        // One pass over the lists of articles serves all damaged blocks.
        let rows = self.read_rows(&wanted, loss, progress);
        let mend = |finding: &Finding| {
            let result = match &finding.damage {
                None => Err(RepairError::NotPossible),
                Some(SpoolDamage::Block { group, first, .. }) => {
                    self.renew_block(*group, *first, &rows, loss)
                }
                Some(damage) => self.mend(damage),
            };
            RepairedFinding { finding: finding.clone(), result }
        };
        findings.iter().map(mend).collect()
    }

    fn mend(&self, damage: &SpoolDamage) -> Result<(), RepairError> {
        let history = &self.shared.history;
        match damage {
            SpoolDamage::Dictionary => Ok(self.mend_dictionaries().map(drop)?),
            SpoolDamage::Secret => Ok(self.write_secret()?),
            SpoolDamage::Cursor { name } => Ok(self.readers.mend_cursor(name)?),
            SpoolDamage::ReaderNames => Ok(self.readers.mend_names()?),
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
                self.shared.is_digest_vague.store(true, std::sync::atomic::Ordering::Release);
                Ok(history.empty(*number)?)
            }
            SpoolDamage::Unknown { key, token, arrived } => {
                let _writer = self.writer().lock();
                let alive = self.shared.volumes.load().is_alive(token);
                if alive && history.lookup(key) == HistoryLookup::None {
                    // History assumes that arrivals ascend.
                    let arrived = u32::try_from(disk::clock::unix_now()).unwrap_or(*arrived).max(*arrived);
                    self.shared.is_digest_vague.store(true, std::sync::atomic::Ordering::Release);
                    history.insert(*key, Some(*token), arrived)?;
                }
                Ok(())
            }
            SpoolDamage::UsageBit { token } => {
                let _writer = self.writer().lock();
                if let Some(volume) = self.shared.volumes.load().get(token.volume).and_then(|v| v.cyclic())
                    && (volume.tail()..volume.head()).contains(&token.place)
                {
                    volume.mark_alive(token.place);
                }
                Ok(())
            }
            SpoolDamage::StrayBit { token } => {
                let _writer = self.writer().lock();
                let volumes = self.shared.volumes.load();
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
            | SpoolDamage::TreeFile { .. } => self.mend_kept(damage),
            SpoolDamage::Article { key, token, numbers } => {
                let mut writer = self.writer().lock();
                self.give_up(&mut writer, *key, *token, numbers)
            }
            SpoolDamage::ResidentsPage { volume, page } => self.mend_residents(*volume, *page),
            SpoolDamage::Number { group, number } => {
                let _writer = self.writer().lock();
                self.end_number(*group, *number);
                Ok(())
            }
        }
    }

    /// Makes a journal file obsolete, and removes it.
    fn leave_journal_file(&self, start: u64) -> io::Result<()> {
        {
            let mut writer = self.writer().lock();
            if writer.journal.start() == start {
                writer.next_journal_file()?;
            }
        }
        self.checkpoint()?;
        let dir = self.shared.config.dir.join("journal");
        let removed = self.shared.disk.remove(&dir.join(crate::journal::file_name(start)));
        removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        self.shared.disk.sync_dir(&dir)
    }

    /// Ends an article whose bytes are damaged, as a cancel does.
    fn give_up(
        &self,
        writer: &mut SpoolWriter,
        key: ArticleKey,
        token: Token,
        numbers: &[(GroupId, u64)],
    ) -> Result<(), RepairError> {
        let table = self.group_table();
        let named = |(id, n): &(GroupId, u64)| table.get(*id).is_some_and(|g| g.state().live.contains(*n));
        let volumes = self.shared.volumes.load();
        let keeps = volumes.get(token.volume).is_some_and(|v| v.retained().is_some());
        // A retained article may be known by its Message-ID only.
        let known =
            || keeps && matches!(self.shared.history.lookup(&key), HistoryLookup::At(t, _) if t == token);
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
        if let Some(group) = self.group(group) {
            let mut state = group.state();
            if state.end(number) {
                self.shared.is_digest_vague.store(true, std::sync::atomic::Ordering::Release);
                self.shared.generation.fetch_add(1, std::sync::atomic::Ordering::Release);
            }
        }
    }
}
