//! State shared by all feeds.

use super::journal::articles::{ArticleWindow, ReadOutcome};
use super::journal::hub::FeedHub;
use super::journal::in_step::ReadyPositions;
use super::journal::offer::FeedOffer;
use super::peer::feed::PeerFeed;
use super::rank;
use super::share::CpuShare;
use ingest::Filer;
use lock_order::Ordered;
use netnews::Article;
use nntp_io::{MachineLoad, WireArticle};
use site_base::lock::Leaf;
use spool::{JournalBatch, Spool};
use std::collections::BTreeMap;
use std::sync::Arc;

/// State shared by all feeds.
pub(super) struct FeedContext {
    pub spool: Arc<Spool>,
    pub filer: Arc<Filer>,
    pub articles: ArticleWindow,
    pub in_step: ReadyPositions,
    pub hub: Arc<FeedHub>,
    pub batches: BatchBuffers,
    pub share: CpuShare,
    /// Detects when processors are short.
    pub load: MachineLoad,
    /// Peers that use ihave and sendme, by name in lower case.
    pub speakers: Leaf<BTreeMap<String, Arc<PeerFeed>>>,
    /// Held while a batch is packed: one at a time is in memory.
    pub packing: Ordered<(), { rank::PACKING }>,
}

impl FeedContext {
    pub fn new(spool: Arc<Spool>, filer: Arc<Filer>) -> Self {
        let articles = ArticleWindow::new(spool.clone());
        let hub = Arc::new(FeedHub::new());
        let (in_step, batches, share, load, speakers, packing) = Default::default();
        Self { spool, filer, articles, in_step, hub, batches, share, load, speakers, packing }
    }

    /// Returns the article of an offer. Without one the offer can be settled; missed articles are recorded.
    pub fn article(&self, peer: &PeerFeed, offer: &FeedOffer) -> Option<Arc<WireArticle>> {
        let why = match self.articles.get(offer) {
            ReadOutcome::Whole(wire) if !peer.send.headers_only && is_bodiless(&wire) => {
                "only its headers are here".to_owned()
            }
            ReadOutcome::Whole(wire) => return Some(wire),
            ReadOutcome::Withdrawn => return None,
            ReadOutcome::Overwritten => "it was overwritten before it was sent".to_owned(),
            ReadOutcome::Failed(error) => error,
        };
        peer.miss(&offer.message_id, &why);
        None
    }

    /// Called between two pieces of work of a feed; see [`CpuShare`].
    pub fn rest(&self) {
        self.share.rest(|| self.spool.journal().end().sequence.unwrap_or_default());
    }

    /// Like [`FeedContext::article`], for peers that do not get the article itself: returns whether it is
    /// still available.
    pub fn is_there(&self, peer: &PeerFeed, offer: &FeedOffer) -> bool {
        self.articles.is_there(offer) || self.article(peer, offer).is_some()
    }
}

/// Buffers for rows of the journal, for current readers.
#[derive(Default)]
pub(super) struct BatchBuffers(Leaf<Vec<JournalBatch>>);

impl BatchBuffers {
    pub fn take(&self) -> JournalBatch {
        self.0.lock().pop().unwrap_or_default()
    }

    /// Returns a buffer for reuse. There are never more than were in use at once.
    pub fn give(&self, batch: JournalBatch) {
        self.0.lock().push(batch);
    }
}

/// Returns whether only the headers of an article are here.
fn is_bodiless(wire: &WireArticle) -> bool {
    let bytes = wire.bytes();
    bytes.ends_with(b"\r\n\r\n") && Article::parse(bytes).is_ok_and(|article| article.bodiless().is_some())
}
