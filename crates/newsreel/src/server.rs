//! The server: listens, gives each connection a session, stops in order.
//!
//! Listeners and the word to stop come from outside, so that tests can bind port 0 and stop when they like.
//! Called by `cli`. Source: guarantee G6 for the limits on connections.

mod bind;
mod listener;
mod listening;

pub use bind::{Bound, bind};
pub(crate) use listening::{CannotListen, Listening, Plan};

use crate::access::Caller;
use crate::config::{Config, Live};
use crate::control_socket;
use crate::inject::Injector;
use crate::moderation::Moderation;
use crate::numbers;
use crate::operations::keep_expiring;
use crate::operations::report::{self, Measuring};
use crate::reload::reload;
use crate::session::{Client, Session};
use crate::site::{Site, add};
use crate::source::{LocalSpool, NewsSource};
use crate::tls::Offer;
use listener::Listener;
use listening::{Admit, Way};
use netnews::nntp::response::{append, code};
use nntp_io::Socket;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spool::Spool;
use std::io;
use std::net::{SocketAddr, TcpListener as BoundListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinSet, block_in_place};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// How long sessions may take to end once they were told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, as when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The sockets to serve.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Where connections begin with the greeting.
    pub plain: Vec<Bound>,
    /// Where they begin with TLS.
    pub tls: Vec<Bound>,
}

impl From<Vec<BoundListener>> for Listeners {
    fn from(plain: Vec<BoundListener>) -> Self {
        Self { plain: plain.into_iter().map(Bound::from).collect(), tls: Vec::new() }
    }
}

/// A runtime for [`run`], and as many file descriptors as the system lets us have.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused the old limit stays, and accepting says so when it is reached.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("newsreel").build()
}

/// A running server.
pub(crate) struct Server {
    /// What sessions share.
    pub site: Arc<Site>,
    /// Where it listens.
    pub listening: Listening,
    /// Measures the spool for reports.
    pub measuring: Arc<Measuring>,
}

impl Server {
    /// Lets a new configuration hold from now on, with what was prepared for it; the spool has switched
    /// already.
    pub fn apply(&self, config: Arc<Config>, tls: Option<Offer>, listeners: Plan) {
        self.site.apply(config, tls);
        self.listening.apply(listeners);
    }
}

/// Serves NNTP on `listeners` and the control socket until `shutdown` resolves; then ends all sessions and
/// closes the spool. Readers read from the spool. Needs the runtime of [`runtime`].
pub async fn run(
    config: Arc<Config>,
    spool: Arc<Spool>,
    listeners: impl Into<Listeners>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let source = LocalSpool(spool.clone());
    run_with(config, spool, source, listeners, shutdown).await
}

/// The same where readers read from `source`; articles that arrive still go to the spool.
pub async fn run_with<S: NewsSource>(
    config: Arc<Config>,
    spool: Arc<Spool>,
    source: S,
    listeners: impl Into<Listeners>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let mut tasks = JoinSet::new();
    let listeners = Listening::given(listeners.into(), &config);
    let offer = Offer::read(&config).map_err(io::Error::other)?;
    let config = Live::new(config);
    let moderation = Moderation::open(&config)?;
    let injector = Injector::open(&config, moderation.clone());
    let site = Site::new(config, spool, offer, injector);
    let control = control_socket::Listener::bind(&site)?;
    let listening = Listening::new(&site, admitting(&site, source));
    let server = Arc::new(Server { listening, measuring: Measuring::new(), site });
    let site = &server.site;
    server.listening.apply(listeners);
    tasks.spawn(reload_at_hangups(signal(SignalKind::hangup())?, server.clone()));
    tasks.spawn(control.serve(server.clone()));
    tasks.spawn(report::measure(site.clone(), server.measuring.clone()));
    tasks.spawn(crate::operations::retention::watch(site.clone()));
    tasks.spawn(moderation.run(site.stopping()));
    tasks.spawn(numbers::watch(site.clone()));
    let expiring = tokio::spawn(keep_expiring(site.spool.clone(), site.expiry.clone()));
    let packing = crate::operations::overview::Packing::start(&site.spool)?;
    tell_system(&[sd_notify::NotifyState::Ready]);

    shutdown.await;
    info!("stopping");
    tell_system(&[sd_notify::NotifyState::Stopping]);
    site.stop();
    expiring.abort();
    block_in_place(|| packing.end());
    let ended = timeout(STOP_TIMEOUT, async {
        server.listening.ended().await;
        while tasks.join_next().await.is_some() {}
    });
    if ended.await.is_err() {
        warn!(connections = site.seats.all(), "connections cut off");
        tasks.shutdown().await;
    }
    block_in_place(|| site.spool.close()).map_err(io::Error::other)?;
    info!("stopped");
    Ok(())
}

fn tell_system(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "cannot tell the service manager");
    }
}

/// Reloads the configuration at every SIGHUP, until the server stops.
async fn reload_at_hangups(mut hangups: Signal, server: Arc<Server>) {
    let mut stopping = std::pin::pin!(server.site.stopping());
    loop {
        tokio::select! {
            () = &mut stopping => return,
            Some(()) = hangups.recv() => {
                // What went wrong stands in the log.
                let _told = block_in_place(|| reload(&server));
            }
        }
    }
}

/// Accepts connections until the server stops or the socket is closed, then waits for their sessions.
async fn accept_all(
    mut listener: Listener,
    way: Arc<Way>,
    admit: Admit,
    stopping: impl Future<Output = ()> + Send,
) {
    let mut sessions = JoinSet::new();
    let mut stopping = std::pin::pin!(stopping);
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            () = way.closed() => {
                // They were let in by the system before it was known.
                while let Some((socket, address)) = listener.waiting() {
                    if let Some(session) = admit(socket, address, way.begins_with_tls()) {
                        sessions.spawn(session);
                    }
                }
                break;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => Some(accepted),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    None
                }
            },
            Some(ended) = sessions.join_next() => {
                tell_failure(ended);
                listener.session_ended()
            }
        };
        if let Some((socket, address)) = accepted
            && let Some(session) = admit(socket, address, way.begins_with_tls())
        {
            sessions.spawn(session);
        }
    }
    drop(listener);
    while let Some(ended) = sessions.join_next().await {
        tell_failure(ended);
    }
}

fn tell_failure(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a session failed");
    }
}

/// Makes sessions that read from `source`.
fn admitting<S: NewsSource>(site: &Arc<Site>, source: S) -> Admit {
    let site = site.clone();
    Arc::new(move |socket, address, begins_with_tls| {
        let session = admit(&site, &source, socket, address, begins_with_tls)?;
        Some(Box::pin(session.run()))
    })
}

/// A session for a new connection, if the client is known and there is a seat for it.
fn admit<S: NewsSource>(
    site: &Arc<Site>,
    source: &S,
    mut socket: Socket,
    address: SocketAddr,
    begins_with_tls: bool,
) -> Option<Session<S>> {
    // Asked of the system only where it matters.
    let config = site.config.current();
    let local = if config.needs_local_address() { socket.local_address() } else { None };
    let caller = Caller { address: address.ip().to_canonical(), port: address.port(), local };
    let client = Client::at(&config, &site.gate, caller);
    if !client.is_known() {
        turn_away(site, &mut socket, begins_with_tls, code::NOT_PERMITTED, "You are not known here");
        debug!(%address, "unknown client turned away");
        return None;
    }
    let place = site.seats.take(&config.limits, client.address(), client.peer());
    let place = place.map_err(|full| full.to_string());
    match place.and_then(|seat| Ok((seat, client.share(&site.limits)?))) {
        Ok((seat, share)) => {
            let (site, source) = (site.clone(), source.clone());
            let mut session = Session::new(site, source, client, socket, (seat, share), begins_with_tls);
            session.greet();
            Some(session)
        }
        Err(reason) => {
            turn_away(site, &mut socket, begins_with_tls, code::UNAVAILABLE, &reason);
            debug!(%address, reason, "turned away");
            None
        }
    }
}

fn turn_away(site: &Site, socket: &mut Socket, begins_with_tls: bool, code: u16, text: &str) {
    add(&site.counters.refused, 1);
    if begins_with_tls {
        // Nothing can be said before a handshake, which is too much work for somebody who is not wanted.
        return;
    }
    let mut line = Vec::new();
    append(&mut line, code, text);
    // A new connection has room for a line; if it is gone already there is nobody to tell.
    let _gone = socket.try_write([line.as_slice(), &[], &[]]);
}
