//! The relaying agent (RFC 5537 section 3.6): takes articles from peers by CHECK, TAKETHIS and IHAVE.
//!
//! A [`Feed`] is one peer's connection. Every article goes through `ingest`; a 2xx is sent only when the
//! receipt's ticket is durable. Called by `session`; never by `inject` or `serve`. Sources: RFC 4644, RFC
//! 3977 section 6.3.2.

mod offers;

use crate::Site;
use ingest::{Disposition, Incoming, Later, Origin, Pending, Receipt, Reject};
use netnews::MessageId;
use netnews::nntp::response::{append, append_bytes, append_standard, code};
use offers::Offers;
use site_base::counters::{PeerCounters, add};
use site_config::{Config, Peer};
use spool::{Key, Offer, Reservation};
use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::block_in_place;

/// Reasons and Message-IDs of the peer are given back up to this many bytes, so that no answer is longer than
/// a response line may be (RFC 3977 section 3.1).
const ECHO_BYTES_MAX: usize = 400;

/// After meeting another feed at the spool's writer, so many batches are taken for those of a crowd.
const CROWD_ROUNDS: u8 = 16;

const CLASS_FULL: Disposition = Disposition::Deferred(Later::ClassFull);

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum FeedState {
    /// It does.
    Continue,
    /// A 400 was sent: the peer should come back later.
    Disconnect,
}

/// A peer's connection.
pub(crate) struct Feed {
    site: Arc<Site>,
    origin: Origin,
    counters: Arc<PeerCounters>,
    offers: Offers,
    ihave: Option<Announced>,
    dispositions: Vec<Disposition>,
    /// Memory for the keys of a batch of offers.
    keys: Vec<Key>,
    /// Rises when others are committing as this one comes, and wears off.
    crowd: u8,
    /// What is still to be carried out of what was taken.
    pending: Option<Pending>,
}

/// What IHAVE has announced and 335 has asked for.
struct Announced {
    id: Box<[u8]>,
    _reservation: Reservation,
}

impl Feed {
    /// A feed of a peer of `config`, from `address`.
    pub fn new(site: Arc<Site>, config: &Config, peer: &Peer, address: &str) -> Self {
        let counters = site.counters.of_peer(&peer.name);
        let origin = Origin::peer(&config.site.path_names(), peer, counters.clone(), address);
        Self {
            site,
            origin,
            counters,
            offers: Offers::default(),
            ihave: None,
            dispositions: Vec::new(),
            keys: Vec::new(),
            crowd: 0,
            pending: None,
        }
    }

    /// Goes on as that of a peer of another configuration; what was offered or announced before stays so.
    pub fn under(&mut self, config: &Config, peer: &Peer, address: &str) {
        let has_headers = self.origin.brings_headers() && peer.headers_only;
        self.counters = self.site.counters.of_peer(&peer.name);
        self.origin = Origin::peer(&config.site.path_names(), peer, self.counters.clone(), address);
        if has_headers {
            self.of_headers();
        }
    }

    /// From now on articles may come without their bodies (MODE HEADFEED).
    pub fn of_headers(&mut self) {
        self.origin.bring_headers();
    }

    /// CHECKs. Their arguments are given back as they came, even if they are no Message-IDs (RFC 4644 section
    /// 2.4).
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

    /// IHAVE. True if the article is to be sent.
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
            Some(Offer::Have) => append_standard(out, code::NOT_WANTED),
            Some(Offer::InFlight | Offer::Pending) | None => append_standard(out, code::TRANSFER_LATER),
            Some(Offer::Wanted(_)) if !is_accepting || self.site.turned_away.has(&key, Instant::now()) => {
                append_standard(out, code::TRANSFER_LATER)
            }
            Some(Offer::Wanted(reservation)) => {
                self.ihave = Some(Announced { id: id.as_bytes().into(), _reservation: reservation });
                append_standard(out, code::SEND_IT);
                return true;
            }
        }
        false
    }

    /// The article that IHAVE announced. Our own trouble is 436 and no reason to part.
    pub async fn receive(&mut self, wire: &[u8], out: &mut Vec<u8>) {
        let announced = self.ihave.take();
        let claimed_id = announced.as_ref().map(|announced| &*announced.id);
        self.dispositions.clear();
        let receipt = self
            .site
            .filer
            .ingest(&self.origin, &[Incoming { wire, claimed_id }], &mut self.dispositions)
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

    /// The article at hand is larger than may be; this is what came of it so far. Of TAKETHIS the `id` is
    /// given.
    pub fn begun_too_large(&mut self, id: &[u8], begun: &[u8]) {
        let announced = self.ihave.as_ref().map_or(id, |announced| &announced.id);
        self.site.filer.remember_too_large(announced, begun);
    }

    /// The article was larger than may be: the one of this TAKETHIS, or that IHAVE has announced.
    pub fn too_large(&mut self, takethis: Option<&[u8]>, out: &mut Vec<u8>) {
        match takethis {
            Some(id) => append_refusal(out, echo(id), &self.reject_too_large()),
            None => {
                self.ihave = None;
                append_reason(out, code::TRANSFER_REJECTED, &self.reject_too_large());
            }
        }
    }

    /// The article that IHAVE announced cannot be taken now.
    pub fn receive_later(&mut self, why: &str, out: &mut Vec<u8>) {
        self.ihave = None;
        append(out, code::TRANSFER_LATER, why);
    }

    /// Whether several feeds bring articles at the moment. Then larger batches cost less, and nothing is
    /// gained by answering early: while one peer waits, others send.
    pub fn is_crowded(&self) -> bool {
        self.crowd > 0
    }

    /// A batch of TAKETHIS articles.
    pub async fn take(&mut self, batch: &[Incoming<'_>], out: &mut Vec<u8>) -> FeedState {
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
                // Other classes have room: RFC 4644 has 400 here, see decision 60.
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

    /// The class of this article is full.
    fn turn_away(&self, id: &[u8]) {
        self.site.turned_away.add(self.site.spool.key(id), Instant::now());
    }

    /// Whether an article could be stored now: what is not to be stored is not asked for.
    fn is_accepting(&self) -> bool {
        let spool = &self.site.spool;
        (spool.trouble().is_none() || block_in_place(|| spool.is_accepting()))
            && !self.site.filer.is_deferring()
    }

    fn reject_too_large(&self) -> Reject {
        Reject::TooLarge { bytes_max: self.site.config.load().site.article_bytes_max }
    }

    /// Gives up the reservations of what has come now; how many there were.
    fn settle_offers(&mut self, batch: &[Incoming<'_>]) -> usize {
        if self.offers.is_empty() {
            return 0;
        }
        let ids = batch.iter().map(|incoming| incoming.claimed_id.unwrap_or_default());
        ids.filter(|id| self.offers.settle(&self.site.spool.key(id))).count()
    }

    /// Returns once all that was sent here withdraws is withdrawn: what this client sees next agrees with it.
    pub fn settle_withdrawals(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.site.filer.settle_up_to(&pending);
        }
    }

    /// Waits until answers may be sent; returns the trouble that prevents it.
    async fn settled(&mut self, receipt: Receipt) -> Option<spool::Trouble> {
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

/// As much of what the peer sent as is given back.
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
