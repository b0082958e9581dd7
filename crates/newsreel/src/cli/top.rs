//! `top`: the running server live in a terminal: the contents of `status`, updated regularly, with rates.
//!
//! `view` converts reports to lines, without a terminal; `terminal` shows them and reads keys. Requests to
//! the server go over its control socket, as with every command.

mod terminal;
mod view;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;

use super::control::ControlClient;
use super::locate::SiteLocation;
use super::reach;
use super::screen::CliError;
use operators::feed::FeedOperation;
use operators::reply::Reply;
use operators::report::Report;
use operators::status::StatusOperation;
use site_base::clock::unix_secs;
use terminal::Terminal;
use view::{KeyAction, TopView};

/// Options of `top`.
#[derive(Debug, Clone, Args)]
pub(super) struct TopOptions {
    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=300))]
    interval: u64,
}

pub(super) fn top(at: &SiteLocation, options: &TopOptions) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let text = "top needs a terminal; newsreel status tells the same once, and --json for programs";
        return Err(CliError::Usage(text.into()));
    }
    let mut control = reach::server(at)?;
    let mut view = TopView::new(status(&mut control)?, Instant::now());
    let mut terminal =
        Terminal::open().map_err(|error| CliError::Problem(format!("the terminal: {error}")))?;
    // The terminal is restored before an error is printed.
    let ended = run(&mut control, &mut view, &mut terminal, Duration::from_secs(options.interval));
    drop(terminal);
    ended
}

fn run(
    control: &mut ControlClient,
    view: &mut TopView,
    terminal: &mut Terminal,
    interval: Duration,
) -> Result<(), CliError> {
    let lost = |error: std::io::Error| CliError::Problem(format!("the terminal: {error}"));
    let mut next = Instant::now() + interval;
    loop {
        let (columns, rows) = terminal.size();
        terminal.show(&view.lines(columns, rows, unix_secs())).map_err(lost)?;
        let key = terminal.key(next.saturating_duration_since(Instant::now())).map_err(lost)?;
        match key.map(|key| view.press(key)) {
            Some(KeyAction::Quit) => return Ok(()),
            Some(KeyAction::Ask(request)) => {
                view.say(asked(control, request)?);
                next = Instant::now();
            }
            Some(KeyAction::Look) => next = Instant::now(),
            Some(KeyAction::Stay) | None => {}
        }
        if Instant::now() >= next {
            view.take(status(control)?, Instant::now());
            next = Instant::now() + interval;
        }
    }
}

fn status(control: &mut ControlClient) -> Result<Report, CliError> {
    let mut report = None;
    control.ask(StatusOperation::default(), &mut |reply| {
        if let Reply::Status(told) = reply {
            report = Some(told);
        }
    })?;
    report.map(|report| *report).ok_or_else(|| CliError::Problem("the server sent no status".into()))
}

/// Returns the server's answer to a request.
fn asked(control: &mut ControlClient, request: FeedOperation) -> Result<String, CliError> {
    let mut said = String::new();
    control.ask(request, &mut |reply| {
        if let Reply::Text(text) | Reply::Error(text) = reply {
            said = text;
        }
    })?;
    Ok(said)
}
