//! Articles of a cyclic volume that were overwritten before a reader in place order had reached them
//! ([`crate::CyclicArticles::watch`]).
//!
//! Without watches, an overwritten article costs one load of a flag.

use spool_base::ids::GroupId;
use spool_base::ordered::{Ordered, rank};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of articles remembered until their reader asks for them; further ones are only counted.
const ARTICLES_MAX: usize = 10_000;

/// Articles that a reader missed since it last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MissedArticles {
    /// Number of articles.
    pub articles: u64,
    /// Groups and numbers of the first articles.
    pub numbers: Vec<Vec<(GroupId, u64)>>,
}

/// Watch of one reader on one volume.
#[derive(Debug)]
struct OverwriteWatch {
    reader: String,
    volume: u16,
    /// Place before which the reader has read all articles.
    read_to: u64,
    missed: MissedArticles,
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct OverwriteWatches {
    is_watched: AtomicBool,
    watches: Ordered<Vec<OverwriteWatch>, { rank::INNERMOST }>,
}

impl OverwriteWatches {
    /// Records that the reader has read the articles of a volume before a place.
    pub fn watch(&self, reader: &str, volume: u16, read_to: u64) {
        let mut watches = self.watches.lock();
        match watches.iter_mut().find(|watch| watch.reader == reader && watch.volume == volume) {
            Some(watch) => watch.read_to = read_to,
            None => {
                let (reader, missed) = (reader.to_owned(), MissedArticles::default());
                watches.push(OverwriteWatch { reader, volume, read_to, missed });
            }
        }
        self.is_watched.store(true, Ordering::Release);
    }

    /// Removes the watches of readers that `is_kept` rejects.
    pub fn keep(&self, is_kept: &dyn Fn(&str) -> bool) {
        let mut watches = self.watches.lock();
        watches.retain(|watch| is_kept(&watch.reader));
        self.is_watched.store(!watches.is_empty(), Ordering::Release);
    }

    /// Records that the living article at a place was overwritten.
    pub fn overwritten(&self, volume: u16, place: u64, numbers: &[(GroupId, u64)]) {
        if !self.is_watched.load(Ordering::Acquire) {
            return;
        }
        let mut watches = self.watches.lock();
        for watch in watches.iter_mut().filter(|watch| watch.volume == volume && watch.read_to <= place) {
            watch.missed.articles += 1;
            if watch.missed.numbers.len() < ARTICLES_MAX {
                watch.missed.numbers.push(numbers.to_vec());
            }
        }
    }

    /// Returns the articles that the reader missed since it last asked, in all volumes.
    pub fn take(&self, reader: &str) -> MissedArticles {
        let mut all = MissedArticles::default();
        for watch in self.watches.lock().iter_mut().filter(|watch| watch.reader == reader) {
            let MissedArticles { articles, numbers } = std::mem::take(&mut watch.missed);
            all.articles += articles;
            all.numbers.extend(numbers);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_misses_only_articles_it_has_not_reached() {
        let overtaken = OverwriteWatches::default();
        let numbers = [(GroupId(3), 7)];
        overtaken.overwritten(1, 10, &numbers);
        overtaken.watch("a", 1, 20);
        overtaken.watch("b", 1, 10);
        overtaken.overwritten(1, 19, &numbers);
        overtaken.overwritten(2, 99, &numbers);
        assert_eq!(overtaken.take("a"), MissedArticles::default());
        assert_eq!(overtaken.take("b"), MissedArticles { articles: 1, numbers: vec![numbers.to_vec()] });
        assert_eq!(overtaken.take("b"), MissedArticles::default());
        overtaken.keep(&|reader| reader == "a");
        overtaken.overwritten(1, 21, &numbers);
        assert_eq!((overtaken.take("a").articles, overtaken.take("b").articles), (1, 0));
    }
}
