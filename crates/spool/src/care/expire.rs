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

use crate::apply::forgetting::HourlyForgetting;
use crate::apply::withdraw::remove_files;
use crate::index::fold::SharedIndexes;
use crate::index::kept::KeptEntry;
use crate::read::Lookup;
use crate::reader::SpoolReader;
use crate::write::expire::{
    ExpireReport, ExpiryJudge, ExpiryJudgement, ExpiryStep, ExpiryVerdict, unreadable,
};
use crate::write::locked::LockedWriter;
use crate::write::policy::ExpiryPolicy;
use crate::write::syncer::failed_sync;
use disk::Progress;
use disk::clock::unix_secs;
use explain::ExpiryExplainer;
use spool_base::config::{ExpireConfig, SpoolConfig};
use spool_base::error::SpoolTrouble;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::leaving::ExpiryHook;
use spool_base::ordered::{Ordered, rank};
use std::sync::Arc;
use survey::{Survey, fingerprint};

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

/// Archive that copies articles leaving the spool.
pub trait Archivist: ExpiryHook {
    /// Copies the articles that were held back since the last call. Returns whether a pass may now remove
    /// articles that the last one could not.
    fn archive_held(&self, reader: &SpoolReader<'_>) -> bool;
}

/// State that the passes of an open spool share.
#[derive(Default)]
pub(crate) struct ExpiryState {
    /// Held by a pass.
    passing: Ordered<(), { rank::EXPIRING }>,
    /// Total of all passes since the spool was opened.
    expired: Ordered<ExpireReport, { rank::INNERMOST }>,
    /// Archivist to be called before articles are removed.
    archivist: Ordered<Option<Arc<dyn Archivist>>, { rank::INNERMOST }>,
}

/// Expiry of retained articles; see the module's documentation.
#[derive(Clone, Copy)]
pub struct Expiry<'s> {
    survey: Survey<'s>,
    forgetting: &'s HourlyForgetting,
    state: &'s ExpiryState,
}

impl<'s> Expiry<'s> {
    pub(crate) fn new(
        shared: &'s SharedIndexes,
        writer: &'s LockedWriter,
        forgetting: &'s HourlyForgetting,
        state: &'s ExpiryState,
    ) -> Self {
        Self { survey: Survey { shared, writer }, forgetting, state }
    }

    /// Returns the current rules.
    pub fn rules(&self) -> Vec<ExpireConfig> {
        self.survey.shared.current.load().expire.clone()
    }

    /// Sets or removes the archivist that is called before articles are removed.
    pub fn set_archivist(&self, archivist: Option<Arc<dyn Archivist>>) {
        *self.state.archivist.lock() = archivist;
    }

    fn archivist(&self) -> Option<Arc<dyn Archivist>> {
        self.state.archivist.lock().clone()
    }

    /// Explains when the article with a Message-ID expires, and why; for an article that is not stored,
    /// returns its state.
    pub fn explain(&self, message_id: &[u8]) -> Result<Result<ArticleExpiry, Lookup>, SpoolTrouble> {
        ExpiryExplainer { survey: self.survey }.explain(message_id)
    }

    /// Computes what the policy of a configuration would remove now, and by `secs` later, if nothing arrived
    /// until then. Articles given up for space are not predicted.
    pub fn what_if(
        &self,
        config: &SpoolConfig,
        secs: u64,
        progress: &dyn Progress,
    ) -> Result<WhatIf, SpoolTrouble> {
        WhatIf::of(&self.survey, config, secs, progress)
    }

    /// Expires the retained articles that are due as of `now` (Unix seconds), or reports which would be
    /// expired.
    pub fn expire(&self, now: u64, dry_run: bool) -> Result<ExpireReport, SpoolTrouble> {
        if dry_run { self.would_expire(now) } else { self.expire_all(now) }
    }

    /// Expires the retained articles that are due, as of `now` (Unix seconds), without reading lists known to
    /// have no due articles, whose articles are not counted as examined.
    pub fn expire_due(&self, now: u64) -> Result<ExpireReport, SpoolTrouble> {
        self.expire_and_archive(now, true)
    }

    /// Like [`Expiry::expire_and_archive`], but counts also the removals of a pass that was running, and for
    /// which this one waited.
    fn expire_all(&self, now: u64) -> Result<ExpireReport, SpoolTrouble> {
        let before = *self.state.expired.lock();
        let own = self.expire_and_archive(now, false)?;
        let all = self.state.expired.lock().without(&before);
        let looked_at = own.looked_at + (all.articles - own.articles);
        Ok(ExpireReport { looked_at, ..all.with_outlook_of(&own) })
    }

    /// Runs passes until nothing more is removed: an archivist holds back articles that it has not copied,
    /// and copies them between two passes, when the writer is free.
    fn expire_and_archive(&self, now: u64, is_quick: bool) -> Result<ExpireReport, SpoolTrouble> {
        let mut all = self.expiry_pass(now, is_quick)?;
        let reader = SpoolReader::new(self.survey.shared, self.survey.writer);
        while self.archivist().is_some_and(|archivist| archivist.archive_held(&reader)) {
            let next = self.expiry_pass(now, is_quick)?;
            // An article that was held back is counted in the pass that removes it.
            let looked_at = all.looked_at.max(all.articles + next.looked_at);
            all = ExpireReport { looked_at, ..all.with(&next).with_outlook_of(&next) };
        }
        Ok(all)
    }

    /// Reports whether a class has less space than it should leave free, and so may have to give up articles.
    pub fn is_short_of_room(&self) -> bool {
        let volumes = self.survey.shared.volumes.load();
        volumes.all().iter().any(|volume| self.survey.room(&**volume).is_some_and(|room| room.is_short()))
    }

    fn expiry_pass(&self, now: u64, is_quick: bool) -> Result<ExpireReport, SpoolTrouble> {
        // A shared log decides what leaves, and when ids are forgotten.
        if self.survey.writer.is_of_shared_log() {
            return Ok(ExpireReport::default());
        }
        let _one_at_a_time = self.state.passing.lock();
        // As before any other change: what is forgotten must not depend on what this pass removes.
        self.forgetting.forget_old(self.survey.writer, now)?;
        let mut report = ExpireReport::default();
        let mut passed = Ok(false);
        while matches!(passed, Ok(false)) {
            passed = self.try_pass(now, is_quick, &mut report);
        }
        let mut expired = self.state.expired.lock();
        *expired = expired.with(&report);
        passed.map(|_| report)
    }

    /// Runs one pass; returns false if the policy changed meanwhile.
    fn try_pass(&self, now: u64, is_quick: bool, report: &mut ExpireReport) -> Result<bool, SpoolTrouble> {
        let Some(policy) = self.begin_expiry() else { return Ok(true) };
        let mut judge = ExpiryJudge::new(policy, now);
        judge.may_leave = self.archivist().map(|archivist| archivist as _);
        judge.cuts = self.survey.cuts(&mut judge, &())?;
        let volumes = self.survey.shared.volumes.load().all().len();
        for index in 0..volumes {
            self.survey.choose_to_give_up(index, &mut judge, report)?;
            {
                let mut writer = self.survey.writer.lock();
                let Some(list) = writer.folds.kept.get_mut(index).and_then(Option::as_mut) else { continue };
                list.begin_pass();
            }
            let is_quick = is_quick && judge.cuts.is_empty() && judge.give_up.is_empty();
            loop {
                let mut writer = self.survey.writer.lock_at(unix_secs());
                let step = writer.expire_step(index, &mut judge, is_quick, report);
                let chosen = writer.leaving.len();
                writer.unlock_fair();
                if !matches!(step, Ok(ExpiryStep::More)) || chosen >= CHOSEN_PER_SYNC {
                    self.let_go()?;
                }
                match step? {
                    ExpiryStep::More => {}
                    ExpiryStep::Done => break,
                    ExpiryStep::NeedsThreads => judge.threads = Some(self.survey.threads(&())?),
                    ExpiryStep::Changed => return Ok(false),
                }
            }
        }
        self.survey.writer.lock().end_freeing();
        Ok(true)
    }

    /// Removes the chosen articles. Waits for the disk, and removes files of single articles, without the
    /// writer's lock.
    fn let_go(&self) -> Result<(), SpoolTrouble> {
        let journal = self.survey.writer.lock().journal.sync_set().clone();
        journal.sync().map_err(|e| self.survey.writer.sync().stop(failed_sync(&e)))?;
        let mut is_more = true;
        while is_more {
            let mut writer = self.survey.writer.lock_at(unix_secs());
            is_more = writer.let_go()?;
            writer.unlock_fair();
            if !is_more || self.survey.shared.removals.are_many() {
                remove_files(self.survey.shared, self.survey.writer)?;
            }
        }
        self.survey.writer.lock().checkpoint_if_due();
        Ok(())
    }

    /// Returns the policy of a pass that begins now; `None` if nothing ever expires. Knowledge about files
    /// without due articles is dropped if groups have changed.
    fn begin_expiry(&self) -> Option<Arc<ExpiryPolicy>> {
        let groups = fingerprint(&self.survey.shared.groups.snapshot());
        let mut writer = self.survey.writer.lock();
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
            let table = self.survey.shared.groups.snapshot();
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
        let policy = self.survey.writer.lock().policy.clone();
        let mut judge = ExpiryJudge::new(policy, now);
        judge.cuts = self.survey.cuts(&mut judge, &())?;
        if judge.policy.has_threads() {
            judge.threads = Some(self.survey.threads(&())?);
        }
        for list in self.survey.lists() {
            self.survey.choose_to_give_up(list.index, &mut judge, &mut ExpireReport::default())?;
            let (shared, table) = (self.survey.shared, self.survey.shared.groups.snapshot());
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
