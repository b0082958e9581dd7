//! A transport as tokio's `AsyncBufRead` and `AsyncWrite`, for protocols whose library needs a stream.
//!
//! Writes are queued up to [`QUEUED_BYTES_MAX`] and sent as the socket accepts them. If the other side reads
//! nothing for the write timeout, the stream ends with [`io::ErrorKind::TimedOut`]. Called by the HTTP side
//! of `newsreel`.

use crate::sending::SendQueue;
use crate::transport::Transport;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Number of bytes waiting to be sent from which no more are accepted.
const QUEUED_BYTES_MAX: usize = 64 << 10;
/// Capacity of a read, in bytes.
const READ_BYTES: usize = 16 << 10;

/// A connection as a stream of bytes.
pub struct TransportStream {
    transport: Transport,
    sending: SendQueue,
    /// Input that was read, from `taken` on.
    read: Vec<u8>,
    taken: usize,
    write_timeout: Duration,
    /// Deadline for progress of the other side; valid while it makes none.
    stall: Pin<Box<Sleep>>,
    is_stalled: bool,
    is_shut_down: bool,
}

impl TransportStream {
    /// Wraps the rest of a connection, on which a write may stall for `write_timeout`.
    pub fn new(transport: Transport, write_timeout: Duration) -> Self {
        Self {
            transport,
            sending: SendQueue::default(),
            read: Vec::new(),
            taken: 0,
            write_timeout,
            stall: Box::pin(sleep(write_timeout)),
            is_stalled: false,
            is_shut_down: false,
        }
    }

    /// Sends until at most `left` bytes are queued.
    fn poll_send(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<io::Result<()>> {
        loop {
            if self.sending.is_empty() || (left > 0 && self.sending.bytes() <= left) {
                self.is_stalled = false;
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(sent) = self.sending.poll(cx, &mut self.transport) {
                sent?;
                self.is_stalled = false;
                continue;
            }
            if !self.is_stalled {
                self.is_stalled = true;
                self.stall.as_mut().reset(Instant::now() + self.write_timeout);
            }
            ready!(self.stall.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
    }
}

impl AsyncBufRead for TransportStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.taken >= this.read.len() {
            this.read.clear();
            this.taken = 0;
            this.read.reserve(READ_BYTES);
            ready!(this.transport.poll_read(cx, &mut this.read))?;
        }
        Poll::Ready(Ok(this.read.get(this.taken..).unwrap_or_default()))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().taken += bytes;
    }
}

impl AsyncRead for TransportStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = ready!(self.as_mut().poll_fill_buf(cx))?;
        let part = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(part);
        let read = part.len();
        self.consume(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TransportStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx, QUEUED_BYTES_MAX))?;
        let part = bytes.get(..QUEUED_BYTES_MAX).unwrap_or(bytes);
        this.sending.push(part);
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(cx, 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx, 0))?;
        if !this.is_shut_down {
            this.is_shut_down = true;
            // Shutting down sends at most an alert, which a socket accepts at once or never.
            let limit = this.write_timeout;
            let mut ending = std::pin::pin!(this.transport.shutdown(limit));
            return match ending.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(ended),
                Poll::Pending => Poll::Ready(Ok(())),
            };
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Socket;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn pair(write_timeout: Duration) -> (TransportStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (own, _) = listener.accept().await.unwrap();
        (TransportStream::new(Transport::plain(Socket::new(own)), write_timeout), other)
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_in_their_order() {
        let (mut own, mut other) = pair(Duration::from_secs(10)).await;
        let text: Vec<u8> = (0..1_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut got = vec![0; text.len()];
        let sending = async {
            own.write_all(&text).await.unwrap();
            own.flush().await.unwrap();
        };
        let (_, read) = tokio::join!(sending, other.read_exact(&mut got));
        assert_eq!((read.unwrap(), got == text), (text.len(), true));
        other.write_all(b"answer").await.unwrap();
        other.shutdown().await.unwrap();
        let mut answer = Vec::new();
        own.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        own.shutdown().await.unwrap();
        assert_eq!(other.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn stream_ends_if_the_other_side_reads_nothing() {
        let (mut own, _other) = pair(Duration::from_millis(50)).await;
        let text = vec![b'x'; 1 << 20];
        let failed = loop {
            if let Err(error) = own.write_all(&text).await {
                break error;
            }
        };
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    }
}
