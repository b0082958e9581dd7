//! S3-FIFO: a small queue for new units, a main one for units that were used again, and the keys of units
//! that left the small one recently.

use std::collections::{HashSet, VecDeque};

use super::{Strategy, UnitInfo, Victim};

/// Divisor of the cache's size that gives the share of the small queue.
const SMALL_PART: u64 = 10;
/// Maximum number of uses that are counted.
const USES_MAX: u8 = 3;

#[derive(Debug, Clone, Copy, Default)]
struct FifoEntry {
    bytes: u64,
    /// Stamp that invalidates outdated places in the queues; 0 if there is no such unit.
    stamp: u32,
    uses: u8,
    in_main: bool,
}

/// S3-FIFO strategy.
#[derive(Debug, Default)]
pub(super) struct S3Fifo {
    entries: Vec<FifoEntry>,
    small: VecDeque<(u32, u32)>,
    main: VecDeque<(u32, u32)>,
    small_bytes: u64,
    main_bytes: u64,
    count: usize,
    ghosts: VecDeque<u64>,
    ghost_keys: HashSet<u64>,
    stamp: u32,
}

impl S3Fifo {
    fn live(&self, place: (u32, u32), in_main: bool) -> Option<FifoEntry> {
        let entry = self.entries.get(place.0 as usize)?;
        (entry.stamp == place.1 && entry.in_main == in_main).then_some(*entry)
    }

    /// Returns the unit of the small queue that is removed next; used ones before it move to the main queue.
    fn small_victim(&mut self) -> Option<u32> {
        while let Some(place) = self.small.front().copied() {
            let Some(entry) = self.live(place, false) else {
                self.small.pop_front();
                continue;
            };
            if entry.uses <= 1 {
                return Some(place.0);
            }
            self.small.pop_front();
            self.small_bytes -= entry.bytes;
            self.main_bytes += entry.bytes;
            if let Some(entry) = self.entries.get_mut(place.0 as usize) {
                (entry.in_main, entry.uses) = (true, 0);
            }
            self.main.push_back(place);
        }
        None
    }

    /// Returns the first unit of the main queue that was not used since it entered.
    fn main_victim(&mut self) -> Option<u32> {
        while let Some(place) = self.main.front().copied() {
            let Some(entry) = self.live(place, true) else {
                self.main.pop_front();
                continue;
            };
            if entry.uses == 0 {
                return Some(place.0);
            }
            self.main.pop_front();
            if let Some(entry) = self.entries.get_mut(place.0 as usize) {
                entry.uses -= 1;
            }
            self.main.push_back(place);
        }
        None
    }

    fn remember(&mut self, key: u64) {
        if self.ghost_keys.insert(key) {
            self.ghosts.push_back(key);
        }
        while self.ghosts.len() > self.count.max(1) {
            let oldest = self.ghosts.pop_front();
            oldest.map(|key| self.ghost_keys.remove(&key));
        }
    }
}

impl Strategy for S3Fifo {
    fn insert(&mut self, unit: u32, item: UnitInfo) {
        let at = unit as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, FifoEntry::default());
        }
        self.stamp = self.stamp.wrapping_add(1).max(1);
        // The entry in the ghost queue stays until its turn.
        let in_main = self.ghost_keys.contains(&item.key);
        self.entries[at] = FifoEntry { bytes: item.bytes, stamp: self.stamp, uses: 0, in_main };
        self.count += 1;
        if in_main {
            self.main_bytes += item.bytes;
            self.main.push_back((unit, self.stamp));
        } else {
            self.small_bytes += item.bytes;
            self.small.push_back((unit, self.stamp));
        }
    }

    fn hit(&mut self, unit: u32, _item: UnitInfo) {
        if let Some(entry) = self.entries.get_mut(unit as usize) {
            entry.uses = (entry.uses + 1).min(USES_MAX);
        }
    }

    fn grow(&mut self, unit: u32, item: UnitInfo) {
        let Some(entry) = self.entries.get_mut(unit as usize).filter(|entry| entry.stamp != 0) else {
            return;
        };
        let bytes = if entry.in_main { &mut self.main_bytes } else { &mut self.small_bytes };
        *bytes = *bytes + item.bytes - entry.bytes;
        entry.bytes = item.bytes;
    }

    fn remove(&mut self, unit: u32, item: UnitInfo) {
        let Some(entry) = self.entries.get_mut(unit as usize).filter(|entry| entry.stamp != 0) else {
            return;
        };
        let FifoEntry { bytes, in_main, .. } = std::mem::take(entry);
        self.count -= 1;
        if in_main {
            self.main_bytes -= bytes;
        } else {
            self.small_bytes -= bytes;
            self.remember(item.key);
        }
    }

    fn victim(&mut self) -> Option<Victim> {
        let is_small_full = self.small_bytes * SMALL_PART > self.small_bytes + self.main_bytes;
        let first = if is_small_full { self.small_victim() } else { None };
        let victim = first.or_else(|| self.main_victim()).or_else(|| self.small_victim());
        victim.or_else(|| self.main_victim()).map(Victim::Unit)
    }
}
