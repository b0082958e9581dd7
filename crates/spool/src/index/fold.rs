//! The folds: history, overview, active and residents, derived from the journal's rows.
//!
//! [`Folds`] is the writing side, owned by the only writer; [`SharedIndexes`] is visible to readers. A commit
//! and a replay after a crash use the same two functions: [`Folds::displace`] and [`Folds::publish`]. Index
//! updates never stop half-way: a row that cannot be written stays in memory, and `failed` makes the writer
//! stop accepting.

use crate::index::groups::{Group, GroupTable, NewGroup, SharedGroups};
use crate::index::hidden::{HiddenIndex, PendingHides};
use crate::index::kept::KeptList;
use crate::index::notes::{KeyedNote, Notes};
use crate::index::overtaken::OverwriteWatches;
use crate::index::overview::{CheckedBlocks, OverviewSegments, REST_PART};
use crate::index::promise::GroupNumbers;
use crate::index::published::UnnumberedCounts;
pub(crate) use crate::index::published::{PublishContext, PublishedArticle};
use crate::index::refusal::SITES_MAX;
use crate::index::removals::Removals;
use crate::index::residents::{Resident, ResidentEntry, Residents, residents_between};
use crate::index::rings::Rings;
use crate::index::row_headers::RowHeaders;
use crate::index::rules::StorageRules;
use crate::index::withdrawing::RemoveFiles;
use arc_swap::ArcSwap;
use disk::Disk;
use netnews::decimal::append_decimal;
use spool_base::config::SpoolConfig;
use spool_base::digest::{SetSum, of_number};
use spool_base::error::SpoolTrouble;
use spool_base::ids::{GroupId, GroupNames};
use spool_base::key::{ArticleKey, KeyHasher};
use spool_base::ordered::{Ordered, rank};
use spool_base::token::{MethodKind, Token};
use spool_base::{bug, own_bug};
use spool_history::{History, HistoryLookup};
use spool_journal::{ArticleRow, GroupRow, GroupsFile, JournalRow, VolumeRow};
use spool_methods::packing::ArticlePacker;
use spool_methods::{Cyclic, LivingLookup, Volume, Volumes};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum length of an overview row without fields and Xref value: a number of 20 digits, two TABs, `Xref:
/// `, CRLF.
const ROW_FRAME_BYTES_MAX: usize = 32;

/// What makes the oldest articles of a volume leave.
enum LeavingBy {
    /// They lie before the place up to which the volume is about to be overwritten.
    Overwriting { tail: u64 },
    /// The ring of their class.
    Ring,
}

/// State that readers see.
#[derive(Debug)]
pub(crate) struct SharedIndexes {
    /// Configuration as of opening: directory and sizes, which do not change.
    pub config: SpoolConfig,
    /// Current configuration, for settings that may change while serving; see [`crate::Reconfiguration`].
    pub current: ArcSwap<SpoolConfig>,
    pub disk: Arc<dyn Disk>,
    pub hasher: KeyHasher,
    pub groups: SharedGroups,
    pub groups_file: Arc<GroupsFile>,
    pub volumes: Volumes,
    pub history: History,
    pub packing: Arc<ArticlePacker>,
    pub hidden: HiddenIndex,
    pub notes: Notes,
    pub overtaken: OverwriteWatches,
    /// Recently read blocks of overview.
    pub checked_blocks: CheckedBlocks,
    /// Counter that increases with every change that LIST ACTIVE would show.
    pub generation: AtomicU64,
    /// Text of LIST ACTIVE, with its generation.
    pub list: Ordered<(u64, Arc<Vec<u8>>), { rank::INNERMOST }>,
    /// Counter that increases when articles are withdrawn, hidden or shown again.
    pub withdrawals: AtomicU64,
    /// Number of living articles.
    pub articles: AtomicU64,
    /// Value of [`Disk::lost_pages`] at the last repair.
    pub lost_pages: AtomicU64,
    /// Pages of mapped files that could not be read and were rebuilt since the spool was opened.
    pub mended_pages: AtomicU64,
    /// File names that were skipped since the spool was opened, as unindexed files have them.
    pub passed_over: AtomicU64,
    /// Savings by articles without numbers since the spool was opened.
    pub unnumbered: UnnumberedCounts,
    /// Additional headers in overview rows.
    pub row_headers: RowHeaders,
    /// Files of articles that have left the indexes.
    pub removals: Removals,
    /// Whether sums of the digest are not those of what is there, as damage was found.
    pub is_digest_vague: AtomicBool,
}

impl SharedIndexes {
    /// Calls `ask` with the articles that currently live in a volume; `listed` are those in its list of
    /// retained articles, by place.
    pub fn with_living<T>(
        &self,
        volume: &dyn Volume,
        listed: &HashMap<u64, ArticleKey>,
        ask: impl FnOnce(&LivingLookup<'_>) -> T,
    ) -> T {
        let here = |key: ArticleKey, place: Option<u64>| {
            let found = self.history.lookup(&key);
            let is_at = |t: Token| t.volume == volume.id() && place.is_none_or(|place| place == t.place);
            matches!(found, HistoryLookup::At(token, _) if is_at(token))
        };
        let table = self.groups.snapshot();
        ask(&LivingLookup {
            number: &|group, number| {
                let group = table.id(group.as_bytes()).and_then(|id| table.get(id));
                group.is_some_and(|g| g.state().live.contains(number))
            },
            place: &|place| listed.get(&place).is_some_and(|key| here(*key, Some(place))),
            key: &|key| here(key, None),
            known: &|key| self.history.lookup(&key) != HistoryLookup::None,
        })
    }
}

/// The writing side of all folds. They call no clock: time is that of the change being applied.
#[derive(Debug)]
pub(crate) struct Folds {
    pub shared: Arc<SharedIndexes>,
    /// Time of the change being applied, or of the last one, in Unix seconds; in a replay that of opening.
    pub time: u64,
    /// When Message-IDs were last forgotten, in Unix seconds.
    pub forgotten_at: u32,
    pub rules: StorageRules,
    /// Residents, by volume index.
    pub residents: Vec<Residents>,
    pub rings: Rings,
    /// Lists of retained articles, by volume index.
    pub kept: Vec<Option<KeptList>>,
    /// Group names for paths of files.
    pub names: Arc<GroupNames>,
    pub segments: OverviewSegments,
    /// Numbering state, by group id.
    pub numbers: Vec<GroupNumbers>,
    /// Removed groups with the highest number they may have shown.
    pub retired: BTreeMap<String, u64>,
    pub identity: String,
    /// Additional headers that overview rows keep.
    pub overview_headers: Vec<String>,
    pub next_sequence: u64,
    /// Record of the position in a shared log up to which everything is applied; empty without such a log.
    pub position: Vec<u8>,
    /// Names of sites by their number; numbers are never reused.
    pub sites: Vec<String>,
    /// Number of the next new volume; numbers are never reused.
    pub next_volume: u16,
    /// Whether an older version of the program wrote the checkpoint from which this was loaded.
    pub is_upgrade: bool,
    /// Boot id of the machine when the spool was last opened.
    pub boot_id: [u8; 16],
    /// Whether the last row records that the spool was closed properly.
    pub closed: bool,
    /// Error message if an index file could not be written.
    pub failed: Option<String>,
    /// Error message if the disk was full for an index file; the missing data is in memory until
    /// [`Folds::write_late`].
    pub full: Option<String>,
    /// Groups whose open block should be closed.
    unclosed: BTreeSet<GroupId>,
    /// Whether articles without numbers have ended: only their usage bits say whether they lived, which a
    /// recovery cannot trust.
    pub is_count_vague: bool,
    scratch: Vec<(GroupId, u64)>,
    xref: Vec<u8>,
    /// Articles to be hidden as they are filed, during a replay.
    pub ahead: PendingHides,
}

impl Folds {
    pub fn new(
        shared: Arc<SharedIndexes>,
        rules: StorageRules,
        residents: Vec<Residents>,
        segments: OverviewSegments,
        time: u64,
    ) -> Self {
        Self {
            shared,
            time,
            forgotten_at: 0,
            rules,
            residents,
            rings: Rings::default(),
            kept: Vec::new(),
            names: Arc::default(),
            segments,
            numbers: Vec::new(),
            retired: BTreeMap::new(),
            sites: Vec::new(),
            identity: String::new(),
            overview_headers: Vec::new(),
            next_sequence: 0,
            position: Vec::new(),
            next_volume: 0,
            boot_id: [0; 16],
            ahead: PendingHides::default(),
            is_upgrade: false,
            closed: false,
            failed: None,
            full: None,
            unclosed: BTreeSet::new(),
            is_count_vague: false,
            scratch: Vec::new(),
            xref: Vec::new(),
        }
    }

    /// Returns a row that keeps the number of the last volume from being reused, if that volume no longer
    /// exists.
    pub fn last_volume(&self) -> Option<VolumeRow> {
        let id = self.next_volume.checked_sub(1)?;
        let there = self.shared.volumes.load().all().iter().any(|v| v.id() >= id);
        (!there).then(|| VolumeRow { id, method: MethodKind::Trash as u8, name: String::new(), head: 0 })
    }

    /// Adds a volume, with its lists, after the others.
    pub fn add_volume(&mut self, volume: Arc<dyn Volume>, residents: Residents, kept: Option<KeptList>) {
        self.shared.volumes.put(volume);
        self.residents.push(residents);
        self.kept.push(kept);
    }

    /// Removes a volume, with its lists.
    pub fn remove_volume(&mut self, id: u16) {
        let Some(index) = self.shared.volumes.load().index(id) else { return };
        self.shared.volumes.take(id);
        self.residents.remove(index);
        self.kept.remove(index);
    }

    /// Records that the disk was full for an index file, whose missing data is in memory.
    pub fn put_off(&mut self, what: &str, e: &io::Error) {
        put_off(&mut self.full, what, e);
    }

    pub(super) fn note(&mut self, what: &str, result: io::Result<()>) {
        note(&mut self.failed, what, result);
    }

    /// Moves a volume's write position; at the same moment all indexes forget the displaced articles
    /// (CNFS-11, CNFS-33).
    pub fn displace(&mut self, volume: usize, head: u64) -> io::Result<()> {
        self.displace_to(volume, head, false)
    }

    fn displace_to(&mut self, volume: usize, head: u64, replay: bool) -> io::Result<()> {
        let volumes = self.shared.volumes.load_full();
        let Some(v) = volumes.all().get(volume) else {
            return Err(io::Error::other(own_bug!("volume {volume} is not there")));
        };
        let Some(cyclic) = v.cyclic() else {
            v.advance(head);
            return Ok(());
        };
        let tail = cyclic.tail_at(head.max(v.head()));
        let gone = self.let_leave(volume, cyclic, &LeavingBy::Overwriting { tail }, replay)?;
        v.advance(head);
        self.count_left(gone);
        Ok(())
    }

    /// Lets the articles leave of which more than their ring's size was filed after them. Those in a damaged
    /// page of residents leave together. A failure stops the writer.
    pub fn turn_rings(&mut self, replay: bool) {
        if self.rings.is_empty() {
            return;
        }
        let volumes = self.shared.volumes.load_full();
        for (index, volume) in volumes.all().iter().enumerate() {
            let Some(cyclic) = volume.cyclic().filter(|volume| self.rings.has(volume.id())) else { continue };
            match self.let_leave(index, cyclic, &LeavingBy::Ring, replay) {
                Ok(gone) => self.count_left(gone),
                Err(e) => self.note("residents", Err(e)),
            }
        }
        self.rings.count_early();
    }

    /// Subtracts articles that have left from the count.
    fn count_left(&self, gone: u64) {
        self.shared.articles.fetch_sub(gone, Ordering::Relaxed);
        if gone > 0 {
            self.shared.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes the oldest articles of a volume out of all indexes, as long as they leave; returns how many of
    /// them lived.
    fn let_leave(&mut self, volume: usize, v: &dyn Cyclic, by: &LeavingBy, replay: bool) -> io::Result<u64> {
        let shared = self.shared.clone();
        let table = shared.groups.table();
        let recover = |from: Option<u64>, to: Option<u64>| residents_between(&table, v, from, to);
        let Self { residents, rings, .. } = self;
        let Some(residents) = residents.get_mut(volume) else {
            return Err(io::Error::other(own_bug!("volume {volume} has no list of residents")));
        };
        let (mut gone, now) = (0, self.time);
        loop {
            let leaves = |resident: &Resident| match by {
                LeavingBy::Overwriting { tail } => resident.place < *tail,
                LeavingBy::Ring => rings.has_left(v.id(), resident),
            };
            let resident = match residents.pop_if(leaves) {
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    residents.recover(recover)?;
                    continue;
                }
                popped => popped?,
            };
            let Some(resident) = resident else { break };
            // A cancelled article no longer lives. In a replay the bit may belong to the article that
            // overwrote this one before the crash; numbers are as of the row.
            let has_group = resident.numbers.iter().any(|(group, _)| table.get(*group).is_some());
            let mut lived = !(replay && has_group) && v.is_alive(resident.place);
            self.is_count_vague |= !has_group;
            let (mut key, cursor) = (None, &mut residents.key_cursor);
            for (group, number) in &resident.numbers {
                if let Some(group) = table.get(*group) {
                    let mut state = group.state();
                    if state.end(*number) {
                        state.changed = now;
                        lived = true;
                        let known = key.get_or_insert_with(|| {
                            shared.history.key_at(v.id(), resident.place, resident.arrived, cursor)
                        });
                        match known {
                            Some(key) => state.sum.take(of_number(*key, *number)),
                            None => shared.is_digest_vague.store(true, Ordering::Release),
                        }
                    }
                }
            }
            shared.hidden.remove_at(v.id(), resident.place);
            if lived {
                shared.overtaken.overwritten(v.id(), resident.place, &resident.numbers);
            }
            gone += u64::from(lived);
            match by {
                LeavingBy::Overwriting { .. } if lived && !replay => rings.overwrite(v.id(), &resident),
                LeavingBy::Overwriting { .. } => {}
                LeavingBy::Ring => v.leave_to(resident.place + v.block()),
            }
            residents.recycle(resident);
        }
        Ok(gone)
    }

    /// Publishes an accepted article: history, residents, numbers, overview. Returns true if it lives;
    /// [`Folds::count_published`] must then count it.
    pub fn publish(&mut self, context: &PublishContext<'_>, a: &PublishedArticle<'_>) -> bool {
        // Hidden before any index leads to it.
        if let Some(hidden) = a.hidden {
            self.shared.hidden.put(hidden.clone());
        }
        let lives = self.enter(context, a);
        if let Some(key) = a.row.tagged.stands_for()
            && self.shared.history.lookup(&key) == HistoryLookup::None
        {
            self.remember(key, a.row.arrived);
        }
        if a.hidden.is_some() && !lives {
            self.shared.hidden.remove(&a.row.key);
        }
        lives
    }

    /// Enters an article into all indexes; returns true if it lives.
    fn enter(&mut self, context: &PublishContext<'_>, a: &PublishedArticle<'_>) -> bool {
        let Self { shared, residents, rings, kept, segments, failed, full, unclosed, .. } = self;
        let ArticleRow { key, token, arrived, fields, .. } = a.row;
        if let Err(e) = shared.history.insert(key, Some(token), arrived) {
            // Nothing refers to an article without history; a restart restores it from its row.
            note(failed, "history", Err(e));
            return false;
        }
        let Some(index) = context.volumes.index(token.volume) else {
            // Replay of an article in a removed volume: known, but removed. Readers have seen its numbers.
            a.numbers.iter().for_each(|(group, number)| self.number_was_used(*group, *number));
            return false;
        };
        let (Some(volume), Some(residents), Some(list)) =
            (context.volumes.all().get(index), residents.get_mut(index), kept.get_mut(index))
        else {
            note_bug(failed, &own_bug!("volume {} has no lists", token.volume));
            return false;
        };
        if volume.retained().is_some() && list.is_none() {
            note_bug(failed, &own_bug!("volume {} has no list of what it keeps", token.volume));
            return false;
        }
        volume.mark_alive(token.place);
        let pushed = match list {
            Some(list) => list.push(&a.kept(&shared.hasher)),
            None => {
                let ring_end = rings.file(token.volume, fields);
                residents.push(&ResidentEntry { place: token.place, arrived, numbers: a.numbers, ring_end })
            }
        };
        match pushed {
            Err(e) if is_full(&e) => put_off(full, "residents", &e),
            pushed => note(failed, "residents", pushed),
        }
        let row_bytes_max = ROW_FRAME_BYTES_MAX + fields.len() + a.xref.len();
        let block_text_bytes = shared.config.overview.block_text_bytes;
        for (id, number) in a.numbers {
            let Some(group) = context.groups.get(*id) else { continue };
            let mut state = group.state();
            let state = &mut *state;
            if state.overview.is_full(*number, row_bytes_max, block_text_bytes) {
                let closed = state.overview.close(*id, &state.live, segments);
                match closed {
                    Err(e) if is_full(&e) && state.overview.fits(*number) => {
                        put_off(full, "overview", &e);
                        unclosed.insert(*id);
                    }
                    closed => note(failed, "overview", closed),
                }
            }
            a.put_row(*number, row_bytes_max, state);
            if state.live.insert(*number) {
                state.sum.add(of_number(key, *number));
            }
            if a.hidden.is_some() {
                state.hide(*number);
            }
            state.changed = context.now;
            state.high = state.high.max(*number);
            group.note_next_writes(state);
        }
        true
    }

    /// Writes the parts of index files that are missing since the disk was full.
    pub fn write_late(&mut self) -> io::Result<()> {
        let table = self.shared.groups.snapshot();
        while let Some(id) = self.unclosed.first().copied() {
            if let Some(group) = table.get(id) {
                let state = &mut *group.state();
                state.overview.close(id, &state.live, &mut self.segments)?;
            }
            self.unclosed.remove(&id);
        }
        self.residents.iter_mut().try_for_each(|residents| residents.write_late())?;
        self.kept.iter_mut().flatten().try_for_each(|list| list.write_late())?;
        self.full = None;
        Ok(())
    }

    /// Frees overview memory that these groups do not need while nothing is filed in them, except for groups
    /// that changed after `before` (Unix seconds).
    pub fn rest(&mut self, groups: &[GroupId], before: u64) {
        let table = self.shared.groups.snapshot();
        let enough = self.shared.config.overview.block_text_bytes / REST_PART;
        for id in groups {
            let Some(group) = table.get(*id) else { continue };
            let state = &mut *group.state();
            if state.changed <= before {
                let rested = state.overview.rest(*id, &state.live, enough, &mut self.segments);
                // On a full disk the block stays open: it is closed when an article needs its space.
                note(
                    &mut self.failed,
                    "overview",
                    rested.or_else(|e| if is_full(&e) { Ok(()) } else { Err(e) }),
                );
            }
        }
    }

    /// Counts the living articles, if the recovery could not; called at the end of recovery.
    pub fn settle_count(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_count_vague) {
            return Ok(());
        }
        let volumes = self.shared.volumes.load();
        let mut articles = 0;
        for ((volume, residents), kept) in volumes.all().iter().zip(&mut self.residents).zip(&self.kept) {
            match kept {
                Some(list) => articles += list.entries,
                None => residents.peek_before(u64::MAX, &mut |resident| {
                    articles += u64::from(volume.is_alive(resident.place));
                })?,
            }
        }
        self.shared.articles.store(articles, Ordering::Relaxed);
        Ok(())
    }

    /// Counts the sums of the digest again, if they are not known; called at the end of recovery.
    pub fn settle_digest(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        if !shared.is_digest_vague.load(Ordering::Acquire) {
            return Ok(());
        }
        let table = shared.groups.snapshot();
        table.sorted().iter().for_each(|group| group.state().sum = SetSum::default());
        let mut is_exact = shared.history.count_sum();
        let mut counted: HashMap<GroupId, u64> = HashMap::new();
        let lives = |(id, number): &(GroupId, u64)| {
            table.get(*id).is_some_and(|group| group.state().live.contains(*number))
        };
        let mut count = |key: ArticleKey, numbers: &[(GroupId, u64)]| {
            for (id, number) in numbers.iter().filter(|number| lives(number)) {
                if let Some(group) = table.get(*id) {
                    group.state().sum.add(of_number(key, *number));
                    *counted.entry(*id).or_default() += 1;
                }
            }
        };
        let volumes = shared.volumes.load();
        for ((volume, residents), kept) in volumes.all().iter().zip(&mut self.residents).zip(&mut self.kept) {
            if let Some(list) = kept {
                list.each(&mut |entry| count(entry.key, &entry.numbers))?;
                continue;
            }
            let mut cursor = 0;
            residents.peek_before(u64::MAX, &mut |resident| {
                if !resident.numbers.iter().any(lives) {
                    return;
                }
                match shared.history.key_at(volume.id(), resident.place, resident.arrived, &mut cursor) {
                    Some(key) => count(key, &resident.numbers),
                    None => is_exact = false,
                }
            })?;
        }
        // Articles on damaged pages are not found.
        let is_whole = |group: &Arc<Group>| {
            counted.get(&group.id).map_or(0, |count| *count) == group.state().live.count()
        };
        is_exact &= table.sorted().iter().all(is_whole);
        shared.is_digest_vague.store(!is_exact, Ordering::Release);
        Ok(())
    }

    /// Adds published living articles to the count.
    pub fn count_published(&self, articles: u64) {
        self.shared.articles.fetch_add(articles, Ordering::Relaxed);
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    /// Remembers a Message-ID without an article.
    pub fn remember(&mut self, key: ArticleKey, arrived: u32) {
        let inserted = self.shared.history.insert(key, None, arrived).map(|_| ());
        self.note("history", inserted);
    }

    /// Forgets a Message-ID that is remembered without an article. The row of this must be durable.
    pub fn forget(&mut self, key: ArticleKey) {
        self.shared.history.forget(&key);
    }

    /// Creates or updates a group according to its row.
    pub fn group(&mut self, row: &GroupRow) {
        let id = GroupId(row.id);
        let at = row.id as usize;
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, GroupNumbers::default());
        }
        let old = self.shared.groups.table().get(id).cloned();
        match old {
            Some(group) => {
                group.set_flag(&row.flag, self.time);
                let mut state = group.state();
                state.description.clone_from(&row.description);
                // The row has the highest number assigned, which may not have been shown.
                if self.numbers.get(at).is_none_or(|numbers| row.high > numbers.assigned) {
                    state.high = state.high.max(row.high);
                }
            }
            None => self.add_groups(std::slice::from_ref(row)),
        }
        if let Some(numbers) = self.numbers.get_mut(at) {
            numbers.promise_read(row.promised);
            numbers.assigned = numbers.assigned.max(row.high);
        }
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    /// Creates many groups at once.
    pub fn add_groups(&mut self, rows: &[GroupRow]) {
        let groups = rows.iter().map(|row| self.new_group(row)).collect();
        self.shared.groups.replace(groups, &[]);
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    fn new_group(&mut self, row: &GroupRow) -> Arc<Group> {
        let at = row.id as usize;
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, GroupNumbers::default());
        }
        if let Some(numbers) = self.numbers.get_mut(at) {
            *numbers = GroupNumbers::new(row, self.rules.group_bits(row.name.as_bytes()));
            numbers.earlier = self.retired.remove(&row.name).unwrap_or_default();
        }
        self.names.put(GroupId(row.id), &row.name);
        let new = NewGroup {
            name: row.name.clone(),
            flag: row.flag.clone(),
            description: row.description.clone(),
            creator: row.creator.clone(),
            created: row.created,
            high: row.high,
        };
        Arc::new(Group::new(GroupId(row.id), &new, self.time))
    }

    /// Removes a group; its articles stay readable by Message-ID.
    pub fn group_removed(&mut self, name: &str, high: u64) {
        let table = self.shared.groups.snapshot();
        self.retired.insert(name.to_owned(), high);
        let Some(id) = table.id(name.as_bytes()) else { return };
        if let Some(group) = table.get(id) {
            let mut state = group.state();
            state.overview.clear();
            (state.live, state.hidden, state.sum) = Default::default();
        }
        self.shared.groups.replace(Vec::new(), &[id]);
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the names of removed groups, including those that exist again, each with the highest number
    /// that it may have shown before its removal.
    pub fn removals(&self) -> Vec<(String, u64)> {
        let table = self.shared.groups.snapshot();
        let earlier = |group: &Arc<Group>| {
            let high = self.numbers.get(group.id.0 as usize)?.earlier;
            (high > 0).then(|| (group.name.to_string(), high))
        };
        let retired = self.retired.iter().map(|(name, high)| (name.clone(), *high));
        retired.chain(table.sorted().iter().filter_map(earlier)).collect()
    }

    /// Returns the current row of a group.
    pub fn group_row(&self, group: &Group) -> GroupRow {
        let state = group.state();
        let numbers = self.numbers.get(group.id.0 as usize);
        GroupRow {
            id: group.id.0,
            name: group.name.to_string(),
            flag: state.flag.clone(),
            description: state.description.clone(),
            creator: group.creator.to_string(),
            created: group.created,
            // Assigned numbers count even if they were never shown.
            high: numbers.map_or(state.high, |n| n.assigned.max(state.high)),
            promised: numbers.map_or(state.high, GroupNumbers::promised),
        }
    }

    /// Prevents the reuse of a number that named an article, even one that no longer exists.
    pub fn number_was_used(&mut self, group: GroupId, number: u64) {
        if let Some(n) = self.numbers.get_mut(group.0 as usize) {
            n.assigned = n.assigned.max(number);
        }
        if let Some(group) = self.shared.groups.table().get(group) {
            let mut state = group.state();
            state.high = state.high.max(number);
        }
    }

    /// Handles a power cut: the numbers of all groups continue after the promised ones, which also become the
    /// high marks, since readers may have seen any number up to there. After an upgrade, the marks stay as
    /// they were.
    pub fn power_lost(&mut self) {
        let table = self.shared.groups.snapshot();
        for (id, numbers) in (0..).zip(&mut self.numbers) {
            numbers.assigned = numbers.assigned.max(numbers.promised());
            if let Some(group) = table.get(GroupId(id)).filter(|_| !self.is_upgrade) {
                let mut state = group.state();
                state.high = state.high.max(numbers.assigned);
            }
        }
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    /// Applies one row of the journal (replay). After a bug of ours readers are still served, but nothing is
    /// accepted.
    pub fn apply(&mut self, row: &JournalRow<'_>) -> io::Result<()> {
        let applied = self.apply_row(row);
        self.stop_at_bug(applied)
    }

    /// Passes a result on, except for a bug of ours, which stops accepting.
    fn stop_at_bug(&mut self, result: io::Result<()>) -> io::Result<()> {
        let Err(e) = result else { return Ok(()) };
        match bug::in_error(&e) {
            Some(bug) => {
                note_bug(&mut self.failed, bug);
                Ok(())
            }
            None => Err(e),
        }
    }

    fn apply_row(&mut self, row: &JournalRow<'_>) -> io::Result<()> {
        self.closed = matches!(row, JournalRow::Closed);
        match row {
            JournalRow::Article(a) => self.apply_article(a)?,
            JournalRow::Remember { key, arrived } => self.remember(*key, *arrived),
            JournalRow::Cancel { .. } | JournalRow::Expire { .. } => self.end(row, RemoveFiles::Now),
            JournalRow::Group(g) => self.group(g),
            JournalRow::GroupRemoved { name, high } => self.group_removed(name, *high),
            JournalRow::Promise(list) => {
                for (group, upto) in list {
                    if let Some(numbers) = self.numbers.get_mut(group.0 as usize) {
                        numbers.promise_read(*upto);
                    }
                }
            }
            JournalRow::Skip { volume, head } => {
                let index = self.shared.volumes.load().index(*volume);
                if let Some(index) = index {
                    self.displace_to(index, *head, true)?;
                }
            }
            JournalRow::Lost { volume, place, numbers } => self.lost(*volume, *place, numbers),
            JournalRow::Hide(hidden) => self.hide(hidden.clone()),
            JournalRow::Unhide { key, .. } => self.unhide(*key),
            JournalRow::Forget { key } => self.forget(*key),
            JournalRow::Note { kind, since, key, value } => self.shared.notes.put(*kind, key, *since, *value),
            JournalRow::Forgotten { at, ids_before, notes_before } => {
                if !self.shared.history.forget_before(*ids_before) {
                    self.shared.is_digest_vague.store(true, Ordering::Release);
                }
                self.shared.notes.forget(*notes_before);
                self.forgotten_at = *at;
            }
            JournalRow::HideAhead { key, by, reason } => self.ahead.put(*key, by, reason),
            JournalRow::PowerLost => self.power_lost(),
            JournalRow::Opened { boot_id } => self.boot_id = *boot_id,
            JournalRow::Identity(name) => self.identity.clone_from(name),
            JournalRow::Site { number, name } => self.site(*number, name),
            JournalRow::Position { record } => self.position.clone_from(record),
            JournalRow::Volume(_)
            | JournalRow::Synced { .. }
            | JournalRow::Closed
            | JournalRow::Probe
            | JournalRow::Void(_) => {}
            JournalRow::Begun { .. } | JournalRow::Ignored(_) => {}
        }
        Ok(())
    }

    /// Makes notes, the newest last.
    pub fn note_all(&self, notes: &[KeyedNote]) {
        for KeyedNote { kind, key, note } in notes {
            self.shared.notes.put(*kind, key, note.since, Some(&note.value));
        }
    }

    /// Assigns a number to a site.
    pub fn site(&mut self, number: u32, name: &str) {
        let at = number as usize;
        if at < SITES_MAX {
            self.sites.resize(self.sites.len().max(at + 1), String::new());
            if let Some(site) = self.sites.get_mut(at) {
                name.clone_into(site);
            }
        }
    }

    /// Applies a void article row: its numbers and its place stay used.
    pub fn apply_void(&mut self, a: &ArticleRow<'_>) -> io::Result<()> {
        let used = self.use_up(a);
        self.stop_at_bug(used)
    }

    /// Marks the numbers and the place of an article row as used.
    fn use_up(&mut self, a: &ArticleRow<'_>) -> io::Result<()> {
        let mut numbers = std::mem::take(&mut self.scratch);
        if !a.numbers(&mut numbers) {
            return Err(io::Error::other("an article row names no groups"));
        }
        let volumes = self.shared.volumes.load();
        let index = volumes.index(a.token.volume);
        let head = volumes.get(a.token.volume).map(|v| v.end_of(a.token.place, a.stored_bytes));
        drop(volumes);
        if let (Some(index), Some(head)) = (index, head) {
            self.displace_to(index, head, true)?;
        }
        for (group, number) in &numbers {
            let Some(n) = self.numbers.get_mut(group.0 as usize) else {
                return Err(io::Error::other(own_bug!("an article row names group {}, never made", group.0)));
            };
            n.assigned = n.assigned.max(*number);
        }
        self.next_sequence = self.next_sequence.max(a.sequence + 1);
        self.scratch = numbers;
        Ok(())
    }

    fn apply_article(&mut self, a: &ArticleRow<'_>) -> io::Result<()> {
        self.use_up(a)?;
        let mut numbers = std::mem::take(&mut self.scratch);
        let mut xref = std::mem::take(&mut self.xref);
        a.numbers(&mut numbers);
        let shared = self.shared.clone();
        let (groups, volumes) = (shared.groups.table(), shared.volumes.load());
        self.put_xref(&groups, &numbers, &mut xref);
        let hidden = self.ahead.entry(a, &numbers);
        let lives = self.publish(
            &PublishContext { groups: &groups, volumes: &volumes, now: self.time },
            &PublishedArticle { row: *a, numbers: &numbers, xref: &xref, hidden: hidden.as_ref() },
        );
        self.count_published(u64::from(lives));
        self.turn_rings(true);
        self.scratch = numbers;
        self.xref = xref;
        Ok(())
    }

    /// Appends an Xref value (RFC 5536 3.2.14).
    pub fn put_xref(&self, table: &GroupTable, numbers: &[(GroupId, u64)], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.identity.as_bytes());
        for (id, number) in numbers {
            if let Some(group) = table.get(*id) {
                out.push(b' ');
                out.extend_from_slice(group.name.as_bytes());
                out.push(b':');
                append_decimal(*number, out);
            }
        }
    }
}

/// Reports whether an error means that no space is left.
pub(crate) fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn put_off(full: &mut Option<String>, what: &str, e: &io::Error) {
    full.get_or_insert_with(|| format!("cannot write {what}: {e}"));
}

fn note(failed: &mut Option<String>, what: &str, result: io::Result<()>) {
    if let Err(e) = result {
        failed.get_or_insert_with(|| format!("cannot write {what}: {e}"));
    }
}

fn note_bug(failed: &mut Option<String>, bug: &SpoolTrouble) {
    failed.get_or_insert_with(|| bug.text.clone());
}
