//! Counts of open connections by address, user or another key. Called by `limits` and by the site's own
//! limits.

use hashbrown::HashMap;
use std::fmt;
use std::hash::Hash;

/// Numbers of open connections by key; a key without connections takes no memory.
#[derive(Debug)]
pub struct Connections<K>(HashMap<K, usize>);

impl<K> Default for Connections<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Connections<K> {
    /// Returns the number of connections open for a key.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Returns true if the limit leaves no room for another connection.
    pub fn is_full(&self, key: &K, max: usize) -> bool {
        self.count(key) >= max
    }

    /// Counts another connection.
    pub fn open(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Counts the end of a connection.
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

/// Writes the message for a client refused for lack of room; `whose` names the limit, with a space before it.
pub fn too_many(f: &mut fmt::Formatter<'_>, whose: &str, max: usize) -> fmt::Result {
    write!(f, "Too many connections{whose} (at most {max}), try again later")
}
