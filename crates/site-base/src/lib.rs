//! Code shared by all parts of the server: the clock, counters, sizes and times as text, text that is safe to
//! print, running programs, work that may wait, threads of lower priority, pauses after failures, busy
//! polling, the order of locks, returning memory, tables that survive a restart, and the form of files with
//! one post.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod back_off;
pub mod busy_poll;
pub mod counters;
pub mod durable_table;
pub mod fields;
pub mod figures;
pub mod file_name;
pub mod lock;
pub mod low_priority;
pub mod memory;
pub mod patiently;
pub mod printable;
pub mod program;
pub mod summed;
pub mod units;
pub mod unpacking;

pub use disk::clock;
