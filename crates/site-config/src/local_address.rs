//! Patterns for the local address of a connection: `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1:563`, `[::1]:563`,
//! `*:563`.
//!
//! Used by the `listener` key of `[[access]]`.

use super::Cidr;
use super::cidr::NetworkError;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// A pattern for local addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// `None` means every address.
    network: Option<Cidr>,
    /// `None` means every port.
    port: Option<u16>,
}

impl LocalAddress {
    /// Returns true if `address` matches.
    pub fn matches(&self, address: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == address.port())
            && self.network.is_none_or(|network| network.contains(address.ip()))
    }

    /// Returns true if everything that `other` matches is matched by this too.
    pub fn covers(&self, other: &Self) -> bool {
        let network = match (self.network, other.network) {
            (None, _) => true,
            (Some(own), Some(other)) => own.covers(&other),
            (Some(_), None) => false,
        };
        network && (self.port.is_none() || self.port == other.port)
    }
}

/// Reason why a text is not a local address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalAddressError {
    /// The text after `*:` is not the number of a port.
    #[error("`{0}` is not a port from 0 to 65535")]
    NotAPort(String),
    /// Without a port, the text is not an address or a network.
    #[error("{0}; write ADDRESS, ADDRESS:PORT or *:PORT")]
    Network(NetworkError),
}

impl FromStr for LocalAddress {
    type Err = LocalAddressError;

    fn from_str(text: &str) -> Result<Self, LocalAddressError> {
        if let Some(port) = text.strip_prefix("*:") {
            let port = port.parse().map_err(|_| LocalAddressError::NotAPort(port.to_owned()))?;
            return Ok(Self { network: None, port: Some(port) });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { network: Some(address.ip().into()), port: Some(address.port()) });
        }
        let network = text.parse().map_err(LocalAddressError::Network)?;
        Ok(Self { network: Some(network), port: None })
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, self.port) {
            (None, None) => f.write_str("*"),
            (None, Some(port)) => write!(f, "*:{port}"),
            (Some(network), None) => write!(f, "{network}"),
            (Some(network), Some(port)) => {
                let network = network.to_string();
                if network.contains(':') {
                    write!(f, "[{network}]:{port}")
                } else {
                    write!(f, "{network}:{port}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_ports() {
        for (text, address, matches) in [
            ("192.0.2.1", "192.0.2.1:119", true),
            ("192.0.2.0/24", "192.0.2.9:563", true),
            ("192.0.2.1:563", "192.0.2.1:563", true),
            ("192.0.2.1:563", "192.0.2.1:119", false),
            ("[::1]:563", "[::1]:563", true),
            ("[::1]:563", "[::2]:563", false),
            ("*:563", "[::2]:563", true),
            ("*:563", "192.0.2.1:119", false),
        ] {
            let local: LocalAddress = text.parse().unwrap();
            assert_eq!(local.matches(address.parse().unwrap()), matches, "{text} {address}");
            assert_eq!(local.to_string(), text);
        }
        assert!("news:119".parse::<LocalAddress>().unwrap_err().to_string().contains("*:PORT"));
        assert!("*:news".parse::<LocalAddress>().is_err());
    }

    #[test]
    fn coverage() {
        let covers = |a: &str, b: &str| a.parse::<LocalAddress>().unwrap().covers(&b.parse().unwrap());
        assert!(covers("*:563", "192.0.2.1:563"));
        assert!(covers("192.0.2.0/24", "192.0.2.1:563"));
        assert!(!covers("192.0.2.1:563", "192.0.2.1"));
        assert!(!covers("192.0.2.1", "*:563"));
    }
}
