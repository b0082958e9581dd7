//! Counts of open connections, by whom they count for. Called by `limits` and by the site's own limits.

use hashbrown::HashMap;
use std::fmt;
use std::hash::Hash;

/// How many connections are open for each key; a key without any takes no room.
#[derive(Debug)]
pub struct Connections<K>(HashMap<K, usize>);

impl<K> Default for Connections<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Connections<K> {
    /// Connections open for a key.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Whether a limit leaves no room for another one.
    pub fn is_full(&self, key: &K, max: usize) -> bool {
        self.count(key) >= max
    }

    /// Counts another one.
    pub fn open(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// One that was counted ends.
    pub fn close(&mut self, key: &K) {
        match self.0.get_mut(key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.0.remove(key)),
        }
    }

    /// Returns true if no connection is counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a client is told for which there is no room; `whose` names the limit, with a space before it.
pub fn too_many(f: &mut fmt::Formatter<'_>, whose: &str, max: usize) -> fmt::Result {
    write!(f, "Too many connections{whose} (at most {max}), try again later")
}
