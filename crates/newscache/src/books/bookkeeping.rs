//! Bookkeeping of groups and files: their sizes, and the choice of files to remove when there is no room.
//!
//! All in memory, without a disk: callers remove the files that these functions list. A file is a *unit* of
//! the replacement strategy. Invariants: `used` is the sum of the units' bytes, `pending` of the
//! reservations; a file is taken out of the books before it is removed. Called by `cache`, `group`, `large`
//! and `opening`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;

pub(crate) use crate::base::packed::CacheFile;
use crate::base::packed::{BLOCK_BYTES, NONE, PackedUnit, blocks, seconds};
use crate::base::record::hash64;
use crate::settings::CacheSizes;
use crate::strategy::{Strategy, StrategyKind, UnitInfo, Victim};
use netnews::GroupMarks;

/// Maximum number of known groups, unless readers have more of them selected.
const GROUPS_MAX: usize = 1 << 17;
/// Maximum number of groups that are examined to find one to forget.
const LOOKED_AT_MAX: usize = 1024;
/// Maximum number of uses of a unit that are remembered over a restart.
const USES_MAX: u8 = 15;

/// An answer of upstream, and the time of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatedAnswer<T> {
    /// The answer.
    pub value: T,
    /// Time of the question, in Unix seconds.
    pub at: u64,
}

/// A file in the books.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheUnit {
    pub file: CacheFile,
    pub slot: u32,
    /// Highest number in it, if known.
    pub last: u64,
    /// Latest time of expiry or posting of its articles.
    pub expires: u64,
    /// Time of the last use in Unix seconds, and number of uses.
    pub used: u64,
    pub uses: u16,
}

/// A group in the books.
#[derive(Debug, Clone)]
pub(crate) struct GroupSlot {
    pub key: u64,
    /// Upstream, shared with its other groups.
    pub origin: Arc<str>,
    pub name: Box<[u8]>,
    /// Current generation; files of other generations are invalid.
    pub generation: u64,
    marks: GroupMarks,
    /// Time at which upstream was asked for the water marks, in seconds.
    marks_at: u32,
    pub next_seq: u32,
    /// Wrapping count of removed files of the group.
    pub removals: u32,
    first: u32,
    used: u32,
    has_marks: bool,
    /// True if its place on disk is up to date, except for the time of use.
    pub is_written: bool,
}

const _: () = assert!(size_of::<GroupSlot>() == 96, "what a group costs beside its name");

impl GroupSlot {
    pub fn new(origin: &str, name: &[u8], generation: u64, now: u64) -> Self {
        Self {
            key: key_of(origin, name),
            origin: origin.into(),
            name: name.into(),
            generation,
            marks: GroupMarks::default(),
            marks_at: 0,
            next_seq: 0,
            removals: 0,
            first: NONE,
            used: seconds(now),
            has_marks: false,
            is_written: false,
        }
    }

    /// Returns the water marks from the last answer of upstream.
    pub fn marks(&self) -> Option<DatedAnswer<GroupMarks>> {
        self.has_marks.then_some(DatedAnswer { value: self.marks, at: self.marks_at.into() })
    }

    pub fn set_marks(&mut self, marks: Option<DatedAnswer<GroupMarks>>) {
        self.has_marks = marks.is_some();
        let asked = marks.unwrap_or(DatedAnswer { value: GroupMarks::default(), at: 0 });
        (self.marks, self.marks_at) = (asked.value, seconds(asked.at));
    }

    /// Returns the time of the last request, in Unix seconds.
    pub fn used(&self) -> u64 {
        self.used.into()
    }

    /// Returns whether files of the group are in the cache.
    pub fn has_files(&self) -> bool {
        self.first != NONE
    }
}

/// Returns the key by which a group is found.
pub(crate) fn key_of(origin: &str, name: &[u8]) -> u64 {
    hash64(&[origin.as_bytes(), name])
}

/// Rounds a size up to whole blocks.
pub(crate) fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Hashes a key for a table: the low bits of some keys are all the same.
fn spread(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// Bookkeeping of the cache.
pub(crate) struct Bookkeeping {
    /// Count of changes that indexes in memory must follow: files removed, water marks, generations.
    pub changes: Arc<AtomicU64>,
    pub shape: CacheSizes,
    kind: StrategyKind,
    strategy: Box<dyn Strategy>,
    used: u64,
    pending: u64,
    pub slots: Vec<GroupSlot>,
    by_key: HashTable<u32>,
    units: Vec<PackedUnit>,
    free: Vec<u32>,
    count: u64,
    by_large: HashTable<u32>,
    latest_generation: u64,
    hand: usize,
    /// Upstream of the last new group.
    origin: Arc<str>,
}

impl Bookkeeping {
    pub fn new(kind: StrategyKind, shape: CacheSizes) -> Self {
        Self {
            changes: Arc::default(),
            shape,
            kind,
            strategy: kind.new_strategy(),
            used: 0,
            pending: 0,
            slots: Vec::new(),
            by_key: HashTable::new(),
            units: Vec::new(),
            free: Vec::new(),
            count: 0,
            by_large: HashTable::new(),
            latest_generation: 0,
            hand: 0,
            origin: "".into(),
        }
    }

    /// Records a change of a group's water marks or generation.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub fn used(&self) -> u64 {
        self.used + self.pending
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        self.count
    }

    /// Returns a generation that no group has had.
    pub fn new_generation(&mut self, now: u64) -> u64 {
        self.latest_generation = now.max(self.latest_generation + 1);
        self.latest_generation
    }

    pub fn slot_of_key(&self, key: u64) -> Option<u32> {
        let is_it = |slot: &u32| self.slots.get(*slot as usize).is_some_and(|slot| slot.key == key);
        self.by_key.find(spread(key), is_it).copied()
    }

    /// Records the slot of the group with this key.
    fn set_slot_of_key(&mut self, key: u64, slot: u32) {
        let slots = &self.slots;
        let key_of = |slot: &u32| slots.get(*slot as usize).map_or(0, |slot| slot.key);
        match self.by_key.find_mut(spread(key), |slot| key_of(slot) == key) {
            Some(known) => *known = slot,
            None => _ = self.by_key.insert_unique(spread(key), slot, |slot| spread(key_of(slot))),
        }
    }

    /// Returns the group's slot, and whether it is new. `is_idle` returns whether no reader has a group
    /// selected.
    pub fn slot(
        &mut self,
        origin: &str,
        name: &[u8],
        now: u64,
        is_idle: impl Fn(u32) -> bool,
    ) -> (u32, bool) {
        let key = key_of(origin, name);
        if let Some(slot) = self.slot_of_key(key) {
            let found = &mut self.slots[slot as usize];
            found.used = seconds(now);
            return (slot, false);
        }
        let mut new = GroupSlot::new(origin, name, self.new_generation(now), now);
        self.share_origin(&mut new);
        let slot = match self.idle_slot(is_idle) {
            Some(slot) => {
                let old = self.slots[slot as usize].key;
                if let Ok(known) = self.by_key.find_entry(spread(old), |known| *known == slot) {
                    known.remove();
                }
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        };
        self.set_slot_of_key(key, slot);
        (slot, true)
    }

    /// Returns a group without files that no reader has selected, if the table is full.
    fn idle_slot(&mut self, is_idle: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.len() < GROUPS_MAX {
            return None;
        }
        (0..LOOKED_AT_MAX).find_map(|_| {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = self.hand as u32;
            (!self.slots[self.hand].has_files() && is_idle(slot)).then_some(slot)
        })
    }

    /// Makes room for this many groups.
    pub fn reserve_slots(&mut self, groups: usize) {
        let groups = groups.min(GROUPS_MAX);
        self.slots.reserve_exact(groups.saturating_sub(self.slots.len()));
        let slots = &self.slots;
        self.by_key.reserve(groups, |slot| spread(slots.get(*slot as usize).map_or(0, |slot| slot.key)));
    }

    /// Lets a group share its upstream's name with the previous one, which mostly has the same.
    fn share_origin(&mut self, slot: &mut GroupSlot) {
        if slot.origin == self.origin {
            slot.origin = self.origin.clone();
        } else {
            self.origin = slot.origin.clone();
        }
    }

    /// Puts a group that was read from disk into its slot, which must be free.
    pub fn restore_slot(&mut self, at: u32, mut slot: GroupSlot) {
        self.share_origin(&mut slot);
        while self.slots.len() <= at as usize {
            // An empty slot is not found by any key until a group is put there.
            let mut empty = GroupSlot::new("", b"", 0, 0);
            empty.key = 0;
            self.slots.push(empty);
        }
        self.latest_generation = self.latest_generation.max(slot.generation);
        let key = slot.key;
        self.slots[at as usize] = slot;
        self.set_slot_of_key(key, at);
    }

    /// Enters a file, whose room has been made already.
    pub fn enter(&mut self, slot: u32, file: CacheFile, bytes: u64, expires: u64, now: u64) -> u32 {
        debug_assert!(self.owns(slot, file), "{file:?} is no file of its group");
        let id = self.free.pop().unwrap_or(self.units.len() as u32);
        let unit = PackedUnit::new(slot, file, bytes, expires, now);
        match self.units.get_mut(id as usize) {
            Some(place) => *place = unit,
            None => self.units.push(unit),
        }
        self.settle(id);
        id
    }

    /// Enters the initial files of a cache, in this order.
    pub fn enter_all(&mut self, units: Vec<PackedUnit>) {
        debug_assert!(self.units.is_empty());
        self.strategy.reserve(units.len(), self.slots.len());
        let large = units.iter().filter(|unit| unit.large().is_some()).count();
        self.by_large.reserve(large, |_| 0);
        self.units = units;
        for id in 0..self.units.len() as u32 {
            self.link(id, |unit| unit.uses = unit.uses.clamp(1, USES_MAX));
            self.settle(id);
            self.repeat_hits(id);
        }
    }

    /// Tells the strategy of the uses of a unit that it does not know, which are all but the first.
    fn repeat_hits(&mut self, id: u32) {
        let Some(unit) = self.packed(id).copied() else { return };
        let item = self.item(&unit);
        for _ in 1..unit.uses {
            self.strategy.hit(id, item);
        }
    }

    /// Enters a unit in all tables.
    fn settle(&mut self, id: u32) {
        let Some(unit) = self.units.get(id as usize).copied() else { return };
        let Some(slot) = self.slots.get_mut(unit.slot as usize) else { return };
        let after = std::mem::replace(&mut slot.first, id);
        self.link(after, |next| next.before = id);
        self.link(id, |unit| (unit.before, unit.after) = (NONE, after));
        self.used += unit.bytes();
        self.count += 1;
        if let Some(hash) = unit.large() {
            let units = &self.units;
            let low =
                |id: &u32| units.get(*id as usize).and_then(PackedUnit::large).map_or(0, |hash| hash as u64);
            match self.by_large.find_mut(spread(hash as u64), |known| low(known) == hash as u64) {
                Some(known) => *known = id,
                None => _ = self.by_large.insert_unique(spread(hash as u64), id, |id| spread(low(id))),
            }
        }
        let item = self.item(&unit);
        self.strategy.insert(id, item);
    }

    /// Returns whether a file of this name would belong to this group.
    fn owns(&self, slot: u32, file: CacheFile) -> bool {
        let Some(slot) = self.slots.get(slot as usize) else { return false };
        match file {
            CacheFile::Segment { key, generation, .. } | CacheFile::Numbers { key, generation } => {
                (key, generation) == (slot.key, slot.generation)
            }
            CacheFile::Large(_) => true,
        }
    }

    fn link(&mut self, unit: u32, change: impl FnOnce(&mut PackedUnit)) {
        if let Some(unit) = self.units.get_mut(unit as usize).filter(|unit| unit.is_there()) {
            change(unit);
        }
    }

    fn packed(&self, id: u32) -> Option<&PackedUnit> {
        self.units.get(id as usize).filter(|unit| unit.is_there())
    }

    fn file_of(&self, unit: &PackedUnit) -> CacheFile {
        let (key, generation) =
            self.slots.get(unit.slot as usize).map_or((0, 0), |slot| (slot.key, slot.generation));
        unit.file(key, generation)
    }

    fn unpacked(&self, unit: &PackedUnit) -> CacheUnit {
        CacheUnit {
            file: self.file_of(unit),
            slot: unit.slot,
            last: unit.last(),
            expires: unit.expires.into(),
            used: unit.used.into(),
            uses: unit.uses.into(),
        }
    }

    fn item(&self, unit: &PackedUnit) -> UnitInfo {
        let key = match self.file_of(unit) {
            CacheFile::Segment { key, seq, .. } => key ^ u64::from(seq),
            CacheFile::Numbers { key, .. } => !key,
            CacheFile::Large(hash) => hash as u64,
        };
        UnitInfo { key, group: unit.slot, bytes: unit.bytes(), expires: unit.expires.into() }
    }

    pub fn unit(&self, id: u32) -> Option<CacheUnit> {
        self.packed(id).map(|unit| self.unpacked(unit))
    }

    /// Returns the unit of a large article.
    pub fn large(&self, hash: u128) -> Option<u32> {
        let is_it = |id: &u32| self.units.get(*id as usize).and_then(PackedUnit::large) == Some(hash);
        self.by_large.find(spread(hash as u64), is_it).copied()
    }

    /// Returns the units of a group.
    pub fn units_of(&self, slot: u32) -> impl Iterator<Item = (u32, CacheUnit)> {
        let mut next = self.slots.get(slot as usize).map_or(NONE, |slot| slot.first);
        std::iter::from_fn(move || {
            let (id, unit) = (next, self.packed(next)?);
            next = unit.after;
            Some((id, self.unpacked(unit)))
        })
    }

    /// Returns all units.
    pub fn units(&self) -> impl Iterator<Item = CacheUnit> {
        self.units.iter().filter(|unit| unit.is_there()).map(|unit| self.unpacked(unit))
    }

    /// Returns all files with their units.
    pub fn numbered_files(&self) -> Vec<(u32, CacheFile)> {
        let units = (0..).zip(&self.units).filter(|(_, unit)| unit.is_there());
        units.map(|(id, unit)| (id, self.file_of(unit))).collect()
    }

    /// Returns whether a unit is still this file.
    pub fn is_file(&self, id: u32, file: CacheFile) -> bool {
        self.packed(id).is_some_and(|unit| self.file_of(unit) == file)
    }

    /// Records a hit in a file.
    pub fn hit(&mut self, id: u32, file: CacheFile, now: u64) {
        let Some(unit) = self.packed(id).copied().filter(|unit| self.file_of(unit) == file) else { return };
        let item = self.item(&unit);
        self.strategy.hit(id, item);
        self.link(id, |unit| (unit.used, unit.uses) = (seconds(now), (unit.uses + 1).min(USES_MAX)));
        if let Some(slot) = self.slots.get_mut(unit.slot as usize) {
            slot.used = seconds(now);
        }
    }

    /// Records that a file was read and is undamaged.
    pub fn set_checked(&mut self, id: u32, file: CacheFile) {
        if self.is_file(id, file) {
            self.link(id, |unit| unit.is_checked = true);
        }
    }

    /// Returns whether a file is known to be undamaged.
    pub fn is_checked(&self, id: u32, file: CacheFile) -> bool {
        self.is_file(id, file) && self.packed(id).is_some_and(|unit| unit.is_checked)
    }

    /// Records the new size of a file. Returns false if it was removed.
    pub fn grow(&mut self, id: u32, file: CacheFile, bytes: u64, last: u64, expires: u64, now: u64) -> bool {
        if !self.is_file(id, file) {
            return false;
        }
        let Some(unit) = self.units.get_mut(id as usize) else { return false };
        let before = unit.bytes();
        unit.blocks = blocks(bytes);
        unit.set_last(if unit.last() == u64::MAX { last } else { unit.last().max(last) });
        (unit.expires, unit.used) = (unit.expires.max(seconds(expires)), seconds(now));
        let unit = *unit;
        self.used = self.used + unit.bytes() - before;
        let item = self.item(&unit);
        self.strategy.grow(id, item);
        true
    }

    /// Records the highest number in a file, as found when it was read.
    pub fn set_last(&mut self, id: u32, file: CacheFile, last: u64) {
        if self.is_file(id, file) {
            self.link(id, |unit| unit.set_last(last));
        }
    }

    /// Takes a file out of the books.
    pub fn remove(&mut self, id: u32) -> Option<CacheFile> {
        let unit = *self.packed(id)?;
        let file = self.file_of(&unit);
        let item = self.item(&unit);
        self.strategy.remove(id, item);
        self.link(unit.after, |next| next.before = unit.before);
        self.link(unit.before, |last| last.after = unit.after);
        self.changed();
        if let Some(slot) = self.slots.get_mut(unit.slot as usize) {
            slot.removals = slot.removals.wrapping_add(1);
            if slot.first == id {
                slot.first = unit.after;
            }
        }
        if let CacheFile::Large(hash) = file
            && let Ok(known) = self.by_large.find_entry(spread(hash as u64), |known| *known == id)
        {
            known.remove();
        }
        self.link(id, |unit| unit.slot = NONE);
        self.used -= unit.bytes();
        self.count -= 1;
        self.free.push(id);
        Some(file)
    }

    /// Takes all files of a group out of the books.
    pub fn remove_all(&mut self, slot: u32, gone: &mut Vec<(u32, CacheFile)>) {
        while let Some(id) = self.slots.get(slot as usize).map(|slot| slot.first).filter(|id| *id != NONE) {
            let Some(file) = self.remove(id) else { break };
            gone.push((id, file));
        }
    }

    /// Reserves room, for which files may be removed. Returns false, and reserves nothing, if there is none.
    pub fn reserve(&mut self, bytes: u64, gone: &mut Vec<(u32, CacheFile)>) -> bool {
        let limit = self.shape.limit_bytes;
        if bytes > limit {
            return false;
        }
        if !self.shrink(limit - bytes, gone) {
            return false;
        }
        self.pending += bytes;
        true
    }

    /// Removes files until no more than this is used. Returns false if other reservations are in the way.
    pub fn shrink(&mut self, limit: u64, gone: &mut Vec<(u32, CacheFile)>) -> bool {
        while self.used() > limit {
            match self.strategy.victim() {
                Some(Victim::Unit(id)) => match self.remove(id) {
                    Some(file) => gone.push((id, file)),
                    None => return false,
                },
                Some(Victim::Group(slot)) => {
                    let before = gone.len();
                    self.remove_all(slot, gone);
                    if gone.len() == before {
                        return false;
                    }
                }
                None => return false,
            }
        }
        true
    }

    /// Ends a reservation.
    pub fn release(&mut self, bytes: u64) {
        self.pending -= bytes;
    }

    /// Changes the strategy; the new one begins with the order in which files were last used.
    pub fn set_strategy(&mut self, kind: StrategyKind) {
        if kind == self.kind {
            return;
        }
        let mut order: Vec<(u32, u32)> = Vec::with_capacity(self.count as usize);
        let units = (0..).zip(&self.units).filter(|(_, unit)| unit.is_there());
        order.extend(units.map(|(id, unit)| (unit.used, id)));
        order.sort_unstable();
        (self.kind, self.strategy) = (kind, kind.new_strategy());
        for (_, id) in order {
            let Some(unit) = self.packed(id).copied() else { continue };
            let item = self.item(&unit);
            self.strategy.insert(id, item);
            self.repeat_hits(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CacheSettings;
    use std::path::Path;

    fn books(kind: StrategyKind) -> Bookkeeping {
        Bookkeeping::new(kind, CacheSettings { size_bytes: 1 << 20, ..CacheSettings::default() }.shape())
    }

    #[test]
    fn names_of_files_are_read_back() {
        let files = [
            CacheFile::Segment { key: u64::MAX, generation: 1_700_000_000, seq: 77 },
            CacheFile::Numbers { key: 5, generation: 1 },
            CacheFile::Large(u128::MAX - 5),
        ];
        for file in files {
            let path = file.path(Path::new("/c"));
            assert_eq!(CacheFile::of_name(path.file_name().unwrap().to_str().unwrap()), Some(file));
        }
        for name in ["", "x", "1-2.seg", "1-2-3-4.seg", "zz.art", "1-2-3.new", "1-2-fffffffff.seg"] {
            assert_eq!(CacheFile::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn room_is_made_and_the_sum_stays_correct() {
        for kind in StrategyKind::ALL {
            let mut books = books(kind);
            let limit = books.shape.limit_bytes;
            let mut seed = 3_u64;
            for n in 0..3000_u32 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let bytes = (seed >> 40) % 20_000;
                let slot = books.slot("o", format!("g{}", n % 7).as_bytes(), 5, |_| true).0;
                let mut gone = Vec::new();
                assert!(books.reserve(on_disk(bytes), &mut gone), "{kind}");
                assert!(books.used() <= limit, "{kind}");
                books.release(on_disk(bytes));
                let generation = books.slots[slot as usize].generation;
                let file = CacheFile::Segment { key: books.slots[slot as usize].key, generation, seq: n };
                let id = books.enter(slot, file, bytes, 0, 5);
                books.hit(id, file, 6);
                let there = books.units.iter().filter(|unit| unit.is_there());
                let sum: u64 = there.map(PackedUnit::bytes).sum();
                assert_eq!((sum, books.units().count() as u64), (books.used(), books.files()), "{kind}");
                let of_groups: usize = (0..books.slots.len()).map(|g| books.units_of(g as u32).count()).sum();
                assert_eq!(of_groups as u64, books.files(), "{kind}");
                if n == 1500 {
                    books.set_strategy(StrategyKind::Lrua);
                }
            }
            let mut gone = Vec::new();
            assert!(books.shrink(0, &mut gone) && books.used() == 0 && books.files() == 0, "{kind}");
        }
    }

    /// Returns the resident memory of this process.
    fn resident_bytes() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Does not include the indexes of groups in use.
    #[test]
    #[ignore = "it must be alone in its process"]
    fn the_books_of_a_full_cache_of_50_gib_and_55_000_groups_are_small() {
        let settings =
            CacheSettings { size_bytes: 50 << 30, strategy: StrategyKind::Gain, ..CacheSettings::default() };
        let shape = settings.shape();
        let before = resident_bytes();
        let mut books = Bookkeeping::new(StrategyKind::Gain, shape);
        let mut gone = Vec::new();
        let mut files = 0_u64;
        for n in 0..400_000_u64 {
            let name = format!("comp.some.hierarchy.of.groups.{}", n % 55_000);
            let slot = books.slot("upstream", name.as_bytes(), n, |_| true).0;
            let bytes = if n < 55_000 { 5000 } else { shape.large_above + n % 1000 };
            let file = CacheFile::Large((u128::from(n) << 64) | u128::from(n));
            assert!(books.reserve(on_disk(bytes), &mut gone));
            books.release(on_disk(bytes));
            books.enter(slot, file, bytes, n, n);
            files = files.max(books.files());
            gone.clear();
        }
        let used = resident_bytes() - before;
        println!("{files} files, {} groups: {} KiB", books.slots.len(), used >> 10);
        assert!(used < 30 << 20, "{used} bytes for {files} files");
    }

    #[test]
    fn reserved_room_cannot_be_reserved_again() {
        let mut books = books(StrategyKind::Lrua);
        let limit = books.shape.limit_bytes;
        assert!(books.reserve(limit - 10, &mut Vec::new()));
        assert!(!books.reserve(11, &mut Vec::new()));
        books.release(limit - 10);
        assert!(books.reserve(limit, &mut Vec::new()) && !books.reserve(limit + 1, &mut Vec::new()));
    }
}
