//! newsreel: a Usenet server.
//!
//! Three duties (RFC 5537): `relay` takes articles from peers, `inject` from readers who post, `serve` sends
//! them to readers. They never name each other: they meet in [`ingest`], the single path of every article,
//! and in the spool below it. `serve` reads from a [`source`], such as the spool. `moderation` mails the
//! posts that `inject` does not file. `session` is a connection, `listening` accepts connections, `server`
//! assembles everything; operators reach it through `control_socket` and `cli`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// These macros panic if the output cannot be written, unlike `cli::screen`.
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
