//! TLS: our certificates, those we trust, and the results of handshakes.
//!
//! `TlsOffer` has the settings for handshakes; it is rebuilt when its files change, so that a new certificate
//! needs no restart. `facts` is what the rest of the server may ask of a secured connection. Called by
//! `session`, `site` and the command line. Sources: RFC 4642, RFC 8143, RFC 7301.

mod certificates;
mod clients;
mod dial;
mod error;
mod facts;
mod files;
pub mod names;
mod offer;
mod self_signed;
mod validity;

pub use dial::first_line;
pub use dial::{RemoteServer, RemoteServerError};
pub use error::TlsOfferError;
pub use facts::TlsInfo;
pub use offer::TlsOffer;
pub use self_signed::{SELF_SIGNED_FILES, is_self_signed, make_self_signed, renew_self_signed};
pub use validity::lifetime;
