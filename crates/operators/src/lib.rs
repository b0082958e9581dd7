//! What operators ask for, and what a server does by itself beside serving.
//!
//! Each request is an [`Operation`](operation::Operation) with a file of its own, and a row in `request`; a
//! running server (`control_socket`) and commands that open the spool themselves (`cli`) carry out the same.
//! Filing articles is in `ingest`. Everything that answers an operator blocks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod accounts;
pub mod archive;
pub mod audit;
pub mod buffers;
pub mod cached;
pub mod care;
mod certificates;
pub mod cluster_texts;
pub mod control_socket;
pub mod days;
pub mod dispatch;
pub mod drain;
pub mod expire;
pub mod explain;
pub mod export;
pub mod feed;
pub mod filter;
mod group_control;
pub mod group_sync;
pub mod groups;
pub mod hide;
pub mod history;
mod incoming;
pub mod keys;
mod leading;
mod load;
pub mod moderation;
pub(crate) mod mounted;
pub mod name_map;
mod obeying_for_others;
pub mod old_files;
pub mod operation;
pub mod overview;
pub mod pause;
pub mod posting;
pub mod posts;
pub mod pull;
pub mod reload;
pub mod reply;
pub mod report;
pub mod request;
mod resting;
pub mod retention;
pub mod running;
pub mod search;
pub mod shared_config;
pub mod shared_files;
mod sink;
pub mod snapshot;
mod start;
mod state_files;
pub mod status;
pub mod supervisor;
#[cfg(test)]
mod tests;
mod trailing;
pub mod transmit;
pub mod trouble;
pub mod users;
pub mod why;
pub mod withdraw;

pub use certificates::keep_renewed;
pub use expire::keep_expiring;
pub use group_control::ControlMessages;
pub use incoming::file_incoming;
pub use leading::keep_leading;
pub use obeying_for_others::obey_for_others;
pub use pull::standing::{Pulls, keep_pulling};
pub use resting::{look_over_indexes, rest_when_quiet};
pub use sink::Sink;
