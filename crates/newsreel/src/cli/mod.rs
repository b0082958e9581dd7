//! The command line: `newsreel COMMAND`.
//!
//! `args` declares the command line and its help; each command has a module. Commands that need the spool go
//! through `reach`: to the running server over its control socket, or to the spool itself if none runs. Exit
//! codes: 0 done, 1 a problem was found, 2 wrong usage or configuration, 75 (`rnews` and `send`) try again
//! later.

mod archive;
mod args;
mod asking;
mod bar;
mod cache;
mod cache_stats;
mod care;
mod check;
mod cluster;
mod compare;
mod control;
mod ctl;
mod doctor;
mod expire;
mod export;
mod group;
mod group_sync;
mod groups_file;
mod headings;
mod history;
mod import;
mod init;
mod keys;
mod listeners;
mod listing;
mod locate;
mod manuals;
mod mount;
mod output;
mod owner;
mod password;
mod peer;
mod post;
mod posting;
mod preflight;
mod pull;
mod purge;
mod reach;
mod report;
mod rights;
mod rnews;
mod screen;
mod search;
mod send;
mod serve;
mod starter_lists;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod top;
mod typed;
mod user;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use rustix::fs::Mode;

use args::{Cli, CliCommand};
use locate::SiteLocation;
use operators::report::page;
use screen::{CliError, complain};

/// File mode mask of all commands: files have at most mode 0640 and directories 0750, and all that are not
/// private to their owner have exactly these.
const UMASK: Mode = Mode::from_raw_mode(0o027);

/// Runs the command line.
pub fn main() -> ExitCode {
    rustix::process::umask(UMASK);
    if headings::asks_for_all(std::env::args_os().skip(1)) {
        // A closed output is no failure of ours.
        _ = headings::with_all(Cli::command()).print_help();
        return ExitCode::SUCCESS;
    }
    let Cli { command, at } = parsed();
    let failure = match run(command, &at) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let text = failure.to_string();
    if !text.is_empty() {
        // A report may have colours, and quotes only the operator's own file.
        if failure.is_report() { _ = writeln!(std::io::stderr(), "{text}") } else { complain(text) }
    }
    ExitCode::from(failure.code())
}

/// Parses the arguments; ends the process after a request for help, and if they are wrong.
fn parsed() -> Cli {
    let mut program = headings::with_daily(Cli::command());
    let matches = program.get_matches_mut();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut program).exit())
}

fn run(command: CliCommand, at: &SiteLocation) -> Result<(), CliError> {
    match command {
        CliCommand::Up { dir, at } => serve::up(&dir, &at),
        CliCommand::Init(options) => init::init(&options),
        CliCommand::Serve => serve::serve(&at.load()?),
        CliCommand::Mount(options) => mount::mount(&options, at),
        CliCommand::Manage(options) => mount::manage(&options),
        CliCommand::Unmanage(options) => mount::unmanage(&options),
        CliCommand::Check { access } => check::check(at, &access),
        CliCommand::Doctor(options) => doctor::doctor(at, &options),
        CliCommand::Show { key } => check::show(key.as_deref(), at),
        CliCommand::ExplainConfig { key } => check::explain(key.as_deref().unwrap_or_default()),
        CliCommand::Peer { command } => peer::run(&command, at),
        CliCommand::Post(options) => post::post(&options, at),
        CliCommand::Group { command } => group::run(command, at),
        CliCommand::History { command } => history::run(command, at),
        CliCommand::User { command } => user::run(command, at),
        CliCommand::Ctl { command } => ctl::run(&command, at),
        CliCommand::Ask(command) => command.run(at),
        CliCommand::Top(options) => top::top(at, &options),
        CliCommand::Report(options) => report::report(at, &options),
        CliCommand::Rebuild { search: true, .. } => search::rebuild(at),
        CliCommand::Rebuild { without, .. } => care::rebuild(&without, at),
        CliCommand::Restore { file } => care::restore(&file, at),
        CliCommand::Search(options) => search::search(at, &options),
        CliCommand::Rnews { file } => rnews::rnews(file.as_deref(), at),
        CliCommand::Pull(options) => pull::pull(&options, at),
        CliCommand::Send(options) => send::send(&options, at),
        CliCommand::Export { command } => export::export(command, at),
        CliCommand::Import { command } => import::import(command, at),
        CliCommand::Cluster { command } => cluster::run(&command, at),
        CliCommand::Cache { command } => cache::run(command, at, serve::up_cache),
        CliCommand::Completions { shell } => manuals::completions(&Cli::command(), shell),
        CliCommand::Docs { figures: true, .. } => screen::say(page::markdown().trim_end()),
        CliCommand::Docs { schema: true, .. } => screen::say(site_config::schema::schema().trim_end()),
        CliCommand::Docs { share, date, .. } => manuals::docs(&Cli::command(), share.as_deref(), &date),
        CliCommand::CancelKey { message_id, user } => posting::cancel_key(at, &message_id, user.as_deref()),
    }
}
