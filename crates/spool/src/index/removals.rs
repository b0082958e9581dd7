//! Files of single articles, removed after the articles have left the indexes and without the writer's lock,
//! since removing thousands of them, or on a busy disk, would keep others from filing.
//!
//! The writer queues removals whose rows are durable and applied; the thread that expires, cancels or purges
//! carries them out once it has released the writer. Invariants: no checkpoint is taken while a removal is
//! pending, so a restart replays its row and removes the file ([`crate::write`]); and no article is stored at
//! a place whose file waits to be removed. Of the methods with a file for each article only `hashed` could
//! use a place again, for an article whose Message-ID was forgotten meanwhile.

use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::ordered::{Ordered, rank};
use spool_base::token::{MethodKind, Token};
use spool_methods::{ArticleRemoval, VolumeTable};
use std::collections::{HashSet, VecDeque};
use std::io;

/// Maximum number of articles whose files are removed before the queue is checked again.
const AT_ONCE_MAX: usize = 1024;

/// A pending removal.
#[derive(Debug)]
pub(crate) struct Removal {
    volume: u16,
    of: ArticleRemoval,
    is_hashed: bool,
}

impl Removal {
    /// Creates the removal of an article's files or, with `is_whole` unset, of its names under these numbers.
    pub fn new(key: ArticleKey, token: Token, is_whole: bool, numbers: &[(GroupId, u64)]) -> Self {
        let of = ArticleRemoval { place: token.place, key, is_whole, numbers: numbers.to_vec() };
        Self { volume: token.volume, of, is_hashed: token.method == MethodKind::Hashed }
    }
}

#[derive(Debug, Default)]
struct PendingRemovals {
    queue: VecDeque<Removal>,
    /// Volume and place of each hashed article, also while its file is being removed.
    hashed: HashSet<(u16, u64)>,
}

/// Queue of pending removals.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    pending: Ordered<PendingRemovals, { rank::INNERMOST }>,
    /// Held while some of them are carried out.
    removing: Ordered<(), { rank::REMOVING }>,
}

impl Removals {
    /// Queues a removal whose row is durable.
    pub fn put(&self, removal: Removal) {
        let mut pending = self.pending.lock();
        if removal.is_hashed {
            pending.hashed.insert((removal.volume, removal.of.place));
        }
        pending.queue.push_back(removal);
    }

    /// Reports whether the file of a hashed article at this place waits to be removed, or is being removed.
    pub fn has_hashed(&self, volume: u16, place: u64) -> bool {
        self.pending.lock().hashed.contains(&(volume, place))
    }

    /// Reports whether all removals are carried out.
    pub fn is_empty(&self) -> bool {
        let Some(_no_removal) = self.removing.try_lock() else { return false };
        self.pending.lock().queue.is_empty()
    }

    /// Reports whether so many wait that carrying them out directory by directory pays.
    pub fn are_many(&self) -> bool {
        self.pending.lock().queue.len() >= AT_ONCE_MAX
    }

    /// Carries out all removals in order, and waits for those in progress in another thread.
    ///
    /// # Errors
    /// Any error of the disk. The remaining removals stay in the queue.
    pub fn finish(&self, volumes: &VolumeTable) -> io::Result<()> {
        while self.remove_some(volumes)? {}
        Ok(())
    }

    /// Carries out some removals; returns false if there were none.
    fn remove_some(&self, volumes: &VolumeTable) -> io::Result<bool> {
        let _one_at_a_time = self.removing.lock();
        let mut some: VecDeque<Removal> = {
            let queue = &mut self.pending.lock().queue;
            let count = queue.len().min(AT_ONCE_MAX);
            queue.drain(..count).collect()
        };
        let is_some = !some.is_empty();
        while let Some(volume) = some.front().map(|removal| removal.volume) {
            let end = some.iter().position(|removal| removal.volume != volume).unwrap_or(some.len());
            let of_volume: Vec<Removal> = some.drain(..end).collect();
            let retained = volumes.get(volume).and_then(|v| v.retained());
            let articles: Vec<&ArticleRemoval> = of_volume.iter().map(|removal| &removal.of).collect();
            if let Err(e) = retained.map_or(Ok(()), |volume| volume.remove_files(&articles)) {
                let queue = &mut self.pending.lock().queue;
                of_volume.into_iter().chain(some).rev().for_each(|removal| queue.push_front(removal));
                return Err(e);
            }
            let mut pending = self.pending.lock();
            for removal in of_volume.iter().filter(|removal| removal.is_hashed) {
                pending.hashed.remove(&(removal.volume, removal.of.place));
            }
        }
        Ok(is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_hashed_articles_are_taken_until_their_files_are_removed() {
        let key = ArticleKey(7);
        let token = |method, place| Token { method, class: 0, volume: 3, place };
        let removals = Removals::default();
        removals.put(Removal::new(key, token(MethodKind::Hashed, 1 << 20), true, &[]));
        removals.put(Removal::new(key, token(MethodKind::Timehash, 2), true, &[]));
        assert!(removals.has_hashed(3, 1 << 20));
        assert!(!removals.has_hashed(3, 2) && !removals.has_hashed(4, 1 << 20));
        removals.finish(&VolumeTable::new(Vec::new())).unwrap();
        assert!(removals.is_empty() && !removals.has_hashed(3, 1 << 20));
    }
}
