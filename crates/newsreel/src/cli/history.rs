//! `history export|import`: Message-IDs that were seen, as text for or from another server.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use disk::Progress;

use super::args::HistoryCommand;
use super::bar::Bar;
use super::locate::SiteLocation;
use super::output::CommandOutput;
use super::reach::{self, Reach};
use super::screen::{CliError, complain, say, unreadable};
use operators::history::{HistoryExportOperation, HistoryForm, HistoryImportOperation};
use operators::reply::{HistoryCounts, Reply};
use site_base::units::{counted, grouped};

/// Size of the parts in which lines are sent, in bytes.
const PART_BYTES: usize = 1 << 20;
/// Longest line, in bytes; the rest of a longer one is read as a line of its own, which is invalid.
const LINE_BYTES_MAX: u64 = 64 << 10;

pub(super) fn run(command: HistoryCommand, at: &SiteLocation) -> Result<(), CliError> {
    match command {
        HistoryCommand::Export { form, out } => export(form, out.as_deref(), at),
        HistoryCommand::Import { file } => import(&file, at),
    }
}

fn export(form: HistoryForm, out: Option<&Path>, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let mut to = CommandOutput::open(out)?;
    let mut ends = None;
    let ok = reach::ask(&config, HistoryExportOperation { form }, &mut |reply| match reply {
        Reply::Text(lines) => to.line(&lines),
        Reply::HistoryExported { named, unnamed } => ends = Some((named, unnamed)),
        _ => {}
    })?;
    to.finish()?;
    let Some((named, unnamed)) = ends.filter(|_| ok) else { return Err(CliError::Told) };
    complain(format_args!("{} written", counted(named, "Message-ID")));
    if unnamed > 0 {
        complain(format_args!(
            "{} more are remembered here and cannot be written: of ids without an article that the journal no \
             longer names, history has only a hash that means nothing elsewhere",
            grouped(unnamed)
        ));
    }
    Ok(())
}

fn import(file: &Path, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let cannot = unreadable(file);
    let is_stdin = file == Path::new("-");
    let (source, bytes) = if is_stdin {
        (Box::new(std::io::stdin()) as Box<dyn Read>, 0)
    } else {
        let file = File::open(file).map_err(cannot)?;
        let bytes = file.metadata().map_err(cannot)?.len();
        (Box::new(file) as Box<dyn Read>, bytes)
    };
    let mut source = BufReader::with_capacity(PART_BYTES, source);
    let mut reach = Reach::new(&config)?;
    let bar = Bar::new();
    bar.start("reading history", bytes);
    let (mut sum, mut done) = (HistoryCounts::default(), 0);
    loop {
        let (lines, read) = part(&mut source).map_err(cannot)?;
        if read == 0 {
            break;
        }
        let ok = reach.ask(&config, HistoryImportOperation { lines }, &mut |reply| {
            if let Reply::HistoryImported(counts) = reply {
                add(&mut sum, counts);
            }
        })?;
        if !ok {
            bar.finish();
            return Err(CliError::Problem(format!(
                "the import ended after {}; once that is repaired, run it again",
                counted(sum.remembered, "id")
            )));
        }
        done += read;
        bar.step(done);
    }
    bar.finish();
    reach.close()?;
    tell(&sum)
}

/// Reads whole lines, about [`PART_BYTES`] of them; also returns the number of bytes read.
fn part(source: &mut impl BufRead) -> std::io::Result<(String, u64)> {
    let mut bytes = Vec::with_capacity(PART_BYTES + (64 << 10));
    while bytes.len() < PART_BYTES {
        if source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
    }
    let read = bytes.len() as u64;
    Ok((
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
        read,
    ))
}

fn add(sum: &mut HistoryCounts, counts: HistoryCounts) {
    sum.remembered += counts.remembered;
    sum.known += counts.known;
    sum.old += counts.old;
    sum.damaged += counts.damaged;
    if sum.quoted.is_empty() {
        sum.quoted = counts.quoted;
    }
}

fn tell(sum: &HistoryCounts) -> Result<(), CliError> {
    say(format_args!("{} remembered now", counted(sum.remembered, "id")))?;
    for (count, what) in [
        (sum.known, "were known already"),
        (sum.old, "are older than site.remember_days and were passed over"),
        (sum.damaged, "lines make no sense"),
    ] {
        if count > 0 {
            say(format_args!("{} {what}", grouped(count)))?;
        }
    }
    sum.quoted.iter().for_each(|line| complain(format_args!("newsreel: not a line of history: {line}")));
    if sum.damaged == 0 { Ok(()) } else { Err(CliError::Told) }
}
