//! Sources of articles to send: a batch, or a group of the spool.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use disk::ReadMode;
use netnews::{Article, Known, MessageId};
use spool::{ArticleBuf, GroupId, Spool};

use ingest::batches::BatchReader;

/// An article to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingArticle {
    /// Message-ID, with its angle brackets.
    pub id: Box<str>,
    /// Wire format without the final `.` line.
    pub wire: Vec<u8>,
    /// Unexpected responses to the article, and connections that ended on it.
    pub failures: u8,
}

/// A sequence of articles. Blocks.
pub trait ArticleSource: Send {
    /// Returns the next article; `None` at the end.
    fn next(&mut self) -> io::Result<Option<OutgoingArticle>>;
    /// Returns the number of pieces so far that are no articles.
    fn damaged(&self) -> u64;
}

/// Returns the articles of a batch.
pub fn of_batch(batch: BatchReader) -> impl ArticleSource {
    BatchSource { batch, ready: VecDeque::new(), damaged: 0 }
}

struct BatchSource {
    batch: BatchReader,
    ready: VecDeque<OutgoingArticle>,
    damaged: u64,
}

impl ArticleSource for BatchSource {
    fn next(&mut self) -> io::Result<Option<OutgoingArticle>> {
        while self.ready.is_empty() {
            let Some(parcel) = self.batch.next_parcel()? else {
                return match self.batch.damage() {
                    Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned())),
                    None => Ok(None),
                };
            };
            let wires = parcel.wires();
            let articles: Vec<OutgoingArticle> =
                wires.iter().filter_map(|wire| outgoing(wire.to_vec())).collect();
            self.damaged += (parcel.pieces().count() - articles.len()) as u64;
            self.ready.extend(articles);
        }
        Ok(self.ready.pop_front())
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

/// Returns the articles of a group, in order.
pub fn of_group(spool: Arc<Spool>, group: GroupId) -> impl ArticleSource {
    GroupSource { spool, group, after: 0 }
}

struct GroupSource {
    spool: Arc<Spool>,
    group: GroupId,
    after: u64,
}

impl ArticleSource for GroupSource {
    fn next(&mut self) -> io::Result<Option<OutgoingArticle>> {
        let mut article = ArticleBuf::default();
        while let Some(number) = self.spool.next_number(self.group, self.after) {
            self.after = number;
            let token = self.spool.token_of(self.group, number, ReadMode::Wait).map_err(io::Error::other)?;
            let Some(token) = token else { continue };
            // Articles removed in the meantime are not sent.
            if self.spool.read(&token, None, ReadMode::Wait, &mut article).map_err(io::Error::other)?
                && let Some(outgoing) = outgoing(whole(article.article()))
            {
                return Ok(Some(outgoing));
            }
        }
        Ok(None)
    }

    fn damaged(&self) -> u64 {
        0
    }
}

/// Returns the article without the final `.` line.
fn whole(article: &[u8]) -> Vec<u8> {
    article.strip_suffix(b".\r\n").unwrap_or(article).to_vec()
}

/// Returns an article, if it can be offered.
fn outgoing(wire: Vec<u8>) -> Option<OutgoingArticle> {
    let article = Article::parse(&wire).ok()?;
    let id = MessageId::from_header(article.header(Known::MessageId)?)?;
    // Some articles are stored without a body.
    let is_whole = wire.ends_with(b"\r\n") && article.bodiless().is_none();
    let id = id.as_str().into();
    is_whole.then_some(OutgoingArticle { id, wire, failures: 0 })
}
