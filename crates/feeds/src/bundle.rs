//! Offers that were taken and are not settled.

use super::peer::Peer;
use super::queue::Ticket;

/// Offers of one peer that belong together; returned to the window if dropped.
pub(super) struct Bundle<'a> {
    peer: &'a Peer,
    tickets: Vec<Ticket>,
}

impl<'a> Bundle<'a> {
    pub fn new(peer: &'a Peer) -> Self {
        Self { peer, tickets: Vec::new() }
    }

    pub fn push(&mut self, ticket: Ticket) {
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

impl Drop for Bundle<'_> {
    fn drop(&mut self) {
        let mut window = self.peer.window.lock();
        self.tickets.drain(..).for_each(|ticket| window.queue.give_back(ticket));
    }
}
