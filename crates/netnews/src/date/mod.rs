//! Dates: reading those of articles, writing those that newsreel sends.
//!
//! Times are Unix seconds. Reading is lenient, since an article whose Date cannot be read is refused; writing
//! is strict. Called by ingest (age limits), inject, sessions (DATE, NEWGROUPS, NEWNEWS). Sources: RFC 5322
//! sections 3.3 and 4.3, RFC 5536 section 3.1.1, RFC 3977 sections 7.1 to 7.4.

mod civil;
mod format;
mod parse;
mod strict;
mod tokens;
mod zone;

pub use format::{format_nntp, format_rfc5322, parse_nntp};

/// Reads the value of a Date, Expires or Injection-Date header as Unix seconds. Beyond RFC 5322 it accepts:
/// no weekday or a wrong one, no seconds, no time, no zone (UTC), zones by name, comments, ctime's form,
/// `16-Apr-93`, ISO 8601, `4/16/93`.
pub fn parse(value: &[u8]) -> Option<i64> {
    parse::seconds(value)
}

/// Maximum time by which an article may have been written after it arrived, in seconds: clocks and zones are
/// wrong.
pub const AHEAD_SECS_MAX: i64 = 86_400;

/// Returns the time of an article by which it is selected, sorted and listed: that of its Date; if that
/// cannot be read, or is more than [`AHEAD_SECS_MAX`] after the arrival, the arrival. Where the arrival is
/// unknown, as of articles of other servers, `now` takes its place as far as it is the latest time possible.
pub fn of_article(written: Option<i64>, arrived: Option<i64>, now: i64) -> Option<i64> {
    let latest = arrived.unwrap_or(now).saturating_add(AHEAD_SECS_MAX);
    written.filter(|written| *written <= latest).or(arrived)
}

/// Returns whether [`parse`] reads the value, and it has the form of RFC 5322, so that every server reads it
/// too.
pub fn is_standard(value: &[u8]) -> bool {
    strict::is_date_time(value) && parse(value).is_some()
}

#[cfg(test)]
mod tests;
