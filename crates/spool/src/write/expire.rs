//! Expiry: which kept articles are due, and letting go of them (CN-20 to CN-22, CN-27, CN-46).
//!
//! A fold: it reads the entries of [`crate::index::kept`] and never an article. The explicit date is recorded
//! at arrival, the policy is applied when an entry is read, so that a change of policy takes effect at once.
//! A number goes when the policy of its group says so; the bytes go with the last number. The row is durable
//! before anything goes. Called by the spool's expiry thread in bounded steps, and by `newsreel expire`.

use crate::base::bug::own_bug;
use crate::base::error::{Trouble, TroubleKind};
use crate::base::ids::GroupId;
use crate::base::token::Token;
use crate::index::fold::is_full;
use crate::index::history::Found;
use crate::index::kept::KeptEntry;
use crate::journal::Row;
use crate::method::Volume;
use crate::write::commit::Writer;
use crate::write::manager::Class;
use std::io;

/// Entries read while the writer is held.
const ENTRIES_PER_STEP: usize = 2000;
/// Articles expired in one step: each may cost the removal of files.
const GONE_PER_STEP: usize = 256;

/// What expiry did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpireReport {
    /// Articles checked: those that lived when the pass came to them.
    pub looked_at: u64,
    /// Articles that were removed, or would be.
    pub articles: u64,
    /// Numbers that were removed, or would be.
    pub numbers: u64,
    /// Stored bytes of those articles.
    pub bytes: u64,
    /// When the next article is due, Unix seconds.
    pub next_due: Option<u64>,
}

/// What is to become of an entry.
pub(crate) struct Verdict {
    pub due: Vec<(GroupId, u64)>,
    /// Some number lives on.
    pub stays: bool,
    pub next: Option<u64>,
}

impl Writer {
    /// What happens to an entry of a volume. A volume that keeps has the name of its class; the number of the
    /// class in the entry is that of the configuration when it came.
    pub fn judge(&mut self, volume: &dyn Volume, e: &KeptEntry, now: u64) -> Option<Verdict> {
        let shared = self.folds.shared.clone();
        let table = shared.groups.table();
        let own =
            |c: &Class| c.method == volume.method() && c.buffers.iter().any(|name| name == volume.name());
        let class = self.classes.iter().position(own);
        let mut verdict = Verdict { due: Vec::new(), stays: false, next: None };
        let mut lives = false;
        for (id, number) in &e.numbers {
            let Some(group) = table.get(*id).filter(|g| g.state().live.contains(*number)) else { continue };
            lives = true;
            match self.policy.due(e, class, *id, &group.name) {
                Some(due) if due <= now => verdict.due.push((*id, *number)),
                due => {
                    verdict.stays = true;
                    verdict.next = verdict.next.into_iter().chain(due).min();
                }
            }
        }
        if lives {
            return Some(verdict);
        }
        // No group names it any more: it was cancelled, or its groups were removed.
        let is_here = |t: Token| t.volume == volume.id() && t.place == e.place;
        matches!(shared.history.lookup(&e.key), Found::At(t, _) if is_here(t)).then_some(verdict)
    }

    /// One bounded step of a pass over a volume; false when the pass is over.
    pub fn expire_step(
        &mut self,
        index: usize,
        now: u64,
        report: &mut ExpireReport,
    ) -> Result<bool, Trouble> {
        self.may_free()?;
        let shared = self.folds.shared.clone();
        let volumes = shared.volumes.load();
        let Some(volume) = volumes.all().get(index).cloned() else { return Ok(false) };
        let (mut rows, mut going) = (Vec::new(), Vec::new());
        let mut more = true;
        for _ in 0..ENTRIES_PER_STEP {
            let Some(list) = self.folds.kept.get_mut(index).and_then(Option::as_mut) else {
                return Ok(false);
            };
            let Some(e) = list.take().map_err(|e| unreadable(&e))? else {
                more = false;
                break;
            };
            let is_taken = !list.is_in_place();
            let Some(verdict) = self.judge(&*volume, &e, now) else { continue };
            report.looked_at += 1;
            report.next_due = report.next_due.into_iter().chain(verdict.next).min();
            if verdict.stays {
                self.put_back(index, &e)?;
                if verdict.due.is_empty() {
                    continue;
                }
            }
            report.numbers += verdict.due.len() as u64;
            if !verdict.stays {
                report.articles += 1;
                report.bytes += e.stored_bytes;
            }
            let numbers = if verdict.stays { verdict.due } else { e.numbers.clone() };
            let token =
                Token { method: volume.method(), class: e.class, volume: volume.id(), place: e.place };
            rows.push((e.key, token, !verdict.stays, numbers));
            if !verdict.stays && is_taken {
                going.push(e);
            }
            if rows.len() >= GONE_PER_STEP {
                break;
            }
        }
        if rows.is_empty() {
            if !more {
                self.freed()?;
            }
            return Ok(more);
        }
        for (key, token, gone, numbers) in &rows {
            let (key, token, gone) = (*key, *token, *gone);
            self.journal.push(&Row::Expire { key, token, gone, numbers: numbers.clone() });
        }
        if let Err(trouble) = self.write_now() {
            self.journal.discard();
            going.iter().try_for_each(|e| self.put_back(index, e))?;
            return Err(trouble);
        }
        for (key, token, gone, numbers) in &rows {
            self.folds.expire(*key, *token, *gone, numbers);
        }
        self.freed()?;
        Ok(more)
    }

    /// Puts back an entry that stays; on a full disk it waits in memory.
    fn put_back(&mut self, index: usize, entry: &KeptEntry) -> Result<(), Trouble> {
        let Some(list) = self.folds.kept.get_mut(index).and_then(Option::as_mut) else {
            return Err(self.sync.stop(own_bug!("volume {index} has lost its list of what it keeps")));
        };
        match list.put_back(entry) {
            Err(e) if is_full(&e) => self.folds.put_off("the list of kept articles", &e),
            pushed => pushed.map_err(|e| unreadable(&e))?,
        }
        Ok(())
    }
}

pub(crate) fn unreadable(e: &io::Error) -> Trouble {
    Trouble::caused_by(TroubleKind::Io, format!("cannot expire articles: {e}"), e)
}
