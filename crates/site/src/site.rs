//! State shared by all sessions of a server: configuration, spool, limits, counters, and the signals to them.
//!
//! Created once by `server::run` and passed on as `Arc<Site>`. Guards ([`ConnectionPermit`]) count
//! connections down when dropped. The configuration is replaced as a whole by `reload`; sessions are woken
//! and continue with the new one.

mod permits;

pub use permits::{ConnectionLimit, ConnectionPermit, ConnectionPermits};

use access::LoginGate;
use access::limits::AccessLimits;
use access::tls::TlsOffer;
use arc_swap::ArcSwapOption;
use ingest::batches::WaitingBatches;
use ingest::{ClassFullIds, Filer};
use lock_order::Ordered;
use nntp_io::CompressionPermits;
use site_base::busy_poll::Polling;
use site_base::counters::ServerCounters;
use site_base::lock::rank;
use site_config::{Config, LiveConfig};
use spool::{CommitTicket, Spool, SpoolTrouble, TroubleKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Time for which an answer waits for the disk with `durability = "always"` before it becomes "try later".
const DURABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason for waking sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSignal {
    /// The server is stopping.
    Stop,
    /// Another configuration is in effect.
    Reloaded,
}

/// Signals sent so far.
#[derive(Debug, Default)]
struct SignalState {
    stopping: bool,
    reloads: u64,
}

/// State shared by all sessions.
pub struct Site {
    /// The current configuration.
    pub config: LiveConfig,
    /// The spool.
    pub spool: Arc<Spool>,
    /// The single path of every article into the spool.
    pub filer: Arc<Filer>,
    /// Counts since the start.
    pub counters: Arc<ServerCounters>,
    /// Limits on connections.
    pub permits: ConnectionPermits,
    /// Checks logins.
    pub gate: Arc<LoginGate>,
    /// Counts for the limits of `[[access]]` sections.
    pub limits: Arc<AccessLimits>,
    /// Certificates and settings for TLS; `None` if it is not offered.
    pub tls: ArcSwapOption<TlsOffer>,
    /// Batches waiting to be filed.
    pub waiting: WaitingBatches,
    /// Articles whose class was full a short time ago.
    pub turned_away: ClassFullIds,
    /// The right of one session to poll its socket.
    pub polling: Arc<Polling>,
    /// Limit on compressed connections.
    pub compressed: CompressionPermits,
    /// Time of the start.
    pub started: Instant,
    /// Held while the configuration is being changed.
    pub changing: Ordered<(), { rank::CHANGING }>,
    /// Wakes expiry.
    pub expiry: Arc<Notify>,
    /// Whether no new connections are taken.
    draining: AtomicBool,
    durable: Arc<Notify>,
    signals: watch::Sender<SignalState>,
}

impl Site {
    /// Creates the state of a server with this configuration.
    pub fn new(config: LiveConfig, spool: Arc<Spool>, tls: Option<TlsOffer>) -> Arc<Self> {
        let durable = Arc::new(Notify::new());
        let synced = durable.clone();
        spool.on_durable(Box::new(move || synced.notify_waiters()));
        let counters = Arc::new(ServerCounters::default());
        Arc::new(Self {
            filer: Arc::new(Filer::new(config.current(), spool.clone()).counted_by(counters.clone())),
            permits: ConnectionPermits::default(),
            gate: Arc::new(LoginGate::new(spool.disk().clone(), &config.load())),
            limits: Arc::default(),
            tls: ArcSwapOption::from(tls.map(Arc::new)),
            waiting: WaitingBatches::default(),
            turned_away: ClassFullIds::default(),
            polling: Arc::new(Polling::new(config.load().limits.busy_poll)),
            compressed: CompressionPermits::default(),
            counters,
            config,
            spool,
            started: Instant::now(),
            changing: Ordered::default(),
            expiry: Arc::default(),
            draining: AtomicBool::new(false),
            durable,
            signals: watch::Sender::default(),
        })
    }

    /// Takes no new connections from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns true if no new connections are taken, as the server is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Signals every session to end after its running command.
    pub fn stop(&self) {
        self.signals.send_modify(|signals| signals.stopping = true);
    }

    /// Applies a new configuration, with the TLS settings prepared for it; the spool has switched already.
    pub fn apply(&self, config: Arc<Config>, tls: Option<TlsOffer>) {
        self.filer.apply(&config);
        self.gate.apply(&config);
        crate::log::switch(config.site.log_level, config.site.log_format);
        self.polling.allow(config.limits.busy_poll);
        self.tls.store(tls.map(Arc::new));
        self.counters.keep_peers(|name| config.peers.iter().any(|peer| *peer.name == *name));
        self.config.replace(config);
        self.signals.send_modify(|signals| signals.reloads += 1);
        self.expiry.notify_one();
    }

    /// Returns the number of reloads so far.
    pub fn reloads(&self) -> u64 {
        self.signals.borrow().reloads
    }

    /// Returns true if the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.signals.borrow().stopping
    }

    /// Resolves when the server stops.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut signals = self.signals.subscribe();
        async move {
            // The sender lives as long as the site; without it there would be nothing left to serve.
            let _sender_gone = signals.wait_for(|signals| signals.stopping).await;
        }
    }

    /// Resolves at the next signal to sessions.
    pub fn signal(&self) -> impl Future<Output = SessionSignal> + Send + 'static {
        let mut signals = self.signals.subscribe();
        let seen = signals.borrow_and_update().reloads;
        async move {
            let next = |signals: &SignalState| signals.stopping || signals.reloads != seen;
            match signals.wait_for(next).await {
                Ok(signals) if !signals.stopping => SessionSignal::Reloaded,
                _ => SessionSignal::Stop,
            }
        }
    }

    /// Waits until the writes of `ticket` would survive a power failure; returns at once unless `durability =
    /// "always"`.
    pub async fn durable(&self, ticket: CommitTicket) -> Result<(), SpoolTrouble> {
        while !self.spool.is_durable(ticket) {
            let mut synced = pin!(self.durable.notified());
            synced.as_mut().enable();
            if self.spool.is_durable(ticket) {
                break;
            }
            // A failed sync wakes this task, too; nothing becomes durable after it.
            if let Some(trouble) = self.spool.trouble().filter(|t| t.kind != TroubleKind::Full) {
                return Err(trouble);
            }
            if timeout(DURABLE_TIMEOUT, synced).await.is_err() {
                return Err(SpoolTrouble::new(TroubleKind::Io, "the disk does not answer"));
            }
        }
        Ok(())
    }
}
