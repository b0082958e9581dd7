//! newsreel: a Usenet server.
//!
//! Three duties (RFC 5537): `relay` takes articles from peers, `inject` from readers who post, `serve` gives them to
//! readers. They never name each other: they meet in [`ingest`], the one road of an article, and in the spool below it.
//! What `serve` reads comes from a [`source`], of which the spool is one. `moderation` mails what `inject` does not file.
//! `session` is a connection, `server` what listens; `control_socket` and `cli` are how operators talk to it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// They panic where the output cannot be written: `cli::say` and `cli::complain` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod access;
mod cancel_lock;
mod checks;
pub mod cli;
pub mod config;
pub mod control_socket;
#[doc(hidden)]
pub mod fuzzing;
pub mod import;
pub mod ingest;
mod inject;
pub mod log;
mod moderation;
pub mod name_map;
mod numbers;
pub mod operations;
mod printable;
mod relay;
mod reload;
mod serve;
pub mod server;
mod session;
mod site;
pub mod source;
mod tls;
pub mod units;
