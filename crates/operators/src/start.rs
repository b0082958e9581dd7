//! Starts of spans of time, as operators write them.

use site_base::clock::unix_secs;
use site_base::units;
use site_config::FeedStart;

/// A text that should be a date or a time span, and is neither.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is neither a date such as 2026-01-31 nor a time span such as 2h")]
pub(crate) struct InvalidStart(String);

/// Parses a date or a time span before now; returns Unix seconds.
pub(crate) fn since(text: &str) -> Result<u64, InvalidStart> {
    if let Ok(start @ FeedStart::Day(_)) = FeedStart::parse(text) {
        return Ok(start.since());
    }
    let span = units::parse_span(text);
    span.map(|span| unix_secs().saturating_sub(span.as_secs())).map_err(|_| InvalidStart(text.to_owned()))
}
