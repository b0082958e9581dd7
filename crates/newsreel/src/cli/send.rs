//! `send`: sends the articles of a file or of a group to a server.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use disk::Progress;

use super::bar::Bar;
use super::locate::SiteLocation;
use super::pull::{LinkOptions, address};
use super::reach::Reach;
use super::screen::{CliError, complain, problem, say, say_json};
use ingest::batches::BatchReader;
use operators::operation::in_runtime;
use operators::reply::Reply;
use operators::transmit;
use operators::transmit::progress::SendOperation;
use operators::transmit::{SendCounts, progress};
use site_base::units::{about_size, counted, grouped};

/// Longest article that is read from a file, in bytes.
const ARTICLE_BYTES_MAX: u64 = 64 << 20;
/// Lines about articles that are printed; further ones are counted.
const LINES_MAX: u64 = 100;

/// Options of `send`.
#[derive(Debug, Clone, Args)]
pub(super) struct SendOptions {
    /// A batch or a single article, compressed or not; - is standard input; or a group of this site
    #[arg(value_name = "FILE|GROUP|-")]
    what: String,
    /// The server, HOST:PORT (HOST alone: port 119, or 563 with --tls implicit)
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    link: LinkOptions,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn send(options: &SendOptions, at: &SiteLocation) -> Result<(), CliError> {
    let dial = options.link.dial(&address(&options.server, options.link.tls)?);
    let bar = Bar::new();
    let (mut summary, mut refusal, mut lines) = (None, None, 0);
    let mut hear = |reply| match reply {
        Reply::Progress { what, done, total } => bar.show(&what, done, total),
        Reply::Text(text) => {
            lines += 1;
            if lines <= LINES_MAX {
                complain(text);
            }
        }
        // Without a summary before it, nothing was offered.
        Reply::Error(text) if summary.is_none() => refusal = Some(text),
        Reply::Error(text) => complain(format_args!("newsreel: {text}")),
        Reply::Sent { counts, is_final } => summary = Some((counts, is_final)),
        _ => {}
    };
    let is_file = options.what == "-" || Path::new(&options.what).is_file();
    let ok = if is_file {
        let (source, size) = open(&options.what)?;
        let read = Arc::<AtomicU64>::default();
        let batch = BatchReader::new(Box::new(CountingReader(source, read.clone())), ARTICLE_BYTES_MAX);
        let how_far = || (read.load(Ordering::Relaxed), size);
        in_runtime(|| progress::run(&dial, &mut transmit::of_batch(batch), how_far, &mut hear, &|| false))
            .map_err(problem)?
    } else if !netnews::newsgroups::valid_name(options.what.as_bytes()) {
        return Err(CliError::Usage(format!(
            "there is no file {}, and no group has that name",
            options.what
        )));
    } else {
        let config = at.load()?;
        let request = SendOperation { group: options.what.clone(), dial: Box::new(dial) };
        let mut reach = Reach::new(&config)?;
        let ok = reach.ask_plainly(&config, request, &mut hear)?;
        reach.close()?;
        ok
    };
    bar.finish();
    if let Some(text) = refusal {
        return Err(CliError::Usage(text));
    }
    report(options, summary, lines, ok)
}

fn report(
    options: &SendOptions,
    summary: Option<(SendCounts, bool)>,
    lines: u64,
    ok: bool,
) -> Result<(), CliError> {
    if lines > LINES_MAX {
        complain(format_args!("and {} more such lines", grouped(lines - LINES_MAX)));
    }
    let Some((counts, is_final)) = summary else { return if ok { Ok(()) } else { Err(CliError::Told) } };
    if options.json {
        say_json(&counts)?;
    } else {
        let mut text = format!(
            "{} offered: {} accepted ({}), {} not wanted, {} rejected",
            counted(counts.offered, "article"),
            grouped(counts.accepted),
            about_size(counts.bytes),
            grouped(counts.refused),
            grouped(counts.rejected)
        );
        for (count, what) in [
            (counts.later, "wanted later"),
            (counts.given_up, "given up after unexpected answers"),
            (counts.damaged, "damaged pieces not sent"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {} {what}", grouped(count)));
            }
        }
        say(text)?;
    }
    match () {
        () if is_final => Err(CliError::Told),
        () if !ok || counts.later > 0 => Err(CliError::TryLater(Box::new(CliError::Told))),
        () if counts.damaged + counts.given_up > 0 => Err(CliError::Told),
        () => Ok(()),
    }
}

/// Opens the file; also returns its size if known, else 0.
fn open(what: &str) -> Result<(Box<dyn Read + Send>, u64), CliError> {
    if what == "-" {
        return Ok((Box::new(io::stdin()), 0));
    }
    let cannot = |error| CliError::Usage(format!("cannot read {what}: {error}"));
    let file = fs::File::open(what).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    Ok((Box::new(file), size))
}

/// Counts the bytes that are read.
struct CountingReader(Box<dyn Read + Send>, Arc<AtomicU64>);

impl Read for CountingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(out)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
