//! One shard of the index: 2^level buckets of one cache line each; layout in `docs/formats/history.md`.
//!
//! Readers take no lock; one writer at a time (the history's writer lock). Invariant: if a record is not in
//! the bucket where its look-up begins, word 0 of each bucket before its own names it or a later record.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a key kept in its slot, from which the bucket is also derived.
pub(super) const TAG_BITS: u32 = 24;
/// Bits of a slot for the record number + 1.
pub(super) const NUMBER_BITS: u32 = 40;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// Words in a bucket: a cache line.
pub(super) const BUCKET_WORDS: usize = 8;
/// Slots in a bucket; the remaining word says whether a look-up continues.
pub(super) const BUCKET_SLOTS: usize = BUCKET_WORDS - 1;

type Bucket = [AtomicU64; BUCKET_WORDS];

/// A shard in one index file.
#[derive(Debug)]
pub(super) struct IndexShard<'m> {
    buckets: &'m [Bucket],
    level: u32,
}

impl<'m> IndexShard<'m> {
    /// Returns the shard of 2^`level` buckets that begins at `first_word` of a file's words.
    pub fn new(words: &'m [AtomicU64], first_word: usize, level: u32) -> Self {
        let words = words.get(first_word..first_word + (BUCKET_WORDS << level)).unwrap_or_default();
        Self { buckets: words.as_chunks().0, level }
    }

    /// Returns log2 of the number of buckets.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        BUCKET_SLOTS << self.level
    }

    /// Returns the buckets in the order of a look-up of `tag`, each once.
    fn chain(&self, tag: u32) -> impl Iterator<Item = &Bucket> {
        let home = (u64::from(tag) << self.level >> TAG_BITS) as usize;
        let (before, after) = self.buckets.split_at(home.min(self.buckets.len()));
        after.iter().chain(before)
    }

    /// Brings the first bucket of a look-up into the processor's cache. The result is meaningless.
    pub fn touch(&self, tag: u32) -> u64 {
        self.chain(tag).next().map_or(0, |[passed_over, ..]| passed_over.load(Ordering::Relaxed))
    }

    /// Passes the numbers of living records with this tag to `matches` until it returns `Some`.
    pub fn find<T>(
        &self,
        tag: u32,
        living: &Range<u64>,
        mut matches: impl FnMut(u64) -> Option<T>,
    ) -> Option<T> {
        for [passed_over, slots @ ..] in self.chain(tag) {
            for slot in slots {
                let slot = load(slot);
                if slot >> NUMBER_BITS == u64::from(tag)
                    && let Some(number) = number_of(slot)
                    && living.contains(&number)
                    && let Some(found) = matches(number)
                {
                    return Some(found);
                }
            }
            let last_passed = number_of(load(passed_over));
            if last_passed.is_none_or(|last| last < living.start) {
                break;
            }
        }
        None
    }

    /// Puts a record into the first slot that is empty, not living, or its own from before a crash. Returns
    /// false if the whole shard has none.
    pub fn insert(&self, tag: u32, number: u64, living: &Range<u64>) -> bool {
        for [passed_over, slots @ ..] in self.chain(tag) {
            let new = u64::from(tag) << NUMBER_BITS | (number + 1);
            let is_free = |word: u64| word == new || number_of(word).is_none_or(|n| !living.contains(&n));
            if let Some(slot) = slots.iter().find(|slot| is_free(load(slot))) {
                slot.store(new.to_le(), Ordering::Release);
                return true;
            }
            // Records move between shards in any order; the word names the youngest. A number from before a
            // crash that is not living yet is ignored.
            let last = number_of(load(passed_over)).filter(|n| living.contains(n));
            let last = last.map_or(number, |last| last.max(number));
            passed_over.store(bound(last).to_le(), Ordering::Release);
        }
        false
    }

    /// Calls `found` with the position of each damaged word: a word 0 whose check is wrong, or a slot that
    /// leads to a living record of another tag, according to `fits`.
    pub fn check(
        &self,
        living: &Range<u64>,
        fits: &mut dyn FnMut(u64, u32) -> bool,
        found: &mut dyn FnMut(usize),
    ) {
        for (at, word) in self.buckets.iter().flatten().enumerate() {
            if !is_right(at, load(word), living, fits) {
                found(at);
            }
        }
    }

    /// Repairs a word that [`IndexShard::check`] reported, if it is still wrong: a slot becomes empty, and a
    /// look-up continues from the bucket while any of the present records lives.
    pub fn mend(&self, at: usize, living: &Range<u64>, fits: &mut dyn FnMut(u64, u32) -> bool) {
        let Some(word) = self.buckets.iter().flatten().nth(at) else { return };
        if is_right(at, load(word), living, fits) {
            return;
        }
        let safe =
            if at.is_multiple_of(BUCKET_WORDS) { living.end.checked_sub(1).map_or(0, bound) } else { 0 };
        word.store(safe.to_le(), Ordering::Release);
    }

    /// Counts the slots that are in use or may come into use without an insert: those of living records, and
    /// those of future records that a crash has left. The count therefore grows by at most one with each
    /// insert.
    pub fn count_used(&self, first_living: u64) -> usize {
        self.slots_within(&(first_living..u64::MAX)).count()
    }

    fn slots_within(&self, numbers: &Range<u64>) -> impl Iterator<Item = (u32, u64)> {
        let slots = self.buckets.iter().flat_map(|[_, slots @ ..]| slots).map(load);
        slots
            .filter_map(|slot| Some(((slot >> NUMBER_BITS) as u32, number_of(slot)?)))
            .filter(|(_, number)| numbers.contains(number))
    }

    /// Empties the shard; it must not be in use.
    pub fn clear(&self) {
        for word in self.buckets.iter().flatten() {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Moves the living slots of a bucket to the same shard in another place, and empties the bucket. A
    /// reader that no longer finds a slot here finds it there. Returns how many slots there were; `None` if
    /// they do not fit.
    pub fn move_bucket(&self, bucket: usize, to: &IndexShard<'_>, living: &Range<u64>) -> Option<usize> {
        let [_, slots @ ..] = self.buckets.get(bucket)?;
        let mut count = 0;
        for slot in slots {
            let word = load(slot);
            let Some(number) = number_of(word) else { continue };
            if living.contains(&number) && !to.insert((word >> NUMBER_BITS) as u32, number, living) {
                return None;
            }
            slot.store(0, Ordering::Release);
            count += 1;
        }
        Some(count)
    }

    /// Inserts all living slots of this shard into an empty one. Returns false if they do not fit.
    pub fn copy_into(&self, empty: &IndexShard<'_>, living: &Range<u64>) -> bool {
        self.slots_within(living).all(|(tag, number)| empty.insert(tag, number, living))
    }
}

fn load(word: &AtomicU64) -> u64 {
    u64::from_le(word.load(Ordering::Acquire))
}

/// Returns word 0 for a record: its number + 1, and a check of that in the other bits, which is never 0.
pub(super) fn bound(number: u64) -> u64 {
    let check = u64::from(disk::crc::crc32c(&(number + 1).to_le_bytes()) >> (u32::BITS - TAG_BITS)).max(1);
    check << NUMBER_BITS | (number + 1)
}

fn is_right(at: usize, word: u64, living: &Range<u64>, fits: &mut dyn FnMut(u64, u32) -> bool) -> bool {
    match number_of(word) {
        // Word 0 names a record with a check or not at all; a slot may hold remnants.
        None => word == 0 || !at.is_multiple_of(BUCKET_WORDS),
        Some(number) if at.is_multiple_of(BUCKET_WORDS) => word == bound(number),
        Some(number) => !living.contains(&number) || fits(number, (word >> NUMBER_BITS) as u32),
    }
}

/// Returns the record number in a slot or in word 0.
pub(super) fn number_of(word: u64) -> Option<u64> {
    (word & NUMBER_MASK).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(level: u32) -> Vec<AtomicU64> {
        (0..BUCKET_WORDS << level).map(|_| AtomicU64::new(0)).collect()
    }

    fn found(shard: &IndexShard, tag: u32, living: &Range<u64>) -> Vec<u64> {
        let mut all = Vec::new();
        shard.find(tag, living, |number| -> Option<()> {
            all.push(number);
            None
        });
        all
    }

    #[test]
    fn a_full_bucket_continues_in_the_next_and_the_last_in_the_first() {
        let words = words(1);
        let shard = IndexShard::new(&words, 0, 1);
        let tag = 0xFF_FFFF;
        for number in 0..14 {
            assert!(shard.insert(tag, number, &(0..number)));
        }
        assert!(!shard.insert(tag, 14, &(0..14)));
        assert_eq!(found(&shard, tag, &(0..14)), (0..14).collect::<Vec<_>>());
        assert_eq!(shard.count_used(0), 14);
    }

    #[test]
    fn a_look_up_continues_while_a_record_that_passed_over_lives() {
        let words = words(2);
        let shard = IndexShard::new(&words, 0, 2);
        for number in 0..8 {
            assert!(shard.insert(0, number, &(0..number)));
        }
        // Records 0 to 6 are dead and their slots free; 7 in the next bucket is still found.
        assert_eq!(found(&shard, 0, &(7..8)), [7]);
        assert!(shard.insert(1, 8, &(7..8)));
        assert_eq!(found(&shard, 0, &(7..9)), [7]);
        assert_eq!(found(&shard, 1, &(7..9)), [8]);
        assert_eq!(shard.count_used(7), 2);
        assert!(found(&shard, 0, &(8..9)).is_empty());
    }

    #[test]
    fn forgotten_numbers_are_overwritten() {
        let words = words(0);
        let shard = IndexShard::new(&words, 0, 0);
        for number in 0..7 {
            assert!(shard.insert(5, number, &(0..number)));
        }
        // After a crash the checkpoint has only 0..3; the replay inserts 3..7 again.
        for number in 3..7 {
            assert!(shard.insert(5, number, &(0..number)));
        }
        let mut all = found(&shard, 5, &(0..7));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn any_flipped_bit_that_a_look_up_could_meet_is_found_and_mended() {
        let words = words(1);
        let shard = IndexShard::new(&words, 0, 1);
        let tag = |n: u64| if n < 10 { 5 } else { 0xC0_0000 + n as u32 };
        (0..12).for_each(|n| assert!(shard.insert(tag(n), n, &(0..n))));
        let living = 0..12;
        let wrong = |shard: &IndexShard| {
            let mut wrong = Vec::new();
            shard.check(&living, &mut |n, t| tag(n) == t, &mut |at| wrong.push(at));
            wrong
        };
        assert!(wrong(&shard).is_empty());
        let words: Vec<&AtomicU64> = shard.buckets.iter().flatten().collect();
        assert_ne!(load(words[0]), 0);
        for (at, word) in words.iter().enumerate() {
            let before = word.load(Ordering::Relaxed);
            for bit in 0..64 {
                word.store(before ^ 1 << bit, Ordering::Relaxed);
                let lives = |w: u64| number_of(u64::from_le(w)).is_some_and(|n| n < 12);
                let now = word.load(Ordering::Relaxed);
                let lost = (0..12).any(|n| !found(&shard, tag(n), &living).contains(&n));
                if at % BUCKET_WORDS == 0 {
                    assert_eq!(wrong(&shard), [at], "bit {bit}");
                } else {
                    // A slot that no longer leads to its record is noticed as missing; one that leads to no
                    // record is as good as empty.
                    assert_eq!(lost, lives(before), "word {at} bit {bit}");
                    assert!(lost || !lives(now) || wrong(&shard) == [at], "word {at} bit {bit}");
                }
                shard.mend(at, &living, &mut |n, t| tag(n) == t);
                assert!(wrong(&shard).is_empty(), "word {at} bit {bit}");
                word.store(before, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn moving_a_shard_keeps_only_living_records() {
        let (small, large) = (words(2), words(3));
        let (old, new) = (IndexShard::new(&small, 0, 2), IndexShard::new(&large, 0, 3));
        let tag = |n: u64| (n as u32).wrapping_mul(0x9E_3779) & 0xFF_FFFF;
        for number in 0..26 {
            assert!(old.insert(tag(number), number, &(0..number)));
        }
        assert!(old.copy_into(&new, &(6..26)));
        assert_eq!(new.count_used(0), 20);
        for number in 6..26 {
            assert!(found(&new, tag(number), &(6..26)).contains(&number));
        }
    }
}
