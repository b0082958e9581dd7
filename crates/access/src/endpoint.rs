//! A client's end of a connection.
//!
//! Called by `gate`, `outside` and all sessions.

use std::net::{IpAddr, SocketAddr};

/// A client's connection, as needed for checks and for the log.
#[derive(Debug, Clone, Copy)]
pub struct ClientEndpoint {
    /// Address of the client.
    pub address: IpAddr,
    /// Port of the client.
    pub port: u16,
    /// The local address of the connection.
    pub local: Option<SocketAddr>,
}
