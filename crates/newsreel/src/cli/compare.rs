//! `check --diff`: a configuration against the running server.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say};
use operators::reload::CompareOperation;
use operators::reply::Reply;

/// Prints what a reload would change and what would need a restart; settings that the server would refuse are
/// a failure.
pub(super) fn compare(at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let cannot =
        |error: std::io::Error| CliError::Problem(format!("cannot read {}: {error}", config.file.display()));
    let text = std::fs::read_to_string(&config.file).map_err(cannot)?;
    let file = std::path::absolute(&config.file).map_err(cannot)?;
    let (mut said, mut refused) = (Vec::new(), Vec::new());
    let ok = reach::server(at)?.ask(CompareOperation { file, text }, &mut |reply| match reply {
        Reply::Text(text) => said.push(text),
        Reply::Error(text) => refused.push(text),
        _ => {}
    })?;
    if !ok {
        return Err(CliError::Problem(format!("a reload would be refused:\n\n{}", refused.join("\n"))));
    }
    say(said.join("\n"))
}
