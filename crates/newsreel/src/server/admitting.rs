//! Admission: connections of known clients, within the limits, become sessions.
//!
//! For a connection from a proxy, the client is the one named in the PROXY header. Called by `listening` for
//! each accepted connection.

use super::Server;
use access::ClientEndpoint;
use netnews::nntp::response::{append, code};
use nntp_io::Socket;
use site::listening::proxied::read_header;
use site::listening::{Admit, ConnectionProtocol, SessionTask};
use site::log::refusals::{ConnectionRefusal, RefusalLog};
use site::session::{AdmittedClient, ConnectedClient, Session, SessionContext};
use site::{ConnectionPermit, Site};
use site_base::counters::add;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tracing::{debug, warn};
use upstreams::NewsSource;

/// Returns the function that makes sessions reading from `source`, and serves HTTP.
pub(super) fn admitting<S: NewsSource>(
    site: &Arc<Site>,
    context: &Arc<SessionContext>,
    source: S,
    server: &Weak<Server>,
) -> Admit {
    let refusals = RefusalLog::default();
    let (context, web) = (context.clone(), admitting_http(site, server));
    let admit = {
        let site = site.clone();
        Arc::new(move |socket, caller: ClientEndpoint, beginning: ConnectionProtocol| {
            if !beginning.is_nntp() {
                return web(socket, caller, beginning);
            }
            let begun = Instant::now();
            let session = match admit(&site, &context, &source, socket, caller, beginning.is_tls()) {
                Ok(session) => session,
                Err(why) => {
                    refusals.log(caller.address, &why);
                    return None;
                }
            };
            if !beginning.is_tls() {
                site.counters.latencies.connecting.observe(begun.elapsed());
            }
            Some(Box::pin(session.run()) as SessionTask)
        })
    };
    let site = site.clone();
    Arc::new(move |socket: Socket, address: SocketAddr, beginning: ConnectionProtocol| {
        let config = site.config.current();
        // The system is asked only where it matters.
        let needs_local = !beginning.is_nntp() || config.needs_local_address();
        let local = if needs_local { socket.local_address() } else { None };
        let caller = ClientEndpoint { address: address.ip().to_canonical(), port: address.port(), local };
        if !config.site.proxy_protocol_from.iter().any(|proxy| proxy.contains(caller.address)) {
            return admit(socket, caller, beginning);
        }
        let Ok(permit) = site.permits.take(&config.limits, caller.address, None) else {
            add(&site.counters.refused, 1);
            debug!(%address, "proxy turned away");
            return None;
        };
        let admit = admit.clone();
        Some(Box::pin(passed_on(socket, caller, beginning, permit, admit)))
    })
}

/// Serves a connection from a proxy until its end, for the client named in its PROXY header.
async fn passed_on<A>(
    mut socket: Socket,
    proxy: ClientEndpoint,
    beginning: ConnectionProtocol,
    permit: ConnectionPermit,
    admit: Arc<A>,
) where
    A: Fn(Socket, ClientEndpoint, ConnectionProtocol) -> Option<SessionTask>,
{
    let caller = match read_header(&mut socket).await {
        Ok(Some(ends)) => ClientEndpoint {
            address: ends.client.ip().to_canonical(),
            port: ends.client.port(),
            local: Some(ends.local),
        },
        Ok(None) => proxy,
        Err(error) => {
            warn!(proxy = %proxy.address, %error, "connection from a proxy closed");
            return;
        }
    };
    // From here on the connection counts for the client.
    drop(permit);
    if let Some(session) = admit(socket, caller, beginning) {
        session.await;
    }
}

fn admitting_http(
    site: &Arc<Site>,
    server: &Weak<Server>,
) -> impl Fn(Socket, ClientEndpoint, ConnectionProtocol) -> Option<SessionTask> + use<> {
    let web = web::HttpService::new(site, server.clone());
    move |socket, caller, beginning| web.admit(socket, caller, beginning)
}

/// Makes a session for a new connection, if the client is known and the limits allow it.
fn admit<S: NewsSource>(
    site: &Arc<Site>,
    context: &Arc<SessionContext>,
    source: &S,
    mut socket: Socket,
    caller: ClientEndpoint,
    begins_with_tls: bool,
) -> Result<Session<S>, ConnectionRefusal> {
    if site.is_draining() {
        let text = "This server is about to stop; connect again";
        turn_away(site, &mut socket, begins_with_tls, code::UNAVAILABLE, text);
        return Err(ConnectionRefusal::Draining);
    }
    let config = site.config.current();
    let client = ConnectedClient::at(&config, &site.gate, caller);
    if !client.is_known() {
        turn_away(site, &mut socket, begins_with_tls, code::NOT_PERMITTED, "You are not known here");
        return Err(ConnectionRefusal::Unknown);
    }
    match AdmittedClient::new(client, site) {
        Ok(admitted) => {
            let (site, context) = (site.clone(), context.clone());
            let mut session = Session::new(site, context, source.clone(), admitted, socket, begins_with_tls);
            session.greet();
            Ok(session)
        }
        Err(limit) => {
            let reason = limit.to_string();
            turn_away(site, &mut socket, begins_with_tls, code::UNAVAILABLE, &reason);
            Err(ConnectionRefusal::Full(reason))
        }
    }
}

fn turn_away(site: &Site, socket: &mut Socket, begins_with_tls: bool, code: u16, text: &str) {
    add(&site.counters.refused, 1);
    if begins_with_tls {
        // A response would need a handshake, which is too much work for an unwanted client.
        return;
    }
    let mut line = Vec::new();
    append(&mut line, code, text);
    // A new connection has room for a line; an error means that the client has left already.
    let _gone = socket.try_write([line.as_slice(), &[], &[]]);
}
