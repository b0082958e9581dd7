//! `newsreel ctl feed` and `newsreel batch`: commands to the feed of a peer.

use super::leading::feed_job;
use super::operation::{OperatedSite, Operation, replied};
use super::reply::Reply;
use super::running::Server;
use super::sink::Sink;
use clap::{Args, Subcommand};
use feeds::{BatchCounts, BatchError, FeedStartPoint, Feeds, OperatorOrder, batch_without_server};
use serde::{Deserialize, Serialize};
use site_base::units::{about_size, counted, grouped};
use site_config::FeedStart;
use std::io;

/// Reason why a command to a feed was not carried out.
#[derive(Debug, thiserror::Error)]
enum FeedOrderError {
    /// The text names no place in the journal; contains what the parser of dates says of it.
    #[error("{0}, nor a position of the journal")]
    Place(String),
    /// This peer is not fed.
    #[error("there is no feed to a peer `{0}`")]
    NoFeed(String),
    /// Another member of the cluster feeds the peer, and takes the orders.
    #[error("{peer} is fed by {feeder}, where this command is to be given")]
    Elsewhere {
        /// Name of the peer.
        peer: String,
        /// The member, in words.
        feeder: String,
    },
    /// The feed to this peer could not store the change.
    #[error("feed to {0}: {1}")]
    NotDone(String, io::Error),
}

/// Command for the feed to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FeedCommand {
    /// Resume after stop, at once
    Start,
    /// Send nothing until start, or until the server is restarted; nothing is lost
    Stop,
    /// Retry at once what is waiting: to connect, articles that the peer wanted later, and after_batch;
    /// create a batch of what is queued; reopen the file of lines, so that it can be rotated; restart the
    /// program
    Flush,
    /// Continue at another place in the journal: what was sent after an earlier place is offered again, and
    /// what lies before a later one is not sent
    From {
        /// now, oldest, a date such as 2026-01-31, or a position as status shows it
        #[arg(value_name = "now|oldest|DATE|POSITION")]
        place: String,
    },
}

/// Control the feed to a peer; answered by [`Reply::Done`] alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedOperation {
    /// The peer's name.
    pub peer: String,
    /// Command for the feed.
    pub command: FeedCommand,
}

impl Operation for FeedOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let ordered = refuse_elsewhere(server, &self.peer);
        let ordered = ordered.and_then(|()| order(&server.feeds, &self.peer, &self.command));
        replied(ordered.map(Reply::Text), sink)
    }
}

/// Refuses orders to a feed that another member of the cluster has.
fn refuse_elsewhere(server: &Server, peer: &str) -> Result<(), FeedOrderError> {
    if !server.feeds.is_elsewhere(peer) {
        return Ok(());
    }
    let job = feed_job(peer);
    let members = server.site.spool.shared_log().map(|log| log.overview().members).unwrap_or_default();
    let feeder = members.into_iter().find(|member| member.jobs.contains(&job));
    let feeder =
        feeder.map_or_else(|| "another member".to_owned(), |member| format!("the member {}", member.name));
    Err(FeedOrderError::Elsewhere { peer: peer.to_owned(), feeder })
}

/// Passes a command on to a feed; returns what it has done.
fn order(feeds: &Feeds, peer: &str, command: &FeedCommand) -> Result<String, FeedOrderError> {
    let (order, text) = match command {
        FeedCommand::Start => (OperatorOrder::Start, format!("feed to {peer} started")),
        FeedCommand::Stop => (OperatorOrder::Stop, format!("feed to {peer} stopped")),
        FeedCommand::Flush => {
            (OperatorOrder::Flush, format!("feed to {peer}: everything that waited is tried now"))
        }
        FeedCommand::From { place } => {
            (OperatorOrder::From(self::place(place)?), format!("feed to {peer} continues from {place}"))
        }
    };
    match feeds.order(peer, order) {
        Some(done) => done.map_err(|error| FeedOrderError::NotDone(peer.to_owned(), error))?,
        None => return Err(FeedOrderError::NoFeed(peer.to_owned())),
    }
    Ok(text)
}

/// Create batches for a peer now
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Create batches of all articles queued for a peer, now and not when there are enough, for peers \
    whose [peer.send] has the key batch. Works with and without a running server; after_batch is run by the server."
)]
#[command(after_long_help = "Example:\n  newsreel batch leaf.example.net")]
pub struct BatchOperation {
    /// The peer's name, as in [[peer]]
    pub peer: String,
}

impl Operation for BatchOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let made = match site {
            OperatedSite::Running { server, .. } => server.feeds.batch(&self.peer),
            OperatedSite::Stopped { spool, config } => match site.filer() {
                Ok(filer) => batch_without_server(spool, &filer, config, &self.peer),
                Err(error) => Err(BatchError::Io(error)),
            },
        };
        replied(made.map(|counts| Reply::Text(summary(&self.peer, &counts))), sink)
    }
}

/// Describes the batches that were made for a peer.
fn summary(peer: &str, counts: &BatchCounts) -> String {
    let BatchCounts { batches, articles, announced, bytes } = *counts;
    if batches == 0 {
        return format!("{peer}: nothing waits for a batch");
    }
    let (batches, articles) = (counted(batches, "batch"), counted(articles, "article"));
    let announced = match announced {
        0 => String::new(),
        announced => format!(" and {} announced", grouped(announced)),
    };
    format!("{peer}: {batches} with {articles}{announced}, {}", about_size(bytes))
}

fn place(text: &str) -> Result<FeedStartPoint, FeedOrderError> {
    if let Ok(position) = text.parse() {
        return Ok(FeedStartPoint::Position(position));
    }
    Ok(match FeedStart::parse(text).map_err(|error| FeedOrderError::Place(error.to_string()))? {
        FeedStart::Now => FeedStartPoint::Now,
        from => FeedStartPoint::Since(from.since()),
    })
}
