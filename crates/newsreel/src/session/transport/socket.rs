//! The socket of a connection: watched by the runtime, or for a while by the session alone.
//!
//! What arrives on a watched socket wakes the thread that waits for all sockets, also where the session is awake already
//! and would have looked itself a moment later; on two cores that thread takes the client's. So a session that stays awake
//! for its client (`hover`) takes the socket to itself. It is watched again as soon as there is anything to wait for.

use rustix::buffer::spare_capacity;
use rustix::io::writev;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The socket of a connection.
pub(crate) struct Socket(State);

enum State {
    Watched(TcpStream),
    /// Looked at by the session alone.
    Own(std::net::TcpStream),
    /// Neither could be had.
    Lost,
}

impl Socket {
    /// Of a stream that the runtime watches.
    pub fn new(stream: TcpStream) -> Self {
        Self(State::Watched(stream))
    }

    /// Of a stream that nobody watches yet and that does not block.
    pub fn own(stream: std::net::TcpStream) -> Self {
        Self(State::Own(stream))
    }

    /// Our end's address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            State::Watched(stream) => stream.local_addr().ok(),
            State::Own(own) => own.local_addr().ok(),
            State::Lost => None,
        }
    }

    /// Takes the socket from the runtime.
    pub fn take_over(&mut self) {
        if let State::Watched(_) = &self.0
            && let State::Watched(stream) = std::mem::replace(&mut self.0, State::Lost)
            && let Ok(own) = stream.into_std()
        {
            self.0 = State::Own(own);
        }
    }

    /// The socket as the runtime watches it.
    pub fn watched(&mut self) -> io::Result<&mut TcpStream> {
        if let State::Own(_) = &self.0
            && let State::Own(own) = std::mem::replace(&mut self.0, State::Lost)
        {
            self.0 = State::Watched(TcpStream::from_std(own)?);
        }
        match &mut self.0 {
            State::Watched(stream) => Ok(stream),
            State::Own(_) | State::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether a socket that was taken over has something to read: bytes, the end, or an error.
    pub fn has_some(&self) -> bool {
        match &self.0 {
            State::Own(own) => !matches!(own.peek(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock),
            State::Watched(_) | State::Lost => true,
        }
    }

    /// Whether something may be read; if not, the task is woken then.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            State::Watched(stream) => stream.poll_read_ready(cx),
            // A read tells.
            State::Own(_) | State::Lost => Poll::Ready(Ok(())),
        }
    }

    /// Reads into the room that `buffer` has; 0 is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if let State::Own(own) = &self.0 {
            match recv(own, spare_capacity(buffer), RecvFlags::empty()) {
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                read => return Poll::Ready(read.map(|(_, n)| n).map_err(io::Error::from)),
            }
        }
        pin!(self.watched()?.read_buf(buffer)).poll(cx)
    }

    /// Sends all of `parts`; an error if the client takes nothing for `write_timeout`.
    pub async fn write(&mut self, parts: [&[u8]; 3], write_timeout: Duration) -> io::Result<()> {
        let mut sent = 0;
        let all: usize = parts.iter().map(|part| part.len()).sum();
        while sent < all {
            let mut skip = sent;
            let rest = parts.map(|part| {
                let skipped = skip.min(part.len());
                skip -= skipped;
                part.get(skipped..).unwrap_or_default()
            });
            match self.try_write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let writable = self.watched()?.ready(Interest::WRITABLE);
                    timeout(write_timeout, writable).await.map_err(|_| io::ErrorKind::TimedOut)??;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends what goes at once; returns how much that was.
    pub fn try_write(&mut self, parts: [&[u8]; 3]) -> io::Result<usize> {
        match &self.0 {
            State::Own(own) => send_now(own, parts),
            // The runtime does not know of a new socket that it can be written to.
            State::Watched(stream) => match send_now(stream, parts) {
                // Asked by the runtime, it will tell when there is room.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    stream.try_write_vectored(&parts.map(IoSlice::new))
                }
                sent => sent,
            },
            State::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Ends our side of the connection.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.watched()?.shutdown().await
    }
}

fn send_now(socket: impl AsFd, parts: [&[u8]; 3]) -> io::Result<usize> {
    Ok(match parts {
        [text, [], []] => send(socket, text, SendFlags::NOSIGNAL)?,
        parts => writev(socket, &parts.map(IoSlice::new))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::net::TcpListener;

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Socket::new(listener.accept().await.unwrap().0), client)
    }

    async fn read(socket: &mut Socket) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(64);
        poll_fn(|cx| socket.poll_read(cx, &mut buffer)).await.unwrap();
        buffer
    }

    #[tokio::test]
    async fn bytes_go_both_ways_whoever_watches() {
        let (mut socket, mut client) = pair().await;
        for _ in 0..3 {
            socket.take_over();
            assert!(!socket.has_some());
            client.write_all(b"GROUP a\r\n").await.unwrap();
            while !socket.has_some() {
                tokio::task::yield_now().await;
            }
            assert_eq!(read(&mut socket).await, b"GROUP a\r\n");
            socket.write([b"211 ", b"1 1 1", b" a\r\n"], Duration::from_secs(9)).await.unwrap();
            let mut answer = [0; 13];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"211 1 1 1 a\r\n");
            // Nothing is there: the runtime watches again and wakes the reader.
            assert!(matches!(socket.0, State::Own(_)));
            let (heard, sent) = tokio::join!(read(&mut socket), async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                client.write_all(b"DATE\r\n").await
            });
            sent.unwrap();
            assert_eq!(heard, b"DATE\r\n");
            assert!(matches!(socket.0, State::Watched(_)));
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_gets_all_and_its_end_is_seen() {
        let (mut socket, mut client) = pair().await;
        socket.take_over();
        let text = vec![b'x'; 8 << 20];
        let mut got = Vec::new();
        let (sent, taken) = tokio::join!(
            async {
                let sent = socket.write([&text, b"", b"."], Duration::from_secs(9)).await;
                (sent, socket.shutdown().await)
            },
            client.read_to_end(&mut got)
        );
        sent.0.and(sent.1).unwrap();
        assert_eq!((taken.unwrap(), got.len()), (text.len() + 1, text.len() + 1));
        drop(client);
        socket.take_over();
        assert!(socket.has_some());
        assert!(read(&mut socket).await.is_empty());
    }
}
