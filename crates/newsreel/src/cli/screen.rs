//! Output and failures of commands.
//!
//! Everything goes through `printable`, so that control sequences from strangers do not reach a terminal.

use std::fmt;
use std::io::{self, IsTerminal, Write as _};
use std::path::Path;

use site_base::printable;
use site_config::ConfigError;

/// Reason that a command failed.
#[derive(Debug)]
pub(super) enum CliError {
    /// The configuration is wrong: exit code 2.
    Config(Box<ConfigError>),
    /// Invalid arguments: exit code 2.
    Usage(String),
    /// Something could not be done, or is wrong: exit code 1.
    Problem(String),
    /// As `Problem`, when everything has been reported already.
    Told,
    /// The command can and should be repeated unchanged: exit code 75, sysexits' EX_TEMPFAIL.
    TryLater(Box<Self>),
}

impl CliError {
    /// Returns the exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Usage(_) => 2,
            Self::Problem(_) | Self::Told => 1,
            Self::TryLater(_) => 75,
        }
    }

    /// Returns whether the text quotes the operator's own configuration, in colours on a terminal.
    pub(super) fn is_report(&self) -> bool {
        match self {
            Self::Config(_) => true,
            Self::TryLater(failure) => failure.is_report(),
            _ => false,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) if matches!(**error, ConfigError::Unreadable { .. }) => {
                write!(f, "newsreel: {error}")
            }
            Self::Config(error) => f.write_str(error.report(std::io::stderr().is_terminal()).trim_end()),
            Self::Usage(text) | Self::Problem(text) => write!(f, "newsreel: {text}"),
            Self::Told => Ok(()),
            Self::TryLater(failure) => failure.fmt(f),
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl From<spool::SpoolError> for CliError {
    fn from(error: spool::SpoolError) -> Self {
        Self::Problem(error.to_string())
    }
}

/// Converts an error that names its action to a failure.
pub(super) fn problem(error: impl fmt::Display) -> CliError {
    CliError::Problem(error.to_string())
}

/// Returns the failure for a named file that cannot be read.
pub(super) fn unreadable(file: &Path) -> impl Fn(io::Error) -> CliError + Copy {
    move |error| CliError::Usage(format!("cannot read {}: {error}", file.display()))
}

/// Prints lines to standard output; a closed output ends the command quietly.
pub(super) fn say(lines: impl fmt::Display) -> Result<(), CliError> {
    print(&printable::lines(&lines.to_string()))
}

/// Prints a value as JSON.
pub(super) fn say_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).map_err(problem)?;
    print(&printable::json(&text))
}

fn print(text: &str) -> Result<(), CliError> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|_| CliError::Told)
}

/// Writes lines to standard error. A failure to do so cannot be reported.
pub(super) fn complain(lines: impl fmt::Display) {
    let _unheard = writeln!(std::io::stderr().lock(), "{}", printable::lines(&lines.to_string()));
}
