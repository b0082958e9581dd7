//! Who is connected, and what it may do.
//!
//! Known by address alone: the first `[[peer]]` and the first `[[access]]` that name it. Called by `server` and by the
//! session's commands.

use crate::config::{Access, Config};
use crate::tls::TlsFacts;
use std::net::IpAddr;
use std::sync::Arc;

/// Who is connected.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    config: Arc<Config>,
    address: IpAddr,
    address_text: Box<str>,
    peer: Option<usize>,
    access: Option<usize>,
    #[allow(dead_code, reason = "set once listeners speak TLS")]
    tls: Option<Box<TlsFacts>>,
}

impl Client {
    /// What the configuration says of `address`.
    pub fn at(config: &Arc<Config>, address: IpAddr) -> Self {
        let address = address.to_canonical();
        let contains = |cidrs: &[crate::config::Cidr]| cidrs.iter().any(|cidr| cidr.contains(address));
        Self {
            peer: config.peers.iter().position(|peer| contains(&peer.addresses)),
            access: config.access.iter().position(|access| contains(&access.from)),
            address_text: address.to_string().into(),
            address,
            config: config.clone(),
            tls: None,
        }
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn address_text(&self) -> &str {
        &self.address_text
    }

    /// Number of its `[[peer]]` section.
    pub fn peer_number(&self) -> Option<usize> {
        self.peer
    }

    /// Number of its `[[access]]` section.
    pub fn access_number(&self) -> Option<usize> {
        self.access
    }

    pub fn access(&self) -> Option<&Access> {
        self.config.access.get(self.access?)
    }

    /// What the TLS handshake found out; `None` while the connection is not encrypted.
    #[allow(dead_code, reason = "asked by AUTHINFO")]
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_deref()
    }

    /// For the log: the peer's name, or the address.
    pub fn name(&self) -> &str {
        let peer = self.peer.and_then(|peer| self.config.peers.get(peer));
        peer.map_or(&self.address_text, |peer| &peer.name)
    }

    /// Whether it is anybody we know.
    pub fn is_known(&self) -> bool {
        self.peer.is_some() || self.may_read()
    }

    pub fn may_read(&self) -> bool {
        self.access().is_some_and(|access| !access.read.is_empty())
    }

    /// IHAVE.
    pub fn may_feed(&self) -> bool {
        self.peer.is_some()
    }

    /// CHECK and TAKETHIS.
    pub fn may_stream(&self) -> bool {
        self.peer.and_then(|peer| self.config.peers.get(peer)).is_some_and(|peer| peer.streaming)
    }
}
