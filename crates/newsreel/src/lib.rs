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

pub mod cli;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod server;
