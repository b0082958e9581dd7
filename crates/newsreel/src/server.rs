//! The server: listens, gives each connection a session, stops in order.
//!
//! Listeners and the word to stop come from outside, so that tests can bind port 0 and stop when they like. Called by
//! `cli`. Source: guarantee G6 for the limits on connections.

use crate::config::Config;
use crate::control_socket;
use crate::session::{Client, Session};
use crate::site::{Site, add};
use netnews::nntp::response::{append, code};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spool::Spool;
use std::io;
use std::net::{IpAddr, TcpListener as BoundListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// How long sessions may take to end once they were told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, as when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A runtime for [`run`], and as many file descriptors as the system lets us have.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused the old limit stays, and accepting says so when it is reached.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("newsreel").build()
}

/// Serves NNTP on `listeners` and the control socket until `shutdown` resolves; then ends all sessions and closes the
/// spool. Needs the runtime of [`runtime`].
pub async fn run(
    config: Arc<Config>,
    spool: Arc<Spool>,
    listeners: Vec<BoundListener>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let mut accepting = JoinSet::new();
    let mut addresses = Vec::new();
    let mut bound = Vec::new();
    for listener in listeners {
        listener.set_nonblocking(true)?;
        addresses.push(listener.local_addr()?);
        bound.push(TcpListener::from_std(listener)?);
    }
    let site = Site::new(config, spool, addresses);
    let control = control_socket::Listener::bind(&site)?;
    for listener in bound {
        accepting.spawn(accept_all(listener, site.clone()));
    }
    accepting.spawn(control.serve(site.clone()));
    for address in &site.listen {
        info!(%address, "listening");
    }
    tell_system(&[sd_notify::NotifyState::Ready]);

    shutdown.await;
    info!("stopping");
    tell_system(&[sd_notify::NotifyState::Stopping]);
    site.stop();
    let ended = timeout(STOP_TIMEOUT, async { while accepting.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        warn!(connections = site.seats.all(), "connections cut off");
        accepting.shutdown().await;
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

/// Accepts connections until the server stops, then waits for their sessions.
async fn accept_all(listener: TcpListener, site: Arc<Site>) {
    let mut sessions = JoinSet::new();
    let mut stopping = std::pin::pin!(site.stopping());
    loop {
        tokio::select! {
            () = &mut stopping => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    if let Some(session) = admit(&site, stream, address.ip()) {
                        sessions.spawn(session.run());
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = sessions.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a session failed");
                }
            }
        }
    }
    drop(listener);
    while sessions.join_next().await.is_some() {}
}

/// A session for a new connection, if the client is known and there is a seat for it.
fn admit(site: &Arc<Site>, stream: TcpStream, address: IpAddr) -> Option<Session> {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%address, %error, "connection lost at once");
        return None;
    }
    let client = Client::at(&site.config, address);
    if !client.is_known() {
        turn_away(site, &stream, code::NOT_PERMITTED, "You are not known here");
        debug!(%address, "unknown client turned away");
        return None;
    }
    match site.seats.take(client.address(), client.peer_number()) {
        Ok(seat) => Some(Session::new(site.clone(), client, stream, seat)),
        Err(full) => {
            turn_away(site, &stream, code::UNAVAILABLE, full.text());
            debug!(%address, reason = full.text(), "turned away");
            None
        }
    }
}

fn turn_away(site: &Site, stream: &TcpStream, code: u16, text: &str) {
    add(&site.counters.turned_away, 1);
    let mut line = Vec::new();
    append(&mut line, code, text);
    // A new connection has room for a line; if it is gone already there is nobody to tell.
    let _gone = stream.try_write(&line);
}
