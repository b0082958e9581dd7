//! What every floor shares: the clock, counters, sizes and times as text, text that is safe to print,
//! programs that are run, work that may wait, the right to poll, the order of locks, memory that is given
//! back, tables that outlive a restart, and the form of files with one post.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod busy_poll;
pub mod clock;
pub mod counters;
pub mod durable_table;
pub mod fields;
pub mod file_name;
pub mod lock;
pub mod memory;
pub mod patiently;
pub mod printable;
pub mod program;
pub mod summed;
pub mod units;
pub mod unpacking;
