//! Table by ascending numbers that is small in memory, with one entry or many thousands.
//!
//! Entries are in chunks, in order, none of which is empty: a look-up costs two binary searches, or one where
//! its chunk has all numbers up to it; an insertion moves entries of one chunk. Most numbers are added at the
//! end, where chunks are left full. Called by `loaded`.

use std::ops::RangeInclusive;

/// Maximum number of entries of a chunk.
const CHUNK_ENTRIES: usize = 256;

/// Table of values by number.
#[derive(Debug, Clone)]
pub(crate) struct AscendingMap<V> {
    chunks: Vec<Vec<(u64, V)>>,
    len: usize,
}

impl<V> Default for AscendingMap<V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<V: Copy> AscendingMap<V> {
    pub fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory used besides the table itself in bytes, perhaps slightly too large.
    pub fn bytes(&self) -> usize {
        let entries = match self.chunks.as_slice() {
            [only] => only.capacity(),
            chunks => chunks.len() * CHUNK_ENTRIES,
        };
        entries * size_of::<(u64, V)>() + self.chunks.capacity() * size_of::<Vec<(u64, V)>>()
    }

    /// Returns the position of an entry with this number, or where to insert one: the chunk, and the index in
    /// it.
    fn find(&self, number: u64) -> (usize, Result<usize, usize>) {
        let is_before = |chunk: &Vec<(u64, V)>| chunk.first().is_some_and(|(first, _)| *first <= number);
        let at = self.chunks.partition_point(is_before).saturating_sub(1);
        let chunk = self.chunks.get(at).map(Vec::as_slice).unwrap_or_default();
        // Tried first, since a search touches memory all over a chunk.
        let first = chunk.first().map_or(0, |(first, _)| *first);
        let near = number.wrapping_sub(first) as usize;
        if chunk.get(near).is_some_and(|(known, _)| *known == number) {
            return (at, Ok(near));
        }
        (at, chunk.binary_search_by_key(&number, |(known, _)| *known))
    }

    pub fn get(&self, number: u64) -> Option<V> {
        let (chunk, at) = self.find(number);
        self.chunks.get(chunk)?.get(at.ok()?).map(|(_, value)| *value)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut V> {
        let (chunk, at) = self.find(number);
        self.chunks.get_mut(chunk)?.get_mut(at.ok()?).map(|(_, value)| value)
    }

    pub fn contains(&self, number: u64) -> bool {
        self.find(number).1.is_ok()
    }

    /// Adds an entry; returns the one that had this number before.
    pub fn insert(&mut self, number: u64, value: V) -> Option<V> {
        let (mut chunk, at) = self.find(number);
        let mut at = match at {
            Ok(at) => {
                let known = self.chunks.get_mut(chunk)?.get_mut(at)?;
                return Some(std::mem::replace(&mut known.1, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        let Some(entries) = self.chunks.get_mut(chunk) else {
            // Most tables in a cache with many readers have one entry.
            self.chunks = vec![vec![(number, value)]];
            return None;
        };
        if entries.len() < CHUNK_ENTRIES {
            entries.insert(at, (number, value));
            return None;
        }
        // At the end a new chunk is begun, elsewhere half of this one becomes another.
        let split = if at == CHUNK_ENTRIES { CHUNK_ENTRIES } else { CHUNK_ENTRIES / 2 };
        let mut after = entries.split_off(split);
        entries.shrink_to_fit();
        if at >= split {
            (chunk, at) = (chunk + 1, at - split);
            after.insert(at, (number, value));
            self.chunks.insert(chunk, after);
        } else {
            entries.insert(at, (number, value));
            self.chunks.insert(chunk + 1, after);
        }
        None
    }

    pub fn remove(&mut self, number: u64) -> Option<V> {
        let (chunk, at) = self.find(number);
        let entries = self.chunks.get_mut(chunk)?;
        let at = at.ok().filter(|at| *at < entries.len())?;
        let (_, value) = entries.remove(at);
        if entries.is_empty() {
            self.chunks.remove(chunk);
        }
        self.len -= 1;
        Some(value)
    }

    /// Splits off the entries below a number.
    pub fn remove_below(&mut self, number: u64) -> Self {
        let (chunk, at) = self.find(number);
        let (Ok(at) | Err(at)) = at;
        let mut rest = self.chunks.split_off(chunk.min(self.chunks.len()));
        if let Some(parted) = rest.first_mut().filter(|_| at > 0) {
            let after = parted.split_off(at);
            self.chunks.push(std::mem::replace(parted, after));
            rest.retain(|chunk| !chunk.is_empty());
        }
        let below = std::mem::replace(&mut self.chunks, rest);
        let len = below.iter().map(Vec::len).sum();
        self.len -= len;
        Self { chunks: below, len }
    }

    /// Returns the entries of a range.
    pub fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, V)> {
        let (chunk, at) = self.find(*range.start());
        let (Ok(at) | Err(at)) = at;
        let last = *range.end();
        let begun = self.chunks.get(chunk).and_then(|entries| entries.get(at..)).unwrap_or_default();
        let rest = self.chunks.get(chunk + 1..).unwrap_or_default();
        let all = begun.iter().chain(rest.iter().flatten());
        all.copied().take_while(move |(number, _)| *number <= last)
    }

    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        self.chunks.iter().flatten().copied()
    }

    /// Returns the last entry up to a number.
    pub fn up_to(&self, number: u64) -> Option<(u64, V)> {
        let (chunk, at) = self.find(number);
        let at = at.or_else(|at| at.checked_sub(1).ok_or(())).ok()?;
        self.chunks.get(chunk)?.get(at).copied()
    }

    /// Returns the first entry from a number on.
    pub fn from(&self, number: u64) -> Option<(u64, V)> {
        self.range(number..=u64::MAX).next()
    }

    pub fn last(&self) -> Option<(u64, V)> {
        self.chunks.last()?.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Compares all results for a number.
    fn compare(table: &AscendingMap<u32>, model: &BTreeMap<u64, u32>, number: u64) {
        let own = |entry: Option<(&u64, &u32)>| entry.map(|(number, value)| (*number, *value));
        assert_eq!(table.get(number), model.get(&number).copied());
        assert_eq!(table.contains(number), model.contains_key(&number));
        assert_eq!(table.up_to(number), own(model.range(..=number).next_back()));
        assert_eq!(table.from(number), own(model.range(number..).next()));
        assert_eq!(table.last(), own(model.last_key_value()));
        let range = number..=number.saturating_add(700);
        assert!(table.range(range.clone()).eq(model.range(range).map(|(number, value)| (*number, *value))));
        assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
        assert!(table.chunks.iter().all(|chunk| (1..=CHUNK_ENTRIES).contains(&chunk.len())));
    }

    #[test]
    fn table_behaves_like_a_btree_map() {
        let (mut table, mut model) = (AscendingMap::default(), BTreeMap::new());
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        compare(&table, &model, 3);
        for step in 0..60_000_u32 {
            // The table grows to several chunks, shrinks to nothing, and grows again.
            let number = random(4000);
            match random(if step / 10_000 % 2 == 0 { 3 } else { 8 }) {
                0 | 1 => assert_eq!(table.insert(number, step), model.insert(number, step)),
                2 if step % 50 == 0 => {
                    let kept = model.split_off(&number);
                    let below = std::mem::replace(&mut model, kept);
                    assert!(table.remove_below(number).iter().eq(below));
                }
                _ => assert_eq!(table.remove(number), model.remove(&number)),
            }
            if let Some(value) = table.get_mut(number) {
                *value += 1;
                *model.get_mut(&number).unwrap() += 1;
            }
            if step % 7 == 0 {
                compare(&table, &model, random(4100));
            }
        }
        for number in [0, u64::MAX - 1, u64::MAX] {
            assert_eq!(table.insert(number, 1), model.insert(number, 1));
            compare(&table, &model, number);
        }
        assert!(table.iter().eq(model));
    }

    #[test]
    fn one_entry_is_small_and_ascending_numbers_fill_chunks() {
        let entry = size_of::<(u64, [u32; 4])>();
        let mut table = AscendingMap::default();
        table.insert(9, [0_u32; 4]);
        assert!(table.bytes() <= entry + 24, "{}", table.bytes());
        (10..50_009).for_each(|number| _ = table.insert(number, [0; 4]));
        let real: usize = table.chunks.iter().map(Vec::capacity).sum();
        assert!(real <= 50_000 + CHUNK_ENTRIES, "{real} for 50,000");
        assert!(table.bytes() >= real * entry && table.bytes() <= 51_000 * entry, "{}", table.bytes());
    }
}
