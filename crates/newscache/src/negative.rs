//! What upstreams did not have, so that they are not asked for it again and again.
//!
//! In memory, of a fixed size; what is forgotten too early costs one question. Called by `cache`.

use parking_lot::Mutex;

use crate::record::hash64;

const BUCKETS: usize = 8192;
const WAYS: usize = 8;

/// The table: 65,536 answers.
#[derive(Debug)]
pub(crate) struct Negative(Mutex<Vec<[(u64, u64); WAYS]>>);

impl Negative {
    pub fn new() -> Self {
        Self(Mutex::new(vec![[(0, 0); WAYS]; BUCKETS]))
    }

    /// An owner's servers do not have an article until then.
    pub fn add(&self, owner: &str, id: &[u8], until: u64) {
        let hash = hash64(&[owner.as_bytes(), id]);
        let mut table = self.0.lock();
        let Some(bucket) = table.get_mut(hash as usize % BUCKETS) else { return };
        let same = bucket.iter().position(|(known, _)| *known == hash);
        let soonest = || (0..WAYS).min_by_key(|at| bucket.get(*at).map_or(0, |entry| entry.1));
        if let Some(entry) = same.or_else(soonest).and_then(|at| bucket.get_mut(at)) {
            *entry = (hash, until);
        }
    }

    pub fn has(&self, owner: &str, id: &[u8], now: u64) -> bool {
        let hash = hash64(&[owner.as_bytes(), id]);
        let table = self.0.lock();
        let bucket = table.get(hash as usize % BUCKETS);
        bucket.is_some_and(|bucket| bucket.iter().any(|(known, until)| *known == hash && now < *until))
    }

    /// An article came after all.
    pub fn remove(&self, owner: &str, id: &[u8]) {
        self.add(owner, id, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_hold_for_their_time_and_their_owner_and_the_table_is_bounded() {
        let negative = Negative::new();
        negative.add("one", b"<a@b>", 10);
        assert!(negative.has("one", b"<a@b>", 9));
        assert!(!negative.has("one", b"<a@b>", 10) && !negative.has("two", b"<a@b>", 9));
        negative.remove("one", b"<a@b>");
        assert!(!negative.has("one", b"<a@b>", 9));
        for n in 0..200_000_u64 {
            negative.add("one", format!("<{n}@x>").as_bytes(), n + 1);
        }
        let known = (0..200_000).filter(|n| negative.has("one", format!("<{n}@x>").as_bytes(), 0)).count();
        assert!((60_000..=65_536).contains(&known), "{known}");
        assert!(negative.has("one", b"<199999@x>", 0));
    }
}
