//! `ctl`: control of a running server.

use super::args::CtlCommand;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say};
use operators::request::{Reply, Request};

pub(super) fn run(command: &CtlCommand, at: &SiteLocation) -> Result<(), CliError> {
    let request = match command {
        CtlCommand::Reload => Request::Reload,
        CtlCommand::Pause { reason } => Request::Pause { reason: reason.clone() },
        CtlCommand::Go => Request::Go,
        CtlCommand::Feed { peer, command: feed } => {
            Request::Feed { peer: peer.clone(), command: feed.clone() }
        }
    };
    let mut control = reach::server(at)?;
    let mut lines = Vec::new();
    let ok = control.ask(&request, &mut |reply| match reply {
        Reply::Text(text) => lines.push(text),
        Reply::Error(text) if matches!(command, CtlCommand::Reload) => {
            lines.push(format!("not reloaded, nothing was changed:\n\n{text}"));
        }
        Reply::Error(text) => lines.push(text),
        _ => {}
    })?;
    let text = lines.join("\n");
    if ok { say(text) } else { Err(CliError::Problem(text)) }
}
