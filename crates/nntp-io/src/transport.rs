//! The stream of a connection: plain TCP, or with TLS, compression or both on top, switched in mid-session.
//!
//! Servers and clients use the same type. A plain connection pays nothing for the other kinds: it is the
//! socket, in an enum. Layers are in a box of their own and hold buffers only while bytes are in transit.
//! Output is compressed first and encrypted last (RFC 8054 section 2.2.2). A server's transport is owned by
//! [`ServerOutput`](crate::ServerOutput), a client's by [`Connection`](crate::Connection).

mod deflate;
mod layered;
mod letters;
mod load;
mod pieces;
mod socket;
mod tls_layer;

pub(crate) use pieces::PIECE_BYTES_MIN;

pub use deflate::{COMPRESSED_CONNECTIONS_MAX, CompressionPermits, Deflater, Inflater};
pub use load::MachineLoad;
pub use socket::Socket;

use layered::LayeredStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, CommonState, ServerConfig};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tls_layer::{TlsLayer, TlsSide};
use tokio::time::timeout;

/// The stream of a connection.
pub struct Transport(TransportState);

enum TransportState {
    /// The socket alone.
    Plain(Socket),
    /// The socket below one or two layers.
    Layered(Box<LayeredStream>),
    /// Temporary state between the others: nothing can be read or written.
    Switching,
}

impl Transport {
    /// Creates a connection without layers.
    pub fn plain(socket: Socket) -> Self {
        Self(TransportState::Plain(socket))
    }

    /// Negotiates TLS as the server of the connection, within `limit`.
    ///
    /// # Errors
    /// Any failure ends the connection; one of TLS itself has a [`rustls::Error`] as its source.
    pub async fn accept_tls(&mut self, config: Arc<ServerConfig>, limit: Duration) -> io::Result<()> {
        self.negotiate(TlsSide::server(config)?, limit).await
    }

    /// Negotiates TLS as the client of the connection, within `limit`, with a server that must prove to be
    /// `name` (RFC 8446; RFC 6125 and RFC 9525 for names).
    ///
    /// # Errors
    /// Errors of [`Transport::accept_tls`].
    pub async fn connect_tls(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        limit: Duration,
    ) -> io::Result<()> {
        self.negotiate(TlsSide::client(config, name)?, limit).await
    }

    async fn negotiate(&mut self, side: TlsSide, limit: Duration) -> io::Result<()> {
        let TransportState::Plain(mut socket) = std::mem::replace(&mut self.0, TransportState::Switching)
        else {
            return Err(io::Error::other("TLS below another layer"));
        };
        let negotiation = TlsLayer::negotiate(&mut socket, side);
        let tls = timeout(limit, negotiation).await.map_err(|_| io::ErrorKind::TimedOut)??;
        self.0 = TransportState::Layered(Box::new(LayeredStream::new(socket, Some(tls))));
        Ok(())
    }

    /// Compresses the output and decompresses the input from now on (RFC 8054 section 2.2.2).
    pub fn start_compression(&mut self, deflating: Deflater, inflating: Inflater) {
        self.0 = match std::mem::replace(&mut self.0, TransportState::Switching) {
            TransportState::Plain(socket) => {
                TransportState::Layered(Box::new(LayeredStream::new(socket, None)))
            }
            other => other,
        };
        if let TransportState::Layered(layered) = &mut self.0 {
            layered.compress(deflating, inflating);
        }
    }

    /// Returns the results of the handshake, if the connection is encrypted.
    pub fn tls(&self) -> Option<&CommonState> {
        match &self.0 {
            TransportState::Layered(layered) => layered.tls(),
            TransportState::Plain(_) | TransportState::Switching => None,
        }
    }

    /// Returns whether there is a compressor that [`Transport::drop_compressor`] would free.
    pub fn has_compressor(&self) -> bool {
        matches!(&self.0, TransportState::Layered(layered) if layered.has_compressor())
    }

    /// Frees the compressor; later output refers to nothing sent before.
    pub fn drop_compressor(&mut self) {
        if let TransportState::Layered(layered) = &mut self.0 {
            layered.drop_compressor();
        }
    }

    /// Takes the socket out of the runtime, so that [`Transport::has_input`] can be polled.
    pub fn deregister(&mut self) {
        if let Some(socket) = self.socket() {
            socket.deregister();
        }
    }

    /// Returns whether there is something to read, on a transport that was deregistered.
    pub fn has_input(&self) -> bool {
        match &self.0 {
            TransportState::Plain(socket) => socket.has_input(),
            TransportState::Layered(layered) => layered.has_input(),
            TransportState::Switching => true,
        }
    }

    /// Returns the socket below all layers.
    pub fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.0 {
            TransportState::Plain(socket) => Some(socket),
            TransportState::Layered(layered) => Some(layered.socket()),
            TransportState::Switching => None,
        }
    }

    /// Returns whether the connection has ended in both directions or was reset.
    pub fn is_broken(&self) -> bool {
        match &self.0 {
            TransportState::Plain(socket) => socket.is_broken(),
            TransportState::Layered(layered) => layered.is_broken(),
            TransportState::Switching => true,
        }
    }

    /// Polls for input, of which the end of the stream is a part.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            TransportState::Plain(socket) => socket.poll_readable(cx),
            TransportState::Layered(layered) => layered.poll_readable(cx),
            TransportState::Switching => Poll::Ready(Ok(())),
        }
    }

    /// Reads into the spare capacity of `buffer`; 0 is the end of the stream.
    ///
    /// # Errors
    /// Errors of the socket, and [`io::ErrorKind::InvalidData`] for a damaged TLS or DEFLATE stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            TransportState::Plain(socket) => socket.poll_read(cx, buffer),
            TransportState::Layered(layered) => layered.poll_read(cx, buffer),
            TransportState::Switching => Poll::Ready(Ok(0)),
        }
    }

    /// Returns whether output is compressed.
    pub fn is_compressed(&self) -> bool {
        matches!(&self.0, TransportState::Layered(layered) if layered.is_compressed())
    }

    /// Sends all of `parts`. `pieces` are ranges of the first part, ascending, that may be sent to other
    /// clients too.
    ///
    /// # Errors
    /// Errors of the socket, and [`io::ErrorKind::TimedOut`] if the other side reads nothing for
    /// `write_timeout`.
    #[inline]
    pub async fn write(
        &mut self,
        parts: [&[u8]; 3],
        pieces: &[Range<usize>],
        write_timeout: Duration,
    ) -> io::Result<()> {
        match &mut self.0 {
            TransportState::Plain(socket) => socket.write(parts, write_timeout).await,
            TransportState::Layered(layered) => layered.write(parts, pieces, write_timeout).await,
            TransportState::Switching => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns whether output needs no [`Transport::seal`].
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.0, TransportState::Plain(_))
    }

    /// Appends `plain` to `wire` in the form that the socket is to send; with `flush` also what compression
    /// has held back.
    pub(crate) fn seal(&mut self, plain: &[u8], flush: bool, wire: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.0 {
            TransportState::Layered(layered) => layered.seal(plain, flush, wire),
            TransportState::Plain(_) => {
                wire.extend_from_slice(plain);
                Ok(())
            }
            TransportState::Switching => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends `bytes` below all layers, as far as the socket accepts them.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.socket() {
            Some(socket) => socket.poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Sends as much of `bytes` as the socket accepts at once, on a plain connection only; returns the number
    /// of bytes sent.
    pub fn try_write(&mut self, bytes: &[u8]) -> usize {
        match &mut self.0 {
            // An error occurs again when the rest is sent.
            TransportState::Plain(socket) => socket.try_write([bytes, &[], &[]]).unwrap_or(0),
            TransportState::Layered(_) | TransportState::Switching => 0,
        }
    }

    /// Sends TLS's close_notify, if the connection is encrypted (RFC 8446 section 6.1).
    pub async fn close(&mut self, write_timeout: Duration) -> io::Result<()> {
        match &mut self.0 {
            TransportState::Layered(layered) => layered.close(write_timeout).await,
            TransportState::Plain(_) | TransportState::Switching => Ok(()),
        }
    }

    /// Ends our side of the connection.
    pub async fn shutdown(&mut self, write_timeout: Duration) -> io::Result<()> {
        match &mut self.0 {
            TransportState::Plain(socket) => socket.shutdown().await,
            TransportState::Layered(layered) => layered.shutdown(write_timeout).await,
            TransportState::Switching => Ok(()),
        }
    }

    /// Reads and discards input below all layers, to the end of the stream.
    pub async fn drain(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Some(socket) = self.socket() else { return Ok(()) };
        loop {
            buffer.clear();
            if poll_fn(|cx| socket.poll_read(cx, buffer)).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Returns empty buffers to the pool.
    #[inline]
    pub fn release(&mut self) {
        if let TransportState::Layered(layered) = &mut self.0 {
            layered.release();
        }
    }
}
