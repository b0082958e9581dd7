//! NNTP connections: what a server and a client have in common, and the client.
//!
//! - [`Transport`] is the stream of a connection: the socket, with TLS (RFC 4642, RFC 8143), compression (RFC 8054) or
//!   both on top, switched in mid-session.
//! - [`Output`] gathers a server's answers and sends them in few writes, paced by a [`rate::Bandwidth`].
//! - [`pool`] keeps spare buffers, so that an idle connection holds none.
//!
//! Invariants: nothing here knows a spool, a group or a configuration; every buffer has a limit; no input panics. The
//! crate needs tokio's runtime with its I/O and time drivers. `newsreel` builds on it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[doc(hidden)]
pub mod fuzzing;
mod output;
pub mod pool;
pub mod rate;
mod transport;

pub use output::{GATHERED_BYTES_MAX, Output};
pub use transport::{COMPRESSED_CONNECTIONS_MAX, Compressed, Deflating, Inflating, Socket, Transport};
