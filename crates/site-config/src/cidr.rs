//! Addresses and networks: `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`.
//!
//! IPv4 addresses that arrive on an IPv6 socket (`::ffff:192.0.2.7`) are treated as IPv4. Used by `[[peer]]`
//! and `[[access]]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A network; a single address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    /// Every IPv4 and every IPv6 address.
    pub const ALL: [Self; 2] = [
        Self(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0))),
        Self(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0))),
    ];

    /// Returns true if every address of `other` is in this network.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Returns true if `address` is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl From<IpAddr> for Cidr {
    fn from(address: IpAddr) -> Self {
        Self(address.into())
    }
}

/// Reason why a text is not an address or a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The part before the slash, or all of it without a slash, is not an address; holds the whole text.
    #[error("`{0}` is not an IP address or a network")]
    NotANetwork(String),
    /// No prefix of such addresses has this length.
    #[error("`/{prefix}` is not a prefix length from 0 to {bits_max}")]
    PrefixLength {
        /// The text after the slash.
        prefix: String,
        /// Length of an address, in bits.
        bits_max: u8,
    },
    /// Bits after the prefix are not 0.
    #[error("`{text}` has bits set beyond its prefix; write `{network}`")]
    BitsBeyondPrefix {
        /// The whole text.
        text: String,
        /// The network of this prefix.
        network: IpNet,
    },
}

impl FromStr for Cidr {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::NotANetwork(text.to_owned()))?;
        let host = IpNet::from(address);
        let Some(prefix) = prefix else { return Ok(Self(host)) };
        let bits = prefix.parse().ok().filter(|bits| *bits <= host.max_prefix_len());
        let network = bits.and_then(|bits| IpNet::new(address, bits).ok()).ok_or_else(|| {
            NetworkError::PrefixLength { prefix: prefix.to_owned(), bits_max: host.max_prefix_len() }
        })?;
        match network.trunc() {
            whole if whole == network => Ok(Self(network)),
            network => Err(NetworkError::BitsBeyondPrefix { text: text.to_owned(), network }),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_their_addresses_only() {
        for (network, address, inside) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("192.0.2.7", "::ffff:192.0.2.7", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "::1", true),
        ] {
            assert_eq!(cidr(network).contains(address.parse().unwrap()), inside, "{network} {address}");
        }
    }

    #[test]
    fn invalid_networks_are_rejected_with_a_reason() {
        let error = |text: &str| text.parse::<Cidr>().unwrap_err().to_string();
        assert_eq!(error("news.example.org"), "`news.example.org` is not an IP address or a network");
        assert_eq!(error("192.0.2.0/33"), "`/33` is not a prefix length from 0 to 32");
        assert_eq!(
            error("192.0.2.1/24"),
            "`192.0.2.1/24` has bits set beyond its prefix; write `192.0.2.0/24`"
        );
        assert_eq!(cidr("192.0.2.0/24").to_string(), "192.0.2.0/24");
        assert_eq!(cidr("::1").to_string(), "::1");
    }
}
