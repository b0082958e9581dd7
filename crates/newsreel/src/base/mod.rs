//! Code shared by all floors: the clock, counters, sizes and times as text, text that is safe to print,
//! running programs, work that may wait, busy polling, the order of locks, returning memory, tables that
//! survive a restart, and the form of files with one post.

pub(crate) mod busy_poll;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod durable_table;
pub(crate) mod fields;
pub(crate) mod file_name;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod patiently;
pub(crate) mod printable;
pub(crate) mod program;
pub(crate) mod summed;
pub mod units;
pub(crate) mod unpacking;
