//! Terms of a part, numbered in the order of their first occurrence.
//!
//! A term is looked up for every word of every article, so the memory touched by a lookup determines the
//! speed: one slot of 16 bytes for terms of up to seven bytes, as most words are; longer ones are compared in
//! addition. Numbers are hashed with random keys of the process, so that words cannot be chosen to collide.
//! Called by `part`.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

/// Maximum length of a term that is stored in its slot.
const SHORT_BYTES_MAX: usize = 7;
/// Flag in a slot's key: the term is longer, and the key is its hash.
const LONG: u64 = 1 << 63;
/// Minimum number of slots of a table; a power of two.
const SLOTS_MIN: usize = 1 << 12;
/// Minimum number of slots for 8 terms.
const SLOTS_PER_8_TERMS: usize = 13;
/// Maximum number of terms, for which a table of 16 bytes each would take gigabytes.
pub const TERMS_MAX: usize = 1 << 24;

#[derive(Debug, Clone, Copy, Default)]
struct TermSlot {
    /// The term itself or its hash.
    key: u64,
    /// Number of the term plus 1; 0 for a free slot.
    number: u32,
}

/// Terms of all fields.
#[derive(Debug)]
pub struct TermTable {
    slots: Vec<TermSlot>,
    /// The terms, one after the other, each preceded by its field.
    bytes: Vec<u8>,
    /// End of each term.
    ends: Vec<u32>,
    seeds: [u64; 2],
}

impl Default for TermTable {
    fn default() -> Self {
        let state = RandomState::new();
        let seeds = [state.hash_one(0), state.hash_one(1) | 1];
        Self { slots: vec![TermSlot::default(); SLOTS_MIN], bytes: Vec::new(), ends: Vec::new(), seeds }
    }
}

impl TermTable {
    /// Returns the number of terms.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the memory in bytes, including that for sorting.
    pub fn size(&self) -> usize {
        // A growing table exists twice for a moment, which takes one and a half of its size.
        self.slots.len() * (size_of::<TermSlot>() * 3 / 2) + self.bytes.len() + self.ends.len() * (4 + 4 + 16)
    }

    /// Removes all terms. The table shrinks to half of what these terms needed, so that memory for a single
    /// large part is not kept.
    pub fn clear(&mut self) {
        let needed = (self.ends.len() * SLOTS_PER_8_TERMS / 8 / 2).next_power_of_two();
        self.slots.truncate(needed.max(SLOTS_MIN));
        self.slots.shrink_to_fit();
        self.slots.fill(TermSlot::default());
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns a term: its field, below 16, and its text.
    pub fn get(&self, number: u32) -> (u8, &[u8]) {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        let bytes = self.bytes.get(start as usize..end as usize).unwrap_or_default();
        bytes.split_first().map_or((0, &[]), |(field, term)| (*field, term))
    }

    /// Returns the number of a term; assigns one if it is new.
    #[inline]
    pub fn number(&mut self, field: u8, term: &[u8]) -> u32 {
        let key = match short(term) {
            Some(short) => u64::from(field << 3 | term.len() as u8) << 56 | short,
            None => self.hash(field, term) | LONG,
        };
        let mask = self.slots.len() - 1;
        let mut at = self.fold(key) as usize & mask;
        loop {
            let slot = self.slots.get(at).copied().unwrap_or_default();
            if slot.number == 0 {
                return self.add(at, key, field, term);
            }
            if slot.key == key && (key & LONG == 0 || self.get(slot.number - 1) == (field, term)) {
                return slot.number - 1;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn add(&mut self, at: usize, key: u64, field: u8, term: &[u8]) -> u32 {
        self.bytes.push(field);
        self.bytes.extend_from_slice(term);
        // A part is written long before this overflows.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        let number = self.ends.len() as u32;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = TermSlot { key, number };
        }
        if self.ends.len() * SLOTS_PER_8_TERMS > self.slots.len() * 8 {
            self.grow();
        }
        number - 1
    }

    fn grow(&mut self) {
        let mut slots = vec![TermSlot::default(); self.slots.len() * 2];
        let mask = slots.len() - 1;
        for slot in self.slots.iter().filter(|slot| slot.number > 0) {
            let mut at = self.fold(slot.key) as usize & mask;
            while slots.get(at).is_some_and(|other| other.number > 0) {
                at = (at + 1) & mask;
            }
            if let Some(free) = slots.get_mut(at) {
                *free = *slot;
            }
        }
        self.slots = slots;
    }

    fn hash(&self, field: u8, term: &[u8]) -> u64 {
        let start = u64::from(field) << 32 | term.len() as u64;
        term.chunks(8).fold(self.fold(start), |hash, chunk| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.fold(hash ^ u64::from_le_bytes(word))
        })
    }

    /// Hashes a number; all bits of the result depend on all of its bits.
    #[inline]
    fn fold(&self, number: u64) -> u64 {
        let [first, second] = self.seeds;
        let product = u128::from(number ^ first) * u128::from(second);
        product as u64 ^ (product >> 64) as u64
    }

    /// Returns the numbers of all terms in the order of fields and terms.
    pub fn sorted(&self) -> Vec<u32> {
        let mut all: Vec<(u64, u32)> =
            (0..self.ends.len() as u32).map(|number| (self.first_bytes(number), number)).collect();
        all.sort_unstable_by(|(key, number), (other_key, other)| match key.cmp(other_key) {
            Ordering::Equal => self.get(*number).cmp(&self.get(*other)),
            order => order,
        });
        all.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns the first bytes of a term as a number of the same order.
    fn first_bytes(&self, number: u32) -> u64 {
        let (field, term) = self.get(number);
        let mut first = [0; 8];
        first.iter_mut().zip(std::iter::once(&field).chain(term)).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(first)
    }
}

/// Returns a short term as a number, unique among terms of the same length.
#[inline]
fn short(term: &[u8]) -> Option<u64> {
    let byte = |at: usize| u64::from(term.get(at).copied().unwrap_or(0));
    let four = |at: usize| {
        let bytes = term.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    match term.len() {
        0 => Some(0),
        len @ 1..4 => Some(byte(0) | byte(len / 2) << (8 * (len / 2)) | byte(len - 1) << (8 * (len - 1))),
        len @ 4..=SHORT_BYTES_MAX => Some(four(0) | four(len - 4) << (8 * (len - 4))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn each_term_has_one_number(
            all in prop::collection::vec((0u8..3, prop::collection::vec(0u8..3, 0..12)), 0..200)
        ) {
            let (mut terms, mut model) = (TermTable::default(), BTreeMap::new());
            for (field, term) in &all {
                let next = model.len() as u32;
                let expected = *model.entry((*field, term.clone())).or_insert(next);
                prop_assert_eq!(terms.number(*field, term), expected);
                prop_assert_eq!(terms.get(expected), (*field, term.as_slice()));
            }
            prop_assert_eq!(terms.count(), model.len());
            let sorted: Vec<u32> = model.into_values().collect();
            prop_assert_eq!(terms.sorted(), sorted);
        }
    }

    #[test]
    fn the_table_grows_and_is_cleared() {
        let mut terms = TermTable::default();
        for round in 0..2 {
            for n in 0..20_000u32 {
                let term = format!("term{n}");
                assert_eq!(terms.number(1, term.as_bytes()), n, "{round}");
            }
            assert_eq!(terms.number(1, b"term19999"), 19_999);
            let full = terms.size();
            terms.clear();
            assert!(terms.count() == 0 && terms.size() < full / 2, "{} of {full}", terms.size());
            terms.clear();
            assert!(terms.size() < full / 6, "{} of {full}", terms.size());
        }
    }
}
