//! Recent answers of upstreams about having or not having articles, which save repeated questions.
//!
//! In memory, of a fixed size; an answer that is lost too early costs one question. Called by `cache`.

use lock_order::Innermost;

use crate::base::record::hash64;

const BUCKETS: usize = 8192;
const WAYS: usize = 8;

/// Table of 65,536 answers.
#[derive(Debug)]
pub(crate) struct AnswerTable(Innermost<Vec<[(u64, u64); WAYS]>>);

impl AnswerTable {
    pub fn new() -> Self {
        Self(Innermost::new(vec![[(0, 0); WAYS]; BUCKETS]))
    }

    /// Records an answer of an owner's servers about an article, valid until `until`.
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

    /// Removes an answer.
    pub fn remove(&self, owner: &str, id: &[u8]) {
        self.add(owner, id, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_belong_to_an_owner_and_are_bounded() {
        let answers = AnswerTable::new();
        answers.add("one", b"<a@b>", 10);
        assert!(answers.has("one", b"<a@b>", 9));
        assert!(!answers.has("one", b"<a@b>", 10) && !answers.has("two", b"<a@b>", 9));
        answers.remove("one", b"<a@b>");
        assert!(!answers.has("one", b"<a@b>", 9));
        for n in 0..200_000_u64 {
            answers.add("one", format!("<{n}@x>").as_bytes(), n + 1);
        }
        let known = (0..200_000).filter(|n| answers.has("one", format!("<{n}@x>").as_bytes(), 0)).count();
        assert!((60_000..=65_536).contains(&known), "{known}");
        assert!(answers.has("one", b"<199999@x>", 0));
    }
}
