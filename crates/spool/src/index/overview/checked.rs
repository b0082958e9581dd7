//! Cache of recently read and checked blocks: their entries, in a bounded amount of memory.
//!
//! With it an article's number leads to its place without a read, and rows are read without checking the
//! whole block again. Invariant: a place in a segment keeps its content for the life of the process, since
//! blocks are only appended, and a replacement has a place of its own. The cache is therefore never stale;
//! the caller determines which rows are alive and shown. Used by [`crate::read`].

use super::block::{RowEntry, between, position};
use spool_base::ordered::{Ordered, rank};
use spool_base::token::Token;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// log2 of the number of sets.
const SET_BITS: u32 = 10;
/// Maximum number of rows in all blocks of a set: some five blocks of usual length. With 32 bytes per row
/// this limits the cache to 8 MiB.
const SET_ROWS_MAX: usize = 256;
/// Maximum number of blocks in a set.
const SET_BLOCKS_MAX: usize = 8;
/// Number of seconds for which checked text is read again without another check: for this long the machine is
/// assumed to have it in memory.
const CHECKED_SECS: u64 = 30;
/// Number of seconds after which an unused block is forgotten when the spool frees memory.
const UNUSED_SECS: u64 = 30;

/// Entries of a block, with the time at which its text was checked.
#[derive(Debug)]
pub(crate) struct CheckedBlock {
    entries: Box<[RowEntry]>,
    /// Time in Unix seconds; 0: never.
    text_checked: AtomicU64,
    /// Time of the last use, in Unix seconds.
    used: AtomicU64,
}

impl CheckedBlock {
    /// See [`between`].
    pub fn between(&self, from: u64, end: u64) -> (&[RowEntry], usize) {
        between(&self.entries, from, end)
    }

    /// Returns the entry of a number.
    fn find(&self, number: u64) -> Option<&RowEntry> {
        position(&self.entries, number).and_then(|at| self.entries.get(at))
    }

    fn is_used(&self, now: u64) {
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// Reports whether the text was checked shortly before `now`, Unix seconds.
    pub fn is_text_checked(&self, now: u64) -> bool {
        self.text_checked.load(Ordering::Relaxed).abs_diff(now) <= CHECKED_SECS
    }
}

/// Place of a block: id of the segment, and offset.
type BlockPlace = (u64, u64);

type BlockSet = VecDeque<(BlockPlace, Arc<CheckedBlock>)>;

/// The cached blocks, in sets by their place; a full set drops its oldest.
#[derive(Debug)]
pub(crate) struct CheckedBlocks(Box<[Ordered<BlockSet, { rank::INNERMOST }>]>);

impl Default for CheckedBlocks {
    fn default() -> Self {
        Self((0..1 << SET_BITS).map(|_| Ordered::default()).collect())
    }
}

impl CheckedBlocks {
    fn set(&self, place: BlockPlace) -> Option<&Ordered<BlockSet, { rank::INNERMOST }>> {
        const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
        let mix = (place.0.wrapping_mul(ODD[0]) ^ place.1).wrapping_mul(ODD[1]);
        self.0.get((mix >> (u64::BITS - SET_BITS)) as usize)
    }

    /// Returns a cached block; `now` in Unix seconds.
    pub fn get(&self, place: BlockPlace, now: u64) -> Option<Arc<CheckedBlock>> {
        let set = self.set(place)?.lock();
        let (_, checked) = set.iter().find(|(p, _)| *p == place)?;
        checked.is_used(now);
        Some(checked.clone())
    }

    /// Returns the token of a number in a cached block: `Some(None)` if the block has no such row. `now` in
    /// Unix seconds.
    pub fn token(&self, place: BlockPlace, number: u64, now: u64) -> Option<Option<Token>> {
        let set = self.set(place)?.lock();
        let (_, checked) = set.iter().find(|(p, _)| *p == place)?;
        checked.is_used(now);
        Some(checked.find(number).map(|e| e.token))
    }

    /// Caches the entries of a block that was just checked, including its text if `text` is true.
    pub fn put(&self, place: BlockPlace, entries: &[RowEntry], text: bool, now: u64) {
        let Some(set) = self.set(place).filter(|_| entries.len() <= SET_ROWS_MAX) else { return };
        let mut set = set.lock();
        if let Some((_, known)) = set.iter().find(|(p, _)| *p == place) {
            if text {
                known.text_checked.store(now, Ordering::Relaxed);
            }
            return;
        }
        let rows = |set: &BlockSet| set.iter().map(|(_, checked)| checked.entries.len()).sum::<usize>();
        while set.len() >= SET_BLOCKS_MAX || rows(&set) + entries.len() > SET_ROWS_MAX {
            set.pop_front();
        }
        let text_checked = AtomicU64::new(if text { now } else { 0 });
        let checked = CheckedBlock { entries: entries.into(), text_checked, used: AtomicU64::new(now) };
        set.push_back((place, Arc::new(checked)));
    }

    /// Forgets blocks that were not used recently.
    pub fn rest(&self, now: u64) {
        for set in &self.0 {
            let mut set = set.lock();
            set.retain(|(_, checked)| checked.used.load(Ordering::Relaxed).abs_diff(now) <= UNUSED_SECS);
            if set.is_empty() {
                *set = BlockSet::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool_base::token::MethodKind;

    fn entries(rows: u64) -> Vec<RowEntry> {
        let token = |place| Token { method: MethodKind::Cnfs, class: 0, volume: 1, place };
        (1..=rows).map(|n| RowEntry { number: n * 3, end: n as u32, token: token(n), arrived: 7 }).collect()
    }

    #[test]
    fn a_block_is_cached_until_unused_and_its_text_counts_as_checked_briefly() {
        let blocks = CheckedBlocks::default();
        assert!(blocks.get((1, 0), 100).is_none());
        blocks.put((1, 0), &entries(40), false, 100);
        let place = |number| blocks.token((1, 0), number, 100).map(|token| token.map(|t| t.place));
        assert_eq!((place(9), place(10)), (Some(Some(3)), Some(None)));
        assert!(blocks.token((1, 1), 9, 100).is_none());
        assert!(!blocks.get((1, 0), 100).unwrap().is_text_checked(100));
        blocks.put((1, 0), &entries(40), true, 110);
        let checked = blocks.get((1, 0), 110).unwrap();
        assert!(checked.is_text_checked(110 + CHECKED_SECS) && !checked.is_text_checked(111 + CHECKED_SECS));
        // A clock that was set back does not prolong the check.
        assert!(!checked.is_text_checked(0));
        blocks.rest(110 + UNUSED_SECS);
        assert!(blocks.get((1, 0), 110).is_some());
        blocks.rest(111 + UNUSED_SECS);
        assert!(blocks.get((1, 0), 110).is_none());
    }

    #[test]
    fn memory_is_bounded_for_all_kinds_of_blocks() {
        let blocks = CheckedBlocks::default();
        for (at, rows) in [1, 48, 192, 256, 257, 100_000].into_iter().cycle().take(60_000).enumerate() {
            if rows <= 257 || at < 100 {
                blocks.put((at as u64 % 7, at as u64 * 4096), &entries(rows), true, 1);
            }
        }
        let sets: Vec<_> = blocks.0.iter().map(Ordered::lock).map(|set| set.clone()).collect();
        let rows = |set: &BlockSet| set.iter().map(|(_, checked)| checked.entries.len()).sum::<usize>();
        assert!(sets.iter().all(|set| rows(set) <= SET_ROWS_MAX && set.len() <= SET_BLOCKS_MAX));
        assert!(sets.iter().map(rows).sum::<usize>() * size_of::<RowEntry>() <= 8 << 20);
        let used = sets.iter().filter(|set| !set.is_empty()).count();
        assert!(used > 1000, "{used} sets are used");
        assert!(blocks.get((59_998 % 7, 59_998 * 4096), 1).is_none(), "too long to be kept");
    }
}
