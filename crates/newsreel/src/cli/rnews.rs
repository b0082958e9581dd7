//! `rnews`: file a batch, through the running server or into the spool itself.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use netnews::batch::BatchError;
use netnews::nntp::wire::dot_stuff;
use parking_lot::Mutex;

use super::args::Where;
use super::reach::Reach;
use super::table::grouped;
use super::{Failure, complain, say};
use crate::config::Config;
use crate::control_socket::protocol::{Disposition, Reply};
use crate::ingest::Filer;

/// What became of a batch.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    rejected: u64,
    try_later: u64,
}

impl Tally {
    fn count(&mut self, disposition: Disposition, message_id: &str, reason: &str) {
        let (counter, word) = match disposition {
            Disposition::Accepted => (&mut self.accepted, "accepted"),
            Disposition::Rejected => (&mut self.rejected, "rejected"),
            Disposition::TryLater => (&mut self.try_later, "try later"),
        };
        *counter += 1;
        if disposition != Disposition::Accepted {
            let name = if message_id.is_empty() { "article without Message-ID" } else { message_id };
            complain(format_args!("{name}: {word}: {reason}"));
        }
    }
}

pub(super) fn rnews(file: Option<&Path>, at: &Where) -> Result<(), Failure> {
    let config = at.load()?;
    let batch = read(file)?;
    let broken: Mutex<Option<BatchError>> = Mutex::new(None);
    let articles = netnews::batch::rnews(&batch).map_while(|article| match article {
        Ok(text) => {
            let mut wire = Vec::new();
            dot_stuff(text, &mut wire);
            Some(wire)
        }
        Err(error) => {
            *broken.lock() = Some(error);
            None
        }
    });
    let tally = match Reach::new(&config)? {
        Reach::Server(control) => {
            let mut tally = Tally::default();
            control.rnews(articles, &mut |reply| match reply {
                Reply::Article { message_id, disposition, reason } => {
                    tally.count(disposition, &message_id, &reason)
                }
                Reply::Error(text) => complain(format_args!("newsreel: {text}")),
                _ => {}
            })?;
            tally
        }
        Reach::Here(spool) => file_here(config, *spool, articles)?,
    };
    let total = tally.accepted + tally.rejected + tally.try_later;
    let total = format!("{} article{}", grouped(total), if total == 1 { "" } else { "s" });
    let (accepted, rejected) = (grouped(tally.accepted), grouped(tally.rejected));
    let later = if tally.try_later > 0 {
        format!(", {} to be tried later", grouped(tally.try_later))
    } else {
        String::new()
    };
    say(format_args!("{total}: {accepted} accepted, {rejected} rejected{later}"))?;
    match broken.into_inner() {
        Some(error) => Err(Failure::Problem(error.to_string())),
        None if tally.try_later > 0 => Err(Failure::Told),
        None => Ok(()),
    }
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
) -> Result<Tally, Failure> {
    let spool = Arc::new(spool);
    let filer = Filer::new(Arc::new(config), Arc::clone(&spool));
    let mut tally = Tally::default();
    for wire in articles {
        let (disposition, reason) = filer.file(&wire);
        tally.count(disposition, &message_id(&wire), &reason);
    }
    drop(filer);
    spool.close()?;
    Ok(tally)
}

fn message_id(wire: &[u8]) -> String {
    use netnews::article::{Article, Known};
    let article = Article::parse(wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::MessageId));
    String::from_utf8_lossy(value.unwrap_or_default()).trim().to_owned()
}
