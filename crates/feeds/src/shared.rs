//! State shared by all feeds.

use super::articles::{Articles, Found};
use super::headers_only::is_bodiless;
use super::hub::Hub;
use super::in_step::InStep;
use super::offer::Offer;
use super::peer::Peer;
use super::rank;
use super::share::Share;
use ingest::Filer;
use lock_order::Ordered;
use nntp_io::{Load, WireArticle};
use site_base::lock::Leaf;
use spool::{Batch, Spool};
use std::collections::BTreeMap;
use std::sync::Arc;

/// State shared by all feeds.
pub(super) struct Shared {
    pub spool: Arc<Spool>,
    pub filer: Arc<Filer>,
    pub articles: Articles,
    pub in_step: InStep,
    pub hub: Arc<Hub>,
    pub batches: Batches,
    pub share: Share,
    /// Detects when processors are short.
    pub load: Load,
    /// Peers that use ihave and sendme, by name in lower case.
    pub speakers: Leaf<BTreeMap<String, Arc<Peer>>>,
    /// Held while a batch is packed: one at a time is in memory.
    pub packing: Ordered<(), { rank::PACKING }>,
}

impl Shared {
    pub fn new(spool: Arc<Spool>, filer: Arc<Filer>) -> Self {
        let articles = Articles::new(spool.clone());
        let hub = Arc::new(Hub::new());
        let (in_step, batches, share, load, speakers, packing) = Default::default();
        Self { spool, filer, articles, in_step, hub, batches, share, load, speakers, packing }
    }

    /// Returns the article of an offer. Without one the offer can be settled; missed articles are recorded.
    pub fn article(&self, peer: &Peer, offer: &Offer) -> Option<Arc<WireArticle>> {
        let why = match self.articles.get(offer) {
            Found::Whole(wire) if !peer.send.headers_only && is_bodiless(&wire) => {
                "only its headers are here".to_owned()
            }
            Found::Whole(wire) => return Some(wire),
            Found::Withdrawn => return None,
            Found::Overwritten => "it was overwritten before it was sent".to_owned(),
            Found::Failed(error) => error,
        };
        peer.miss(&offer.message_id, &why);
        None
    }

    /// Called between two pieces of work of a feed; see [`Share`].
    pub fn rest(&self) {
        self.share.rest(|| self.spool.journal_end().sequence.unwrap_or_default());
    }

    /// Like [`Shared::article`], for peers that do not get the article itself: returns whether it is still
    /// available.
    pub fn is_there(&self, peer: &Peer, offer: &Offer) -> bool {
        self.articles.is_there(offer) || self.article(peer, offer).is_some()
    }
}

/// Buffers for rows of the journal, for current readers.
#[derive(Default)]
pub(super) struct Batches(Leaf<Vec<Batch>>);

impl Batches {
    pub fn take(&self) -> Batch {
        self.0.lock().pop().unwrap_or_default()
    }

    /// Returns a buffer for reuse. There are never more than were in use at once.
    pub fn give(&self, batch: Batch) {
        self.0.lock().push(batch);
    }
}
