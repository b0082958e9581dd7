//! The stream of a connection: plain TCP, or with TLS, compression or both on top, switched in mid-session.
//!
//! A plain connection costs nothing for the others: it is the socket, in an enum. Layers are in a box of their own and
//! hold buffers only while bytes are under way. What is sent goes through compression first and through TLS last (RFC
//! 8054 section 2.2.2). Owned by `Output`, which lends it to `Input`.

mod deflate;
mod layered;
mod socket;
mod tls_layer;

pub(crate) use deflate::{COMPRESSED_CONNECTIONS_MAX, Compressed, Deflating, Inflating};
pub(crate) use socket::Socket;

use layered::Layered;
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tls_layer::TlsLayer;
use tokio::time::timeout;

/// The stream of a connection.
pub(super) enum Transport {
    /// As the socket has it.
    Plain(Socket),
    /// Through one or two layers.
    Layered(Box<Layered>),
    /// Between two of these; nothing can be read or written.
    Switching,
}

impl Transport {
    /// Negotiates TLS as `config` says, within `limit`. Whatever fails ends the connection.
    pub async fn start_tls(&mut self, config: Arc<ServerConfig>, limit: Duration) -> io::Result<()> {
        let Self::Plain(mut socket) = std::mem::replace(self, Self::Switching) else {
            return Err(io::Error::other("TLS below another layer"));
        };
        let negotiation = TlsLayer::negotiate(&mut socket, config);
        let tls = timeout(limit, negotiation).await.map_err(|_| io::ErrorKind::TimedOut)??;
        *self = Self::Layered(Box::new(Layered::new(socket, Some(tls))));
        Ok(())
    }

    /// Compresses what is sent from now on, and takes what arrives as compressed.
    pub fn start_compression(&mut self, deflating: Deflating, inflating: Inflating) {
        *self = match std::mem::replace(self, Self::Switching) {
            Self::Plain(socket) => Self::Layered(Box::new(Layered::new(socket, None))),
            other => other,
        };
        if let Self::Layered(layered) = self {
            layered.compress(deflating, inflating);
        }
    }

    /// The TLS connection, if there is one.
    pub fn tls(&self) -> Option<&UnbufferedServerConnection> {
        match self {
            Self::Layered(layered) => layered.tls(),
            Self::Plain(_) | Self::Switching => None,
        }
    }

    /// Whether a compressor is kept that could be given back.
    pub fn is_warm(&self) -> bool {
        matches!(self, Self::Layered(layered) if layered.is_warm())
    }

    /// Gives back what compression keeps while nothing is said.
    pub fn cool(&mut self) {
        if let Self::Layered(layered) = self {
            layered.cool();
        }
    }

    /// Takes the socket from the runtime, so that [`Transport::has_some`] tells.
    pub fn take_over(&mut self) {
        if let Some(socket) = self.socket() {
            socket.take_over();
        }
    }

    /// Whether there is something to read, of a transport that was taken over.
    pub fn has_some(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.has_some(),
            Self::Layered(layered) => layered.has_some(),
            Self::Switching => true,
        }
    }

    fn socket(&mut self) -> Option<&mut Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Layered(layered) => Some(layered.socket()),
            Self::Switching => None,
        }
    }

    /// Whether something may be read; if not, the task is woken then.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_readable(cx),
            Self::Layered(layered) => layered.poll_readable(cx),
            Self::Switching => Poll::Ready(Ok(())),
        }
    }

    /// Reads into the room that `buffer` has; 0 is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_read(cx, buffer),
            Self::Layered(layered) => layered.poll_read(cx, buffer),
            Self::Switching => Poll::Ready(Ok(0)),
        }
    }

    /// Sends all of `parts`; an error if the client takes nothing for `write_timeout`.
    #[inline]
    pub async fn write(&mut self, parts: [&[u8]; 3], write_timeout: Duration) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write(parts, write_timeout).await,
            Self::Layered(layered) => layered.write(parts, write_timeout).await,
            Self::Switching => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends what the socket takes at once of `bytes`, without layers; returns how much that was.
    pub fn try_write(&mut self, bytes: &[u8]) -> usize {
        match self {
            // An error shows again when the rest is sent.
            Self::Plain(socket) => socket.try_write([bytes, &[], &[]]).unwrap_or(0),
            Self::Layered(_) | Self::Switching => 0,
        }
    }

    /// Says that nothing more is sent, where that is said in words.
    pub async fn close(&mut self, write_timeout: Duration) -> io::Result<()> {
        match self {
            Self::Layered(layered) => layered.close(write_timeout).await,
            Self::Plain(_) | Self::Switching => Ok(()),
        }
    }

    /// Ends our side of the connection.
    pub async fn shutdown(&mut self, write_timeout: Duration) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.shutdown().await,
            Self::Layered(layered) => layered.shutdown(write_timeout).await,
            Self::Switching => Ok(()),
        }
    }

    /// Reads and throws away what comes, without looking at it, to the end of the stream.
    pub async fn drain(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Some(socket) = self.socket() else { return Ok(()) };
        loop {
            buffer.clear();
            if poll_fn(|cx| socket.poll_read(cx, buffer)).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Gives buffers back that hold nothing.
    #[inline]
    pub fn release(&mut self) {
        if let Self::Layered(layered) = self {
            layered.release();
        }
    }
}
