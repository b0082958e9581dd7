//! Target of an import: the running server, the spool opened here, or nothing (a dry run).

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use migrate::head;
use netnews::Article;
use spool::Spool;

use super::super::bar::Bar;
use super::super::control::ControlClient;
use super::super::reach::Reach;
use super::super::screen::{CliError, complain, problem};
use ingest::{Filer, ImportedArticle};
use ingest::{ImportOutcome, ImportResult};
use operators::audit::AuditParty;
use operators::control_socket::import::{AreKnownOperation, put_frame};
use operators::dispatch;
use operators::operation::OperatedSite;
use operators::reply::Reply;
use operators::request::Request;
use site_config::Config;

/// Articles to be filed, in wire format.
#[derive(Debug, Default)]
pub(super) struct ImportParcel {
    /// Wire bytes and placements of all articles, concatenated.
    pub bytes: Vec<u8>,
    pub articles: Vec<ParcelArticle>,
}

/// One article of a parcel.
#[derive(Debug)]
pub(super) struct ParcelArticle {
    /// The article's index in the caller's list.
    pub article: u32,
    pub arrived: u32,
    pub wire: Range<usize>,
    pub places: Range<usize>,
}

impl ImportParcel {
    /// The wire format of an article.
    pub fn wire(&self, packed: &ParcelArticle) -> &[u8] {
        self.bytes.get(packed.wire.clone()).unwrap_or_default()
    }

    /// Returns the articles as they are filed.
    pub fn imported(&self) -> Vec<ImportedArticle<'_>> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let one = |p: &ParcelArticle| ImportedArticle {
            wire: part(&p.wire),
            arrived: p.arrived,
            places: part(&p.places),
        };
        self.articles.iter().map(one).collect()
    }
}

/// Target of an import.
pub(super) enum ImportTarget {
    Server(ControlClient),
    Here(Box<Filer>, Arc<Spool>),
    /// Only checks the articles, and asks the site for its groups and history. Contains the hashes of the
    /// Message-IDs so far.
    Dry(Box<Reach>, HashSet<[u8; 16]>),
}

impl ImportTarget {
    pub fn new(config: &Config, dry_run: bool) -> Result<Self, CliError> {
        Ok(match Reach::new(config)? {
            reach if dry_run => Self::Dry(Box::new(reach), HashSet::new()),
            Reach::Server(control) => Self::Server(control),
            Reach::Here(spool) => {
                Self::Here(Box::new(Filer::new(Arc::new(config.clone()), spool.clone())), spool)
            }
        })
    }

    /// Carries out a request.
    pub fn ask(
        &mut self,
        config: &Config,
        request: impl Into<Request>,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, CliError> {
        match self {
            Self::Server(control) => control.ask(request, hear),
            Self::Here(_, spool) => {
                let site = OperatedSite::Stopped { spool, config };
                Ok(dispatch::carry_out(&request.into(), &site, &AuditParty::own(), hear))
            }
            Self::Dry(reach, _) => reach.ask(config, request, hear),
        }
    }

    /// Files a parcel; returns one result for each article.
    pub fn file(&mut self, config: &Config, parcel: &ImportParcel) -> Result<Vec<ImportResult>, CliError> {
        let articles = parcel.imported();
        let known = match self {
            Self::Dry(..) => self.known(config, &message_ids(&articles))?,
            Self::Here(..) | Self::Server(_) => Vec::new(),
        };
        let results = match self {
            Self::Here(filer, _) => filer.import(&articles),
            Self::Server(control) => send(control, &articles)?,
            Self::Dry(_, seen) => {
                articles.iter().zip(known).map(|(article, known)| judge(article, known, seen)).collect()
            }
        };
        if results.len() != articles.len() {
            return Err(CliError::Problem(
                "the server's answer is not of as many articles as were sent".into(),
            ));
        }
        Ok(results)
    }

    /// Reports which of these Message-IDs history knows: their articles would be duplicates.
    pub fn known(&mut self, config: &Config, ids: &[String]) -> Result<Vec<bool>, CliError> {
        let mut known = Vec::new();
        self.ask(config, AreKnownOperation { ids: ids.to_vec() }, &mut |reply| {
            if let Reply::Known(list) = reply {
                known = list;
            }
        })?;
        if known.len() != ids.len() {
            return Err(CliError::Problem(
                "the server, of an earlier version, does not report which articles it has; restart it".into(),
            ));
        }
        Ok(known)
    }

    /// Closes the target, including a spool that was opened here.
    pub fn close(self) -> Result<(), CliError> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Here(filer, spool) => {
                drop(filer);
                Ok(spool.close()?)
            }
            Self::Dry(reach, _) => reach.close(),
        }
    }
}

fn send(
    control: &mut ControlClient,
    articles: &[ImportedArticle<'_>],
) -> Result<Vec<ImportResult>, CliError> {
    let mut frames = Vec::new();
    for article in articles {
        put_frame(article, &mut frames).map_err(problem)?;
    }
    let bar = Bar::new();
    let mut results = Vec::new();
    control.import(&frames, &mut |reply| match reply {
        Reply::Imported(list) => results = list,
        Reply::Error(text) => complain(format_args!("newsreel: {text}")),
        Reply::Progress { what, done, total } => bar.show(&what, done, total),
        _ => {}
    })?;
    Ok(results)
}

/// Returns the Message-ID of each article; empty if it has none.
pub(super) fn message_ids(articles: &[ImportedArticle<'_>]) -> Vec<String> {
    let id = |article: &ImportedArticle<'_>| {
        String::from_utf8_lossy(head::read(article.wire).message_id).into_owned()
    };
    articles.iter().map(id).collect()
}

/// Judges an article in a dry run: whether it is valid, and whether it is known here or has come before.
fn judge(article: &ImportedArticle<'_>, known: bool, seen: &mut HashSet<[u8; 16]>) -> ImportResult {
    let judged = Article::parse(article.wire).and_then(|article| {
        article.required()?;
        Ok(!known && article.message_id().is_none_or(|id| seen.insert(spool::inn_hash(id.as_bytes()))))
    });
    let (outcome, reason) = match judged {
        Ok(true) => (ImportOutcome::Filed, String::new()),
        Ok(false) => (ImportOutcome::Duplicate, String::new()),
        Err(malformed) => (ImportOutcome::Rejected, malformed.to_string()),
    };
    ImportResult { outcome, token: None, reason, is_alone: false }
}
