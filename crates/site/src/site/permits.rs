//! Limits on connections in total, per address and per peer.
//!
//! A [`ConnectionPermit`] is a drop guard: its connection counts until it is dropped. The limits are those of
//! the configuration that the caller uses; an admitted connection keeps its permit when they change.

use access::{Connections, counted, too_many};
use site_base::lock::Leaf;
use site_config::{Limits, Peer, Web};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Counts of open connections.
#[derive(Debug, Clone, Default)]
pub struct ConnectionPermits {
    taken: Arc<Leaf<PermitCounts>>,
}

#[derive(Debug, Default)]
struct PermitCounts {
    all: usize,
    by: Connections<PermitSubject>,
}

/// The address or peer that a connection counts for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PermitSubject {
    /// An address as [`counted`].
    Address(IpAddr),
    /// A peer's name.
    Peer(Box<str>),
}

impl PermitSubject {
    /// Returns the subject of a connection: a peer's own limit replaces the limit per address.
    fn of(address: IpAddr, peer: Option<&Peer>) -> Self {
        peer.map_or_else(|| Self::Address(counted(address)), |peer| Self::Peer(peer.name.as_str().into()))
    }
}

/// The limit on connections that is reached, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLimit {
    /// `connections_max` of limits or web.
    Server(usize),
    /// `connections_per_address_max` of limits or web.
    Address(usize),
    /// `max_connections` of the peer.
    Peer(usize),
}

/// Formats the message for the client.
impl fmt::Display for ConnectionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, max) = match self {
            Self::Server(max) => ("", max),
            Self::Address(max) => (" from your address", max),
            Self::Peer(max) => (" of this peer", max),
        };
        too_many(f, whose, *max)
    }
}

impl ConnectionPermits {
    /// Returns a permit for a connection from `address`, of a peer or not, if the limits allow one more.
    pub fn take(
        &self,
        limits: &Limits,
        address: IpAddr,
        peer: Option<&Peer>,
    ) -> Result<ConnectionPermit, ConnectionLimit> {
        let own = match peer {
            Some(peer) => ConnectionLimit::Peer(peer.max_connections),
            None => ConnectionLimit::Address(limits.connections_per_address_max),
        };
        self.take_within(limits.connections_max, own, PermitSubject::of(address, peer))
    }

    /// Returns a permit for a connection over HTTP from `address`, if the limits allow one more.
    pub fn take_for_http(&self, web: &Web, address: IpAddr) -> Result<ConnectionPermit, ConnectionLimit> {
        let own = ConnectionLimit::Address(web.connections_per_address_max);
        self.take_within(web.connections_max, own, PermitSubject::of(address, None))
    }

    fn take_within(
        &self,
        all_max: usize,
        own: ConnectionLimit,
        subject: PermitSubject,
    ) -> Result<ConnectionPermit, ConnectionLimit> {
        let mut taken = self.taken.lock();
        if taken.all >= all_max {
            return Err(ConnectionLimit::Server(all_max));
        }
        let (ConnectionLimit::Server(max) | ConnectionLimit::Address(max) | ConnectionLimit::Peer(max)) = own;
        if taken.by.is_full(&subject, max) {
            return Err(own);
        }
        Ok(self.permit(&mut taken, subject))
    }

    /// Returns a permit for a connection that was admitted before, whatever the limits are now.
    pub fn keep(&self, address: IpAddr, peer: Option<&Peer>) -> ConnectionPermit {
        self.permit(&mut self.taken.lock(), PermitSubject::of(address, peer))
    }

    fn permit(&self, taken: &mut PermitCounts, subject: PermitSubject) -> ConnectionPermit {
        taken.by.open(subject.clone());
        taken.all += 1;
        ConnectionPermit { permits: self.clone(), subject }
    }

    /// Returns the number of open connections.
    pub fn all(&self) -> usize {
        self.taken.lock().all
    }

    /// Returns the number of open connections of the peer of this name.
    pub fn of_peer(&self, name: &str) -> usize {
        self.taken.lock().by.count(&PermitSubject::Peer(name.into()))
    }
}

/// One counted connection.
#[derive(Debug)]
pub struct ConnectionPermit {
    permits: ConnectionPermits,
    subject: PermitSubject,
}

impl ConnectionPermit {
    /// Returns true if the permit counts for this peer, or for an address if `peer` is `None`.
    pub fn is_of(&self, peer: Option<&Peer>) -> bool {
        match (&self.subject, peer) {
            (PermitSubject::Peer(name), Some(peer)) => **name == *peer.name,
            (PermitSubject::Address(_), None) => true,
            _ => false,
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        taken.by.close(&self.subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admitted_connections_stay_when_limits_shrink() {
        let text = "[limits]\nconnections_max = 3\nconnections_per_address_max = 2\n\
                    [[peer]]\nname = \"p\"\naddresses = [\"192.0.2.9\"]\nmax_connections = 1\n";
        let mut config = site_config::testing::with_trash(text);
        let permits = ConnectionPermits::default();
        let here: IpAddr = [192, 0, 2, 1].into();
        let take = |config: &site_config::Config, peer: bool| {
            permits.take(&config.limits, here, config.peers.first().filter(|_| peer))
        };
        let first = take(&config, false).unwrap();
        let second = take(&config, false).unwrap();
        assert_eq!(take(&config, false).unwrap_err(), ConnectionLimit::Address(2));
        let of_peer = take(&config, true).unwrap();
        assert_eq!(take(&config, true).unwrap_err(), ConnectionLimit::Server(3));
        config.limits.connections_max = 1;
        assert_eq!((permits.all(), permits.of_peer("p")), (3, 1));
        let moved = permits.keep(here, config.peers.first());
        drop((first, second));
        assert_eq!((permits.all(), permits.of_peer("p")), (2, 2));
        assert_eq!(take(&config, false).unwrap_err(), ConnectionLimit::Server(1));
        assert!(moved.is_of(config.peers.first()) && !moved.is_of(None));
        drop((of_peer, moved));
        assert!(permits.taken.lock().by.is_empty() && take(&config, false).is_ok());
    }

    #[test]
    fn a_network_that_one_customer_has_counts_as_one_address() {
        let config = site_config::testing::with_trash("[web]\nconnections_per_address_max = 2\n");
        let permits = ConnectionPermits::default();
        let take = |text: &str| permits.take_for_http(&config.web, text.parse().unwrap());
        let taken =
            ["2001:db8::1", "2001:db8::2", "::ffff:192.0.2.1", "192.0.2.1"].map(|text| take(text).unwrap());
        for text in ["2001:db8::3", "192.0.2.1"] {
            assert_eq!(take(text).unwrap_err(), ConnectionLimit::Address(2), "{text}");
        }
        assert!(take("2001:db8:0:1::1").is_ok() && take("192.0.2.2").is_ok());
        drop(taken);
        assert!(permits.taken.lock().by.is_empty());
    }
}
