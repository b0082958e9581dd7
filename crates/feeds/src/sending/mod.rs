//! Sending over NNTP: one connection to a peer, by streaming or by IHAVE.

pub(crate) mod bundle;
pub(crate) mod connection;
pub(crate) mod headers_only;
pub(crate) mod ihave;
