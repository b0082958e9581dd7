//! Offers that were taken and are not settled.

use crate::peer::feed::PeerFeed;
use crate::peer::queue::OfferTicket;

/// Offers of one peer that belong together; returned to the window if dropped.
pub(crate) struct OfferBundle<'a> {
    peer: &'a PeerFeed,
    tickets: Vec<OfferTicket>,
}

impl<'a> OfferBundle<'a> {
    pub fn new(peer: &'a PeerFeed) -> Self {
        Self { peer, tickets: Vec::new() }
    }

    pub fn push(&mut self, ticket: OfferTicket) {
        self.tickets.push(ticket);
    }

    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Settles all offers.
    pub fn settle(mut self) {
        let mut window = self.peer.window.lock();
        self.tickets.drain(..).for_each(|ticket| window.queue.settle(ticket));
    }
}

impl Drop for OfferBundle<'_> {
    fn drop(&mut self) {
        let mut window = self.peer.window.lock();
        self.tickets.drain(..).for_each(|ticket| window.queue.give_back(ticket));
    }
}
