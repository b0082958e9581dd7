//! HTTP connections: TLS if it comes first, then requests one after the other, within limits on time and
//! size.
//!
//! A slow client is cut off: `web.request_timeout` applies to a request and to the silence before it,
//! `limits.write_timeout` to an answer that is not taken. Called by `web` for each connection that
//! `listening` accepts. Source: RFC 9112.

use super::coding::{self, ContentCoding};
use super::hosts::HostFault;
use super::memory::{MemoryShare, accounted};
use super::place::{BandwidthPacer, HttpAccessPermit};
use super::{HttpService, WebState, answers, hosts};
use access::tls::TlsInfo;
use access::{ClientEndpoint, counted};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::rt::{ReadBufCursor, Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use nntp_io::{Socket, Transport, TransportStream};
use site::ConnectionPermit;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufRead, AsyncReadExt, AsyncWrite};
use tokio::task::block_in_place;
use tokio::time::{sleep_until, timeout};
use tower_service::Service;
use tracing::{debug, trace};

/// Maximum bytes of a request's first line and headers.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Answer before TLS and HTTP begin, when there is no room.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n\
    Connection: close\r\n\r\n";
/// Time for the client to read that answer and to hang up.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes that are read from a client that is not admitted.
const REFUSED_INPUT_MAX: u64 = 64 << 10;

/// The connection of a request, attached to it as an extension.
#[derive(Debug, Clone)]
pub(super) struct RequestOrigin {
    pub caller: ClientEndpoint,
    /// The results of the handshake, if there was one.
    pub tls: Option<TlsInfo>,
    /// The connection's permit under an `[[access]]` section.
    pub place: Arc<HttpAccessPermit>,
    /// The client's share of the memory.
    pub memory: MemoryShare,
}

/// An admitted connection.
pub(super) struct HttpConnection {
    shared: Arc<WebState>,
    router: Router,
    socket: Socket,
    caller: ClientEndpoint,
    begins_with_tls: bool,
    _permit: ConnectionPermit,
}

impl HttpConnection {
    /// Admits a connection.
    ///
    /// # Errors
    /// The socket, if there are as many connections as the configuration permits.
    pub fn admit(
        web: &Arc<HttpService>,
        socket: Socket,
        caller: ClientEndpoint,
        begins_with_tls: bool,
    ) -> Result<Self, Socket> {
        let config = web.shared.config();
        match web.permits.take_for_http(&config.web, caller.address) {
            Ok(permit) => {
                let (shared, router) = (web.shared.clone(), web.router.clone());
                Ok(Self { shared, router, socket, caller, begins_with_tls, _permit: permit })
            }
            Err(full) => {
                debug!(address = %caller.address, reason = %full, "turned away");
                Err(socket)
            }
        }
    }

    /// Serves the connection until its end.
    pub async fn serve(self) {
        let address = self.caller.address;
        match self.run().await {
            Ok(()) => trace!(%address, "HTTP connection ended"),
            Err(error) => debug!(%address, %error, "HTTP connection ended"),
        }
    }

    async fn run(self) -> io::Result<()> {
        let Self { shared, router, socket, caller, begins_with_tls, _permit } = self;
        let config = shared.config();
        let (request_timeout, write_timeout) = (config.web.request_timeout, config.limits.write_timeout);
        let mut transport = Transport::plain(socket);
        let tls = match begins_with_tls {
            true => Some(accept_tls(&shared, &mut transport, request_timeout).await?),
            false => None,
        };
        let place = Arc::<HttpAccessPermit>::default();
        let io =
            Io { stream: TransportStream::new(transport, write_timeout), pace: BandwidthPacer::of(&place) };
        let answer = service_fn(|request| {
            let (shared, router) = (shared.clone(), router.clone());
            let memory = memory_of(&shared, caller.address);
            let arrival = RequestOrigin { caller, tls: tls.clone(), place: place.clone(), memory };
            async move { Ok::<_, Infallible>(answer(&shared, router, arrival, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(HyperClock)
            .header_read_timeout(request_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            // Otherwise each piece is copied, and the copy is in no budget.
            .writev(true)
            .serve_connection(io, answer);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shared.site.stopping() => {
                connection.as_mut().graceful_shutdown();
                match timeout(request_timeout, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
        };
        ended.map_err(io::Error::other)
    }
}

/// Answers a connection that is not admitted, and reads what the client has sent until it hangs up.
///
/// Closing a socket with unread input resets the connection, and the client may never see the answer
/// (RFC 9112, section 9.6).
pub(super) async fn refuse(mut socket: Socket) {
    let refusal = async {
        socket.write([NO_ROOM, &[], &[]], REFUSAL_TIME_MAX).await?;
        socket.shutdown().await?;
        tokio::io::copy(&mut socket.registered()?.take(REFUSED_INPUT_MAX), &mut tokio::io::sink()).await
    };
    match timeout(REFUSAL_TIME_MAX, refusal).await {
        Ok(Ok(input)) => trace!(input, "connection refused"),
        Ok(Err(error)) => trace!(%error, "client left before it was refused"),
        Err(_) => trace!("client has not hung up"),
    }
}

async fn accept_tls(shared: &WebState, transport: &mut Transport, limit: Duration) -> io::Result<TlsInfo> {
    let Some(offer) = shared.site.tls.load_full() else { return Err(io::Error::other("no certificate")) };
    if offer.is_due() {
        block_in_place(|| offer.refresh());
    }
    let current = offer.current();
    transport.accept_tls(current.http_config(), limit).await?;
    match transport.tls() {
        Some(connection) => Ok(current.facts(connection)),
        None => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// Returns the memory share of an address. A proxy asks for many clients.
fn memory_of(shared: &WebState, address: IpAddr) -> MemoryShare {
    let web = &shared.config().web;
    let is_proxy = web.proxies.iter().any(|proxy| proxy.contains(address));
    let address = Some(counted(address)).filter(|_| !is_proxy);
    MemoryShare::of(&shared.memory, address, web.memory_max, web.page_timeout)
}

/// Returns the answer to a request.
async fn answer(
    shared: &WebState,
    mut router: Router,
    arrival: RequestOrigin,
    request: hyper::Request<Incoming>,
) -> Response {
    let config = shared.config();
    let memory = arrival.memory.clone();
    let mut request: Request = request.map(Body::new);
    let coding = ContentCoding::for_client(request.headers());
    let answer = match hosts::check(&request, &config) {
        Ok(()) => {
            request.extensions_mut().insert(arrival);
            // A router is ready at once, and does not fail.
            match router.call(request).await {
                Ok(response) => response,
                Err(impossible) => match impossible {},
            }
        }
        Err(HostFault::Other) => {
            let text = "This server has no pages by that name; see names in [web] of its configuration.";
            answers::text(StatusCode::MISDIRECTED_REQUEST, text)
        }
        Err(HostFault::Malformed) => {
            answers::text(StatusCode::BAD_REQUEST, "A request after HTTP/1.0 must have one Host header.")
        }
    };
    answers::guarded(accounted(&memory, coding::encoded(coding, answer).await).await)
}

/// A stream with the interface of hyper.
pub(super) struct Io {
    stream: TransportStream,
    pace: BandwidthPacer,
}

impl Io {
    /// Returns the stream of a connection at which no section limits the rate.
    pub fn unlimited(transport: Transport, write_timeout: Duration) -> Self {
        Self { stream: TransportStream::new(transport, write_timeout), pace: BandwidthPacer::default() }
    }
}

impl hyper::rt::Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = ready!(Pin::new(&mut self.stream).poll_fill_buf(cx))?;
        let part = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(part);
        let read = part.len();
        Pin::new(&mut self.stream).consume(read);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let allowed = ready!(self.pace.poll(bytes.len(), cx));
        let part = bytes.get(..allowed).unwrap_or(bytes);
        let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, part))?;
        self.pace.sent(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Tokio's clock with the interface of hyper.
#[derive(Debug)]
struct HyperClock;

/// A future that waits until some time.
struct HyperSleep(Pin<Box<tokio::time::Sleep>>);

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for HyperSleep {}

impl Timer for HyperClock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HyperSleep(Box::pin(sleep_until(deadline.into()))))
    }
}
