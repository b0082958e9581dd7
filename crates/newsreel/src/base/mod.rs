//! What every floor shares: the clock, counters, sizes and times as text, text that is safe to print, and
//! programs that are run.

pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod printable;
pub(crate) mod program;
pub mod units;
