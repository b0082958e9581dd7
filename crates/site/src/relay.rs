//! The relaying agent (RFC 5537 section 3.6): takes articles from peers by CHECK, TAKETHIS and IHAVE.
//!
//! A [`IncomingFeed`] is one peer's connection. Every article goes through `ingest`; a 2xx is sent only when
//! the receipt's ticket is durable. Called by `session`; never by `inject` or `serve`. Sources: RFC 4644, RFC
//! 3977 section 6.3.2.

mod offers;

use crate::site::Site;
use ingest::{DeferralReason, Disposition, IncomingArticle, Origin, PendingWithdrawals, Receipt, Reject};
use netnews::MessageId;
use netnews::nntp::response::{append, append_bytes, append_standard, code};
use offers::AwaitedOffers;
use site_base::counters::{PeerCounters, add};
use site_config::{Config, Peer};
use spool::{ArticleKey, OfferAnswer, Reservation};
use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::block_in_place;

/// Most bytes of a reason or a Message-ID of the peer repeated in an answer, so that no answer is longer
/// than a response line may be (RFC 3977 section 3.1).
const ECHO_BYTES_MAX: usize = 400;

/// Batches for which a feed counts as crowded after meeting another feed at the spool's writer.
const CROWD_ROUNDS: u8 = 16;

const CLASS_FULL: Disposition = Disposition::Deferred(DeferralReason::ClassFull);

/// Whether the connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum FeedState {
    /// Open.
    Continue,
    /// Closing: a 400 was sent, and the peer should come back later.
    Disconnect,
}

/// Connection of a peer.
pub(crate) struct IncomingFeed {
    site: Arc<Site>,
    origin: Origin,
    counters: Arc<PeerCounters>,
    offers: AwaitedOffers,
    ihave: Option<AnnouncedArticle>,
    dispositions: Vec<Disposition>,
    /// Buffer for the keys of a batch of offers.
    keys: Vec<ArticleKey>,
    /// Raised when others are committing at the same time; decreases with each batch.
    crowd: u8,
    /// Withdrawals not yet carried out for the articles taken.
    pending: Option<PendingWithdrawals>,
}

/// Article announced by IHAVE and requested by 335.
struct AnnouncedArticle {
    id: Box<[u8]>,
    _reservation: Reservation,
}

impl IncomingFeed {
    /// Creates a feed for a peer of `config`, from `address`.
    pub fn new(site: Arc<Site>, config: &Config, peer: &Peer, address: &str) -> Self {
        let counters = site.counters.of_peer(&peer.name);
        let origin = Origin::peer(&config.site.path_names(), peer, counters.clone(), address);
        Self {
            site,
            origin,
            counters,
            offers: AwaitedOffers::default(),
            ihave: None,
            dispositions: Vec::new(),
            keys: Vec::new(),
            crowd: 0,
            pending: None,
        }
    }

    /// Continues as the feed of a peer of another configuration; offers and announcements are kept.
    pub fn under(&mut self, config: &Config, peer: &Peer, address: &str) {
        let has_headers = self.origin.brings_headers() && peer.headers_only;
        self.counters = self.site.counters.of_peer(&peer.name);
        self.origin = Origin::peer(&config.site.path_names(), peer, self.counters.clone(), address);
        if has_headers {
            self.of_headers();
        }
    }

    /// Allows articles without their bodies from now on (MODE HEADFEED).
    pub fn of_headers(&mut self) {
        self.origin.bring_headers();
    }

    /// Answers CHECK commands. Their arguments are repeated as received, even if they are not Message-IDs
    /// (RFC 4644 section 2.4).
    pub fn check(&mut self, arguments: &[&[u8]], out: &mut Vec<u8>) {
        self.count_offers(arguments.len());
        let (is_accepting, now) = (self.is_accepting(), Instant::now());
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        keys.extend(arguments.iter().map(|argument| self.site.spool.key(argument)));
        for ((argument, key), offer) in
            arguments.iter().zip(&keys).zip(self.site.spool.reserve(&keys, arguments))
        {
            let code = match MessageId::parse(argument).filter(MessageId::is_relayable) {
                None => code::CHECK_NOT_WANTED,
                Some(_) if is_accepting && !self.site.turned_away.has(key, now) => {
                    self.offers.answer(*key, offer)
                }
                Some(_) => offers::answer_while_stopped(&offer),
            };
            append_bytes(out, code, echo(argument));
        }
        self.keys = keys;
    }

    /// Answers IHAVE. Returns true if the article is to be sent.
    pub fn offer(&mut self, id: MessageId<'_>, out: &mut Vec<u8>) -> bool {
        self.count_offers(1);
        if !id.is_relayable() {
            append_reason(out, code::NOT_WANTED, &Reject::BadMessageId);
            return false;
        }
        let key = self.site.spool.key(id.as_bytes());
        self.offers.settle(&key);
        let is_accepting = self.is_accepting();
        match self.site.spool.reserve(&[key], &[id.as_bytes()]).next() {
            Some(OfferAnswer::Have) => append_standard(out, code::NOT_WANTED),
            Some(OfferAnswer::InFlight | OfferAnswer::Pending) | None => {
                append_standard(out, code::TRANSFER_LATER)
            }
            Some(OfferAnswer::Wanted(_))
                if !is_accepting || self.site.turned_away.has(&key, Instant::now()) =>
            {
                append_standard(out, code::TRANSFER_LATER)
            }
            Some(OfferAnswer::Wanted(reservation)) => {
                self.ihave = Some(AnnouncedArticle { id: id.as_bytes().into(), _reservation: reservation });
                append_standard(out, code::SEND_IT);
                return true;
            }
        }
        false
    }

    /// Receives the article that IHAVE announced. Local trouble is answered with 436 and does not end the
    /// connection.
    pub async fn receive(&mut self, wire: &[u8], out: &mut Vec<u8>) {
        let announced = self.ihave.take();
        let claimed_id = announced.as_ref().map(|announced| &*announced.id);
        self.dispositions.clear();
        let receipt = self
            .site
            .filer
            .ingest(&self.origin, &[IncomingArticle { wire, claimed_id }], &mut self.dispositions)
            .await;
        let trouble = self.settled(receipt).await;
        match self.dispositions.first() {
            Some(Disposition::Accepted(_)) if trouble.is_none() => append_standard(out, code::TRANSFERRED),
            Some(Disposition::Rejected(reject)) if trouble.is_none() || *reject != Reject::Duplicate => {
                append_reason(out, code::TRANSFER_REJECTED, reject)
            }
            disposition => {
                if *disposition.unwrap_or(&Disposition::TryLater) == CLASS_FULL {
                    self.turn_away(claimed_id.unwrap_or_default());
                }
                append_standard(out, code::TRANSFER_LATER);
            }
        }
    }

    /// Handles an article that is larger than allowed, of which this much was received. `id` is the
    /// Message-ID of TAKETHIS.
    pub fn begun_too_large(&mut self, id: &[u8], begun: &[u8]) {
        let announced = self.ihave.as_ref().map_or(id, |announced| &announced.id);
        self.site.filer.remember_too_large(announced, begun);
    }

    /// Refuses an article that was too large: that of this TAKETHIS, or the one IHAVE announced.
    pub fn too_large(&mut self, takethis: Option<&[u8]>, out: &mut Vec<u8>) {
        match takethis {
            Some(id) => append_refusal(out, echo(id), &self.reject_too_large()),
            None => {
                self.ihave = None;
                append_reason(out, code::TRANSFER_REJECTED, &self.reject_too_large());
            }
        }
    }

    /// Defers the article that IHAVE announced.
    pub fn receive_later(&mut self, why: &str, out: &mut Vec<u8>) {
        self.ihave = None;
        append(out, code::TRANSFER_LATER, why);
    }

    /// Returns whether several feeds bring articles at the moment. Larger batches cost less then, and
    /// answering early has no benefit: while one peer waits, others send.
    pub fn is_crowded(&self) -> bool {
        self.crowd > 0
    }

    /// Reports whether each batch waits for the log of a cluster, whatever its size.
    pub fn waits_for_log(&self) -> bool {
        self.site.spool.shared_log().is_some()
    }

    /// Takes a batch of TAKETHIS articles.
    pub async fn take(&mut self, batch: &[IncomingArticle<'_>], out: &mut Vec<u8>) -> FeedState {
        let settled = self.settle_offers(batch);
        add(&self.counters.offered, batch.len() - settled);
        self.dispositions.clear();
        let receipt = self.site.filer.ingest(&self.origin, batch, &mut self.dispositions).await;
        self.crowd = if receipt.waited { CROWD_ROUNDS } else { self.crowd.saturating_sub(1) };
        let trouble = self.settled(receipt).await;
        for (incoming, disposition) in batch.iter().zip(&self.dispositions) {
            let claimed_id = incoming.claimed_id.unwrap_or_default();
            let id = echo(claimed_id);
            match disposition {
                Disposition::Accepted(_) if trouble.is_none() => {
                    append_bytes(out, code::TAKETHIS_ACCEPTED, id)
                }
                Disposition::Rejected(reject) if trouble.is_none() || *reject != Reject::Duplicate => {
                    append_refusal(out, id, reject)
                }
                // Other classes have room: RFC 4644 has 400 for this, see decision 60.
                disposition if *disposition == CLASS_FULL && trouble.is_none() => {
                    self.turn_away(claimed_id);
                    append_bytes(out, code::CHECK_LATER, id);
                }
                _ => {
                    append(out, code::UNAVAILABLE, "Cannot store articles now, try again later");
                    return FeedState::Disconnect;
                }
            }
        }
        FeedState::Continue
    }

    /// Records that the class of this article is full.
    fn turn_away(&self, id: &[u8]) {
        self.site.turned_away.add(self.site.spool.key(id), Instant::now());
    }

    /// Returns whether an article could be stored now: otherwise none is requested.
    fn is_accepting(&self) -> bool {
        let spool = &self.site.spool;
        (spool.trouble().is_none() || block_in_place(|| spool.is_accepting()))
            && self.site.filer.log().is_accepting()
            && !self.site.filer.is_deferring()
    }

    fn reject_too_large(&self) -> Reject {
        Reject::TooLarge { bytes_max: self.site.config.load().site.article_bytes_max }
    }

    /// Releases the reservations of articles that have arrived; returns how many there were.
    fn settle_offers(&mut self, batch: &[IncomingArticle<'_>]) -> usize {
        if self.offers.is_empty() {
            return 0;
        }
        let ids = batch.iter().map(|incoming| incoming.claimed_id.unwrap_or_default());
        ids.filter(|id| self.offers.settle(&self.site.spool.key(id))).count()
    }

    /// Waits until all withdrawals sent on this connection are done, so that the client's next commands see
    /// their effect.
    pub fn settle_withdrawals(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.site.filer.settle_up_to(&pending);
        }
    }

    /// Waits until answers may be sent; returns the trouble that prevents it.
    async fn settled(&mut self, receipt: Receipt) -> Option<spool::SpoolTrouble> {
        self.pending = receipt.pending.or(self.pending.take());
        match receipt.ticket {
            Some(ticket) => self.site.durable(ticket).await.err(),
            None => None,
        }
    }

    fn count_offers(&self, n: usize) {
        add(&self.counters.offered, n);
    }
}

/// Returns the part of the peer's argument that is repeated in answers.
fn echo(argument: &[u8]) -> &[u8] {
    argument.get(..ECHO_BYTES_MAX).unwrap_or(argument)
}

/// Appends `439 message-id reason`.
fn append_refusal(out: &mut Vec<u8>, id: &[u8], reason: &impl Display) {
    out.extend_from_slice(b"439 ");
    out.extend_from_slice(id);
    // Writing to a vector does not fail.
    let _infallible = write!(out, " {reason}\r\n");
}

/// Appends `code reason`.
fn append_reason(out: &mut Vec<u8>, code: u16, reason: &impl Display) {
    let _infallible = write!(out, "{code} {reason}\r\n");
}
