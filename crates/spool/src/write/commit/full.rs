//! Checks whether the spool accepts articles, and resumes accepting after a full disk (`docs/states.md`).

use super::{SpoolWriter, trouble};
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_journal::JournalRow;
use spool_methods::Volume;
use std::io;

impl SpoolWriter {
    /// Returns an error unless the spool accepts at the moment. After a full disk, checks once a second
    /// whether there is space again.
    pub fn accepting(&mut self) -> Result<(), SpoolTrouble> {
        if let Some(text) = self.folds.failed.clone() {
            let text = format!("{text}; a restart makes the index whole again from the journal");
            return Err(self.sync.stop(SpoolTrouble::new(TroubleKind::Io, text)));
        }
        self.stop_if_late();
        self.mend_lost_pages()?;
        let Some(trouble) = self.sync.trouble() else { return Ok(()) };
        let resumed = trouble.kind == TroubleKind::Full && self.sync.may_probe() && self.resume();
        if resumed { Ok(()) } else { Err(trouble) }
    }

    /// Resumes accepting after a full disk if there is space for all pending writes.
    pub fn resume(&mut self) -> bool {
        // A postponed checkpoint may need exactly this space.
        let released = self.release_claims();
        if released.is_err() || self.sync.is_checkpoint_late() {
            return false;
        }
        let has_room = self.probe().is_ok();
        self.was_full = true;
        if has_room {
            self.sync.go_on();
        } else {
            self.journal.discard();
        }
        has_room
    }

    /// Checks whether rows that free space may be written, which is allowed on a full disk. They go to the
    /// end of the journal's file, which is reserved for them.
    pub fn may_free(&mut self) -> Result<(), SpoolTrouble> {
        match self.accepting() {
            Err(trouble) if trouble.kind == TroubleKind::Full => Ok(()),
            accepting => accepting,
        }
    }

    /// Removes files without living articles after rows that freed space were applied, and begins the next
    /// journal file if it is time for one.
    pub fn freed(&mut self) -> Result<(), SpoolTrouble> {
        self.leave_spent_files()?;
        let volumes = self.folds.shared.volumes.load();
        let swept = volumes.retained().try_for_each(|volume| volume.sweep());
        swept.map_err(|e| self.sync.stop(trouble("remove a file of articles", &e)))?;
        if self.sync.trouble().is_none() {
            self.continue_or_stop();
        }
        Ok(())
    }

    /// Moves write positions durably past last files without living articles, so that these can be removed.
    fn leave_spent_files(&mut self) -> Result<(), SpoolTrouble> {
        let is_full = self.sync.trouble().is_some_and(|trouble| trouble.kind == TroubleKind::Full);
        let is_disk_full = is_full || self.was_full;
        let volumes = self.folds.shared.volumes.load();
        let after = |volume: &dyn Volume| volume.retained()?.after_spent_file(is_disk_full);
        let all = volumes.all().iter().enumerate();
        let spent: Vec<_> = all.filter_map(|(at, v)| Some((at, v.id(), after(&**v)?))).collect();
        drop(volumes);
        if spent.is_empty() {
            return Ok(());
        }
        for (_, volume, head) in &spent {
            self.journal.push(&JournalRow::Skip { volume: *volume, head: *head });
        }
        if self.write_now().is_err() {
            // The files stay until more is removed.
            self.journal.discard();
            return Ok(());
        }
        self.was_full = false;
        spent.into_iter().try_for_each(|(index, _, head)| {
            let moved = self.folds.displace(index, head);
            moved.map_err(|e| self.sync.stop(trouble("move a write position", &e)))
        })
    }

    /// Resumes accepting after an operator's request that freed space, if the disk was full and that is now
    /// possible, instead of waiting for the next article.
    pub fn end_freeing(&mut self) {
        if self.sync.trouble().is_some_and(|trouble| trouble.kind == TroubleKind::Full) {
            self.resume();
        }
    }

    /// Checks whether there is space again by writing what did not fit before.
    fn probe(&mut self) -> io::Result<()> {
        self.folds.write_late()?;
        // Comes first, so that no attempt uses up the space reserved for rows that free space.
        self.continue_journal()?;
        self.journal.push(&JournalRow::Probe);
        self.journal.write()?;
        if self.checkpoint_late {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Stops accepting if an index file met a full disk.
    pub(super) fn stop_if_late(&self) {
        if let Some(text) = self.folds.full.clone()
            && self.sync.trouble().is_none()
        {
            self.sync.stop(SpoolTrouble::new(TroubleKind::Full, text));
        }
    }

    /// Begins a journal file if it is time for one; stops accepting if that fails.
    pub fn continue_or_stop(&mut self) {
        if let Err(e) = self.continue_journal() {
            self.journal.discard();
            self.sync.stop(trouble("begin a journal file", &e));
        }
    }

    /// Begins a journal file if it is time for one, or completes the beginning of one.
    fn continue_journal(&mut self) -> io::Result<()> {
        if self.journal.is_file_full() || self.journal_state_late { self.next_journal_file() } else { Ok(()) }
    }
}
