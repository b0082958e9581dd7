//! Data about many articles that a pass of expiry needs, read from the lists of retained articles.

use crate::index::fold::SharedIndexes;
use crate::index::groups::GroupTable;
use crate::index::kept::{KeptEntry, KeptSnapshot};
use crate::index::weights::{GroupWeight, GroupWeights};
use crate::write::caps::CapSearch;
use crate::write::expire::{ExpireReport, ExpiryJudge, ExpiryJudgement, unreadable};
use crate::write::locked::LockedWriter;
use crate::write::room::{FreeSpace, GiveUpCandidates};
use crate::write::threads::ThreadArrivals;
use disk::Progress;
use spool_base::error::SpoolTrouble;
use spool_base::ids::{GroupFlag, GroupId};
use spool_methods::Volume;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// List of a volume at one moment.
pub(super) struct VolumeList {
    pub index: usize,
    pub volume: Arc<dyn Volume>,
    pub entries: KeptSnapshot,
}

/// Returns a hash of the set of groups, and of which of them are moderated.
pub(super) fn fingerprint(table: &GroupTable) -> u64 {
    let mut hasher = DefaultHasher::new();
    for group in table.sorted().iter() {
        (group.id, group.flag() == GroupFlag::Moderated).hash(&mut hasher);
    }
    hasher.finish()
}

/// Reports whether an article lives in any of its groups.
pub(super) fn lives(table: &GroupTable, e: &KeptEntry) -> bool {
    e.numbers.iter().any(|(id, n)| table.get(*id).is_some_and(|g| g.state().live.contains(*n)))
}

/// Surveys of retained articles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Survey<'s> {
    pub shared: &'s SharedIndexes,
    pub writer: &'s LockedWriter,
}

impl Survey<'_> {
    /// Returns all lists of retained articles.
    pub fn lists(&self) -> Vec<VolumeList> {
        let writer = self.writer.lock();
        let volumes = self.shared.volumes.load();
        let lists = volumes.all().iter().zip(&writer.folds.kept).enumerate();
        lists
            .filter_map(|(index, (volume, list))| {
                Some(VolumeList { index, volume: volume.clone(), entries: list.as_ref()?.snapshot() })
            })
            .collect()
    }

    /// Returns the lowest numbers that caps let stay, where a cap is exceeded.
    pub fn cuts(
        &self,
        judge: &mut ExpiryJudge,
        progress: &dyn Progress,
    ) -> Result<HashMap<(usize, GroupId), u64>, SpoolTrouble> {
        let mut cuts = HashMap::new();
        let mut searches = self.searches(judge);
        let (table, lists) = (self.shared.groups.snapshot(), self.lists_if(!searches.is_empty()));
        while !searches.is_empty() {
            let entries = lists.iter().map(|list| list.entries.entries).sum();
            let mut steps = StepCounter::begin(progress, "counting what groups have", entries);
            for list in &lists {
                let mut add = |e: &KeptEntry| {
                    steps.step();
                    for (id, number) in &e.numbers {
                        let Some(group) = table.get(*id) else { continue };
                        let rule = judge.rule(&*list.volume, group);
                        let search = rule.and_then(|rule| searches.get_mut(&(rule, *id)));
                        if let Some(search) = search.filter(|_| group.state().live.contains(*number)) {
                            search.add(*number, e.stored_bytes);
                        }
                    }
                };
                list.entries.each(&mut add).map_err(|e| unreadable(&e))?;
            }
            searches.retain(|at, search| match search.narrow() {
                Some(cut) => {
                    cuts.insert(*at, cut);
                    false
                }
                None => true,
            });
        }
        Ok(cuts)
    }

    fn lists_if(&self, wanted: bool) -> Vec<VolumeList> {
        if wanted { self.lists() } else { Vec::new() }
    }

    /// Returns searches for the groups that may exceed their caps.
    fn searches(&self, judge: &mut ExpiryJudge) -> HashMap<(usize, GroupId), CapSearch> {
        if !judge.policy.has_caps() {
            return HashMap::new();
        }
        let table = self.shared.groups.snapshot();
        let volumes = self.shared.volumes.load();
        let weights: Vec<Option<GroupWeights>> = {
            let writer = self.writer.lock();
            writer.folds.kept.iter().map(|list| list.as_ref().map(|list| list.weights.clone())).collect()
        };
        let mut sums: HashMap<(usize, GroupId), GroupWeight> = HashMap::new();
        for (volume, weights) in volumes.all().iter().zip(&weights) {
            for (id, weight) in weights.iter().flat_map(GroupWeights::each) {
                let Some(group) = table.get(id) else { continue };
                if let Some(rule) = judge.rule(&**volume, group) {
                    let sum = sums.entry((rule, id)).or_default();
                    *sum = sum.and(weight);
                }
            }
        }
        sums.retain(|(rule, _), sum| !judge.policy.cap(*rule).holds(*sum));
        let count = sums.len();
        let keys = sums.into_keys();
        keys.filter_map(|(rule, id)| {
            let state = table.get(id)?.state();
            let low = state.live.low().unwrap_or(state.high);
            Some(((rule, id), CapSearch::new(judge.policy.cap(rule), low, state.high, count)))
        })
        .collect()
    }

    /// Returns the arrivals of the newest articles of all threads.
    pub fn threads(&self, progress: &dyn Progress) -> Result<ThreadArrivals, SpoolTrouble> {
        let (table, lists) = (self.shared.groups.snapshot(), self.lists());
        let entries = lists.iter().map(|list| list.entries.entries).sum();
        let mut threads = ThreadArrivals::new(entries);
        let mut steps = StepCounter::begin(progress, "looking for threads", entries);
        for list in &lists {
            let mut add = |e: &KeptEntry| {
                steps.step();
                if lives(&table, e) {
                    threads.add(e.thread, e.arrived);
                }
            };
            list.entries.each(&mut add).map_err(|e| unreadable(&e))?;
        }
        Ok(threads)
    }

    /// Chooses the articles of a volume to be given up for space, if necessary: as much as is wanted beyond
    /// what is due.
    pub fn choose_to_give_up(
        &self,
        index: usize,
        judge: &mut ExpiryJudge,
        report: &mut ExpireReport,
    ) -> Result<(), SpoolTrouble> {
        let volumes = self.shared.volumes.load();
        let Some(volume) = volumes.all().get(index) else { return Ok(()) };
        let Some(room) = self.room(&**volume) else { return Ok(()) };
        let wanted = {
            let giving_up = &mut self.writer.lock().giving_up;
            let wanted = room.wanted(giving_up.contains(&volume.id()));
            if wanted > 0 {
                giving_up.insert(volume.id())
            } else {
                giving_up.remove(&volume.id())
            };
            wanted
        };
        report.is_short |= room.is_short();
        let Some(list) = self.lists_if(wanted > 0).into_iter().find(|list| list.index == index) else {
            return Ok(());
        };
        if judge.policy.has_threads() && judge.threads.is_none() {
            judge.threads = Some(self.threads(&())?);
        }
        let (mut candidates, mut due) = (GiveUpCandidates::default(), 0);
        let table = self.shared.groups.snapshot();
        let mut add = |e: &KeptEntry| match judge.judge(self.shared, &table, &*list.volume, e) {
            ExpiryJudgement::Lives(verdict) if !verdict.stays => due += e.stored_bytes,
            ExpiryJudgement::Lives(verdict) if verdict.may_give_up => {
                candidates.add(u64::from(e.arrived), e.stored_bytes);
            }
            _ => {}
        };
        list.entries.each(&mut add).map_err(|e| unreadable(&e))?;
        if due < wanted {
            judge.give_up.insert(volume.id(), candidates.give_up(wanted - due));
        }
        Ok(())
    }

    /// Returns the space available to the class of a volume, if it is configured to leave some free.
    pub fn room(&self, volume: &dyn Volume) -> Option<FreeSpace> {
        volume.retained()?;
        let current = self.shared.current.load();
        let class =
            current.classes.iter().find(|c| c.name == volume.name() && c.method == volume.method())?;
        let free_min = class.tree.free_min?;
        let system = self.shared.disk.file_system(&class.tree.path).ok()?;
        Some(FreeSpace::new(free_min, system.free_bytes, system.total_bytes))
    }
}

/// Counter of the steps of one piece of work, reported to [`Progress`] now and then.
pub(super) struct StepCounter<'a> {
    progress: &'a dyn Progress,
    done: u64,
}

impl<'a> StepCounter<'a> {
    /// Number of steps between two reports.
    const EVERY: u64 = 10_000;

    pub fn begin(progress: &'a dyn Progress, what: &str, total: u64) -> Self {
        progress.start(what, total);
        Self { progress, done: 0 }
    }

    pub fn step(&mut self) {
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
