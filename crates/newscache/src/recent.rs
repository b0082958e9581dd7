//! Where articles were that were asked for by their Message-ID lately, so that the table on disk need not be
//! read for those that many ask for.
//!
//! In memory, of a fixed size. Like that table it only points: what is found there says which article it is.
//! Called by `large`.

use lock_order::Innermost;

use crate::ids::Pointer;

const SHARDS: usize = 64;
/// Places in a shard: 32,768 in all, of 24 bytes each.
const PLACES: usize = 512;

/// A hash, and where its article was.
type Place = (u64, Pointer);

/// The table.
#[derive(Debug)]
pub(crate) struct Recent(Vec<Innermost<Vec<Place>>>);

impl Default for Recent {
    fn default() -> Self {
        // A shard takes memory when something is put into it.
        Self((0..SHARDS).map(|_| Innermost::default()).collect())
    }
}

impl Recent {
    /// The shard of a hash, the place in it, and what it is found by there.
    fn place(&self, hash: u128) -> Option<(&Innermost<Vec<Place>>, usize, u64)> {
        let at = (hash >> 64) as usize % (SHARDS * PLACES);
        Some((self.0.get(at / PLACES)?, at % PLACES, (hash as u64).max(1)))
    }

    /// Where the article with a Message-ID of this hash was.
    pub fn get(&self, hash: u128) -> Option<Pointer> {
        let (shard, at, fingerprint) = self.place(hash)?;
        let (known, pointer) = *shard.lock().get(at)?;
        (known == fingerprint).then_some(pointer)
    }

    /// It was found there; whatever had the place before gives way.
    pub fn put(&self, hash: u128, pointer: Pointer) {
        let Some((shard, at, fingerprint)) = self.place(hash) else { return };
        let mut places = shard.lock();
        if places.is_empty() {
            *places = vec![(0, Pointer { key: 0, number: 0 }); PLACES];
        }
        if let Some(place) = places.get_mut(at) {
            *place = (fingerprint, pointer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::hash;

    #[test]
    fn what_was_put_last_is_found_and_the_table_is_bounded() {
        let recent = Recent::default();
        let id = |n: u64| hash(&[&n.to_le_bytes()]);
        assert_eq!(recent.get(id(1)), None);
        for n in 0..200_000 {
            recent.put(id(n), Pointer { key: n, number: 1 });
            assert_eq!(recent.get(id(n)).map(|pointer| pointer.key), Some(n));
        }
        let known = (0..200_000).filter(|n| recent.get(id(*n)).is_some()).count();
        assert!((30_000..=SHARDS * PLACES).contains(&known), "{known}");
    }
}
