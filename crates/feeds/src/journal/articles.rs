//! Articles being sent to peers: each is read once for all peers that send it at about the same time
//! (CNFS-14).

use crate::journal::offer::FeedOffer;
use disk::ReadMode;
use nntp_io::WireArticle;
use site_base::lock::Leaf;
use spool::{ArticleBuf, ArticleKey, KeyBits, Lookup, ReadError, Spool};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of articles kept.
const WINDOW_BYTES_MAX: usize = 32 << 20;
/// Final line of the stored form.
const END: &[u8] = b".\r\n";

/// Result of reading an article.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    Whole(Arc<WireArticle>),
    /// The article was cancelled, or has expired.
    Withdrawn,
    /// The article was overwritten before it was sent.
    Overwritten,
    /// The article cannot be read.
    Failed(String),
}

/// The articles read last.
pub(crate) struct ArticleWindow {
    spool: Arc<Spool>,
    window: Leaf<ArticleWindowState>,
}

#[derive(Default)]
struct ArticleWindowState {
    articles: HashMap<ArticleKey, Arc<WireArticle>, BuildHasherDefault<KeyBits>>,
    /// Keys in reading order, with their positions in the journal.
    order: VecDeque<(ArticleKey, u64)>,
    bytes: usize,
}

impl ArticleWindowState {
    /// Adds an article; the returned ones are to be dropped without the lock.
    fn add(&mut self, offer: &FeedOffer, wire: &Arc<WireArticle>) -> Vec<Arc<WireArticle>> {
        let mut evicted = Vec::new();
        if self.articles.insert(offer.key, wire.clone()).is_some() {
            return evicted;
        }
        self.order.push_back((offer.key, offer.mark.position));
        self.bytes += wire.memory_bytes();
        while self.bytes > WINDOW_BYTES_MAX
            && let Some((oldest, _)) = self.order.pop_front()
        {
            let removed = self.articles.remove(&oldest);
            self.bytes -= removed.as_ref().map_or(0, |wire| wire.memory_bytes());
            evicted.extend(removed);
        }
        evicted
    }
}

impl ArticleWindow {
    pub fn new(spool: Arc<Spool>) -> Self {
        Self { spool, window: Leaf::default() }
    }

    /// Returns the article of an offer. May wait for the disk, without delaying other tasks.
    pub fn get(&self, offer: &FeedOffer) -> ReadOutcome {
        let known = self.window.lock().articles.get(&offer.key).cloned();
        if let Some(wire) = known {
            // A cancelled article must not be sent from memory.
            return if self.is_there(offer) { ReadOutcome::Whole(wire) } else { self.why_gone(offer) };
        }
        let mut buf = ArticleBuf::default();
        let read =
            |patience, buf: &mut ArticleBuf| self.spool.read(&offer.token, Some(&offer.key), patience, buf);
        let read = match read(ReadMode::CacheOnly, &mut buf) {
            Err(ReadError::WouldBlock) => tokio::task::block_in_place(|| read(ReadMode::Wait, &mut buf)),
            read => read,
        };
        match read {
            Ok(true) => {
                let Some(wire) = wire(buf) else {
                    return ReadOutcome::Failed("it is not in wire format".to_owned());
                };
                let wire = Arc::new(wire);
                let evicted = self.window.lock().add(offer, &wire);
                drop(evicted);
                ReadOutcome::Whole(wire)
            }
            Ok(false) => self.why_gone(offer),
            Err(error) => ReadOutcome::Failed(error.to_string()),
        }
    }

    /// Returns the range of journal positions of the older half of the window; empty while there is room
    /// for more.
    pub fn older_half(&self) -> Range<u64> {
        let window = self.window.lock();
        if window.bytes < WINDOW_BYTES_MAX / 2 {
            return 0..0;
        }
        let at = |n: usize| window.order.get(n).map_or(0, |(_, position)| *position);
        at(0)..at(window.order.len() / 2)
    }

    /// Returns the article, if it can be read.
    pub fn whole(&self, offer: &FeedOffer) -> Option<Arc<WireArticle>> {
        match self.get(offer) {
            ReadOutcome::Whole(wire) => Some(wire),
            _ => None,
        }
    }

    /// Returns whether the article can be read.
    pub fn is_there(&self, offer: &FeedOffer) -> bool {
        self.spool.count_living(&[offer.token]) == 1 && self.spool.hidden_article(&offer.key).is_none()
    }

    fn why_gone(&self, offer: &FeedOffer) -> ReadOutcome {
        match self.spool.lookup(&offer.key) {
            Lookup::Gone => ReadOutcome::Overwritten,
            _ => ReadOutcome::Withdrawn,
        }
    }
}

/// Returns the part of a stored article that is sent: without Xref, the first line, and without the final
/// `.`.
fn wire(buf: ArticleBuf) -> Option<WireArticle> {
    let (start, _, _) = buf.layout();
    let (bytes, _) = buf.into_buffers();
    let stored = bytes.get(start..).unwrap_or_default();
    let xref =
        if stored.starts_with(b"Xref:") { memchr::memchr(b'\n', stored).map_or(0, |at| at + 1) } else { 0 };
    let end = bytes.len() - if stored.ends_with(END) { END.len() } else { 0 };
    let range = start + xref..end;
    WireArticle::new(bytes, range)
}
