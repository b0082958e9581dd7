//! Slots of the newest records, gathered in memory before they go to the index files.
//!
//! A slot that is stored into a mapped file makes its page dirty: a page fault if the page was clean, and the
//! page is written once more. In a small index a page takes many slots between two times that the kernel
//! writes it back; in a large one it takes a single one. New slots of a large index therefore go to a table
//! in memory, which has the index's shards with fewer buckets, and from there to the files bucket after
//! bucket, so that all slots of a page are stored together. A bucket waits for one *round* through the table
//! at most.
//!
//! Readers take no lock and look here first. Invariants: a slot is emptied only after it is in the files; all
//! records below [`GatheredSlots::from`] are in the files. A kill loses the table; the files say from which
//! record on slots may be missing. Used by [`super::index`].

use super::shard::{BUCKET_WORDS, IndexShard};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Inserts between two steps of moving slots to the files.
const INSERTS_PER_STEP: usize = 16;
/// Buckets moved in a step. A bucket of seven slots then has four when it is moved.
const BUCKETS_PER_STEP: usize = INSERTS_PER_STEP / 4;

/// The table, as seen by readers.
#[derive(Debug)]
pub(super) struct GatheredSlots {
    words: Box<[AtomicU64]>,
    level: u32,
    /// All records below this one are in the files.
    from: AtomicU64,
}

/// The table, with what its writer needs.
#[derive(Debug)]
pub(super) struct Gathering {
    pub slots: Arc<GatheredSlots>,
    /// Number of slots of each shard.
    counts: Box<[usize]>,
    /// Shard and bucket to be moved next.
    next: (usize, usize),
    /// Record that followed when this round began.
    round_from: u64,
    /// Inserts since the last step.
    inserts: usize,
    /// Takes no more slots, and is empty at the end of the round.
    is_closed: bool,
}

impl GatheredSlots {
    /// Returns the part of a shard that is here.
    pub fn shard(&self, number: usize) -> IndexShard<'_> {
        IndexShard::new(&self.words, number * (BUCKET_WORDS << self.level), self.level)
    }

    /// Returns the records of a range that may be here.
    fn within(&self, living: &Range<u64>) -> Range<u64> {
        living.start.max(self.from.load(Ordering::Acquire))..living.end
    }

    /// See [`IndexShard::find`].
    pub fn find<T>(
        &self,
        shard: usize,
        tag: u32,
        living: &Range<u64>,
        matches: impl FnMut(u64) -> Option<T>,
    ) -> Option<T> {
        self.shard(shard).find(tag, &self.within(living), matches)
    }
}

impl Gathering {
    /// Creates an empty table for the records from `from` on, with 2^`level` buckets in each shard.
    pub fn new(shard_bits: u32, level: u32, from: u64) -> Self {
        let words = (0..BUCKET_WORDS << (shard_bits + level)).map(|_| AtomicU64::new(0)).collect();
        Self {
            slots: Arc::new(GatheredSlots { words, level, from: AtomicU64::new(from) }),
            counts: vec![0; 1 << shard_bits].into(),
            next: (0, 0),
            round_from: from,
            inserts: 0,
            is_closed: false,
        }
    }

    /// Takes the slot of a record. Returns false if there is no place: then it goes to the files at once.
    pub fn insert(&mut self, shard: usize, tag: u32, number: u64, living: &Range<u64>) -> bool {
        if self.is_closed || !self.slots.shard(shard).insert(tag, number, &self.slots.within(living)) {
            return false;
        }
        if let Some(count) = self.counts.get_mut(shard) {
            *count += 1;
        }
        true
    }

    /// Returns the number of slots of a shard.
    pub fn count(&self, shard: usize) -> usize {
        self.counts.get(shard).copied().unwrap_or(0)
    }

    /// Moves some slots to the files, where `shard` finds a shard, if it is time; returns whether a round has
    /// ended, and `None` if the slots do not fit.
    pub fn move_some<'s>(
        &mut self,
        living: &Range<u64>,
        shard: impl Fn(usize) -> Option<IndexShard<'s>>,
    ) -> Option<bool> {
        self.inserts += 1;
        if self.inserts < INSERTS_PER_STEP && !self.is_closed {
            return Some(false);
        }
        self.inserts = 0;
        for _ in 0..BUCKETS_PER_STEP {
            let (number, bucket) = self.next;
            let moved = self.slots.shard(number).move_bucket(bucket, &shard(number)?, living)?;
            if let Some(count) = self.counts.get_mut(number) {
                *count = count.saturating_sub(moved);
            }
            self.next =
                if bucket + 1 < 1 << self.slots.level { (number, bucket + 1) } else { (number + 1, 0) };
            if self.next.0 >= self.counts.len() {
                self.next = (0, 0);
                return Some(true);
            }
        }
        Some(false)
    }

    /// Begins a round with `next` as the next record. If the index wants a table of another level, this one
    /// is closed. Returns the first record that may not be in the files.
    pub fn begin_round(&mut self, next: u64, level: Option<u32>) -> u64 {
        // What was here when the last round began has been moved.
        let from = std::mem::replace(&mut self.round_from, next);
        self.slots.from.store(from, Ordering::Release);
        self.is_closed = level != Some(self.slots.level);
        from
    }

    /// Reports whether the table takes no more slots.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Moves everything in the round that begins now.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.next = (0, 0);
    }
}
