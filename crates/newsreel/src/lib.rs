//! newsreel: a Usenet server.
//!
//! Three duties (RFC 5537): `relay` takes articles from peers, `inject` from readers who post, `serve` sends
//! them to readers. They never name each other: they meet in [`ingest`], the single path of every article,
//! and in the spool below it. `serve` reads from a [`source`], such as the spool. `moderation` mails the
//! posts that `inject` does not file. `session` is a connection, `listening` accepts connections, `server`
//! assembles everything, `member` makes it one of several of a cluster; operators reach it through
//! `control_socket` and `cli`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// These macros panic if the output cannot be written, unlike `cli::screen`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cli;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod member;
pub mod server;
