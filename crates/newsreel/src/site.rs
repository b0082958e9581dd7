//! What all sessions of a server share: configuration, spool, limits, counters, and the word to stop.
//!
//! Made once by `server::run` and handed out as `Arc<Site>`. Guards ([`Seat`]) count connections down when dropped.

mod counters;
mod seats;

pub(crate) use counters::{Counters, add, read};
pub(crate) use seats::{Seat, Seats};

use crate::access::Gate;
use crate::access::limits::Limits;
use crate::config::{Config, Durability};
use crate::ingest::Filer;
use crate::inject::Injector;
use crate::session::{Budget, Compressed};
use crate::tls::Offer;
use spool::{Spool, Ticket, Trouble, TroubleKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// How long an answer waits for the disk in `durability = "always"` before it is "try later".
const DURABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What all sessions share.
pub(crate) struct Site {
    pub config: Arc<Config>,
    pub spool: Arc<Spool>,
    /// The one road of an article.
    pub filer: Filer,
    /// Takes posts.
    pub injector: Injector,
    pub counters: Arc<Counters>,
    pub seats: Seats,
    pub budget: Budget,
    /// Who may log in.
    pub gate: Arc<Gate>,
    /// What `[[access]]` sections count.
    pub limits: Arc<Limits>,
    /// What TLS is negotiated with; `None`: it is not offered.
    pub tls: Option<Offer>,
    /// Room for compressed connections.
    pub compressed: Compressed,
    /// Where we listen, ports resolved.
    pub listen: Vec<SocketAddr>,
    pub started: Instant,
    durable: Arc<Notify>,
    stopping: watch::Sender<bool>,
}

impl Site {
    pub fn new(
        config: Arc<Config>,
        spool: Arc<Spool>,
        listen: Vec<SocketAddr>,
        tls: Option<Offer>,
        injector: Injector,
    ) -> Arc<Self> {
        let durable = Arc::new(Notify::new());
        if config.site.durability == Durability::Always {
            let durable = durable.clone();
            spool.on_durable(Box::new(move || durable.notify_waiters()));
        }
        let counters = Arc::new(Counters::new(config.peers.len()));
        Arc::new(Self {
            filer: Filer::new(config.clone(), spool.clone()).counted_by(counters.clone()),
            injector,
            seats: Seats::new(&config),
            gate: Arc::new(Gate::new(&config)),
            limits: Arc::default(),
            budget: Budget::new(config.site.article_bytes_max),
            tls,
            compressed: Compressed::default(),
            counters,
            config,
            spool,
            listen,
            started: Instant::now(),
            durable,
            stopping: watch::Sender::new(false),
        })
    }

    /// Tells every session to end after its running command.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Reads anew what can be read anew while sessions go on: the certificates. The text says what was done; if
    /// something cannot be used, everything stays as it was. Blocks.
    pub fn reload(&self) -> Result<String, String> {
        match &self.tls {
            Some(offer) => offer.reload().map(|()| "certificates read anew".to_owned()),
            None => Ok("there is nothing to read anew: no certificate is configured".to_owned()),
        }
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server stops.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.stopping.subscribe();
        async move {
            // The sender lives as long as the site; without it there is nothing left to serve either.
            let _sender_gone = stopping.wait_for(|stop| *stop).await;
        }
    }

    /// Waits until what `ticket` stands for survives a power cut; at once unless `durability = "always"`.
    pub async fn durable(&self, ticket: Ticket) -> Result<(), Trouble> {
        while !self.spool.is_durable(ticket) {
            let mut synced = pin!(self.durable.notified());
            synced.as_mut().enable();
            if self.spool.is_durable(ticket) {
                break;
            }
            // A failed sync wakes us too, and nothing will be durable any more.
            if let Some(trouble) = self.spool.trouble().filter(|t| t.kind == TroubleKind::Io) {
                return Err(trouble);
            }
            if timeout(DURABLE_TIMEOUT, synced).await.is_err() {
                return Err(Trouble { kind: TroubleKind::Io, text: "the disk does not answer".to_owned() });
            }
        }
        Ok(())
    }
}

/// Unix seconds.
pub(crate) fn unix_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
