//! Who may connect now: limits on connections in all, per address and per peer.
//!
//! A [`Seat`] is a drop guard: the connection that holds it counts until it is dropped.

use crate::config::Config;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Counts of open connections, and their limits.
#[derive(Debug, Clone)]
pub(crate) struct Seats {
    taken: Arc<Mutex<Taken>>,
    connections_max: usize,
    per_address_max: usize,
    per_peer_max: Arc<[usize]>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    by_peer: Vec<usize>,
}

/// Which limit on connections is reached, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// `limits.connections_max`.
    Server(usize),
    /// `limits.connections_per_address_max`.
    Address(usize),
    /// `max_connections` of the peer.
    Peer(usize),
}

/// What the client is told.
impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, max) = match self {
            Self::Server(max) => ("", max),
            Self::Address(max) => (" from your address", max),
            Self::Peer(max) => (" of this peer", max),
        };
        write!(f, "Too many connections{whose} (at most {max}), try again later")
    }
}

impl Seats {
    pub fn new(config: &Config) -> Self {
        Self {
            taken: Arc::new(Mutex::new(Taken { by_peer: vec![0; config.peers.len()], ..Taken::default() })),
            connections_max: config.limits.connections_max,
            per_address_max: config.limits.connections_per_address_max,
            per_peer_max: config.peers.iter().map(|peer| peer.max_connections).collect(),
        }
    }

    /// A seat for a connection from `address`, of a peer or not. A peer's own limit takes the place of the limit per
    /// address.
    pub fn take(&self, address: IpAddr, peer: Option<usize>) -> Result<Seat, Full> {
        let mut taken = self.taken.lock();
        if taken.all >= self.connections_max {
            return Err(Full::Server(self.connections_max));
        }
        match peer {
            Some(peer) => {
                let max = self.per_peer_max.get(peer).copied().unwrap_or_default();
                let count = taken.by_peer.get_mut(peer).ok_or(Full::Peer(max))?;
                if *count >= max {
                    return Err(Full::Peer(max));
                }
                *count += 1;
            }
            None => {
                let count = taken.by_address.entry(address).or_default();
                if *count >= self.per_address_max {
                    return Err(Full::Address(self.per_address_max));
                }
                *count += 1;
            }
        }
        taken.all += 1;
        Ok(Seat { seats: self.clone(), address, peer })
    }

    /// Connections open now.
    pub fn all(&self) -> usize {
        self.taken.lock().all
    }

    /// Connections of a peer open now.
    pub fn of_peer(&self, peer: usize) -> usize {
        self.taken.lock().by_peer.get(peer).copied().unwrap_or_default()
    }
}

/// One counted connection.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    address: IpAddr,
    peer: Option<usize>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        match self.peer {
            Some(peer) => {
                if let Some(count) = taken.by_peer.get_mut(peer) {
                    *count = count.saturating_sub(1);
                }
            }
            None => {
                let left = taken.by_address.get_mut(&self.address).map_or(0, |count| {
                    *count = count.saturating_sub(1);
                    *count
                });
                if left == 0 {
                    taken.by_address.remove(&self.address);
                }
            }
        }
    }
}
