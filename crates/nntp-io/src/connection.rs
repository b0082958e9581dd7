//! A client's end of a connection: the queue of output, the received input, and waiting for both at once.
//!
//! Invariant: waiting for input also sends what is queued, and waiting for output also receives what arrives,
//! as far as there is room. Two sides that both have much to send therefore never wait for each other, as
//! long as the client consumes available answers. Every wait has a time limit. Handles octets only;
//! [`Client`](crate::Client) above it knows NNTP.

use crate::error::{Error, ProtocolFault, WaitEvent};
use crate::limits::ClientLimits;
use crate::pool;
use crate::sending::SendQueue;
use crate::transport::{CompressionPermits, Socket, Transport};
use netnews::nntp::wire::{NextLine, next_line_within};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, CommonState};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// Size of the receive buffer during large transfers, in bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// Minimum room for a read, in bytes.
const READ_BYTES_MIN: usize = 4096;
/// Decompressed bytes of a server that are allowed before the expansion ratio counts.
const EXPANDED_BYTES_FREE: u64 = 16 << 20;

/// Result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Something arrived.
    Received,
    /// The other side accepted some output.
    Sent,
}

/// A client's end of a connection.
pub struct Connection {
    transport: Transport,
    sending: SendQueue,
    /// Received input; consumed up to `at`.
    incoming: Vec<u8>,
    at: usize,
    /// Size of the next receive buffer.
    wanted: usize,
    received_bytes: u64,
    /// True at the end of the input.
    ended: bool,
    /// Reason why nothing more can be sent. Input that the server sent before is still read.
    broken: Option<io::Error>,
    limits: ClientLimits,
}

impl Connection {
    /// Creates the client's end of `socket`.
    pub fn new(socket: Socket, limits: ClientLimits) -> Self {
        Self {
            transport: Transport::plain(socket),
            sending: SendQueue::default(),
            incoming: Vec::new(),
            at: 0,
            wanted: pool::BUFFER_BYTES,
            received_bytes: 0,
            ended: false,
            broken: None,
            limits,
        }
    }

    /// Returns the stream below. What has arrived and is not consumed is lost.
    pub fn into_transport(self) -> Transport {
        self.transport
    }

    /// Returns the limits and time-outs.
    pub fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// Returns the results of the TLS handshake, if the connection is encrypted.
    pub fn tls(&self) -> Option<&CommonState> {
        self.transport.tls()
    }

    /// Returns the stream below, for operations that this type does not have.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Returns the number of octets received, decrypted and decompressed.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Returns the number of octets that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.sending.bytes()
    }

    /// Adds `bytes` to the output. Nothing is sent before the connection is waited on.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.sending.push(bytes);
    }

    /// Like [`Connection::queue`], without copying large pieces.
    pub fn queue_owned(&mut self, bytes: Vec<u8>) {
        self.sending.push_owned(bytes);
    }

    /// Sends the whole queue. Also receives input, as far as the receive buffer has room: if the server waits
    /// for its answers to be read, this times out. Waiting for input sends too, without this time limit.
    ///
    /// # Errors
    /// [`Error::Broken`]; [`Error::TimedOut`] if the server accepts nothing for `idle_timeout`.
    pub async fn flush(&mut self) -> Result<(), Error> {
        while self.broken.is_some() || !self.sending.is_empty() {
            let sent = timeout(self.limits.idle_timeout, poll_fn(|cx| self.poll_flush(cx))).await;
            sent.map_err(|_| Error::TimedOut(WaitEvent::Sending))??;
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Err(Error::of_stream(error)));
        }
        match self.sending.poll(cx, &mut self.transport) {
            Poll::Ready(sent) => Poll::Ready(sent.map(|_| ()).map_err(Error::of_stream)),
            Poll::Pending => {
                // An end or an error of the input is reported when the input is read.
                while let Poll::Ready(Ok(())) = self.poll_receive(cx) {}
                Poll::Pending
            }
        }
    }

    /// Returns the input that has arrived and is not consumed.
    pub fn unread(&self) -> &[u8] {
        self.incoming.get(self.at..).unwrap_or_default()
    }

    /// Consumes `len` bytes of the input and returns them.
    pub fn take(&mut self, len: usize) -> &[u8] {
        let from = self.at;
        self.at = self.incoming.len().min(from.saturating_add(len));
        self.incoming.get(from..self.at).unwrap_or_default()
    }

    /// Waits until more has arrived, and sends meanwhile.
    ///
    /// # Errors
    /// [`Error::Ended`] at the end of the input, [`Error::Broken`], [`Error::Tls`],
    /// [`ProtocolFault::Stream`]; there is no time limit.
    pub async fn receive(&mut self) -> Result<(), Error> {
        while self.progress().await? == WaitOutcome::Sent {}
        Ok(())
    }

    /// Waits for one more line, of at most `line_bytes_max` bytes, and returns it without its line end;
    /// `None` if the connection has ended before.
    ///
    /// # Errors
    /// Errors of [`Connection::receive`]; [`Error::TimedOut`] if no whole line arrives within
    /// `answer_timeout`; [`ProtocolFault::LineTooLong`].
    pub async fn line(&mut self) -> Result<Option<&[u8]>, Error> {
        let (limit, line_bytes_max) = (self.limits.answer_timeout, self.limits.line_bytes_max);
        let reading = async {
            loop {
                match next_line_within(self.unread(), 0, line_bytes_max) {
                    NextLine::Line { line, next } => return Ok(Some((line.len(), next))),
                    NextLine::TooLong { .. } => {
                        return Err(Error::Protocol(ProtocolFault::LineTooLong(line_bytes_max)));
                    }
                    NextLine::More => match self.receive().await {
                        Ok(()) => {}
                        Err(Error::Ended) => return Ok(None),
                        Err(error) => return Err(error),
                    },
                }
            }
        };
        match timeout(limit, reading).await.map_err(|_| Error::TimedOut(WaitEvent::Answer))?? {
            Some((len, next)) => Ok(self.take(next).get(..len)),
            None => Ok(None),
        }
    }

    /// Negotiates TLS with the server, which must prove to be `name`, within `connect_timeout` (RFC 4642
    /// section 2.2.2).
    ///
    /// # Errors
    /// [`Error::Tls`], [`Error::Broken`], [`Error::TimedOut`]; [`ProtocolFault::EarlyInput`] if unencrypted
    /// input has arrived, which must not pass for the server's over TLS.
    pub async fn start_tls(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), Error> {
        self.flush().await?;
        if !self.unread().is_empty() {
            return Err(Error::Protocol(ProtocolFault::EarlyInput));
        }
        let negotiated = self.transport.connect_tls(config, name, self.limits.connect_timeout).await;
        negotiated.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Error::TimedOut(WaitEvent::Connecting),
            _ => Error::of_stream(error),
        })
    }

    /// Compresses the output and decompresses the input from now on (RFC 8054 section 2.2.2).
    ///
    /// # Errors
    /// Errors of [`Connection::flush`]; [`ProtocolFault::EarlyInput`] if something has arrived uncompressed.
    pub async fn start_compression(&mut self) -> Result<(), Error> {
        self.flush().await?;
        if !self.unread().is_empty() {
            return Err(Error::Protocol(ProtocolFault::EarlyInput));
        }
        let (deflating, inflating) = CompressionPermits::one(EXPANDED_BYTES_FREE);
        self.transport.start_compression(deflating, inflating);
        Ok(())
    }

    /// Sends the queue and ends our side of the connection; the server's answers can still be read.
    ///
    /// # Errors
    /// Errors of [`Connection::flush`].
    pub async fn shutdown(&mut self) -> Result<(), Error> {
        self.flush().await?;
        self.transport.shutdown(self.limits.idle_timeout).await.map_err(Error::of_stream)
    }

    /// Returns whether the connection is open and silent: everything is sent, and nothing has arrived. Does
    /// not wait.
    pub async fn is_quiet(&mut self) -> bool {
        if self.ended || self.broken.is_some() || !self.sending.is_empty() || !self.unread().is_empty() {
            return false;
        }
        // The runtime may not have polled yet, so the system is asked too.
        poll_fn(|cx| Poll::Ready(self.poll_receive(cx).is_pending())).await
            && self.transport.socket().is_some_and(|socket| !socket.has_input())
    }

    /// Waits until something arrives or something is sent, whichever is first.
    pub(crate) async fn progress(&mut self) -> Result<WaitOutcome, Error> {
        let progress = poll_fn(|cx| {
            let sent = self.send_now(cx);
            match self.poll_receive(cx) {
                Poll::Ready(received) => Poll::Ready(received.map(|()| WaitOutcome::Received)),
                Poll::Pending if sent => Poll::Ready(Ok(WaitOutcome::Sent)),
                Poll::Pending => Poll::Pending,
            }
        });
        progress.await
    }

    /// Sends until the socket accepts no more; returns whether it accepted something. If nothing can be sent
    /// any more, received input may still be read.
    fn send_now(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.broken.is_none() && !self.sending.is_empty() {
            match self.sending.poll(cx, &mut self.transport) {
                Poll::Ready(Ok(_)) => any = true,
                Poll::Ready(Err(error)) => {
                    self.broken = Some(error);
                    self.sending = SendQueue::default();
                }
                Poll::Pending => break,
            }
        }
        any
    }

    /// Polls for input; also pending while there is no room for it.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            if self.ended {
                return Poll::Ready(Err(Error::Ended));
            }
            if self.transport.poll_readable(cx).map_err(Error::of_stream)?.is_pending() {
                self.release();
                return Poll::Pending;
            }
            if !self.make_room() {
                return Poll::Pending;
            }
            let spare = self.incoming.capacity() - self.incoming.len();
            match self.transport.poll_read(cx, &mut self.incoming) {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(read)) => {
                    self.received_bytes += read as u64;
                    if read == spare {
                        self.wanted = (self.wanted * 4).min(RECEIVE_BYTES);
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Err(Error::of_stream(error)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Makes room for a read; returns false if unconsumed input is at its limit.
    fn make_room(&mut self) -> bool {
        if self.at > 0 {
            self.incoming.drain(..self.at);
            self.at = 0;
        }
        if self.incoming.capacity() == 0 && self.wanted <= pool::BUFFER_BYTES {
            self.incoming = pool::take();
        }
        let most = RECEIVE_BYTES.max(self.limits.block_line_bytes_max).max(self.limits.line_bytes_max);
        let size = self.wanted.max(self.incoming.len() + READ_BYTES_MIN).min(most + READ_BYTES_MIN);
        if self.incoming.capacity() < size {
            // The buffer of a long line must not grow by a little each time.
            let size = size.max((2 * self.incoming.len()).min(most + READ_BYTES_MIN));
            self.incoming.reserve_exact(size - self.incoming.len());
        }
        self.incoming.len() < self.incoming.capacity()
    }

    /// Returns empty buffers to the pool: a connection that waits holds none.
    fn release(&mut self) {
        if self.at >= self.incoming.len() && self.incoming.capacity() > 0 {
            pool::give(std::mem::take(&mut self.incoming));
            self.at = 0;
        }
        if self.sending.is_empty() {
            self.transport.release();
        }
    }
}
