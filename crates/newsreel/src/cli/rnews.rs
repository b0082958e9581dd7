//! `rnews`: file a batch, through the running server or into the spool itself.
//!
//! Every article of the batch has one fate: filed, rejected, known already, or put into quarantine with what is damaged
//! around it. The batch is read article by article, and as many are in memory as are being filed. The exit code is for those who run rnews for others (uuxqt): 75 means that nothing is lost if the batch is
//! given again, and that it should be.

mod filing;
mod quarantine;
mod source;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::control::Control;
use super::locate::Where;
use super::reach::{self, Reach};
use super::screen::{Failure, complain, say};
use super::table::grouped;
use crate::config::Config;
use crate::ingest::BatchOutcome;
use crate::ingest::Filer;
use crate::operations::request::Reply;
use filing::Filing;
use quarantine::Quarantine;
use source::Batch;

/// Lines about damaged pieces and about articles that are printed for one batch; the others are counted.
const LINES_MAX: u64 = 100;

/// The longest article that is read while the configuration, which has the limit, cannot be, in bytes.
const UNKNOWN_ARTICLE_BYTES_MAX: u64 = 64 << 20;

/// What became of a batch.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    rejected: u64,
    duplicates: u64,
    try_later: u64,
    /// Damaged pieces, articles that are none among them.
    damaged: u64,
    /// Lines printed.
    lines: u64,
}

impl Tally {
    /// Counts an article; false if it is no article and belongs into quarantine.
    fn count(&mut self, disposition: BatchOutcome, message_id: &str, reason: &str) -> bool {
        let name = if message_id.is_empty() { "article without Message-ID" } else { message_id };
        match disposition {
            BatchOutcome::Accepted => self.accepted += 1,
            // Batches from several neighbours are full of them.
            BatchOutcome::Duplicate => self.duplicates += 1,
            BatchOutcome::Rejected => {
                self.rejected += 1;
                self.complain(format_args!("{name}: rejected: {reason}"));
            }
            BatchOutcome::TryLater => {
                self.try_later += 1;
                self.complain(format_args!("{name}: try later: {reason}"));
            }
            BatchOutcome::Malformed => return false,
        }
        true
    }

    /// Counts an article that is larger than this site takes.
    fn too_large(&mut self, why: &str) {
        self.rejected += 1;
        self.complain(format_args!("rejected: {why}"));
    }

    fn complain(&mut self, line: std::fmt::Arguments<'_>) {
        self.lines += 1;
        if self.lines <= LINES_MAX {
            complain(line);
        }
    }

    /// Puts a piece into quarantine and says so.
    fn quarantine(&mut self, quarantine: &mut Quarantine, piece: &[u8], why: &str) -> Result<(), Failure> {
        self.damaged += 1;
        let kept = quarantine.put(piece).map_err(|error| {
            Failure::Problem(format!("{why}, and what is damaged cannot be put into quarantine: {error}"))
        })?;
        let bytes = grouped(piece.len() as u64);
        match kept {
            Some(path) => {
                self.complain(format_args!("damaged: {why}; {bytes} bytes are in {}", path.display()));
            }
            None => self.complain(format_args!("damaged: {why}; {bytes} bytes are not kept")),
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let Self { accepted, rejected, duplicates, try_later, damaged, .. } = *self;
        let total = accepted + rejected + duplicates + try_later;
        let mut text = format!(
            "{} article{}: {} accepted, {} rejected",
            grouped(total),
            if total == 1 { "" } else { "s" },
            grouped(accepted),
            grouped(rejected)
        );
        let mut also = |count: u64, one: &str, many: &str| {
            if count > 0 {
                text.push_str(&format!(", {} {}", grouped(count), if count == 1 { one } else { many }));
            }
        };
        also(duplicates, "duplicate", "duplicates");
        also(try_later, "to be tried later", "to be tried later");
        also(damaged, "damaged piece in quarantine", "damaged pieces in quarantine");
        text
    }
}

/// How articles are filed.
enum Way {
    Server(Control),
    Here(Box<Config>, Box<spool::Spool>),
}

pub(super) fn rnews(file: Option<&Path>, at: &Where) -> Result<(), Failure> {
    let file = file.filter(|file| *file != Path::new("-"));
    let name = file.map_or("standard input".into(), |path| path.display().to_string());
    let source: Box<dyn Read + Send> = match file {
        None => Box::new(std::io::stdin()),
        Some(path) => {
            let cannot = |error| Failure::Usage(format!("cannot read {name}: {error}"));
            Box::new(fs::File::open(path).map_err(cannot)?)
        }
    };
    // Whatever stands in the way, the batch is whole, and what is filed of it is a duplicate the next time.
    let tally = file_batch(source, &name, at).map_err(|failure| Failure::TryLater(Box::new(failure)))?;
    let unsaid = tally.lines.saturating_sub(LINES_MAX);
    if unsaid > 0 {
        complain(format_args!("and {} more such lines", grouped(unsaid)));
    }
    say(tally.summary())?;
    match (tally.try_later, tally.damaged) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Told),
        _ => Err(Failure::TryLater(Box::new(Failure::Told))),
    }
}

fn file_batch(source: Box<dyn Read + Send>, name: &str, at: &Where) -> Result<Tally, Failure> {
    let Site { way, data, article_bytes_max } = site(at)?;
    let filing = Filing::new(name, &data);
    let mut batch = Batch::new(source, article_bytes_max);
    let wires = std::iter::from_fn(|| filing.next_article(&mut batch));
    match way {
        Way::Server(control) => {
            let mut hear = |reply| match reply {
                Reply::Article { message_id, disposition, reason } => {
                    filing.answered(disposition, &message_id, &reason);
                }
                Reply::Error(text) => complain(format_args!("newsreel: {text}")),
                _ => {}
            };
            control.rnews(wires, &mut hear, || filing.answers_end())?;
        }
        Way::Here(config, spool) => file_here(*config, *spool, wires, &filing)?,
    }
    filing.end()
}

/// A site as far as filing a batch needs it.
struct Site {
    way: Way,
    /// The spool's directory.
    data: PathBuf,
    /// Larger articles are not taken.
    article_bytes_max: u64,
}

/// The running server, also while the configuration has a fault, or the spool.
fn site(at: &Where) -> Result<Site, Failure> {
    let config = match at.load() {
        Ok(config) => config,
        Err(Failure::Config(fault)) => {
            let control = reach::server_despite(fault)?;
            let data = control.data().to_owned();
            return Ok(Site {
                way: Way::Server(control),
                data,
                article_bytes_max: UNKNOWN_ARTICLE_BYTES_MAX,
            });
        }
        Err(failure) => return Err(failure),
    };
    let article_bytes_max = config.site.article_bytes_max;
    Ok(match Reach::new(&config)? {
        Reach::Server(control) => {
            let data = control.data().to_owned();
            Site { way: Way::Server(control), data, article_bytes_max }
        }
        Reach::Here(spool) => {
            let data = config.site.data.clone();
            Site { way: Way::Here(Box::new(config), spool), data, article_bytes_max }
        }
    })
}

fn file_here(
    config: Config,
    spool: spool::Spool,
    articles: impl Iterator<Item = Vec<u8>>,
    filing: &Filing,
) -> Result<(), Failure> {
    let spool = Arc::new(spool);
    let filer = Filer::new(Arc::new(config), Arc::clone(&spool));
    for wire in articles {
        let (disposition, reason) = filer.file(&wire);
        filing.answered(disposition, &message_id(&wire), &reason);
    }
    drop(filer);
    spool.close()?;
    Ok(())
}

fn message_id(wire: &[u8]) -> String {
    use netnews::article::{Article, Known};
    let article = Article::parse(wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::MessageId));
    String::from_utf8_lossy(value.unwrap_or_default()).trim().to_owned()
}
