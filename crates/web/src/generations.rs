//! [`Generations`]: values that are kept within a number of bytes, those in use the longest.
//!
//! There are two generations: when the younger one has half of the bytes, it becomes the older one, and what
//! was in that is dropped. A value that is asked for moves to the younger one. Called by `kept` and
//! `reading`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A value with its size.
#[derive(Debug)]
struct KeptValue<V> {
    value: V,
    bytes: usize,
}

/// Values by key.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    young: HashMap<K, KeptValue<V>>,
    young_bytes: usize,
    old: HashMap<K, KeptValue<V>>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), young_bytes: 0, old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// Returns a value.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, kept)) = self.old.remove_entry(key) {
            self.insert(key, kept);
        }
        self.young.get(key).map(|kept| &kept.value)
    }

    /// Keeps a value of this size in place of the one before; all values have at most about `bytes_max`, and
    /// one of more than a quarter is not kept.
    pub fn put(&mut self, key: K, value: V, bytes: usize, bytes_max: usize) {
        self.old.remove(&key);
        if bytes > bytes_max / 4 {
            self.remove_young(&key);
            return;
        }
        if self.young_bytes + bytes > bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
            self.old.remove(&key);
        }
        self.insert(key, KeptValue { value, bytes });
    }

    fn insert(&mut self, key: K, kept: KeptValue<V>) {
        self.young_bytes += kept.bytes;
        if let Some(before) = self.young.insert(key, kept) {
            self.young_bytes = self.young_bytes.saturating_sub(before.bytes);
        }
    }

    fn remove_young(&mut self, key: &K) {
        if let Some(before) = self.young.remove(key) {
            self.young_bytes = self.young_bytes.saturating_sub(before.bytes);
        }
    }
}

#[cfg(test)]
impl<K, V> Generations<K, V> {
    /// Returns the size of all values, in bytes.
    pub fn bytes(&self) -> usize {
        self.young.values().chain(self.old.values()).map(|kept| kept.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_use_stay_and_all_are_bounded() {
        let mut values: Generations<u64, u64> = Generations::default();
        for n in 0..1_000 {
            values.put(n, n, 10 + n as usize % 7, 500);
            assert_eq!(values.get(&0), Some(&0), "a value that is asked for stays: {n}");
            assert!(values.bytes() <= 500 + 20, "{}", values.bytes());
        }
        assert_eq!(values.get(&1), None);
        values.put(0, 7, 10, 500);
        assert_eq!(values.get(&0), Some(&7), "a value takes the place of the one before");
        values.put(0, 8, 400, 500);
        assert_eq!(values.get(&0), None, "a large value is not kept, nor the one before it");
    }
}
