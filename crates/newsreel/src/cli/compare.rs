//! `check --diff`: a configuration against the running server.

use super::locate::Where;
use super::reach;
use super::screen::{Failure, say};
use operators::request::{Reply, Request};

/// Prints what a reload would change and what would need a restart; settings that the server would refuse are
/// a failure.
pub(super) fn compare(at: &Where) -> Result<(), Failure> {
    let config = at.load()?;
    let cannot =
        |error: std::io::Error| Failure::Problem(format!("cannot read {}: {error}", config.file.display()));
    let text = std::fs::read_to_string(&config.file).map_err(cannot)?;
    let file = std::path::absolute(&config.file).map_err(cannot)?;
    let (mut said, mut refused) = (Vec::new(), Vec::new());
    let ok = reach::server(at)?.ask(&Request::Compare { file, text }, &mut |reply| match reply {
        Reply::Text(text) => said.push(text),
        Reply::Error(text) => refused.push(text),
        _ => {}
    })?;
    if !ok {
        return Err(Failure::Problem(format!("a reload would be refused:\n\n{}", refused.join("\n"))));
    }
    say(said.join("\n"))
}
