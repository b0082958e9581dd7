//! The client's end of a connection: what is to be sent, what has arrived, and waiting for both at once.
//!
//! Invariant: whoever waits for input also sends what is queued, and whoever waits for output also takes
//! what arrives, as far as there is room. So two sides that both have much to say do not wait for each
//! other, as long as the client consumes answers when there are some. Every wait has a time limit. Octets
//! only; [`Client`](crate::Client) on top knows NNTP.

use crate::error::{Error, Fault, Wait};
use crate::limits::Limits;
use crate::pool;
use crate::sending::Sending;
use crate::transport::{Compressed, Socket, Transport};
use netnews::nntp::wire::{NextLine, next_line_within};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, CommonState};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// Size of the receive buffer while much arrives, in bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// Room that a read finds at least, in bytes.
const READ_BYTES_MIN: usize = 4096;
/// What a server may expand of a compressed stream before the ratio counts, in bytes.
const EXPANDED_BYTES_FREE: u64 = 16 << 20;

/// What a wait came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something arrived.
    Received,
    /// The other side took something of what is sent.
    Sent,
}

/// A client's end of a connection.
pub struct Connection {
    transport: Transport,
    sending: Sending,
    /// What has arrived; consumed up to `at`.
    incoming: Vec<u8>,
    at: usize,
    /// Size of the next receive buffer.
    wanted: usize,
    received_bytes: u64,
    /// Nothing more arrives.
    ended: bool,
    /// Why nothing more can be sent. What the server said before that is read all the same.
    broken: Option<io::Error>,
    limits: Limits,
}

impl Connection {
    /// The client's end of `socket`.
    pub fn new(socket: Socket, limits: Limits) -> Self {
        Self {
            transport: Transport::plain(socket),
            sending: Sending::default(),
            incoming: Vec::new(),
            at: 0,
            wanted: pool::BUFFER_BYTES,
            received_bytes: 0,
            ended: false,
            broken: None,
            limits,
        }
    }

    /// Its limits and time-outs.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the TLS handshake found out, if the connection is encrypted.
    pub fn tls(&self) -> Option<&CommonState> {
        self.transport.tls()
    }

    /// The stream below, for what this type does not do.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Octets that have arrived, decrypted and decompressed.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Octets that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.sending.bytes()
    }

    /// Adds to what is to be sent. Nothing is sent before the connection is waited on.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.sending.push(bytes);
    }

    /// As [`Connection::queue`], without copying what is large.
    pub fn queue_owned(&mut self, bytes: Vec<u8>) {
        self.sending.push_owned(bytes);
    }

    /// Sends what is queued, to the last octet. Also takes what arrives, as far as the receive buffer has
    /// room: if the server waits for its answers to be read, this times out. Waiting for input sends too,
    /// and has no such limit.
    ///
    /// # Errors
    /// [`Error::Broken`]; [`Error::TimedOut`] if the server takes nothing for `idle_timeout`.
    pub async fn flush(&mut self) -> Result<(), Error> {
        while self.broken.is_some() || !self.sending.is_empty() {
            let sent = timeout(self.limits.idle_timeout, poll_fn(|cx| self.poll_flush(cx))).await;
            sent.map_err(|_| Error::TimedOut(Wait::Sending))??;
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
                // An end or an error of the input is seen when the input is read.
                while let Poll::Ready(Ok(())) = self.poll_receive(cx) {}
                Poll::Pending
            }
        }
    }

    /// What has arrived and is not consumed.
    pub fn unread(&self) -> &[u8] {
        self.incoming.get(self.at..).unwrap_or_default()
    }

    /// Consumes `len` bytes of what has arrived and returns them.
    pub fn take(&mut self, len: usize) -> &[u8] {
        let from = self.at;
        self.at = self.incoming.len().min(from.saturating_add(len));
        self.incoming.get(from..self.at).unwrap_or_default()
    }

    /// Waits until more has arrived, and sends meanwhile.
    ///
    /// # Errors
    /// [`Error::Ended`] at the end of the input, [`Error::Broken`], [`Error::Tls`], [`Fault::Stream`]; there
    /// is no time limit.
    pub async fn receive(&mut self) -> Result<(), Error> {
        while self.progress().await? == Progress::Sent {}
        Ok(())
    }

    /// Waits for one more line, of at most `line_bytes_max` bytes, and returns it without its line end;
    /// `None` if the connection has ended before.
    ///
    /// # Errors
    /// As those of [`Connection::receive`]; [`Error::TimedOut`] if no whole line arrives within
    /// `answer_timeout`; [`Fault::LineTooLong`].
    pub async fn line(&mut self) -> Result<Option<&[u8]>, Error> {
        let (limit, line_bytes_max) = (self.limits.answer_timeout, self.limits.line_bytes_max);
        let reading = async {
            loop {
                match next_line_within(self.unread(), 0, line_bytes_max) {
                    NextLine::Line { line, next } => return Ok(Some((line.len(), next))),
                    NextLine::TooLong { .. } => {
                        return Err(Error::Protocol(Fault::LineTooLong(line_bytes_max)));
                    }
                    NextLine::More => match self.receive().await {
                        Ok(()) => {}
                        Err(Error::Ended) => return Ok(None),
                        Err(error) => return Err(error),
                    },
                }
            }
        };
        match timeout(limit, reading).await.map_err(|_| Error::TimedOut(Wait::Answer))?? {
            Some((len, next)) => Ok(self.take(next).get(..len)),
            None => Ok(None),
        }
    }

    /// Negotiates TLS with the server, which must prove to be `name`, within `connect_timeout` (RFC 4642
    /// section 2.2.2).
    ///
    /// # Errors
    /// [`Error::Tls`], [`Error::Broken`], [`Error::TimedOut`]; [`Fault::EarlyInput`] if something has
    /// arrived that was not encrypted, which must not pass for what the server says over TLS.
    pub async fn start_tls(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), Error> {
        self.flush().await?;
        if !self.unread().is_empty() {
            return Err(Error::Protocol(Fault::EarlyInput));
        }
        let negotiated = self.transport.connect_tls(config, name, self.limits.connect_timeout).await;
        negotiated.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Error::TimedOut(Wait::Connecting),
            _ => Error::of_stream(error),
        })
    }

    /// Compresses what is sent and decompresses what arrives from now on (RFC 8054 section 2.2.2).
    ///
    /// # Errors
    /// As those of [`Connection::flush`]; [`Fault::EarlyInput`] if something has arrived uncompressed.
    pub async fn start_compression(&mut self) -> Result<(), Error> {
        self.flush().await?;
        if !self.unread().is_empty() {
            return Err(Error::Protocol(Fault::EarlyInput));
        }
        let (deflating, inflating) = Compressed::one(EXPANDED_BYTES_FREE);
        self.transport.start_compression(deflating, inflating);
        Ok(())
    }

    /// Sends what is queued and ends our side of the connection; the server's answers can still be read.
    ///
    /// # Errors
    /// As those of [`Connection::flush`].
    pub async fn shutdown(&mut self) -> Result<(), Error> {
        self.flush().await?;
        self.transport.shutdown(self.limits.idle_timeout).await.map_err(Error::of_stream)
    }

    /// Whether the connection is open and silent: everything is sent, and nothing has arrived. Does not wait.
    pub async fn is_quiet(&mut self) -> bool {
        if self.ended || self.broken.is_some() || !self.sending.is_empty() || !self.unread().is_empty() {
            return false;
        }
        // The runtime may not have looked yet: the system is asked too.
        poll_fn(|cx| Poll::Ready(self.poll_receive(cx).is_pending())).await
            && self.transport.socket().is_some_and(|socket| !socket.has_input())
    }

    /// Waits until something arrives or something is sent, whichever is first.
    pub(crate) async fn progress(&mut self) -> Result<Progress, Error> {
        let progress = poll_fn(|cx| {
            let sent = self.send_now(cx);
            match self.poll_receive(cx) {
                Poll::Ready(received) => Poll::Ready(received.map(|()| Progress::Received)),
                Poll::Pending if sent => Poll::Ready(Ok(Progress::Sent)),
                Poll::Pending => Poll::Pending,
            }
        });
        progress.await
    }

    /// Sends until the socket takes no more; returns whether it took something. If nothing can be sent any
    /// more, what the server has said may still be read.
    fn send_now(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.broken.is_none() && !self.sending.is_empty() {
            match self.sending.poll(cx, &mut self.transport) {
                Poll::Ready(Ok(_)) => any = true,
                Poll::Ready(Err(error)) => {
                    self.broken = Some(error);
                    self.sending = Sending::default();
                }
                Poll::Pending => break,
            }
        }
        any
    }

    /// Ready when something has arrived; pending too while there is no room for it.
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

    /// Makes room for a read; false if as much as may be kept has arrived and is not consumed.
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
            // A line that outgrows the buffer must not make it grow by a little each time.
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
