//! Offers handed out by the hub last.
//!
//! A peer that has fallen a little behind takes them from here: the journal is not read again, its rows are
//! not decoded again, and all peers share the offers. Bounded; peers further behind read the journal.

use crate::journal::offer::FeedOffer;
use spool::JournalMark;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of offers kept.
const OFFERS_MAX: usize = 32_768;

/// Offers without a gap, up to the hub's position.
#[derive(Debug, Default)]
pub(crate) struct RecentOffers {
    /// Offers with the bits of the peers that want them.
    offers: VecDeque<(Arc<FeedOffer>, Box<[u8]>)>,
    /// Position from which on every article wanted by any peer is included.
    begin: u64,
    end: JournalMark,
}

impl RecentOffers {
    /// Drops all offers, and begins at `mark`.
    pub fn begin_at(&mut self, mark: JournalMark) {
        self.offers.clear();
        (self.begin, self.end) = (mark.position, mark);
    }

    /// Adds the next article.
    pub fn push(&mut self, offer: Arc<FeedOffer>, sites: &[u8]) {
        self.offers.push_back((offer, sites.into()));
        if self.offers.len() > OFFERS_MAX {
            self.offers.pop_front();
            self.begin = self.offers.front().map_or(self.end.position, |(offer, _)| offer.mark.position);
        }
    }

    /// Records that everything before `mark` has been added.
    pub fn end_at(&mut self, mark: JournalMark) {
        self.end = mark;
    }

    /// Returns at most `most` of the articles from `mark` on that the peer with this number wants, and the
    /// mark after them; `None` if they are no longer kept.
    pub fn since(
        &self,
        mark: JournalMark,
        number: u32,
        most: usize,
    ) -> Option<(Vec<Arc<FeedOffer>>, JournalMark)> {
        if mark.position < self.begin || mark.position > self.end.position {
            return None;
        }
        let first = self.offers.partition_point(|(offer, _)| offer.mark.position < mark.position);
        let mut found = Vec::new();
        for (offer, sites) in self.offers.iter().skip(first) {
            if !is_set(sites, number) {
                continue;
            }
            if found.len() >= most {
                return Some((found, offer.mark));
            }
            found.push(offer.clone());
        }
        Some((found, self.end))
    }
}

fn is_set(sites: &[u8], number: u32) -> bool {
    sites.get(number as usize / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::{ArticleKey, MethodKind, Token};

    fn at(n: u64) -> JournalMark {
        JournalMark { position: n * 10, sequence: Some(n) }
    }

    fn offer(n: u64) -> Arc<FeedOffer> {
        let token = Token { method: MethodKind::Cnfs, class: 0, volume: 0, place: n };
        let message_id = format!("<{n}@x>").into_bytes().into();
        Arc::new(FeedOffer {
            key: ArticleKey(n.into()),
            token,
            message_id,
            wire_bytes: 1,
            arrived: 1,
            mark: at(n),
        })
    }

    fn found(recent: &RecentOffers, from: u64, number: u32, most: usize) -> Option<(Vec<u64>, u64)> {
        let (offers, end) = recent.since(at(from), number, most)?;
        Some((offers.iter().map(|offer| offer.token.place).collect(), end.position / 10))
    }

    #[test]
    fn a_peer_gets_wanted_offers_from_its_position_on() {
        let mut recent = RecentOffers::default();
        recent.begin_at(at(5));
        for n in 5..15 {
            // Peer 0 wants every article, peer 9 every second one.
            recent.push(offer(n), &[1, if n % 2 == 0 { 2 } else { 0 }]);
        }
        recent.end_at(at(15));
        assert_eq!(found(&recent, 4, 0, 99), None, "before what is remembered");
        assert_eq!(found(&recent, 16, 0, 99), None, "after it");
        assert_eq!(found(&recent, 5, 0, 3), Some((vec![5, 6, 7], 8)));
        assert_eq!(found(&recent, 8, 9, 99), Some((vec![8, 10, 12, 14], 15)));
        assert_eq!(found(&recent, 8, 9, 2), Some((vec![8, 10], 12)));
        assert_eq!(found(&recent, 5, 1, 99), Some((vec![], 15)), "it wants none of them");
        assert_eq!(found(&recent, 15, 0, 99), Some((vec![], 15)));
    }

    #[test]
    fn dropped_offers_are_not_passed_over() {
        let mut recent = RecentOffers::default();
        recent.begin_at(at(0));
        let all = OFFERS_MAX as u64 + 10;
        (0..all).for_each(|n| recent.push(offer(n), &[1]));
        recent.end_at(at(all));
        assert_eq!(found(&recent, 9, 0, 1), None);
        assert_eq!(found(&recent, 10, 0, 1), Some((vec![10], 11)));
        recent.begin_at(at(all + 5));
        assert_eq!(found(&recent, all, 0, 1), None, "rows between were never seen");
    }
}
