//! `rnews`: file a batch, through the running server or into the spool itself.
//!
//! Every article of the batch has one fate: filed, rejected, known already, or put into quarantine with what is damaged
//! around it. The exit code is for those who run rnews for others (uuxqt): 75 means that nothing is lost if the batch is
//! given again, and that it should be.

mod quarantine;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netnews::batch::Damage;
use netnews::nntp::wire::dot_stuff;

use super::control::Control;
use super::locate::Where;
use super::reach::{self, Reach};
use super::screen::{Failure, complain, say};
use super::table::grouped;
use crate::config::Config;
use crate::ingest::BatchOutcome;
use crate::ingest::Filer;
use crate::operations::request::Reply;
use quarantine::Quarantine;

/// Lines about damaged pieces and about articles that are printed for one batch; the others are counted.
const LINES_MAX: u64 = 100;

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
    let batch = read(file)?;
    let name = file.map_or("standard input".into(), |path| path.display().to_string());
    // Whatever stands in the way, the batch is whole, and what is filed of it is a duplicate the next time.
    let tally = file_batch(&batch, &name, at).map_err(|failure| Failure::TryLater(Box::new(failure)))?;
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

fn file_batch(batch: &[u8], name: &str, at: &Where) -> Result<Tally, Failure> {
    let (way, data) = way(at)?;
    let (mut articles, mut damages): (Vec<&[u8]>, Vec<Damage<'_>>) = (Vec::new(), Vec::new());
    for part in netnews::batch::rnews(batch) {
        match part {
            Ok(article) => articles.push(article),
            Err(damage) => damages.push(damage),
        }
    }
    let (mut tally, mut quarantine) = (Tally::default(), Quarantine::of(&data));
    for Damage { at, piece, fault } in damages {
        let why = format!("{name}, byte {}: {fault}", grouped(at as u64));
        tally.quarantine(&mut quarantine, piece, &why)?;
    }
    let mut malformed: Vec<(&[u8], String)> = Vec::new();
    let mut answered = articles.iter();
    let mut count = |disposition, message_id: &str, reason: String| {
        let article = answered.next().copied().unwrap_or_default();
        if !tally.count(disposition, message_id, &reason) {
            malformed.push((article, reason));
        }
    };
    let wires = articles.iter().map(|text| {
        let mut wire = Vec::new();
        dot_stuff(text, &mut wire);
        wire
    });
    match way {
        Way::Server(control) => {
            control.rnews(wires, &mut |reply| match reply {
                Reply::Article { message_id, disposition, reason } => count(disposition, &message_id, reason),
                Reply::Error(text) => complain(format_args!("newsreel: {text}")),
                _ => {}
            })?;
        }
        Way::Here(config, spool) => file_here(*config, *spool, wires, &mut count)?,
    }
    for (article, reason) in malformed {
        let start = (article.as_ptr() as usize).saturating_sub(batch.as_ptr() as usize);
        let why = format!("{name}, byte {}: {reason}", grouped(start as u64));
        tally.quarantine(&mut quarantine, article, &why)?;
    }
    Ok(tally)
}

/// The running server, also while the configuration has a fault, or the spool; and its directory.
fn way(at: &Where) -> Result<(Way, PathBuf), Failure> {
    let config = match at.load() {
        Ok(config) => config,
        Err(Failure::Config(fault)) => {
            let (control, data) = reach::server_despite(fault)?;
            return Ok((Way::Server(control), data));
        }
        Err(failure) => return Err(failure),
    };
    let data = config.site.data.clone();
    let way = match Reach::new(&config)? {
        Reach::Server(control) => Way::Server(control),
        Reach::Here(spool) => Way::Here(Box::new(config), spool),
    };
    Ok((way, data))
}

fn read(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut batch = Vec::new();
    match file {
        Some(path) => fs::File::open(path).and_then(|mut file| file.read_to_end(&mut batch)),
        None => std::io::stdin().lock().read_to_end(&mut batch),
    }
    .map_err(|error| {
        let name = file.map_or("standard input".into(), |path| path.display().to_string());
        Failure::Usage(format!("cannot read {name}: {error}"))
    })?;
    Ok(batch)
}

fn file_here(
    config: Config,
    spool: spool::Spool,
    articles: impl Iterator<Item = Vec<u8>>,
    count: &mut dyn FnMut(BatchOutcome, &str, String),
) -> Result<(), Failure> {
    let spool = Arc::new(spool);
    let filer = Filer::new(Arc::new(config), Arc::clone(&spool));
    for wire in articles {
        let (disposition, reason) = filer.file(&wire);
        count(disposition, &message_id(&wire), reason);
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
