//! `HOST:PORT`, the form of addresses to listen on and to connect to.
//!
//! Called by `kinds`, and by the command line for its options.

use std::net::{IpAddr, Ipv6Addr};

/// Reason why a text is not `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostPortError {
    /// There is no colon.
    #[error("`{0}` lacks a port; write HOST:PORT")]
    NoPort(String),
    /// The text in brackets is not an IPv6 address.
    #[error("`{0}` is not an IPv6 address")]
    NotIpv6(String),
    /// An IPv6 address has no brackets; holds the whole text.
    #[error("`{0}`: write an IPv6 address in brackets, as in [::1]:119")]
    NoBrackets(String),
    /// Nothing precedes the port.
    #[error("`{text}` lacks a host; every address of the machine is 0.0.0.0:{port} and [::]:{port}")]
    NoHost {
        /// The whole text.
        text: String,
        /// The text after the colon.
        port: String,
    },
    /// The text after the last colon is not the number of a port.
    #[error("`{0}` is not a port from 0 to 65535")]
    NotAPort(String),
}

/// Returns true if `HOST`, `HOST:PORT` or an address in brackets names this machine by its loopback network.
pub fn is_loopback_host(text: &str) -> bool {
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => text.rsplit_once(':').map_or(text, |(host, _)| host),
    };
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Checks that `text` is `HOST:PORT`.
pub fn check_host_port(text: &str) -> Result<(), HostPortError> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| HostPortError::NoPort(text.to_owned()))?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        Some(inner) if !is_ipv6(inner) => {
            return Err(HostPortError::NotIpv6(inner.to_owned()));
        }
        None if host.contains(':') => {
            return Err(HostPortError::NoBrackets(text.to_owned()));
        }
        None if host.is_empty() => {
            return Err(HostPortError::NoHost { text: text.to_owned(), port: port.to_owned() });
        }
        _ => {}
    }
    port.parse::<u16>().map(|_| ()).map_err(|_| HostPortError::NotAPort(port.to_owned()))
}

/// Returns true if `text` is an IPv6 address, perhaps with the scope that a link-local one needs:
/// `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, scope) =
        text.split_once('%').map_or((text, None), |(address, scope)| (address, Some(scope)));
    address.parse::<Ipv6Addr>().is_ok() && scope != Some("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_addresses_are_checked() {
        for text in ["127.0.0.1:1119", "localhost:119", "[::1]:119", "0.0.0.0:0", "[fe80::1%lo]:119"] {
            assert_eq!(check_host_port(text), Ok(()), "{text}");
        }
        for (text, error) in [
            ("127.0.0.1", "`127.0.0.1` lacks a port; write HOST:PORT"),
            ("::1:119", "`::1:119`: write an IPv6 address in brackets, as in [::1]:119"),
            (":119", "`:119` lacks a host; every address of the machine is 0.0.0.0:119 and [::]:119"),
            ("localhost:news", "`news` is not a port from 0 to 65535"),
            ("[localhost]:119", "`localhost` is not an IPv6 address"),
            ("[fe80::1%]:119", "`fe80::1%` is not an IPv6 address"),
        ] {
            assert_eq!(check_host_port(text).unwrap_err().to_string(), error, "{text}");
        }
    }
}
