//! Addresses and networks: `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`.
//!
//! An IPv4 address that arrives on an IPv6 socket (`::ffff:192.0.2.7`) is the IPv4 address. Used by `[[peer]]` and
//! `[[access]]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network; a single address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix_bits: u8,
}

impl Cidr {
    /// Every IPv4 and every IPv6 address.
    pub const ALL: [Self; 2] = [
        Self { network: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix_bits: 0 },
        Self { network: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix_bits: 0 },
    ];

    /// Whether every address of `other` lies in it.
    pub fn covers(&self, other: &Self) -> bool {
        self.prefix_bits <= other.prefix_bits && self.contains(other.network)
    }

    /// Whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                masked_v4(network, self.prefix_bits) == masked_v4(address, self.prefix_bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                masked_v6(network, self.prefix_bits) == masked_v6(address, self.prefix_bits)
            }
            _ => false,
        }
    }
}

fn masked_v4(address: Ipv4Addr, prefix_bits: u8) -> u32 {
    u32::from(address) & u32::MAX.checked_shl(32 - u32::from(prefix_bits)).unwrap_or(0)
}

fn masked_v6(address: Ipv6Addr, prefix_bits: u8) -> u128 {
    u128::from(address) & u128::MAX.checked_shl(128 - u32::from(prefix_bits)).unwrap_or(0)
}

fn host_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr =
            address.parse().map_err(|_| format!("`{text}` is not an IP address or a network"))?;
        let prefix_bits = match prefix {
            None => host_bits(network),
            Some(prefix) => {
                prefix.parse().ok().filter(|bits| *bits <= host_bits(network)).ok_or_else(|| {
                    format!("`/{prefix}` is not a prefix length from 0 to {}", host_bits(network))
                })?
            }
        };
        let kept = match network {
            IpAddr::V4(v4) => IpAddr::V4(masked_v4(v4, prefix_bits).into()),
            IpAddr::V6(v6) => IpAddr::V6(masked_v6(v6, prefix_bits).into()),
        };
        if kept != network {
            return Err(format!("`{text}` has bits set beyond its prefix; write `{kept}/{prefix_bits}`"));
        }
        Ok(Self { network, prefix_bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix_bits == host_bits(self.network) {
            write!(f, "{}", self.network)
        } else {
            write!(f, "{}/{}", self.network, self.prefix_bits)
        }
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
    fn what_is_no_network_is_refused_with_a_reason() {
        let error = |text: &str| text.parse::<Cidr>().unwrap_err();
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
