//! Tables of another server's keys: those that become one of ours, and words about those that do not.
//!
//! Called by the readers of all files.

use std::time::Duration;

use toml_edit::Value;

use super::text::{NotConverted, is_true, quoted};
use site_base::units::span_text;

/// A key of theirs that becomes one of ours.
pub(super) struct MappedKey {
    /// Their key.
    theirs: &'static str,
    /// Our section, if it is one that is not repeated.
    pub section: &'static str,
    /// Our key.
    pub ours: &'static str,
    /// Conversion of the value.
    pub value: ValueConversion,
}

/// Conversion of a value.
type ValueConversion = fn(&str) -> Result<Value, NotConverted>;

/// Returns a row of a table of keys.
pub(super) const fn row(
    theirs: &'static str,
    section: &'static str,
    ours: &'static str,
    value: ValueConversion,
) -> MappedKey {
    MappedKey { theirs, section, ours, value }
}

/// Returns the row of a key.
pub(super) fn find<'t>(table: &'t [MappedKey], key: &str) -> Option<&'t MappedKey> {
    table.iter().find(|row| row.theirs == key)
}

/// Returns whether a key is among these, which are separated by white space.
pub(super) fn is_among(keys: &str, key: &str) -> bool {
    keys.split_ascii_whitespace().any(|own| own == key)
}

/// Returns the words about a key in a table of keys, each row with keys separated by white space.
pub(super) fn words<W: Copy>(table: &[(&str, W)], key: &str) -> Option<W> {
    table.iter().find(|(keys, _)| is_among(keys, key)).map(|(_, words)| *words)
}

/// Takes a value unchanged.
pub(super) fn text(value: &str) -> Result<Value, NotConverted> {
    Ok(value.into())
}

/// Converts a boolean of INN.
pub(super) fn boolean(value: &str) -> Result<Value, NotConverted> {
    Ok(is_true(value).into())
}

/// Parses a whole number.
pub(super) fn number(value: &str) -> Result<u64, NotConverted> {
    value.parse().map_err(|_| format!("`{}` is not a whole number", quoted(value)).into())
}

/// Converts a number of seconds.
pub(super) fn seconds(value: &str) -> Result<Value, NotConverted> {
    Ok(span_text(Duration::from_secs(number(value)?)).into())
}
