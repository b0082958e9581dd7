//! Values of options that need a check of their own; used by the declarations in `args`.

use std::str::FromStr;

use site_config::{check_host_port, is_path_identity};

/// A number of days, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Option<u32>);

/// Reason why a value of an option is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentError {
    /// Neither a number of days nor "none".
    #[error("not a number of days from 1 to 36500, and not \"none\"")]
    Age,
    /// Not an address with a port; contains the reason.
    #[error("{0}")]
    HostPort(String),
    /// Not a path identity.
    #[error("not a path identity")]
    PathIdentity,
}

impl FromStr for Age {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        if text == "none" {
            return Ok(Self(None));
        }
        let days = text.parse().ok().filter(|days| (1..=36_500).contains(days));
        days.map(|days| Self(Some(days))).ok_or(ArgumentError::Age)
    }
}

/// Checks that a text is `HOST:PORT`.
pub(crate) fn host_port(text: &str) -> Result<String, ArgumentError> {
    let checked = check_host_port(text).map(|()| text.to_owned());
    checked.map_err(|error| ArgumentError::HostPort(error.to_string()))
}

/// Checks that a text is a path identity.
pub(super) fn path_identity(text: &str) -> Result<String, ArgumentError> {
    if is_path_identity(text) { Ok(text.to_owned()) } else { Err(ArgumentError::PathIdentity) }
}
