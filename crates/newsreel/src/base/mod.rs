//! What every floor shares: the clock, counters, sizes and times as text, and text that is safe to print.

pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod printable;
pub mod units;
