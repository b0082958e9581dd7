//! Message-IDs that a peer was asked to send by CHECK, until it does.
//!
//! Each is a reservation in the spool, so that no other peer is asked for the same article in the meantime.
//! A reservation ends with the TAKETHIS, after a time (set by the spool), or with the connection. Called by
//! `IncomingFeed`.

use hashbrown::HashMap;
use netnews::nntp::response::code;
use spool::{ArticleKey, OfferAnswer, Reservation};
use std::collections::VecDeque;

/// Most reservations per connection; the oldest is given up for a new one.
const OFFERS_MAX: usize = 10_000;

/// Offers of one connection that wait for their articles.
#[derive(Debug, Default)]
pub(super) struct AwaitedOffers {
    waiting: HashMap<ArticleKey, Reservation>,
    /// Keys by age; some may have been settled already.
    order: VecDeque<ArticleKey>,
}

/// Answers an offer while nothing is accepted: 431 or 438.
pub(super) fn answer_while_stopped(offer: &OfferAnswer) -> u16 {
    match offer {
        OfferAnswer::Have => code::CHECK_NOT_WANTED,
        OfferAnswer::InFlight | OfferAnswer::Pending | OfferAnswer::Wanted(_) => code::CHECK_LATER,
    }
}

impl AwaitedOffers {
    /// Answers an offer: 238, 431 or 438.
    pub fn answer(&mut self, key: ArticleKey, offer: OfferAnswer) -> u16 {
        match offer {
            OfferAnswer::Have => code::CHECK_NOT_WANTED,
            // A peer that offers again what it was asked to send gets the same answer.
            OfferAnswer::InFlight if self.waiting.contains_key(&key) => code::CHECK_SEND,
            OfferAnswer::InFlight | OfferAnswer::Pending => code::CHECK_LATER,
            OfferAnswer::Wanted(reservation) => {
                self.keep(key, reservation);
                code::CHECK_SEND
            }
        }
    }

    /// Returns whether no article is awaited.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Releases the reservation of an article that has arrived. Returns true if it was offered before.
    pub fn settle(&mut self, key: &ArticleKey) -> bool {
        let settled = self.waiting.remove(key).is_some();
        if self.waiting.is_empty() {
            self.order.clear();
        }
        settled
    }

    fn keep(&mut self, key: ArticleKey, reservation: Reservation) {
        while self.order.len() >= OFFERS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.waiting.remove(&oldest);
            }
        }
        self.order.push_back(key);
        self.waiting.insert(key, reservation);
    }
}
