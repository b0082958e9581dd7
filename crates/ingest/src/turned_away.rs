//! Message-IDs of articles that found their storage class full, and are not requested again at once.
//!
//! The class of an article is known only once the article is here. Without this list a peer would send it
//! again, whole, at each offer. Called by `relay`. Reasons: decision 60.

use hashbrown::HashMap;
use site_base::lock::Leaf;
use spool::ArticleKey;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for which an article is not requested.
const PAUSE: Duration = Duration::from_secs(60);
/// Most Message-IDs remembered; the oldest is dropped for a new one.
const IDS_MAX: usize = 10_000;

/// The articles recently turned away.
#[derive(Debug, Default)]
pub struct ClassFullIds {
    /// Whether there are any, which is rare.
    is_used: AtomicBool,
    ids: Leaf<ClassFullQueue>,
}

#[derive(Debug, Default)]
struct ClassFullQueue {
    until: HashMap<ArticleKey, Instant>,
    /// Keys by age; one that was turned away again is listed again.
    order: VecDeque<(Instant, ArticleKey)>,
}

impl ClassFullIds {
    /// Records that the class of this article was full.
    pub fn add(&self, key: ArticleKey, now: Instant) {
        let mut ids = self.ids.lock();
        ids.forget(now);
        while ids.order.len() >= IDS_MAX {
            ids.forget_oldest();
        }
        let until = now + PAUSE;
        ids.until.insert(key, until);
        ids.order.push_back((until, key));
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Returns whether this article is not to be requested.
    pub fn has(&self, key: &ArticleKey, now: Instant) -> bool {
        if !self.is_used.load(Ordering::Relaxed) {
            return false;
        }
        let mut ids = self.ids.lock();
        ids.forget(now);
        if ids.order.is_empty() {
            self.is_used.store(false, Ordering::Relaxed);
        }
        ids.until.contains_key(key)
    }
}

impl ClassFullQueue {
    /// Drops the keys whose pause is over.
    fn forget(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((until, key)) = self.order.pop_front()
            && self.until.get(&key) == Some(&until)
        {
            self.until.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_article_is_not_requested_during_the_pause_after_the_last_attempt() {
        let (turned_away, begun) = (ClassFullIds::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert!(!turned_away.has(&ArticleKey(1), begun));
        turned_away.add(ArticleKey(1), begun);
        turned_away.add(ArticleKey(2), begun);
        turned_away.add(ArticleKey(1), begun + second * 30);
        assert!(turned_away.has(&ArticleKey(1), begun + second * 89));
        assert!(!turned_away.has(&ArticleKey(2), begun + second * 60));
        assert!(!turned_away.has(&ArticleKey(1), begun + second * 90));
        assert!(!turned_away.is_used.load(Ordering::Relaxed));
    }

    #[test]
    fn the_oldest_ids_are_dropped_for_new_ones() {
        let (turned_away, now) = (ClassFullIds::default(), Instant::now());
        (0..=IDS_MAX as u128).for_each(|n| turned_away.add(ArticleKey(n), now));
        assert!(!turned_away.has(&ArticleKey(0), now));
        assert!(turned_away.has(&ArticleKey(1), now) && turned_away.has(&ArticleKey(IDS_MAX as u128), now));
    }
}
