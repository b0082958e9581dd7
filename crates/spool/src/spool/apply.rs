//! Applying changes: the only way into the spool.
//!
//! Changes of one kind that follow each other are applied together: each is looked up, its rows are written
//! and made durable, and the rows are applied to the indexes. Time comes with the changes.

use super::Spool;
use crate::base::error::{SpoolTrouble, TroubleKind};
use crate::base::limits::POSITION_BYTES_MAX;
use crate::base::moved::MARK_SECS;
use crate::base::ordered::{OrderedGuard, rank};
use crate::index::change::{ArticleIdent, Change, ChangeKind, ChangeOutcome, CommitTicket};
use crate::method::packing::PackedArticle;
use crate::write::commit::SpoolWriter;
use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Pause while a message of a shared log is being applied.
pub(super) const BETWEEN_POSITIONS: Duration = Duration::from_millis(1);
/// Old Message-IDs are forgotten once in so many seconds.
const FORGET_SECS: u64 = 3_600;

impl Spool {
    /// Applies changes at a time, in Unix seconds, in their order; blocks for microseconds, or while the disk
    /// is slow. Returns an outcome for each. On `Err` the outcomes so far are valid, and of the other changes
    /// some may have been applied, which are unchanged if they are applied again.
    pub fn apply(
        &self,
        time: u64,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        self.forget_old(time)?;
        let mut ticket = None;
        let mut runs = changes.chunk_by(|change, next| change.kind() == next.kind()).peekable();
        while let Some(run) = runs.next() {
            self.announce(run, runs.peek().and_then(|next| next.first()));
            match run.first().map(Change::kind) {
                Some(ChangeKind::Filing) => ticket = Some(self.file(time, run, outcomes)?),
                Some(ChangeKind::Withdrawing) => self.withdraw(time, run, outcomes)?,
                Some(ChangeKind::Forgetting) => self.forget(time, run, outcomes)?,
                Some(ChangeKind::Hiding) => self.hide(time, run, outcomes)?,
                Some(ChangeKind::Unhiding) => self.unhide(time, run, outcomes)?,
                Some(ChangeKind::Groups) => self.change_groups(time, run, outcomes)?,
                Some(ChangeKind::Noting) => self.note(time, run, outcomes)?,
                Some(ChangeKind::Site) => self.name_sites(time, run, outcomes)?,
                Some(ChangeKind::Position) => self.reach(time, run, outcomes)?,
                None => {}
            }
        }
        Ok(ticket.unwrap_or_else(|| self.ticket()))
    }

    /// Lets the row of a position be written with those of the changes that lead to it, if these change bytes
    /// in place, which a recovery cannot take back.
    fn announce(&self, run: &[Change<'_>], next: Option<&Change<'_>>) {
        let is_in_place =
            |change: &Change<'_>| matches!(change.kind(), ChangeKind::Withdrawing | ChangeKind::Forgetting);
        if let Some(Change::Position { record }) = next
            && run.first().is_some_and(is_in_place)
        {
            self.writer.lock().next_position = Some(record.to_vec());
        }
    }

    /// Records positions in a shared log.
    fn reach(
        &self,
        time: u64,
        run: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<(), SpoolTrouble> {
        for change in run {
            let Change::Position { record } = change else { continue };
            if !(1..=POSITION_BYTES_MAX).contains(&record.len()) {
                let text = format!("the record of a position has {} bytes", record.len());
                return Err(SpoolTrouble::new(TroubleKind::Refused, text));
            }
            self.writer_at(time).reach(record)?;
            outcomes.push(ChangeOutcome::Changed(1));
        }
        Ok(())
    }

    /// Like [`Spool::apply`], but returns `None` if another thread is applying changes, a sync has to be
    /// waited for, or articles may have to be compressed.
    pub fn try_apply(
        &self,
        time: u64,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Option<Result<CommitTicket, SpoolTrouble>> {
        let are_filed = changes.iter().all(|change| change.kind() == ChangeKind::Filing);
        if !are_filed || self.is_forgetting(time) || self.shared.packing.is_used() || self.sync.must_wait() {
            return None;
        }
        let mut writer = self.writer.try_lock()?;
        writer.folds.time = time;
        Some(self.file_held(writer, changes, Vec::new(), outcomes))
    }

    /// Returns whether the changes of this time, in Unix seconds, are the first of an hour.
    fn is_forgetting(&self, time: u64) -> bool {
        time / FORGET_SECS > self.forgotten_at.load(Ordering::Relaxed) / FORGET_SECS
    }

    /// Forgets old Message-IDs before the first change of each hour, as of the beginning of that hour: so
    /// what is forgotten follows from the changes and their times.
    pub(crate) fn forget_old(&self, time: u64) -> Result<(), SpoolTrouble> {
        if !self.is_forgetting(time) {
            return Ok(());
        }
        let hour = time - time % FORGET_SECS;
        let mut writer = self.writer_at(time);
        if u64::from(writer.folds.forgotten_at) < hour {
            // On a full disk only what frees room is applied, and ids are forgotten later.
            if writer.accepting().is_err() {
                return Ok(());
            }
            writer.forget_old(hour)?;
        }
        self.forgotten_at.fetch_max(hour, Ordering::Relaxed);
        Ok(())
    }

    /// Locks the writer for changes at a time, in Unix seconds.
    pub(crate) fn writer_at(&self, time: u64) -> OrderedGuard<'_, SpoolWriter, { rank::WRITER }> {
        let mut writer = self.writer.lock();
        writer.folds.time = time;
        writer
    }

    /// Returns the writer at a moment when everything that is applied is named by the position in a shared
    /// log.
    pub(crate) fn writer_at_position(&self) -> OrderedGuard<'_, SpoolWriter, { rank::WRITER }> {
        loop {
            let writer = self.writer.lock();
            if !writer.is_between_positions() {
                return writer;
            }
            drop(writer);
            std::thread::sleep(BETWEEN_POSITIONS);
        }
    }

    /// Files articles and remembers Message-IDs, as one batch.
    fn file(
        &self,
        time: u64,
        batch: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let packed = if self.shared.packing.is_used() { self.packed(batch) } else { (Vec::new(), 0) };
        let writer = self.writer_at(time);
        // If the classes have changed meanwhile, these articles are stored uncompressed.
        let packed = if writer.generation == packed.1 { packed.0 } else { Vec::new() };
        self.file_held(writer, batch, packed, outcomes)
    }

    /// Compresses the articles of a batch for their classes, of a generation: this takes many times as long
    /// as committing them, so it is done without the lock.
    fn packed(&self, batch: &[Change<'_>]) -> (Vec<Option<PackedArticle>>, u64) {
        let (classes, generation) = {
            let writer = self.writer.lock();
            (writer.classes_of(batch), writer.generation)
        };
        let hasher = &self.shared.hasher;
        let packed = batch.iter().zip(classes).map(|(change, class)| match change {
            Change::Article(new) if !self.is_known(&change.key(hasher)) => {
                self.shared.packing.pack(class?, new.pieces)
            }
            _ => None,
        });
        (packed.collect(), generation)
    }

    /// Files a batch while holding the writer, and records the duration.
    fn file_held(
        &self,
        mut writer: impl DerefMut<Target = SpoolWriter>,
        batch: &[Change<'_>],
        packed: Vec<Option<PackedArticle>>,
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        let begun = Instant::now();
        let result = writer.commit_packed(batch, packed, outcomes);
        drop(writer);
        let each = u32::try_from(batch.len()).ok().and_then(|n| begun.elapsed().checked_div(n));
        self.held.observe_many(each.unwrap_or_default(), batch.len());
        self.note_newest_hash(batch);
        result
    }

    /// Notes until when hashes of another server's history may be found.
    fn note_newest_hash(&self, batch: &[Change<'_>]) {
        let arrival = |change: &Change<'_>| match change {
            Change::Remember { id: ArticleIdent::InnHash(_), arrived } => Some(*arrived),
            _ => None,
        };
        if let Some(newest) = batch.iter().filter_map(arrival).max() {
            self.newest_hash.fetch_max((newest / MARK_SECS + 1) * MARK_SECS, Ordering::Relaxed);
        }
    }
}
