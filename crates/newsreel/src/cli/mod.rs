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
mod batch;
mod cache;
mod cache_stats;
mod care;
mod check;
mod compare;
mod control;
mod ctl;
mod doctor;
mod expire;
mod export;
mod group;
mod group_sync;
mod groups_file;
mod history;
mod import;
mod init;
mod keys;
mod listeners;
mod listing;
mod locate;
mod manuals;
#[cfg(feature = "mount")]
mod mount;
mod output;
mod owner;
mod password;
mod posting;
mod preflight;
mod pull;
mod purge;
mod reach;
mod report;
mod rights;
mod rnews;
mod screen;
#[cfg(feature = "search")]
mod search;
mod send;
mod serve;
mod starter_lists;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod top;
mod user;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use rustix::fs::Mode;

use args::{Cli, Command};
use locate::Where;
use operators::request::Request;
use screen::{Failure, complain};

/// File mode mask of all commands: files have at most mode 0640 and directories 0750, and all that are not
/// private to their owner have exactly these.
const UMASK: Mode = Mode::from_raw_mode(0o027);

/// Runs the command line.
pub fn main() -> ExitCode {
    rustix::process::umask(UMASK);
    let Cli { command, at } = Cli::parse();
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

fn run(command: Command, at: &Where) -> Result<(), Failure> {
    match command {
        Command::Up { dir, listen, tls_listen, web_listen } => {
            serve::up(&dir, &listen, &tls_listen, &web_listen)
        }
        Command::Init(options) => init::init(&options),
        Command::Serve => serve::serve(&at.load()?),
        #[cfg(feature = "mount")]
        Command::Mount(options) => mount::mount(&options, at),
        #[cfg(feature = "mount")]
        Command::Manage(options) => mount::manage(&options),
        #[cfg(feature = "mount")]
        Command::Unmanage(options) => mount::unmanage(&options),
        Command::Check { access } => check::check(at, &access),
        Command::Doctor(options) => doctor::doctor(at, &options),
        Command::Show => check::show(at),
        Command::ExplainConfig { key } => check::explain(key.as_deref().unwrap_or_default()),
        Command::Group { command } => group::run(command, at),
        Command::History { command } => history::run(command, at),
        Command::User { command } => user::run(command, at),
        Command::Ctl { command } => ctl::run(&command, at),
        Command::Ask(Request::Status { json }) => status::status(at, json),
        Command::Ask(Request::Explain { subject }) => care::explain(&subject, at),
        Command::Ask(Request::Verify { repair, dry_run, json }) => care::verify(at, repair, dry_run, json),
        Command::Ask(request @ Request::Purge { json, .. }) => purge::purge(at, &request, json),
        Command::Ask(Request::Expire { what_if: Some(file), days, json, .. }) => {
            expire::what_if(at, &file, days, json)
        }
        Command::Ask(Request::Batch { peer }) => batch::batch(&peer, at),
        Command::Ask(Request::Keys { command }) => keys::keys(at, command),
        Command::Ask(request) => listing::ask(at, &request),
        Command::Top(options) => top::top(at, &options),
        Command::Report(options) => report::report(at, &options),
        #[cfg(feature = "search")]
        Command::Rebuild { search: true, .. } => search::rebuild(at),
        Command::Rebuild { without, .. } => care::rebuild(&without, at),
        #[cfg(feature = "search")]
        Command::Search(options) => search::search(at, &options),
        Command::Rnews { file } => rnews::rnews(file.as_deref(), at),
        Command::Pull(options) => pull::pull(&options, at),
        Command::Send(options) => send::send(&options, at),
        Command::Export { command } => export::export(command, at),
        Command::Import { command } => import::import(command, at),
        Command::Cache { command } => cache::run(command, at, serve::up_cache),
        Command::Completions { shell } => manuals::completions(&mut Cli::command(), shell),
        Command::Docs { share, date } => manuals::docs(&mut Cli::command(), share.as_deref(), &date),
        Command::CancelKey { message_id, user } => posting::cancel_key(at, &message_id, user.as_deref()),
    }
}
