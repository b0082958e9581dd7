//! newsreel: a Usenet server.
//!
//! Three duties (RFC 5537): `relay` takes articles from peers, `inject` from readers who post, `serve` sends
//! them to readers. They never name each other: they meet in [`ingest`], the one road of an article, and in
//! the spool below it. What `serve` reads comes from a [`source`], of which the spool is one. `moderation`
//! mails what `inject` does not file. `session` is a connection, `listening` accepts them, `server` assembles
//! all of it; `control_socket` and `cli` are how operators reach it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// They panic where the output cannot be written: `cli::screen` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod access;
pub mod base;
mod cancel_lock;
pub mod cli;
pub mod config;
pub mod control_socket;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod import;
pub mod ingest;
mod inject;
pub mod listening;
pub mod log;
mod moderation;
pub mod name_map;
pub mod operations;
mod relay;
mod reload;
mod running;
mod serve;
pub mod server;
mod session;
mod site;
pub mod source;
mod tls;
