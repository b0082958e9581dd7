//! What every floor shares: the clock, counters, sizes and times as text, text that is safe to print,
//! programs that are run, work that may wait, and the right to poll.

pub(crate) mod busy_poll;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod patiently;
pub(crate) mod printable;
pub(crate) mod program;
pub mod units;
