//! The sockets a server listens on, open before anything is said to be ready.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::Failure;

/// Connections that may wait to be taken.
const BACKLOG: i32 = 4096;

/// Listens on every address of every `HOST:PORT` of a key in `[site]`; a name that has several addresses needs one that works.
pub(super) fn bind(listen: &[String], key: &str) -> Result<Vec<TcpListener>, Failure> {
    let mut listeners = Vec::new();
    for name in listen {
        let cannot = |error: &dyn std::fmt::Display| {
            let denied = error.to_string().contains("Permission denied");
            let rights = match denied {
                true => "ports below 1024 need CAP_NET_BIND_SERVICE, as the systemd unit has it; ",
                false => "",
            };
            Failure::Problem(format!(
                "cannot listen on {name}: {error}; {rights}another address can be set with {key} in [site]"
            ))
        };
        let addresses = name.to_socket_addrs().map_err(|error| cannot(&error))?;
        let (bound, failed): (Vec<_>, Vec<_>) = addresses.map(listener).partition(Result::is_ok);
        match (bound.is_empty(), failed.into_iter().find_map(Result::err)) {
            (true, Some(error)) => return Err(cannot(&error)),
            (true, None) => return Err(cannot(&"the name has no address")),
            (false, _) => listeners.extend(bound.into_iter().flatten()),
        }
    }
    Ok(listeners)
}

fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_told_with_its_name() {
        let first = bind(&["127.0.0.1:0".into()], "listen").unwrap();
        let taken = first[0].local_addr().unwrap().to_string();
        let Failure::Problem(text) = bind(std::slice::from_ref(&taken), "tls_listen").unwrap_err() else {
            panic!()
        };
        assert!(text.starts_with(&format!("cannot listen on {taken}: ")), "{text}");
        assert!(text.ends_with("another address can be set with tls_listen in [site]"), "{text}");
        std::net::TcpStream::connect(&taken).unwrap();
    }
}
