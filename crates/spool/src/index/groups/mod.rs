//! Groups: names, flags, water marks, living article numbers, and the positions of overview rows.
//!
//! [`SharedGroups`] is the table (replaced as a whole when a group is added or removed); each [`Group`]
//! guards its own [`GroupState`] with a short lock, so that a reader of one group never waits for articles
//! filed in another.

mod live;
mod shown;

pub(crate) use live::LiveSet;
pub(crate) use shown::HiddenNumbers;
use spool_base::digest::SetSum;
use spool_base::fetch::{fetch, fetch_all, fetch_bytes};
use spool_base::ids::{GroupFlag, GroupId};
use spool_base::ordered::{Ordered, OrderedGuard, rank};

use crate::index::overview::GroupOverview;
use arc_swap::ArcSwap;
use hashbrown::{DefaultHashBuilder, HashTable};
use netnews::GroupMarks;
use spool_base::xref::pairs_of_line;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Memory locations that filing an article modifies: numbers, an entry and the first of its block, row text.
const NEXT_WRITES: usize = 4;

/// Typical length of an overview row, in bytes.
const ROW_BYTES_USUAL: usize = 320;

/// A group to be created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewGroup {
    /// Name; must pass `netnews::newsgroups::valid_name`.
    pub name: String,
    /// Flag.
    pub flag: GroupFlag,
    /// Description, one line for LIST NEWSGROUPS.
    pub description: String,
    /// Creator, for LIST ACTIVE.TIMES.
    pub creator: String,
    /// Time of creation, in Unix seconds.
    pub created: u64,
    /// Numbers up to this one count as used (for an import of another server's active file); 0 for none.
    pub high: u64,
}

/// A change to an existing group; `None` leaves a property unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupChange {
    /// New flag.
    pub flag: Option<GroupFlag>,
    /// New description.
    pub description: Option<String>,
}

/// The mutable part of a group. Fields that every new article changes come first, so that they share few
/// cache lines.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct GroupState {
    /// Highest number ever shown.
    pub high: u64,
    /// Time of the last change of the active entry, in Unix seconds; initially that of creation or opening.
    pub changed: u64,
    pub live: LiveSet,
    pub overview: GroupOverview,
    pub flag: GroupFlag,
    pub description: String,
    pub hidden: HiddenNumbers,
    /// Sum of the living numbers with the articles that they name.
    pub sum: SetSum,
}

impl GroupState {
    pub fn marks(&self) -> GroupMarks {
        // A hidden article may be shown again, so its number keeps the low mark from rising (RFC 3977
        // 6.1.1.2).
        let low = self.live.low().unwrap_or(self.high + 1);
        GroupMarks { low, high: self.high, count: self.live.count() - self.hidden.count() }
    }
}

/// A group.
#[derive(Debug)]
pub struct Group {
    /// Number of the group.
    pub id: GroupId,
    /// Name of the group.
    pub name: Box<str>,
    /// Time of creation, in Unix seconds.
    pub created: u64,
    /// Creator of the group.
    pub creator: Box<str>,
    /// Whether the flag is `y`: checked for every article.
    open: AtomicBool,
    /// Addresses that filing the next article will write to, as of the last one. The memory may have moved
    /// since.
    next_writes: [AtomicUsize; NEXT_WRITES],
    state: Ordered<GroupState, { rank::GROUP }>,
}

impl Group {
    pub(crate) fn new(id: GroupId, new: &NewGroup, now: u64) -> Self {
        let state = GroupState {
            flag: new.flag.clone(),
            description: new.description.clone(),
            high: new.high,
            changed: now,
            ..GroupState::default()
        };
        Self {
            id,
            name: new.name.as_str().into(),
            created: new.created,
            creator: new.creator.as_str().into(),
            open: AtomicBool::new(new.flag == GroupFlag::Open),
            next_writes: Default::default(),
            state: Ordered::new(state),
        }
    }

    pub(crate) fn state(&self) -> OrderedGuard<'_, GroupState, { rank::GROUP }> {
        self.state.lock()
    }

    /// Prefetches the group itself; [`Group::fetch_next_writes`] follows a little later. With thousands of
    /// groups, nothing that filing modifies is in the processor's cache, and waiting for one location after
    /// the other would take longer than everything else that is done for an article under the writer's lock.
    pub(crate) fn fetch(&self) {
        fetch_all(self);
    }

    /// Prefetches the locations that filing the next article will modify.
    pub(crate) fn fetch_next_writes(&self) {
        let [live, row, first, text] = self.next_writes.each_ref().map(|at| at.load(Ordering::Relaxed));
        [live, row, first].into_iter().for_each(fetch);
        fetch_bytes(text, ROW_BYTES_USUAL);
    }

    /// Records the locations for the next article, after one has been filed.
    pub(crate) fn note_next_writes(&self, state: &GroupState) {
        let [row, first, text] = state.overview.next_writes();
        let addresses = [state.live.next_write(), row, first, text];
        self.next_writes.iter().zip(addresses).for_each(|(slot, at)| slot.store(at, Ordering::Relaxed));
    }

    /// Returns the current flag.
    pub fn flag(&self) -> GroupFlag {
        if self.open.load(Ordering::Acquire) { GroupFlag::Open } else { self.state().flag.clone() }
    }

    pub(crate) fn set_flag(&self, flag: &GroupFlag, now: u64) {
        let mut state = self.state();
        if state.flag != *flag {
            state.flag = flag.clone();
            state.changed = now;
        }
        drop(state);
        self.open.store(*flag == GroupFlag::Open, Ordering::Release);
    }

    /// Returns the one-line description.
    pub fn description(&self) -> String {
        self.state().description.clone()
    }

    /// Returns the time of the last change of marks or flag, Unix seconds, give or take one; or the time of
    /// opening if nothing has changed since.
    pub fn changed(&self) -> u64 {
        self.state().changed
    }

    /// Returns the current water marks.
    pub fn marks(&self) -> GroupMarks {
        self.state().marks()
    }

    /// Returns the water marks for clients that see only the articles above a base, which `base` computes
    /// from the high mark.
    pub fn marks_above(&self, base: impl FnOnce(u64) -> u64) -> GroupMarks {
        let state = self.state();
        let (all, base) = (state.marks(), base(state.high));
        if all.low > base {
            return all;
        }
        let low = state.live.at_or_after(base + 1).unwrap_or(state.high + 1);
        let count = state.live.count_behind(base) - state.hidden.count_above(base);
        GroupMarks { low, high: state.high, count }
    }
}

/// The table of all groups, as of one moment.
#[derive(Debug, Default)]
pub struct GroupTable {
    /// Index by name; entries are compared with the names of the groups themselves.
    by_name: HashTable<GroupId>,
    hasher: DefaultHashBuilder,
    /// Groups by [`GroupId`]; `None` for removed groups.
    by_id: Vec<Option<Arc<Group>>>,
    sorted: Arc<[Arc<Group>]>,
}

impl GroupTable {
    /// Returns a group by number.
    pub fn get(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }

    /// Returns the number of a group by name.
    pub fn id(&self, name: &[u8]) -> Option<GroupId> {
        self.by_name.find(self.hash(name), |id| self.is_called(*id, name)).copied()
    }

    fn is_called(&self, id: GroupId, name: &[u8]) -> bool {
        self.get(id).is_some_and(|group| group.name.as_bytes() == name)
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Returns a copy of the table with groups added and groups removed.
    fn changed(&self, add: Vec<Arc<Group>>, remove: &[GroupId]) -> Self {
        let mut by_id = self.by_id.clone();
        for id in remove {
            if let Some(slot) = by_id.get_mut(id.0 as usize) {
                *slot = None;
            }
        }
        for group in add {
            let at = group.id.0 as usize;
            if by_id.len() <= at {
                by_id.resize(at + 1, None);
            }
            by_id[at] = Some(group);
        }
        let mut sorted: Vec<_> = by_id.iter().flatten().cloned().collect();
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let name = |id: &GroupId| by_id.get(id.0 as usize).and_then(Option::as_ref).map(|group| &*group.name);
        let hash = |id: &GroupId| self.hash(name(id).unwrap_or_default().as_bytes());
        let mut by_name = HashTable::with_capacity(sorted.len());
        for group in &sorted {
            by_name.insert_unique(hash(&group.id), group.id, hash);
        }
        Self { by_name, hasher: self.hasher.clone(), by_id, sorted: sorted.into() }
    }

    /// Returns groups and numbers of the Xref line that a stored article begins with, except for groups that
    /// are not carried.
    pub(crate) fn numbers_in(&self, head: &[u8]) -> Vec<(GroupId, u64)> {
        pairs_of_line(head).filter_map(|(name, number)| Some((self.id(name)?, number))).collect()
    }

    /// Returns all groups, sorted by name.
    pub fn sorted(&self) -> &Arc<[Arc<Group>]> {
        &self.sorted
    }
}

/// The current table of groups.
#[derive(Debug, Default)]
pub(crate) struct SharedGroups {
    table: ArcSwap<GroupTable>,
}

impl SharedGroups {
    pub fn table(&self) -> arc_swap::Guard<Arc<GroupTable>> {
        self.table.load()
    }

    pub fn snapshot(&self) -> Arc<GroupTable> {
        self.table.load_full()
    }

    /// Returns a group by number.
    pub fn get(&self, id: GroupId) -> Option<Arc<Group>> {
        self.table.load().get(id).cloned()
    }

    /// Returns all groups, sorted by name.
    pub fn sorted(&self) -> Arc<[Arc<Group>]> {
        self.table.load().sorted().clone()
    }

    /// Adds and removes groups. Called by the writer only.
    pub fn replace(&self, add: Vec<Arc<Group>>, remove: &[GroupId]) {
        self.table.store(Arc::new(self.table.load().changed(add, remove)));
    }
}
