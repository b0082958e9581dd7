//! `export`: what other programs read.

use std::path::Path;

use super::args::ExportCommand;
use super::locate::Where;
use super::output::Output;
use super::reach;
use super::screen::Failure;
use crate::operations::request::{Reply, Request};

pub(super) fn export(command: ExportCommand, at: &Where) -> Result<(), Failure> {
    match command {
        ExportCommand::NameMap { group, out } => name_map(&group, out.as_deref(), at),
    }
}

fn name_map(group: &str, out: Option<&Path>, at: &Where) -> Result<(), Failure> {
    let config = at.load()?;
    let mut to = Output::open(out)?;
    let ok = reach::ask(&config, &Request::NameMap { group: group.to_owned() }, &mut |reply| {
        if let Reply::Text(line) = reply {
            to.line(&line);
        }
    })?;
    to.finish()?;
    if ok { Ok(()) } else { Err(Failure::Told) }
}
