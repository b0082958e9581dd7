//! TLS of our connections: what a handshake found out, and what it is offered with.
//!
//! `facts` is what the rest of the server may ask of a secured connection. Called by `session`. Sources: RFC 4642, RFC
//! 8143.

#[allow(dead_code, reason = "asked once listeners speak TLS")]
mod facts;

pub(crate) use facts::TlsFacts;
