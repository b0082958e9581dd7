//! `ctl`: control of a running server.

use super::args::CtlCommand;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say};
use operators::feed::FeedOperation;
use operators::pause::{GoOperation, PauseOperation};
use operators::reload::ReloadOperation;
use operators::reply::Reply;
use operators::request::Request;

pub(super) fn run(command: &CtlCommand, at: &SiteLocation) -> Result<(), CliError> {
    let request: Request = match command {
        CtlCommand::Reload => ReloadOperation {}.into(),
        CtlCommand::Pause { reason } => PauseOperation { reason: reason.clone() }.into(),
        CtlCommand::Go => GoOperation {}.into(),
        CtlCommand::Feed { peer, command: feed } => {
            FeedOperation { peer: peer.clone(), command: feed.clone() }.into()
        }
    };
    let mut control = reach::server(at)?;
    let mut lines = Vec::new();
    let ok = control.ask(request, &mut |reply| match reply {
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
