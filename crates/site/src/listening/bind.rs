//! Binding the sockets of a `HOST:PORT`.
//!
//! Called by `cli` before a server starts, and by `listening` for sockets that a reload adds. Source: ip(7),
//! tcp(7).

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

/// Length of the queue of connections not accepted yet.
const BACKLOG: i32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub struct BoundSocket {
    /// The `HOST:PORT` in the configuration that it was opened for; `None` matches any.
    pub name: Option<String>,
    /// The socket.
    pub socket: TcpListener,
    /// Whether it belongs to the program that started this one, and stays open after the server's end.
    pub is_passed: bool,
}

impl From<TcpListener> for BoundSocket {
    fn from(socket: TcpListener) -> Self {
        Self { name: None, socket, is_passed: false }
    }
}

/// Listens on every address of a `HOST:PORT`; it is enough that one of several addresses works. Sockets of
/// `passed` that listen there already are taken out of it and used.
pub fn bind(name: &str, passed: &mut Vec<TcpListener>) -> io::Result<Vec<BoundSocket>> {
    let mut taken = Vec::new();
    let mut bound = bind_with(name, &mut |address| {
        let has_address = |passed: &TcpListener| passed.local_addr().is_ok_and(|local| local == address);
        match passed.iter().position(has_address) {
            Some(at) => {
                taken.push(address);
                Ok(passed.swap_remove(at))
            }
            None => listen(address),
        }
    })?;
    for one in &mut bound {
        one.is_passed = one.socket.local_addr().is_ok_and(|local| taken.contains(&local));
    }
    Ok(bound)
}

/// Listens on every address of a `HOST:PORT` in this way; it is enough that one of several addresses works.
pub(super) fn bind_with(
    name: &str,
    listen: &mut dyn FnMut(SocketAddr) -> io::Result<TcpListener>,
) -> io::Result<Vec<BoundSocket>> {
    let mut bound = Vec::new();
    let mut failed = None;
    for address in addresses_of(name)? {
        match listen(address) {
            Ok(socket) => {
                bound.push(BoundSocket { name: Some(name.to_owned()), socket, is_passed: false });
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        _ if !bound.is_empty() => Ok(bound),
        Some(error) => Err(error),
        None => Err(io::Error::other("the name has no address")),
    }
}

/// Returns all addresses of a `HOST:PORT`. An IPv6 address may have a scope, as in `[fe80::1%eth0]:119`.
pub fn addresses_of(name: &str) -> io::Result<Vec<SocketAddr>> {
    let bracketed = name.strip_prefix('[').and_then(|rest| rest.rsplit_once("]:"));
    match bracketed.filter(|(host, _)| host.contains('%')) {
        Some((host, port)) => {
            let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
            Ok((host, port).to_socket_addrs()?.collect())
        }
        None => Ok(name.to_socket_addrs()?.collect()),
    }
}

/// Listens on an address.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listening(address, false)
}

/// Listens on an address that overlaps with those of our own sockets: one of them listens on every address of
/// the machine and the other on this one. New connections go to the socket with the more specific address;
/// the system requires that all sockets agree to share.
pub(super) fn listen_beside(address: SocketAddr, others: &[&TcpListener]) -> io::Result<TcpListener> {
    let share = |share: bool| others.iter().try_for_each(|o| sockopt::set_socket_reuseport(o, share));
    share(true)?;
    let socket = listening(address, true);
    share(false)?;
    let socket = socket?;
    sockopt::set_socket_reuseport(&socket, false)?;
    Ok(socket)
}

fn listening(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
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
    fn a_link_local_address_names_its_interface() {
        let found = addresses_of("[fe80::1%lo]:119").unwrap();
        let scopes: Vec<u32> = found
            .iter()
            .filter_map(|address| match address {
                SocketAddr::V6(address) => Some(address.scope_id()),
                SocketAddr::V4(_) => None,
            })
            .collect();
        assert_eq!((found.len(), scopes), (1, vec![1]));
        assert!(addresses_of("[fe80::1%nosuch0]:119").is_err());
        assert_eq!(addresses_of("[::1]:119").unwrap(), ["[::1]:119".parse().unwrap()]);
    }
}
