//! `newsreel ctl feed` and `newsreel batch`: commands to the feed of a peer.

use super::request::{FeedCommand, Reply};
use super::sink::Sink;
use feeds::{BatchCounts, BatchError, FeedStartPoint, Feeds, OperatorOrder};
use site_base::units::{about_size, counted, grouped};
use site_config::FeedStart;
use std::{fmt, io};

/// Reason why a command to a feed was not carried out.
#[derive(Debug)]
enum FeedOrderError {
    /// The text names no place in the journal; contains what the parser of dates says of it.
    Place(String),
    /// This peer is not fed.
    NoFeed(String),
    /// The feed to this peer could not store the change.
    NotDone(String, io::Error),
}

impl fmt::Display for FeedOrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(error) => write!(f, "{error}, nor a position of the journal"),
            Self::NoFeed(peer) => write!(f, "there is no feed to a peer `{peer}`"),
            Self::NotDone(peer, error) => write!(f, "feed to {peer}: {error}"),
        }
    }
}

impl std::error::Error for FeedOrderError {}

/// Carries out a command; returns false if that is not possible.
pub fn feed(feeds: &Feeds, peer: &str, command: &FeedCommand, sink: &mut Sink<'_>) -> bool {
    let order = match command {
        FeedCommand::Start => Ok(OperatorOrder::Start),
        FeedCommand::Stop => Ok(OperatorOrder::Stop),
        FeedCommand::Flush => Ok(OperatorOrder::Flush),
        FeedCommand::From { place } => self::place(place).map(OperatorOrder::From),
    };
    let done = order.and_then(|order| match feeds.order(peer, order) {
        Some(done) => done.map_err(|error| FeedOrderError::NotDone(peer.to_owned(), error)),
        None => Err(FeedOrderError::NoFeed(peer.to_owned())),
    });
    let text = match (&done, command) {
        (Err(error), _) => error.to_string(),
        (Ok(()), FeedCommand::Start) => format!("feed to {peer} started"),
        (Ok(()), FeedCommand::Stop) => format!("feed to {peer} stopped"),
        (Ok(()), FeedCommand::Flush) => format!("feed to {peer}: everything that waited is tried now"),
        (Ok(()), FeedCommand::From { place }) => format!("feed to {peer} continues from {place}"),
    };
    sink(if done.is_ok() { Reply::Text(text) } else { Reply::Error(text) });
    done.is_ok()
}

/// Reports the batches written for a peer; returns false on an error.
pub fn batch(made: Result<BatchCounts, BatchError>, peer: &str, sink: &mut Sink<'_>) -> bool {
    let is_ok = made.is_ok();
    sink(match made {
        Err(error) => Reply::Error(error.to_string()),
        Ok(BatchCounts { batches: 0, .. }) => Reply::Text(format!("{peer}: nothing waits for a batch")),
        Ok(BatchCounts { batches, articles, announced, bytes }) => {
            let (batches, articles) = (counted(batches, "batch"), counted(articles, "article"));
            let announced = match announced {
                0 => String::new(),
                announced => format!(" and {} announced", grouped(announced)),
            };
            Reply::Text(format!("{peer}: {batches} with {articles}{announced}, {}", about_size(bytes)))
        }
    });
    is_ok
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
