//! Passes of expiry over an open spool, and dry runs of them (CN-20 to CN-22).
//!
//! Data about many articles is read from the lists of retained articles, without the writer's lock: the
//! lowest numbers within caps, the arrivals of threads, the candidates for giving up. The removal itself
//! takes place in steps under the lock ([`crate::write::expire`]).

mod explain;
mod survey;
mod what_if;

pub use explain::{ArticleExpiry, ExpiryFate, NumberExpiry};
pub use what_if::{WhatIf, WhatIfRow};

use crate::base::error::SpoolTrouble;
use crate::base::ids::GroupId;
use crate::base::key::ArticleKey;
use crate::index::kept::KeptEntry;
use crate::method::Volume;
use crate::spool::Spool;
use crate::write::expire::{
    ExpireReport, ExpiryJudge, ExpiryJudgement, ExpiryStep, ExpiryVerdict, unreadable,
};
use crate::write::policy::ExpiryPolicy;
use crate::write::room::FreeSpace;
use crate::write::syncer::failed_sync;
use disk::Progress;
use disk::clock::unix_now;
use std::sync::Arc;
use survey::fingerprint;

/// A retained article that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueArticle {
    /// Hash of its Message-ID.
    pub key: ArticleKey,
    /// Names of the groups that it leaves.
    pub groups: Vec<String>,
}

/// Number of articles whose rows share a sync.
const CHOSEN_PER_SYNC: usize = 16_384;

impl Spool {
    /// Expires the retained articles that are due, or reports which would be expired.
    pub fn expire(&self, dry_run: bool) -> Result<ExpireReport, SpoolTrouble> {
        self.expire_as_of(unix_now(), dry_run)
    }

    /// Like [`Spool::expire`], as if it were `now` (Unix seconds).
    pub fn expire_as_of(&self, now: u64, dry_run: bool) -> Result<ExpireReport, SpoolTrouble> {
        if dry_run { self.would_expire(now) } else { self.expire_all(now) }
    }

    /// Expires the retained articles that are due, as of `now` (Unix seconds), without reading lists known to
    /// have no due articles, whose articles are not counted as examined.
    pub fn expire_due(&self, now: u64) -> Result<ExpireReport, SpoolTrouble> {
        self.expire_and_archive(now, true)
    }

    /// Like [`Spool::expire_and_archive`], but counts also the removals of a pass that was running, and for
    /// which this one waited.
    fn expire_all(&self, now: u64) -> Result<ExpireReport, SpoolTrouble> {
        let before = *self.expired.lock();
        let own = self.expire_and_archive(now, false)?;
        let all = self.expired.lock().without(&before);
        let looked_at = own.looked_at + (all.articles - own.articles);
        Ok(ExpireReport { looked_at, ..all.with_outlook_of(&own) })
    }

    /// Runs passes until nothing more is removed: an archivist holds back articles that it has not copied,
    /// and copies them between two passes, when the writer is free.
    fn expire_and_archive(&self, now: u64, is_quick: bool) -> Result<ExpireReport, SpoolTrouble> {
        let mut all = self.expiry_pass(now, is_quick)?;
        while self.archivist().is_some_and(|archivist| archivist.archive_held(self)) {
            let next = self.expiry_pass(now, is_quick)?;
            // An article that was held back is counted in the pass that removes it.
            let looked_at = all.looked_at.max(all.articles + next.looked_at);
            all = ExpireReport { looked_at, ..all.with(&next).with_outlook_of(&next) };
        }
        Ok(all)
    }

    /// Reports whether a class has less space than it should leave free, and so may have to give up articles.
    pub fn is_short_of_room(&self) -> bool {
        let volumes = self.shared.volumes.load();
        volumes.all().iter().any(|volume| self.room(&**volume).is_some_and(|room| room.is_short()))
    }

    /// Returns the space available to the class of a volume, if it is configured to leave some free.
    fn room(&self, volume: &dyn Volume) -> Option<FreeSpace> {
        volume.retained()?;
        let current = self.shared.current.load();
        let class =
            current.classes.iter().find(|c| c.name == volume.name() && c.method == volume.method())?;
        let free_min = class.tree.free_min?;
        let system = self.shared.disk.file_system(&class.tree.path).ok()?;
        Some(FreeSpace::new(free_min, system.free_bytes, system.total_bytes))
    }

    fn expiry_pass(&self, now: u64, is_quick: bool) -> Result<ExpireReport, SpoolTrouble> {
        // A shared log decides what leaves, and when ids are forgotten.
        if self.position().is_some() {
            return Ok(ExpireReport::default());
        }
        let _one_at_a_time = self.expiring.lock();
        // As before any other change: what is forgotten must not depend on what this pass removes.
        self.forget_old(now)?;
        let mut report = ExpireReport::default();
        let mut passed = Ok(false);
        while matches!(passed, Ok(false)) {
            passed = self.try_pass(now, is_quick, &mut report);
        }
        let mut expired = self.expired.lock();
        *expired = expired.with(&report);
        passed.map(|_| report)
    }

    /// Runs one pass; returns false if the policy changed meanwhile.
    fn try_pass(&self, now: u64, is_quick: bool, report: &mut ExpireReport) -> Result<bool, SpoolTrouble> {
        let Some(policy) = self.begin_expiry() else { return Ok(true) };
        let mut judge = ExpiryJudge::new(policy, now);
        judge.may_leave = self.archivist().map(|archivist| archivist as _);
        judge.cuts = self.cuts(&mut judge, &())?;
        let volumes = self.shared.volumes.load().all().len();
        for index in 0..volumes {
            self.choose_to_give_up(index, &mut judge, report)?;
            {
                let mut writer = self.writer.lock();
                let Some(list) = writer.folds.kept.get_mut(index).and_then(Option::as_mut) else { continue };
                list.begin_pass();
            }
            let is_quick = is_quick && judge.cuts.is_empty() && judge.give_up.is_empty();
            loop {
                let mut writer = self.writer_at(unix_now());
                let step = writer.expire_step(index, &mut judge, is_quick, report);
                let chosen = writer.leaving.len();
                writer.unlock_fair();
                if !matches!(step, Ok(ExpiryStep::More)) || chosen >= CHOSEN_PER_SYNC {
                    self.let_go()?;
                }
                match step? {
                    ExpiryStep::More => {}
                    ExpiryStep::Done => break,
                    ExpiryStep::NeedsThreads => judge.threads = Some(self.threads(&())?),
                    ExpiryStep::Changed => return Ok(false),
                }
            }
        }
        self.writer.lock().end_freeing();
        Ok(true)
    }

    /// Removes the chosen articles. Waits for the disk, and removes files of single articles, without the
    /// writer's lock.
    fn let_go(&self) -> Result<(), SpoolTrouble> {
        let journal = self.writer.lock().journal.sync_set().clone();
        journal.sync().map_err(|e| self.sync.stop(failed_sync(&e)))?;
        let mut is_more = true;
        while is_more {
            let mut writer = self.writer_at(unix_now());
            is_more = writer.let_go()?;
            writer.unlock_fair();
            self.remove_files()?;
        }
        self.writer.lock().checkpoint_if_due();
        Ok(())
    }

    /// Returns the policy of a pass that begins now; `None` if nothing ever expires. Knowledge about files
    /// without due articles is dropped if groups have changed.
    fn begin_expiry(&self) -> Option<Arc<ExpiryPolicy>> {
        let groups = fingerprint(&self.shared.groups.snapshot());
        let mut writer = self.writer.lock();
        if writer.groups_expired != groups {
            writer.groups_expired = groups;
            writer.folds.kept.iter_mut().flatten().for_each(|list| list.forget_quiet());
        }
        let policy = writer.policy.clone();
        (!policy.is_empty()).then_some(policy)
    }

    /// Returns the retained articles that are due as of `now` (Unix seconds), without removing any: what
    /// [`crate::Change::Expire`] tells other machines of the site.
    pub fn due(&self, now: u64) -> Result<Vec<DueArticle>, SpoolTrouble> {
        let mut due = Vec::new();
        self.judge_all(now, &mut |e, verdict| {
            let table = self.shared.groups.snapshot();
            let name = |(id, _): &(GroupId, u64)| Some(table.get(*id)?.name.to_string());
            let groups: Vec<String> = verdict.due.iter().filter_map(name).collect();
            // An article without a group goes, too.
            if !groups.is_empty() || !verdict.stays {
                due.push(DueArticle { key: e.key, groups });
            }
        })?;
        Ok(due)
    }

    fn would_expire(&self, now: u64) -> Result<ExpireReport, SpoolTrouble> {
        let mut report = ExpireReport::default();
        self.judge_all(now, &mut |e, verdict| report.count(e, verdict))?;
        Ok(report)
    }

    /// Calls `visit` with every living retained article and the verdict on it.
    fn judge_all(
        &self,
        now: u64,
        visit: &mut dyn FnMut(&KeptEntry, &ExpiryVerdict),
    ) -> Result<(), SpoolTrouble> {
        let policy = self.writer.lock().policy.clone();
        let mut judge = ExpiryJudge::new(policy, now);
        judge.cuts = self.cuts(&mut judge, &())?;
        if judge.policy.has_threads() {
            judge.threads = Some(self.threads(&())?);
        }
        for list in self.lists() {
            self.choose_to_give_up(list.index, &mut judge, &mut ExpireReport::default())?;
            let (shared, table) = (&self.shared, self.shared.groups.snapshot());
            let mut count = |e: &_| {
                let ExpiryJudgement::Lives(verdict) = judge.judge(shared, &table, &*list.volume, e) else {
                    return;
                };
                judge.goes(&*list.volume, e, &verdict);
                visit(e, &verdict);
            };
            list.entries.each(&mut count).map_err(|e| unreadable(&e))?;
        }
        Ok(())
    }
}

/// Counter of the steps of one piece of work, reported to [`Progress`] now and then.
struct StepCounter<'a> {
    progress: &'a dyn Progress,
    done: u64,
}

impl<'a> StepCounter<'a> {
    /// Number of steps between two reports.
    const EVERY: u64 = 10_000;

    fn begin(progress: &'a dyn Progress, what: &str, total: u64) -> Self {
        progress.start(what, total);
        Self { progress, done: 0 }
    }

    fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(Self::EVERY) {
            self.progress.step(self.done);
        }
    }
}

impl Drop for StepCounter<'_> {
    fn drop(&mut self) {
        self.progress.finish();
    }
}
