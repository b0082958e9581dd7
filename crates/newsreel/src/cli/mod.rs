//! The command line: `newsreel COMMAND`.
//!
//! `args` is what may be typed, with its help; each command has a module. Commands that need the spool go through
//! `reach`: to the running server over its control socket, or to the spool itself if none runs. Exit codes: 0 done, 1
//! a problem was found, 2 wrong usage or configuration, 75 (`rnews` alone) to be tried again.

mod args;
mod bar;
mod buffer;
mod care;
mod check;
mod compare;
mod control;
mod ctl;
mod export;
mod group;
mod groups_file;
mod import;
mod init;
mod listeners;
mod owner;
mod password;
mod posting;
mod preflight;
mod reach;
mod rights;
mod rnews;
mod serve;
mod starter_lists;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod user;

use std::fmt;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;

use clap::Parser;
use rustix::fs::Mode;

use crate::config::ConfigError;
use crate::control_socket::protocol::{BufferCommand, Request};
use crate::printable;
use args::{Cli, Command, Where};

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong: exit code 2.
    Config(Box<ConfigError>),
    /// The command was given what it cannot take: exit code 2.
    Usage(String),
    /// It could not be done, or something is wrong: exit code 1.
    Problem(String),
    /// As `Problem`, and everything was said already.
    Told,
    /// It can and should be tried again, as it is: exit code 75, sysexits' EX_TEMPFAIL.
    TryLater(Box<Self>),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Usage(_) => 2,
            Self::Problem(_) | Self::Told => 1,
            Self::TryLater(_) => 75,
        }
    }
}

impl Failure {
    /// Whether it is shown with the operator's own configuration, in colours on a terminal.
    fn is_report(&self) -> bool {
        match self {
            Self::Config(_) => true,
            Self::TryLater(failure) => failure.is_report(),
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => f.write_str(error.report(std::io::stderr().is_terminal()).trim_end()),
            Self::Usage(text) | Self::Problem(text) => write!(f, "newsreel: {text}"),
            Self::Told => Ok(()),
            Self::TryLater(failure) => failure.fmt(f),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl From<spool::SpoolError> for Failure {
    fn from(error: spool::SpoolError) -> Self {
        Self::Problem(error.to_string())
    }
}

/// What the group and others may not do with files that any command makes: 0640 and 0750 is the most a file or directory
/// has, and what all have that are not for their owner alone.
const UMASK: Mode = Mode::from_raw_mode(0o027);

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    rustix::process::umask(UMASK);
    let Cli { command, at } = Cli::parse();
    let failure = match run(command, &at) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let text = failure.to_string();
    if !text.is_empty() {
        // A report may have colours, and what it shows is the operator's own file.
        if failure.is_report() { _ = writeln!(std::io::stderr(), "{text}") } else { complain(text) }
    }
    ExitCode::from(failure.code())
}

fn run(command: Command, at: &Where) -> Result<(), Failure> {
    match command {
        Command::Up { dir, listen, tls_listen } => serve::up(&dir, &listen, &tls_listen),
        Command::Init(options) => init::init(&options),
        Command::Serve => serve::serve(&at.load()?),
        Command::Check { access } => check::check(at, &access),
        Command::Show => check::show(at),
        Command::ExplainConfig { key } => check::explain(key.as_deref().unwrap_or_default()),
        Command::Group { command } => group::run(command, at),
        Command::User { command } => user::run(command, at),
        Command::Ctl { order } => ctl::run(&order, at),
        Command::Ask(Request::Status { json }) => status::status(at, json),
        Command::Ask(Request::Explain { subject }) => care::explain(&subject, at),
        Command::Ask(Request::Verify { repair, dry_run, json }) => care::verify(at, repair, dry_run, json),
        Command::Ask(Request::Buffer { command: BufferCommand::List { json } }) => buffer::list(at, json),
        Command::Ask(request) => care::report(at, &request),
        Command::Rebuild => care::rebuild(at),
        Command::Rnews { file } => rnews::rnews(file.as_deref(), at),
        Command::Export { command } => export::export(command, at),
        Command::Import { command } => import::import(command, at),
        Command::Docs => check::docs(),
        Command::CancelKey { message_id, user } => posting::cancel_key(at, &message_id, user.as_deref()),
        Command::Moderators { file } => posting::moderators(&file),
    }
}

/// Prints lines to standard output; an output that is closed ends the command quietly.
pub(crate) fn say(lines: impl fmt::Display) -> Result<(), Failure> {
    print(&printable::lines(&lines.to_string()))
}

/// Prints a value as JSON.
pub(crate) fn say_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Problem(error.to_string()))?;
    print(&printable::json(&text))
}

fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|_| Failure::Told)
}

/// Writes lines to standard error. There is nobody to tell if that cannot be written.
pub(crate) fn complain(lines: impl fmt::Display) {
    let _unheard = writeln!(std::io::stderr().lock(), "{}", printable::lines(&lines.to_string()));
}
