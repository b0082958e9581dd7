//! `export`: what other programs read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::args::ExportCommand;
use super::locate::Where;
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
    let cannot = |error: std::io::Error| match out {
        Some(path) => Failure::Problem(format!("cannot write {}: {error}", path.display())),
        // Who closes our output has seen enough.
        None => Failure::Told,
    };
    let to: Box<dyn Write + Send> = match out {
        Some(path) => Box::new(File::create(path).map_err(cannot)?),
        None => Box::new(std::io::stdout()),
    };
    let mut to = BufWriter::new(to);
    let mut written = Ok(());
    let ok = reach::ask(&config, &Request::NameMap { group: group.to_owned() }, &mut |reply| {
        if let (Reply::Text(line), Ok(())) = (reply, &written) {
            written = writeln!(to, "{line}");
        }
    })?;
    written.and_then(|()| to.flush()).map_err(cannot)?;
    if ok { Ok(()) } else { Err(Failure::Told) }
}
