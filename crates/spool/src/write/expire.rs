//! Expiry: which kept articles are due, and letting go of them (CN-20 to CN-22, CN-27, CN-46).
//!
//! It reads the entries of [`crate::index::kept`] and never an article. The explicit date is recorded at
//! arrival, the policy is applied when an entry is read, so that a change of policy takes effect at once. A
//! number goes when the policy of its group says so; the bytes go with the last number. [`Judge`] decides and
//! changes nothing; dry runs and explanations ask it too. Driven by [`crate::care::expire`] in bounded steps:
//! some choose what goes and write its rows; once these are durable, without the writer's lock, others take
//! it out of the indexes; files that are removed one by one follow, again without the lock. No checkpoint is
//! taken in between: it would say that the rows are applied.

use crate::base::bug::own_bug;
use crate::base::config::Keep;
use crate::base::error::{Trouble, TroubleKind};
use crate::base::ids::{Flag, GroupId};
use crate::base::key::Key;
use crate::base::leaving::{Leaving as LeavingArticle, MayLeave};
use crate::base::token::Token;
use crate::index::fold::{Shared, is_full};
use crate::index::groups::{Group, GroupTable};
use crate::index::history::Found;
use crate::index::kept::KeptEntry;
use crate::index::withdrawing::RemoveFiles;
use crate::journal::Row;
use crate::method::Volume;
use crate::write::commit::Writer;
use crate::write::leaving::Leaving;
use crate::write::policy::Policy;
use crate::write::room::GiveUp;
use crate::write::syncer::failed_sync;
use crate::write::threads::Threads;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Entries read while the writer is held.
const ENTRIES_PER_STEP: usize = 2000;
/// Articles whose rows are written in one step.
const CHOSEN_PER_STEP: usize = 64;
/// Articles that leave the indexes in one step.
const GONE_PER_STEP: usize = 64;
/// For so long at most nobody looks at a file again of which nothing goes, in seconds: what was cancelled
/// leaves it then.
const QUIET_SECS_MAX: u64 = 86_400;

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
    /// Of these articles those whose groups had more than a cap allows.
    pub capped: u64,
    /// Those that were given up for room.
    pub given_up: u64,
    /// Of the articles that are due those that were held back for an archive.
    pub held: u64,
    /// A class had less room than it should leave free.
    pub is_short: bool,
    /// When the next article is due, Unix seconds.
    pub next_due: Option<u64>,
}

impl ExpireReport {
    /// What both have removed.
    pub(crate) fn with(&self, other: &Self) -> Self {
        self.counted(other, |a, b| a + b)
    }

    /// What was removed since it was as in `before`.
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

    /// These counts, and what the last pass says of what is left.
    pub(crate) fn with_outlook_of(&self, last: &Self) -> Self {
        Self { held: last.held, is_short: last.is_short, next_due: last.next_due, ..*self }
    }

    /// Counts what becomes of an article.
    pub(crate) fn count(&mut self, e: &KeptEntry, verdict: &Verdict) {
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

/// What is to become of a living article.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Numbers that go.
    pub due: Vec<(GroupId, u64)>,
    /// Some number lives on.
    pub stays: bool,
    /// When the next of these is due, Unix seconds.
    pub next: Option<u64>,
    /// A cap took one of its numbers.
    pub is_capped: bool,
    /// It goes for room.
    pub is_given_up: bool,
    /// No rule promises that it stays now, were there need of room.
    pub may_give_up: bool,
    /// The rule that keeps it longest.
    pub rule: Option<usize>,
}

/// What [`Judge::judge`] says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// No such article lives; its entry can go.
    Dead,
    /// That depends on its thread, and [`Judge::threads`] is not there yet.
    NeedsThreads,
    /// It lives.
    Lives(Verdict),
}

/// What a rule says of a number.
pub(crate) struct Term {
    pub rule: Option<usize>,
    pub keep: Keep,
    /// When it is due, Unix seconds; `None`: never.
    pub due: Option<u64>,
    /// Its group has more than the rule allows, and it is among the oldest.
    pub is_capped: bool,
}

/// The policy as of one moment, with what it must know of many articles to judge one.
#[derive(Debug)]
pub(crate) struct Judge {
    pub policy: Arc<Policy>,
    /// Unix seconds.
    pub now: u64,
    /// The rule that decides, by volume and group: asked for each number.
    chosen: hashbrown::HashMap<(u16, GroupId), Option<usize>>,
    /// By rule and group, where there is more than the rule's cap: the lowest number that may stay.
    pub cuts: HashMap<(usize, GroupId), u64>,
    /// Built when an article is met that depends on it.
    pub threads: Option<Threads>,
    /// By volume, where room is short.
    pub give_up: HashMap<u16, GiveUp>,
    /// Who is asked before an article goes.
    pub may_leave: Option<Arc<dyn MayLeave>>,
}

impl Judge {
    pub fn new(policy: Arc<Policy>, now: u64) -> Self {
        let (chosen, cuts, give_up) = Default::default();
        Self { policy, now, chosen, cuts, threads: None, give_up, may_leave: None }
    }

    /// The rule that decides about articles of a volume in a group.
    pub fn rule(&mut self, volume: &dyn Volume, group: &Group) -> Option<usize> {
        let policy = &self.policy;
        *self.chosen.entry((volume.id(), group.id)).or_insert_with(|| {
            let class = policy.class_of(volume.name(), volume.method());
            policy.rule(class, &group.name, || group.flag() == Flag::Moderated)
        })
    }

    /// When an article leaves a group; `None` without the arrivals of threads if it depends on them.
    pub fn term(&mut self, volume: &dyn Volume, group: &Group, number: u64, e: &KeptEntry) -> Option<Term> {
        let rule = self.rule(volume, group);
        let keep = rule.map_or(Keep::Forever, |rule| self.policy.keep(rule));
        let (arrived, expires) = (u64::from(e.arrived), u64::from(e.expires));
        let mut due = keep.due(arrived, expires);
        if due.is_some_and(|due| due <= self.now) && rule.is_some_and(|rule| self.policy.by_thread(rule)) {
            let newest = u64::from(self.threads.as_ref()?.newest(e.thread));
            due = keep.due(newest.max(arrived), expires);
        }
        let cut = rule.and_then(|rule| self.cuts.get(&(rule, group.id)));
        Some(Term { rule, keep, due, is_capped: cut.is_some_and(|cut| number < *cut) })
    }

    /// What becomes of an article of a volume.
    pub fn judge(
        &mut self,
        shared: &Shared,
        table: &GroupTable,
        volume: &dyn Volume,
        e: &KeptEntry,
    ) -> Judged {
        let mut verdict = Verdict { may_give_up: true, ..Verdict::default() };
        let (mut latest, mut leaves_all) = (None, None);
        for (id, number) in &e.numbers {
            let Some(group) = table.get(*id).filter(|g| g.state().live.contains(*number)) else { continue };
            let Some(term) = self.term(volume, group, *number, e) else { return Judged::NeedsThreads };
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
            // No group names it any more: it was cancelled, or its groups were removed.
            let is_here = |t: Token| t.volume == volume.id() && t.place == e.place;
            let lives = matches!(shared.history.lookup(&e.key), Found::At(t, _) if is_here(t));
            return if lives { Judged::Lives(verdict) } else { Judged::Dead };
        }
        let goes = |give_up: &GiveUp| verdict.may_give_up && give_up.takes(u64::from(e.arrived));
        let is_given_up =
            leaves_all.is_none() && verdict.stays && self.give_up.get(&volume.id()).is_some_and(goes);
        if is_given_up || leaves_all.is_some() && verdict.stays {
            let lives = |id: GroupId, n| table.get(id).is_some_and(|g| g.state().live.contains(n));
            verdict.due = e.numbers.iter().filter(|(id, n)| lives(*id, *n)).copied().collect();
            verdict.rule = leaves_all.or(verdict.rule);
            (verdict.stays, verdict.is_given_up, verdict.next) = (false, is_given_up, None);
        }
        Judged::Lives(verdict)
    }

    /// Whether an article that is due must wait for somebody who has not copied it yet.
    fn is_held(&self, table: &GroupTable, token: Token, e: &KeptEntry, verdict: &Verdict) -> bool {
        let Some(may_leave) = self.may_leave.as_ref().filter(|_| !verdict.stays) else { return false };
        let named = |(id, number): &(GroupId, u64)| Some((&*table.get(*id)?.name, *number));
        let numbers: Vec<(&str, u64)> = e.numbers.iter().filter_map(named).collect();
        let (key, numbers, is_given_up) = (e.key, numbers.as_slice(), verdict.is_given_up);
        !may_leave.may_leave(&LeavingArticle { key, token, numbers, is_given_up })
    }

    /// Notes that an article goes.
    pub fn goes(&mut self, volume: &dyn Volume, e: &KeptEntry, verdict: &Verdict) {
        if verdict.is_given_up
            && let Some(give_up) = self.give_up.get_mut(&volume.id())
        {
            give_up.took(u64::from(e.arrived), e.stored_bytes);
        }
    }

    /// What becomes of a whole file of entries.
    fn judge_file(
        &mut self,
        shared: &Shared,
        table: &GroupTable,
        volume: &dyn Volume,
        entries: &[KeptEntry],
    ) -> FileJudged {
        let mut report = ExpireReport::default();
        for e in entries {
            match self.judge(shared, table, volume, e) {
                Judged::Lives(verdict) if verdict.stays && verdict.due.is_empty() => {
                    report.count(e, &verdict)
                }
                Judged::Lives(_) | Judged::Dead => return FileJudged::Changes,
                Judged::NeedsThreads => return FileJudged::NeedsThreads,
            }
        }
        FileJudged::Stays(report)
    }
}

/// What becomes of a file of entries.
enum FileJudged {
    /// Everything in it stays.
    Stays(ExpireReport),
    /// Something in it goes.
    Changes,
    NeedsThreads,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// The pass over the volume is over.
    Done,
    /// It goes on once there is a table of threads.
    NeedsThreads,
    /// There is another policy now.
    Changed,
}

/// What goes in a step.
#[derive(Default)]
struct Going {
    rows: Vec<Leaving>,
    /// Entries that were taken.
    taken: Vec<KeptEntry>,
}

impl Writer {
    /// One bounded step of a pass over a volume: chooses what goes and writes its rows. With `is_quick`,
    /// files of which nothing can be due are not read.
    pub fn expire_step(
        &mut self,
        index: usize,
        judge: &mut Judge,
        is_quick: bool,
        report: &mut ExpireReport,
    ) -> Result<Step, Trouble> {
        self.may_free()?;
        if !Arc::ptr_eq(&self.policy, &judge.policy) {
            return Ok(Step::Changed);
        }
        let volumes = self.folds.shared.volumes.load();
        let Some(volume) = volumes.all().get(index).cloned() else { return Ok(Step::Done) };
        let mut going = Going::default();
        let step = self.choose_going((index, &*volume), judge, is_quick, &mut going, report)?;
        for Leaving { key, token, gone, numbers } in &mut going.rows {
            let row = Row::Expire { key: *key, token: *token, gone: *gone, numbers: std::mem::take(numbers) };
            self.journal.push(&row);
            if let Row::Expire { numbers: written, .. } = row {
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

    /// Lets go of some of what was chosen; true: there is more. Waits for a sync if its rows are not durable.
    /// Files of single articles are still to be removed then.
    pub fn let_go(&mut self) -> Result<bool, Trouble> {
        self.may_free()?;
        let set = self.journal.sync_set();
        if set.synced() < self.leaving_upto {
            set.sync().map_err(|e| self.sync.stop(failed_sync(&e)))?;
        }
        let some = self.leaving.len().min(GONE_PER_STEP);
        let keys: Vec<Key> = self.leaving.iter().take(some).map(|leaving| leaving.key).collect();
        self.folds.shared.history.touch(&keys);
        for Leaving { key, token, gone, numbers } in self.leaving.drain(..some) {
            self.folds.expire((key, token), gone, &numbers, RemoveFiles::Later);
        }
        if self.leaving.is_empty() { self.freed().map(|()| false) } else { Ok(true) }
    }

    /// Takes entries until enough of their articles go.
    fn choose_going(
        &mut self,
        (index, volume): (usize, &dyn Volume),
        judge: &mut Judge,
        is_quick: bool,
        going: &mut Going,
        report: &mut ExpireReport,
    ) -> Result<Step, Trouble> {
        let shared = self.folds.shared.clone();
        let table = shared.groups.table();
        let quick = is_quick.then_some(judge.now);
        let mut looked_at = 0;
        while looked_at < ENTRIES_PER_STEP && going.rows.len() < CHOSEN_PER_STEP {
            let Some(list) = self.folds.kept.get_mut(index).and_then(Option::as_mut) else {
                return Ok(Step::Done);
            };
            if let Some(entries) = list.look_ahead(quick).map_err(|e| unreadable(&e))? {
                match judge.judge_file(&shared, &table, volume, entries) {
                    FileJudged::Stays(file) => {
                        looked_at += entries.len();
                        report.looked_at += file.looked_at;
                        report.next_due = report.next_due.into_iter().chain(file.next_due).min();
                        let until = judge.now.saturating_add(QUIET_SECS_MAX);
                        list.leave(file.next_due.map_or(until, |due| due.min(until)));
                        continue;
                    }
                    FileJudged::NeedsThreads => return Ok(Step::NeedsThreads),
                    FileJudged::Changes => {}
                }
            }
            let Some(e) = list.take().map_err(|e| unreadable(&e))? else {
                report.next_due = report.next_due.into_iter().chain(list.first_quiet()).min();
                return Ok(Step::Done);
            };
            looked_at += 1;
            let is_taken = !list.is_in_place();
            let verdict = match judge.judge(&shared, &table, volume, &e) {
                Judged::Lives(verdict) => verdict,
                Judged::Dead => continue,
                Judged::NeedsThreads => {
                    list.hand_back(e);
                    return Ok(Step::NeedsThreads);
                }
            };
            let token =
                Token { method: volume.method(), class: e.class, volume: volume.id(), place: e.place };
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
            going.rows.push(Leaving { key: e.key, token, gone: !verdict.stays, numbers });
            if !verdict.stays && is_taken {
                going.taken.push(e);
            }
        }
        Ok(Step::More)
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
