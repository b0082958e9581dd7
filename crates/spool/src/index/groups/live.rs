//! Article numbers of a group that name living articles: the single source for GROUP, LISTGROUP, OVER and
//! LIST COUNTS.
//!
//! A sorted queue of 1,024-bit chunks. Empty chunks are not kept, so memory is proportional to the living
//! articles (one bit each, 144 bytes for the first of a chunk), and big gaps in the numbering cost nothing.
//! Invariant: `count` is the number of set bits, and every chunk has at least one.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

const WORDS: usize = 16;
const BITS: u64 = WORDS as u64 * 64;

#[derive(Debug, Clone)]
struct BitmapChunk {
    /// First number divided by [`BITS`].
    index: u64,
    words: [u64; WORDS],
}

impl BitmapChunk {
    fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Returns the first set bit at or after `bit`.
    fn first_from(&self, bit: u64) -> Option<u64> {
        let start = (bit / 64) as usize;
        for (i, word) in self.words.iter().enumerate().skip(start) {
            let word = if i == start { word & (u64::MAX << (bit % 64)) } else { *word };
            if word != 0 {
                return Some(i as u64 * 64 + u64::from(word.trailing_zeros()));
            }
        }
        None
    }

    /// Returns the last set bit at or before `bit`.
    fn last_to(&self, bit: u64) -> Option<u64> {
        let start = (bit / 64) as usize;
        for (i, word) in self.words.iter().enumerate().take(start + 1).rev() {
            let word = if i == start { word & (u64::MAX >> (63 - bit % 64)) } else { *word };
            if word != 0 {
                return Some(i as u64 * 64 + 63 - u64::from(word.leading_zeros()));
            }
        }
        None
    }
}

/// A set of article numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveSet {
    chunks: VecDeque<BitmapChunk>,
    count: u64,
}

impl LiveSet {
    fn find(&self, number: u64) -> Result<usize, usize> {
        let index = number / BITS;
        // Nearly every added number is the next one.
        if self.chunks.back().is_some_and(|last| last.index == index) {
            return Ok(self.chunks.len() - 1);
        }
        // If no chunk is missing, the position of each follows from the first.
        let at = self.chunks.front().and_then(|first| usize::try_from(index.checked_sub(first.index)?).ok());
        if let Some(at) = at.filter(|at| self.chunks.get(*at).is_some_and(|chunk| chunk.index == index)) {
            return Ok(at);
        }
        match self.chunks.back() {
            Some(last) if last.index < index => Err(self.chunks.len()),
            _ => self.chunks.binary_search_by_key(&index, |c| c.index),
        }
    }

    /// Adds a number; returns false if it was there.
    pub fn insert(&mut self, number: u64) -> bool {
        let at = self.find(number).unwrap_or_else(|at| {
            if self.chunks.is_empty() {
                // Most groups never need a second chunk.
                self.chunks.reserve_exact(1);
            }
            self.chunks.insert(at, BitmapChunk { index: number / BITS, words: [0; WORDS] });
            at
        });
        let bit = number % BITS;
        let word = &mut self.chunks[at].words[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        let new = *word & mask == 0;
        *word |= mask;
        self.count += u64::from(new);
        new
    }

    /// Removes a number; returns false if it was not there.
    pub fn remove(&mut self, number: u64) -> bool {
        let Ok(at) = self.find(number) else { return false };
        let bit = number % BITS;
        let word = &mut self.chunks[at].words[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        if *word & mask == 0 {
            return false;
        }
        *word &= !mask;
        self.count -= 1;
        if *word == 0 && self.chunks[at].is_empty() {
            self.chunks.remove(at);
        }
        true
    }

    pub fn contains(&self, number: u64) -> bool {
        let bit = number % BITS;
        self.find(number).is_ok_and(|at| self.chunks[at].words[(bit / 64) as usize] & 1 << (bit % 64) != 0)
    }

    /// Returns the address that adding the next number will modify.
    pub fn next_write(&self) -> usize {
        self.chunks.back().map_or(0, |last| std::ptr::from_ref(last).addr())
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest number in the set.
    pub fn low(&self) -> Option<u64> {
        let chunk = self.chunks.front()?;
        Some(chunk.index * BITS + chunk.first_from(0)?)
    }

    /// Returns the smallest number at or after `from`.
    pub fn at_or_after(&self, from: u64) -> Option<u64> {
        let at = self.find(from).unwrap_or_else(|at| at);
        for chunk in self.chunks.iter().skip(at) {
            let bit = if chunk.index == from / BITS { from % BITS } else { 0 };
            if let Some(bit) = chunk.first_from(bit) {
                return Some(chunk.index * BITS + bit);
            }
        }
        None
    }

    /// Returns the greatest number at or before `to`.
    pub fn at_or_before(&self, to: u64) -> Option<u64> {
        let end = self.find(to).map_or_else(|at| at, |at| at + 1);
        for chunk in self.chunks.iter().take(end).rev() {
            let bit = if chunk.index == to / BITS { to % BITS } else { BITS - 1 };
            if let Some(bit) = chunk.last_to(bit) {
                return Some(chunk.index * BITS + bit);
            }
        }
        None
    }

    /// Returns how many numbers are greater than `number`.
    pub fn count_behind(&self, number: u64) -> u64 {
        let Some(from) = number.checked_add(1) else { return 0 };
        let at = self.find(from).unwrap_or_else(|at| at);
        let ones = |words: &[u64]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let mut count = self.chunks.iter().skip(at).map(|chunk| ones(&chunk.words)).sum();
        // Numbers before `from` in the same chunk do not count.
        if let Some(chunk) = self.chunks.get(at).filter(|chunk| chunk.index == from / BITS) {
            let (word, bit) = ((from % BITS / 64) as usize, from % 64);
            count -= ones(&chunk.words[..word]) + ones(&[chunk.words[word] & !(u64::MAX << bit)]);
        }
        count
    }

    /// Returns the numbers in a range, ascending.
    pub fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = u64> + '_ {
        let end = *range.end();
        let mut next = self.at_or_after(*range.start());
        std::iter::from_fn(move || {
            let number = next.filter(|n| *n <= end)?;
            next = number.checked_add(1).and_then(|n| self.at_or_after(n));
            Some(number)
        })
    }

    /// Returns the chunks as (first number, bits), for the checkpoint.
    pub fn save(&self) -> impl ExactSizeIterator<Item = (u64, &[u64; WORDS])> {
        self.chunks.iter().map(|c| (c.index * BITS, &c.words))
    }

    /// Loads a saved chunk; returns false if it is invalid.
    pub fn load(&mut self, first: u64, words: [u64; WORDS]) -> bool {
        let index = first / BITS;
        let chunk = BitmapChunk { index, words };
        if !first.is_multiple_of(BITS)
            || chunk.is_empty()
            || self.chunks.back().is_some_and(|c| c.index >= index)
        {
            return false;
        }
        self.count += chunk.words.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
        self.chunks.push_back(chunk);
        true
    }

    /// Number of words in a chunk.
    pub const CHUNK_WORDS: usize = WORDS;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_sorted_set() {
        let mut set = LiveSet::default();
        let mut model = BTreeSet::new();
        let mut seed = 42u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        for step in 0..60_000 {
            let number = if random() % 50 == 0 { (1 << 40) | (random() % 5000) } else { random() % 5000 };
            if random() % 3 == 0 {
                assert_eq!(set.remove(number), model.remove(&number));
            } else {
                assert_eq!(set.insert(number), model.insert(number));
            }
            if step % 50 == 0 {
                let (a, b) = (random() % 5200, random() % 300);
                assert_eq!(set.count(), model.len() as u64);
                assert_eq!(set.low(), model.first().copied());
                assert_eq!(set.at_or_after(a), model.range(a..).next().copied());
                assert_eq!(set.at_or_before(a), model.range(..=a).next_back().copied());
                assert_eq!(set.contains(a), model.contains(&a));
                assert_eq!(set.count_behind(a), model.range(a + 1..).count() as u64);
                assert!(set.range(a..=a + b).eq(model.range(a..=a + b).copied()));
            }
        }
        assert_eq!(set.count_behind(u64::MAX), 0);
        let mut copy = LiveSet::default();
        for (first, words) in set.save() {
            assert!(copy.load(first, *words));
        }
        assert!(copy.range(0..=u64::MAX).eq(model.iter().copied()));
        assert_eq!(copy.count(), set.count());
    }
}
