//! The sessions of a server and their duties (RFC 5537): `relay` takes articles from peers, `inject` from
//! readers who post, `serve` sends them to readers.
//!
//! The duties never name each other. They share a [`Site`] and meet in `ingest`, the one road of an article.
//! `moderation` mails the posts to moderated groups. `session` is a connection, `listening` accepts it, `log`
//! sets up the log.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod inject;
pub mod listening;
pub mod log;
mod message_ids;
pub mod moderation;
mod relay;
pub mod serve;
pub mod session;
mod site;

pub use self::site::{ConnectionLimit, ConnectionPermit, ConnectionPermits, SessionSignal, Site};
