//! Recent look-ups, which save reads of the disk for popular articles: locations of articles that were
//! requested by their Message-ID, and the articles that links stand for.
//!
//! In memory, of a fixed number of places, in sets of eight of which the least recently used one is replaced.
//! Called by `large` and `group`.

use std::num::NonZeroU64;

use lock_order::Innermost;

use crate::base::packed::CacheFile;
use crate::base::record::hash64;
use crate::index::ids::ArticlePointer;

const SHARDS: usize = 64;
/// Number of places that a hash can have.
const WAYS: usize = 8;

/// Some sets, one after the other.
type SetShard<K, V> = Innermost<Vec<Option<(K, V)>>>;

/// Set-associative table of values by `K`.
#[derive(Debug)]
struct AssociativeTable<K, V> {
    shards: Vec<SetShard<K, V>>,
    sets_per_shard: usize,
}

impl<K: PartialEq, V: Clone> AssociativeTable<K, V> {
    fn new(places: usize) -> Self {
        // A shard allocates memory when something is put into it.
        let shards = (0..SHARDS).map(|_| Innermost::default()).collect();
        Self { shards, sets_per_shard: places / SHARDS / WAYS }
    }

    /// Calls `work` with the set of a hash; the entry that was used last is its first.
    fn with<T>(&self, hash: u64, is_put: bool, work: impl FnOnce(&mut [Option<(K, V)>]) -> T) -> Option<T> {
        let set = hash as usize % (SHARDS * self.sets_per_shard);
        let mut places = self.shards.get(set / self.sets_per_shard)?.lock();
        if places.is_empty() && is_put {
            places.resize_with(self.sets_per_shard * WAYS, || None);
        }
        let first = set % self.sets_per_shard * WAYS;
        places.get_mut(first..first + WAYS).map(work)
    }

    fn get(&self, hash: u64, key: &K) -> Option<V> {
        let found = self.with(hash, false, |set| {
            let at = set.iter().position(|place| place.as_ref().is_some_and(|(known, _)| known == key))?;
            set.get_mut(..=at)?.rotate_right(1);
            set.first()?.as_ref().map(|(_, value)| value.clone())
        });
        found.flatten()
    }

    fn put(&self, hash: u64, key: K, value: V) {
        self.with(hash, true, |set| {
            let known = set.iter().position(|place| place.as_ref().is_some_and(|(known, _)| *known == key));
            // The entry with the same key, or otherwise the last one, is replaced.
            let moved = known.map_or(WAYS, |at| at + 1);
            if let Some(moved) = set.get_mut(..moved) {
                moved.rotate_right(1);
            }
            if let Some(first) = set.first_mut() {
                *first = Some((key, value));
            }
        });
    }
}

/// Number of articles whose locations are remembered, with 24 bytes each.
const ARTICLES: usize = 32_768;

/// Locations of articles, by the hash of their Message-ID. Like the table on disk these are only hints: the
/// record found there has its own Message-ID.
#[derive(Debug)]
pub(crate) struct RecentLocations(AssociativeTable<NonZeroU64, ArticlePointer>);

impl Default for RecentLocations {
    fn default() -> Self {
        Self(AssociativeTable::new(ARTICLES))
    }
}

impl RecentLocations {
    fn fingerprint(hash: u128) -> NonZeroU64 {
        NonZeroU64::new(hash as u64).unwrap_or(NonZeroU64::MIN)
    }

    /// Returns the last location of the article with this hash.
    pub fn get(&self, hash: u128) -> Option<ArticlePointer> {
        self.0.get((hash >> 64) as u64, &Self::fingerprint(hash))
    }

    /// Records the location of an article; replaces another one.
    pub fn put(&self, hash: u128, pointer: ArticlePointer) {
        self.0.put((hash >> 64) as u64, Self::fingerprint(hash), pointer);
    }
}

/// Number of links that are remembered.
const LINKS: usize = 8192;
/// Maximum length of a Message-ID (RFC 3977 section 3.6).
const ID_BYTES_MAX: usize = 250;

/// Message-IDs of links. The content of a file at a position never changes, and no file gets the name of an
/// earlier one as long as the cache is open.
#[derive(Debug)]
pub(crate) struct RecentLinks(AssociativeTable<(CacheFile, u32), Box<[u8]>>);

impl Default for RecentLinks {
    fn default() -> Self {
        Self(AssociativeTable::new(LINKS))
    }
}

impl RecentLinks {
    fn hash(file: &CacheFile, at: u32) -> u64 {
        match file {
            CacheFile::Segment { key, generation, seq } => {
                let place = u64::from(*seq) << 32 | u64::from(at);
                hash64(&[&key.to_le_bytes(), &generation.to_le_bytes(), &place.to_le_bytes()])
            }
            // These files have no links.
            CacheFile::Numbers { .. } | CacheFile::Large(_) => 0,
        }
    }

    /// Returns the Message-ID of the link at this position of a file.
    pub fn get(&self, file: CacheFile, at: u32) -> Option<Box<[u8]>> {
        self.0.get(Self::hash(&file, at), &(file, at))
    }

    /// Records the Message-ID that was read there.
    pub fn put(&self, file: CacheFile, at: u32, id: &[u8]) {
        if id.len() <= ID_BYTES_MAX {
            self.0.put(Self::hash(&file, at), (file, at), id.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::record::hash;

    #[test]
    fn last_put_entries_are_found_and_the_table_is_bounded() {
        let recent = RecentLocations::default();
        let id = |n: u64| hash(&[&n.to_le_bytes()]);
        assert_eq!(recent.get(id(1)), None);
        for n in 0..200_000 {
            recent.put(id(n), ArticlePointer { key: n, number: 1 });
            assert_eq!(recent.get(id(n)).map(|pointer| pointer.key), Some(n));
        }
        let known = (0..200_000).filter(|n| recent.get(id(*n)).is_some()).count();
        assert!((30_000..=ARTICLES).contains(&known), "{known}");
        let places: usize = recent.0.shards.iter().map(|shard| shard.lock().capacity()).sum();
        assert_eq!((places, size_of::<Option<(NonZeroU64, ArticlePointer)>>()), (ARTICLES, 24));
    }

    #[test]
    fn nearly_all_entries_of_a_half_full_table_are_found() {
        let recent = RecentLocations::default();
        let id = |n: u64| hash(&[&n.to_le_bytes()]);
        (0..16_384).for_each(|n| recent.put(id(n), ArticlePointer { key: n, number: 1 }));
        let known = (0..16_384).filter(|n| recent.get(id(*n)).is_some()).count();
        assert!(known > 15_500, "{known}");
    }

    #[test]
    fn least_recently_used_entry_of_a_set_is_replaced() {
        let sets: AssociativeTable<u64, u64> = AssociativeTable::new(SHARDS * WAYS);
        let at = |n: u64| n * SHARDS as u64;
        (0..WAYS as u64).for_each(|n| sets.put(at(n), n, n));
        sets.put(at(1), 1, 100);
        assert_eq!(sets.get(at(0), &0), Some(0));
        (10..12).for_each(|n| sets.put(at(n), n, n));
        let found: Vec<_> = [0, 1, 2, 3, 10, 11].map(|n| sets.get(at(n), &n)).into_iter().collect();
        assert_eq!(found, [Some(0), Some(100), None, None, Some(10), Some(11)]);
    }

    #[test]
    fn links_are_distinguished_by_file_and_position() {
        let links = RecentLinks::default();
        let file = |generation, seq| CacheFile::Segment { key: 1, generation, seq };
        links.put(file(1, 2), 40, b"<a@b>");
        assert_eq!(links.get(file(1, 2), 40).as_deref(), Some(&b"<a@b>"[..]));
        for (other, at) in [(file(1, 2), 48), (file(1, 3), 40), (file(2, 2), 40)] {
            assert_eq!(links.get(other, at), None, "{other:?} {at}");
        }
        links.put(file(1, 2), 0, &[b'x'; ID_BYTES_MAX + 1]);
        assert_eq!(links.get(file(1, 2), 0), None);
    }
}
