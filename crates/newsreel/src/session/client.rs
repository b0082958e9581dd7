//! Who is connected, how, and what it may do.
//!
//! Known by address and, over TLS, by certificate: the first `[[peer]]` that both fit, the first `[[access]]` that names
//! the address. TLS makes a new client of whoever is connected, so nothing said before it counts (RFC 4642 section
//! 2.2.2). Called by `server` and by the session's commands.

use crate::config::{Access, Cidr, Config, KnownCertificate, Peer, PeerTls};
use crate::tls::TlsFacts;
use netnews::nntp::response::code;
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
    tls: Option<Box<TlsFacts>>,
    /// A peer may come from this address, but only over TLS.
    peer_must_encrypt: bool,
    compressed: bool,
}

/// Whether somebody is a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    No,
    /// Perhaps, once the connection is encrypted.
    OverTls,
    Yes,
}

impl Client {
    /// What the configuration says of `address`, before TLS.
    pub fn at(config: &Arc<Config>, address: IpAddr) -> Self {
        Self::known_by(config, address, None)
    }

    /// The same client after a TLS handshake; what it did before does not count.
    pub fn secured(&self, facts: TlsFacts) -> Self {
        Self::known_by(&self.config, self.address, Some(facts))
    }

    fn known_by(config: &Arc<Config>, address: IpAddr, tls: Option<TlsFacts>) -> Self {
        let address = address.to_canonical();
        let fits: Vec<Fit> = config.peers.iter().map(|peer| fit(peer, address, tls.as_ref())).collect();
        let peer = fits.iter().position(|fit| *fit == Fit::Yes);
        Self {
            peer,
            peer_must_encrypt: peer.is_none() && fits.contains(&Fit::OverTls),
            access: config.access.iter().position(|access| contains(&access.from, address)),
            address_text: address.to_string().into(),
            address,
            config: config.clone(),
            tls: tls.map(Box::new),
            compressed: false,
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
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_deref()
    }

    /// Whether the connection is compressed; then neither TLS nor authentication may begin (RFC 8054 section 2.2.2).
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// From now on the connection is compressed.
    pub fn set_compressed(&mut self) {
        self.compressed = true;
    }

    /// For the log: the peer's name, or the address.
    pub fn name(&self) -> &str {
        let peer = self.peer.and_then(|peer| self.config.peers.get(peer));
        peer.map_or(&self.address_text, |peer| &peer.name)
    }

    /// Whether it is anybody we know, or may turn out to be.
    pub fn is_known(&self) -> bool {
        self.peer.is_some() || self.peer_must_encrypt || self.may_read()
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

    /// What it is told that may not send articles.
    pub fn no_feed(&self) -> (u16, &'static str) {
        if self.peer_must_encrypt {
            (code::PRIVACY_REQUIRED, "Encrypt first (STARTTLS) and show your certificate if you have one")
        } else {
            (code::NOT_PERMITTED, "You may not send articles here")
        }
    }

    /// STARTTLS, as far as this connection goes.
    pub fn may_start_tls(&self) -> bool {
        self.config.tls.is_offered() && self.tls.is_none() && !self.compressed
    }
}

fn contains(cidrs: &[Cidr], address: IpAddr) -> bool {
    cidrs.iter().any(|cidr| cidr.contains(address))
}

fn fit(peer: &Peer, address: IpAddr, tls: Option<&TlsFacts>) -> Fit {
    if !peer.addresses.is_empty() && !contains(&peer.addresses, address) {
        return Fit::No;
    }
    match tls {
        None if peer.tls == PeerTls::Require || !peer.certificate.is_empty() => Fit::OverTls,
        None => Fit::Yes,
        Some(_) if peer.certificate.is_empty() => Fit::Yes,
        Some(facts) if peer.certificate.iter().any(|known| shows(facts, known)) => Fit::Yes,
        Some(_) => Fit::No,
    }
}

/// Whether the certificate shown is the one by which a peer is known.
fn shows(facts: &TlsFacts, known: &KnownCertificate) -> bool {
    facts.certificate.as_ref().is_some_and(|shown| match known {
        KnownCertificate::Fingerprint(octets) => shown.fingerprint == *octets,
        KnownCertificate::Name(name) => shown.proven_names().any(|proven| proven.eq_ignore_ascii_case(name)),
    })
}
