//! Expiry: which retained articles are due, and their removal (CN-20 to CN-22, CN-27, CN-46).
//!
//! Reads the entries of [`crate::index::kept`] and never an article. The explicit date is recorded at
//! arrival, the policy is applied when an entry is read, so that a change of policy takes effect at once. A
//! number ends when the policy of its group says so; the bytes are removed with the last number.
//! [`ExpiryJudge`] decides without changing anything, also for dry runs and explanations. Driven by
//! [`crate::care::expire`] in bounded steps: some choose articles and write their rows; once these are
//! durable, without the writer's lock, others remove the articles from the indexes; files of single articles
//! are removed last, again without the lock. No checkpoint is taken in between: it would claim that the rows
//! are applied.

use crate::index::fold::{SharedIndexes, is_full};
use crate::index::groups::{Group, GroupTable};
use crate::index::kept::KeptEntry;
use crate::index::withdrawing::RemoveFiles;
use crate::write::commit::SpoolWriter;
use crate::write::leaving::ExpiryRow;
use crate::write::policy::ExpiryPolicy;
use crate::write::room::GiveUpSelection;
use crate::write::syncer::failed_sync;
use crate::write::threads::ThreadArrivals;
use spool_base::config::Retention;
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::ids::{GroupFlag, GroupId};
use spool_base::key::ArticleKey;
use spool_base::leaving::{ExpiryHook, LeavingArticle};
use spool_base::own_bug;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_journal::JournalRow;
use spool_methods::Volume;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Entries read while the writer is held.
const ENTRIES_PER_STEP: usize = 2000;
/// Articles whose rows are written in one step.
const CHOSEN_PER_STEP: usize = 64;
/// Articles that are removed from the indexes in one step.
const GONE_PER_STEP: usize = 64;
/// Maximum time for which a file without due articles is not examined again, in seconds: then its cancelled
/// articles are dropped.
const QUIET_SECS_MAX: u64 = 86_400;

/// Results of an expiry, or of a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpireReport {
    /// Articles examined: those that lived when the pass reached them.
    pub looked_at: u64,
    /// Articles that were removed, or would be.
    pub articles: u64,
    /// Numbers that were removed, or would be.
    pub numbers: u64,
    /// Stored bytes of those articles.
    pub bytes: u64,
    /// Articles among them whose groups exceeded a cap.
    pub capped: u64,
    /// Articles that were given up to free space.
    pub given_up: u64,
    /// Due articles that were held back for an archive.
    pub held: u64,
    /// Whether a class had less space than it should leave free.
    pub is_short: bool,
    /// Time at which the next article is due, Unix seconds.
    pub next_due: Option<u64>,
}

impl ExpireReport {
    /// Returns the sum of both reports.
    pub(crate) fn with(&self, other: &Self) -> Self {
        self.counted(other, |a, b| a + b)
    }

    /// Returns the difference from an earlier report.
    pub(crate) fn without(&self, before: &Self) -> Self {
        self.counted(before, |a, b| a.saturating_sub(b))
    }

    fn counted(&self, other: &Self, both: fn(u64, u64) -> u64) -> Self {
        Self {
            looked_at: both(self.looked_at, other.looked_at),
            articles: both(self.articles, other.articles),
            numbers: both(self.numbers, other.numbers),
            bytes: both(self.bytes, other.bytes),
            capped: both(self.capped, other.capped),
            given_up: both(self.given_up, other.given_up),
            ..*self
        }
    }

    /// Returns these counts, with the outlook of the last pass.
    pub(crate) fn with_outlook_of(&self, last: &Self) -> Self {
        Self { held: last.held, is_short: last.is_short, next_due: last.next_due, ..*self }
    }

    /// Counts the verdict on an article.
    pub(crate) fn count(&mut self, e: &KeptEntry, verdict: &ExpiryVerdict) {
        self.looked_at += 1;
        self.next_due = self.next_due.into_iter().chain(verdict.next).min();
        self.numbers += verdict.due.len() as u64;
        if !verdict.stays {
            self.articles += 1;
            self.bytes += e.stored_bytes;
            self.capped += u64::from(verdict.is_capped);
            self.given_up += u64::from(verdict.is_given_up);
        }
    }
}

/// Verdict on a living article.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ExpiryVerdict {
    /// Numbers that end.
    pub due: Vec<(GroupId, u64)>,
    /// Whether another number lives on.
    pub stays: bool,
    /// Earliest time at which one of the others is due, Unix seconds.
    pub next: Option<u64>,
    /// Whether a cap ended one of its numbers.
    pub is_capped: bool,
    /// Whether the article is given up to free space.
    pub is_given_up: bool,
    /// Whether no rule protects it now, should space be needed.
    pub may_give_up: bool,
    /// Index of the rule that keeps it longest.
    pub rule: Option<usize>,
}

/// Result of [`ExpiryJudge::judge`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpiryJudgement {
    /// No such article lives; its entry can be dropped.
    Dead,
    /// The verdict depends on its thread, and [`ExpiryJudge::threads`] is not built yet.
    NeedsThreads,
    /// The article lives.
    Lives(ExpiryVerdict),
}

/// Result of applying a rule to a number.
pub(crate) struct ExpiryTerm {
    pub rule: Option<usize>,
    pub keep: Retention,
    /// Time at which it is due, Unix seconds; `None`: never.
    pub due: Option<u64>,
    /// Whether its group exceeds the rule's cap, and it is among the oldest.
    pub is_capped: bool,
}

/// The policy at one moment, with data about many articles that judging one may need.
#[derive(Debug)]
pub(crate) struct ExpiryJudge {
    pub policy: Arc<ExpiryPolicy>,
    /// Current time in Unix seconds.
    pub now: u64,
    /// Cache of the deciding rule, by volume and group: needed for each number.
    chosen: hashbrown::HashMap<(u16, GroupId), Option<usize>>,
    /// Lowest number that may stay, by rule and group, where the rule's cap is exceeded.
    pub cuts: HashMap<(usize, GroupId), u64>,
    /// Built when an article is found that depends on it.
    pub threads: Option<ThreadArrivals>,
    /// Articles to be given up, by volume, where space is short.
    pub give_up: HashMap<u16, GiveUpSelection>,
    /// Hook to be called before an article is removed.
    pub may_leave: Option<Arc<dyn ExpiryHook>>,
}

impl ExpiryJudge {
    pub fn new(policy: Arc<ExpiryPolicy>, now: u64) -> Self {
        let (chosen, cuts, give_up) = Default::default();
        Self { policy, now, chosen, cuts, threads: None, give_up, may_leave: None }
    }

    /// Returns the rule that decides about articles of a volume in a group.
    pub fn rule(&mut self, volume: &dyn Volume, group: &Group) -> Option<usize> {
        let policy = &self.policy;
        *self.chosen.entry((volume.id(), group.id)).or_insert_with(|| {
            let class = policy.class_of(volume.name(), volume.method());
            policy.rule(class, &group.name, || group.flag() == GroupFlag::Moderated)
        })
    }

    /// Returns when an article leaves a group; `None` if that depends on thread data that is not built yet.
    pub fn term(
        &mut self,
        volume: &dyn Volume,
        group: &Group,
        number: u64,
        e: &KeptEntry,
    ) -> Option<ExpiryTerm> {
        let rule = self.rule(volume, group);
        let keep = rule.map_or(Retention::Forever, |rule| self.policy.keep(rule));
        let (arrived, expires) = (u64::from(e.arrived), u64::from(e.expires));
        let mut due = keep.due(arrived, expires);
        if due.is_some_and(|due| due <= self.now) && rule.is_some_and(|rule| self.policy.by_thread(rule)) {
            let newest = u64::from(self.threads.as_ref()?.newest(e.thread));
            due = keep.due(newest.max(arrived), expires);
        }
        let cut = rule.and_then(|rule| self.cuts.get(&(rule, group.id)));
        Some(ExpiryTerm { rule, keep, due, is_capped: cut.is_some_and(|cut| number < *cut) })
    }

    /// Judges an article of a volume.
    pub fn judge(
        &mut self,
        shared: &SharedIndexes,
        table: &GroupTable,
        volume: &dyn Volume,
        e: &KeptEntry,
    ) -> ExpiryJudgement {
        let mut verdict = ExpiryVerdict { may_give_up: true, ..ExpiryVerdict::default() };
        let (mut latest, mut leaves_all) = (None, None);
        for (id, number) in &e.numbers {
            let Some(group) = table.get(*id).filter(|g| g.state().live.contains(*number)) else { continue };
            let Some(term) = self.term(volume, group, *number, e) else {
                return ExpiryJudgement::NeedsThreads;
            };
            let ends = term.due.unwrap_or(u64::MAX);
            if latest.is_none_or(|latest| ends >= latest) {
                (latest, verdict.rule) = (Some(ends), term.rule);
            }
            verdict.is_capped |= term.is_capped;
            if term.is_capped || ends <= self.now {
                verdict.due.push((*id, *number));
                let of_all = |rule: &usize| self.policy.leaves_all_groups(*rule);
                leaves_all = leaves_all.or(term.rule.filter(of_all));
                continue;
            }
            verdict.stays = true;
            verdict.next = verdict.next.into_iter().chain(term.due).min();
            verdict.may_give_up &= term.keep.may_give_up(self.now.saturating_sub(u64::from(e.arrived)));
        }
        if latest.is_none() {
            // No group refers to it any more: it was cancelled, or its groups were removed.
            let is_here = |t: Token| t.volume == volume.id() && t.place == e.place;
            // In `hashed` an article that came again after its Message-ID was forgotten has the same place.
            let lives = matches!(shared.history.lookup(&e.key),
                HistoryLookup::At(token, arrived) if is_here(token) && arrived == e.arrived);
            return if lives { ExpiryJudgement::Lives(verdict) } else { ExpiryJudgement::Dead };
        }
        let goes = |give_up: &GiveUpSelection| verdict.may_give_up && give_up.takes(u64::from(e.arrived));
        let is_given_up =
            leaves_all.is_none() && verdict.stays && self.give_up.get(&volume.id()).is_some_and(goes);
        if is_given_up || leaves_all.is_some() && verdict.stays {
            let lives = |id: GroupId, n| table.get(id).is_some_and(|g| g.state().live.contains(n));
            verdict.due = e.numbers.iter().filter(|(id, n)| lives(*id, *n)).copied().collect();
            verdict.rule = leaves_all.or(verdict.rule);
            (verdict.stays, verdict.is_given_up, verdict.next) = (false, is_given_up, None);
        }
        ExpiryJudgement::Lives(verdict)
    }

    /// Reports whether a due article must wait until it has been copied to an archive.
    fn is_held(&self, table: &GroupTable, token: Token, e: &KeptEntry, verdict: &ExpiryVerdict) -> bool {
        let Some(may_leave) = self.may_leave.as_ref().filter(|_| !verdict.stays) else { return false };
        let named = |(id, number): &(GroupId, u64)| Some((&*table.get(*id)?.name, *number));
        let numbers: Vec<(&str, u64)> = e.numbers.iter().filter_map(named).collect();
        let (key, numbers, is_given_up) = (e.key, numbers.as_slice(), verdict.is_given_up);
        !may_leave.may_leave(&LeavingArticle { key, token, numbers, is_given_up })
    }

    /// Records that an article is removed.
    pub fn goes(&mut self, volume: &dyn Volume, e: &KeptEntry, verdict: &ExpiryVerdict) {
        if verdict.is_given_up
            && let Some(give_up) = self.give_up.get_mut(&volume.id())
        {
            give_up.took(u64::from(e.arrived), e.stored_bytes);
        }
    }

    /// Judges a whole file of entries.
    fn judge_file(
        &mut self,
        shared: &SharedIndexes,
        table: &GroupTable,
        volume: &dyn Volume,
        entries: &[KeptEntry],
    ) -> FileJudgement {
        let mut report = ExpireReport::default();
        for e in entries {
            match self.judge(shared, table, volume, e) {
                ExpiryJudgement::Lives(verdict) if verdict.stays && verdict.due.is_empty() => {
                    report.count(e, &verdict)
                }
                ExpiryJudgement::Lives(_) | ExpiryJudgement::Dead => return FileJudgement::Changes,
                ExpiryJudgement::NeedsThreads => return FileJudgement::NeedsThreads,
            }
        }
        FileJudgement::Stays(report)
    }
}

/// Verdict on a file of entries.
enum FileJudgement {
    /// All its articles stay.
    Stays(ExpireReport),
    /// Some of its articles or numbers end.
    Changes,
    NeedsThreads,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryStep {
    /// More remains to be done.
    More,
    /// The pass over the volume has ended.
    Done,
    /// The pass can continue once a table of threads is built.
    NeedsThreads,
    /// The policy was replaced.
    Changed,
}

/// Removals of one step.
#[derive(Default)]
struct ExpiryBatch {
    rows: Vec<ExpiryRow>,
    /// Entries that were taken from the list.
    taken: Vec<KeptEntry>,
}

impl SpoolWriter {
    /// Executes one bounded step of a pass over a volume: chooses articles and writes their rows. With
    /// `is_quick`, files in which nothing can be due are not read.
    pub fn expire_step(
        &mut self,
        index: usize,
        judge: &mut ExpiryJudge,
        is_quick: bool,
        report: &mut ExpireReport,
    ) -> Result<ExpiryStep, SpoolTrouble> {
        self.may_free()?;
        if !Arc::ptr_eq(&self.policy, &judge.policy) {
            return Ok(ExpiryStep::Changed);
        }
        let volumes = self.folds.shared.volumes.load();
        let Some(volume) = volumes.all().get(index).cloned() else { return Ok(ExpiryStep::Done) };
        let mut going = ExpiryBatch::default();
        let step = self.choose_going(index, &*volume, judge, is_quick, &mut going, report)?;
        for ExpiryRow { key, token, gone, numbers } in &mut going.rows {
            let row = JournalRow::Expire {
                key: *key,
                token: *token,
                gone: *gone,
                numbers: std::mem::take(numbers),
            };
            self.journal.push(&row);
            if let JournalRow::Expire { numbers: written, .. } = row {
                *numbers = written;
            }
        }
        if !going.rows.is_empty() {
            if let Err(trouble) = self.write_unsynced() {
                self.journal.discard();
                going.taken.iter().try_for_each(|e| self.put_back(index, e))?;
                return Err(trouble);
            }
            self.leaving.extend(going.rows);
            self.leaving_upto = self.journal.end();
        }
        Ok(step)
    }

    /// Removes some of the chosen articles from the indexes; returns whether more remain. Syncs first if
    /// their rows are not durable. Files of single articles must still be removed afterwards.
    pub fn let_go(&mut self) -> Result<bool, SpoolTrouble> {
        self.may_free()?;
        let set = self.journal.sync_set();
        if set.synced() < self.leaving_upto {
            set.sync().map_err(|e| self.sync.stop(failed_sync(&e)))?;
        }
        let some = self.leaving.len().min(GONE_PER_STEP);
        let keys: Vec<ArticleKey> = self.leaving.iter().take(some).map(|leaving| leaving.key).collect();
        self.folds.shared.history.touch(&keys);
        for ExpiryRow { key, token, gone, numbers } in self.leaving.drain(..some) {
            self.folds.expire(key, token, gone, &numbers, RemoveFiles::Later);
        }
        if self.leaving.is_empty() { self.freed().map(|()| false) } else { Ok(true) }
    }

    /// Takes entries until enough articles are chosen for removal.
    fn choose_going(
        &mut self,
        index: usize,
        volume: &dyn Volume,
        judge: &mut ExpiryJudge,
        is_quick: bool,
        going: &mut ExpiryBatch,
        report: &mut ExpireReport,
    ) -> Result<ExpiryStep, SpoolTrouble> {
        let shared = self.folds.shared.clone();
        let table = shared.groups.table();
        let quick = is_quick.then_some(judge.now);
        let mut looked_at = 0;
        while looked_at < ENTRIES_PER_STEP && going.rows.len() < CHOSEN_PER_STEP {
            let Some(list) = self.folds.kept.get_mut(index).and_then(Option::as_mut) else {
                return Ok(ExpiryStep::Done);
            };
            if let Some(entries) = list.look_ahead(quick).map_err(|e| unreadable(&e))? {
                match judge.judge_file(&shared, &table, volume, entries) {
                    FileJudgement::Stays(file) => {
                        looked_at += entries.len();
                        report.looked_at += file.looked_at;
                        report.next_due = report.next_due.into_iter().chain(file.next_due).min();
                        let until = judge.now.saturating_add(QUIET_SECS_MAX);
                        list.leave(file.next_due.map_or(until, |due| due.min(until)));
                        continue;
                    }
                    FileJudgement::NeedsThreads => return Ok(ExpiryStep::NeedsThreads),
                    FileJudgement::Changes => {}
                }
            }
            let Some(e) = list.take().map_err(|e| unreadable(&e))? else {
                report.next_due = report.next_due.into_iter().chain(list.first_quiet()).min();
                return Ok(ExpiryStep::Done);
            };
            looked_at += 1;
            let is_taken = !list.is_in_place();
            let verdict = match judge.judge(&shared, &table, volume, &e) {
                ExpiryJudgement::Lives(verdict) => verdict,
                ExpiryJudgement::Dead => continue,
                ExpiryJudgement::NeedsThreads => {
                    list.hand_back(e);
                    return Ok(ExpiryStep::NeedsThreads);
                }
            };
            let token = token_of(volume, &e);
            if judge.is_held(&table, token, &e, &verdict) {
                report.held += 1;
                self.put_back(index, &e)?;
                continue;
            }
            report.count(&e, &verdict);
            if verdict.stays {
                self.put_back(index, &e)?;
                if verdict.due.is_empty() {
                    continue;
                }
            }
            judge.goes(volume, &e, &verdict);
            let mut numbers = verdict.due;
            if !verdict.stays {
                numbers.clone_from(&e.numbers);
            }
            going.rows.push(ExpiryRow { key: e.key, token, gone: !verdict.stays, numbers });
            if !verdict.stays && is_taken {
                going.taken.push(e);
            }
        }
        Ok(ExpiryStep::More)
    }

    /// Puts back an entry whose article stays; on a full disk it waits in memory.
    fn put_back(&mut self, index: usize, entry: &KeptEntry) -> Result<(), SpoolTrouble> {
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

/// Returns the token of an article in a volume's list.
fn token_of(volume: &dyn Volume, e: &KeptEntry) -> Token {
    Token { method: volume.method(), class: e.class, volume: volume.id(), place: e.place }
}

pub(crate) fn unreadable(e: &io::Error) -> SpoolTrouble {
    SpoolTrouble::caused_by(TroubleKind::Io, format!("cannot expire articles: {e}"), e)
}
