//! The socket of a connection: registered with the runtime, or temporarily polled by its user alone.
//!
//! Input on a registered socket wakes the thread that waits for all sockets, even if the user of the socket
//! is awake already and would have polled a moment later; on two cores that thread takes the core of the
//! other side. A session that polls for its client therefore deregisters the socket. It is registered again
//! as soon as there is anything to wait for.

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::writev;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The socket of a connection.
pub struct Socket(SocketState);

enum SocketState {
    Registered(TcpStream),
    /// Deregistered socket, polled by its user alone.
    Own(std::net::TcpStream),
    /// State after an error: neither could be had.
    Lost,
}

impl Socket {
    /// Wraps a stream that is registered with the runtime.
    pub fn new(stream: TcpStream) -> Self {
        Self(SocketState::Registered(stream))
    }

    /// Wraps a nonblocking stream that is not registered yet.
    pub fn own(stream: std::net::TcpStream) -> Self {
        Self(SocketState::Own(stream))
    }

    /// Returns the local address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            SocketState::Registered(stream) => stream.local_addr().ok(),
            SocketState::Own(own) => own.local_addr().ok(),
            SocketState::Lost => None,
        }
    }

    /// Takes the socket out of the runtime.
    pub fn deregister(&mut self) {
        if let SocketState::Registered(_) = &self.0
            && let SocketState::Registered(stream) = std::mem::replace(&mut self.0, SocketState::Lost)
            && let Ok(own) = stream.into_std()
        {
            self.0 = SocketState::Own(own);
        }
    }

    /// Bounds the unread input that the system buffers, in octets; otherwise it may grow to many megabytes
    /// for each connection (tcp_rmem).
    ///
    /// # Errors
    /// Errors of the system.
    pub fn limit_unread(&mut self, bytes: usize) -> io::Result<()> {
        Ok(set_socket_recv_buffer_size(self.registered()?, bytes)?)
    }

    /// Returns the socket, registered with the runtime.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if an earlier registration failed.
    pub fn registered(&mut self) -> io::Result<&mut TcpStream> {
        if let SocketState::Own(_) = &self.0
            && let SocketState::Own(own) = std::mem::replace(&mut self.0, SocketState::Lost)
        {
            self.0 = SocketState::Registered(TcpStream::from_std(own)?);
        }
        match &mut self.0 {
            SocketState::Registered(stream) => Ok(stream),
            SocketState::Own(_) | SocketState::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns whether the socket has something to read: bytes, the end, or an error. Asks the system.
    pub fn has_input(&self) -> bool {
        match &self.0 {
            SocketState::Own(own) => peeks(own),
            SocketState::Registered(stream) => peeks(stream),
            SocketState::Lost => true,
        }
    }

    /// Returns whether the connection has ended in both directions or was reset, whatever input is left. A
    /// client that has only ended its own side still reads answers. Asks the system.
    pub fn is_broken(&self) -> bool {
        match &self.0 {
            SocketState::Own(own) => hung_up(own),
            SocketState::Registered(stream) => hung_up(stream),
            SocketState::Lost => true,
        }
    }

    /// Polls for input, of which the end of the stream is a part.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            SocketState::Registered(stream) => stream.poll_read_ready(cx),
            // The read will show.
            SocketState::Own(_) | SocketState::Lost => Poll::Ready(Ok(())),
        }
    }

    /// Reads into the spare capacity of `buffer`; 0 is the end of the stream.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if let SocketState::Own(own) = &self.0 {
            match recv(own, spare_capacity(buffer), RecvFlags::empty()) {
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                read => return Poll::Ready(read.map(|(_, n)| n).map_err(io::Error::from)),
            }
        }
        pin!(self.registered()?.read_buf(buffer)).poll(cx)
    }

    /// Sends all of `parts`.
    ///
    /// # Errors
    /// Errors of the socket, and [`io::ErrorKind::TimedOut`] if the other side reads nothing for
    /// `write_timeout`.
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
                    let writable = self.registered()?.ready(Interest::WRITABLE);
                    timeout(write_timeout, writable).await.map_err(|_| io::ErrorKind::TimedOut)??;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends as much as the system accepts at once; returns the number of bytes sent.
    ///
    /// # Errors
    /// Errors of the socket, [`io::ErrorKind::WouldBlock`] among them.
    pub fn try_write(&mut self, parts: [&[u8]; 3]) -> io::Result<usize> {
        match &self.0 {
            SocketState::Own(own) => send_now(own, parts),
            // The runtime does not know yet that a new socket is writable.
            SocketState::Registered(stream) => match send_now(stream, parts) {
                // Attempted by the runtime, which then reports when there is room.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    stream.try_write_vectored(&parts.map(IoSlice::new))
                }
                sent => sent,
            },
            SocketState::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends as much of `bytes` as the system accepts; waits until that is at least one byte.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pin!(self.registered()?).poll_write(cx, bytes)
    }

    /// Ends our side of the connection.
    ///
    /// # Errors
    /// Errors of the socket.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.registered()?.shutdown().await
    }
}

fn peeks(socket: impl AsFd) -> bool {
    let peeked = recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(peeked, Err(rustix::io::Errno::WOULDBLOCK))
}

fn hung_up(socket: impl AsFd) -> bool {
    // These two are reported without being asked for.
    let mut polled = [PollFd::new(&socket, PollFlags::empty())];
    let ready = poll(&mut polled, Some(&Timespec::default()));
    ready.is_ok() && polled.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
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

    #[tokio::test]
    async fn unread_input_is_bounded() {
        let sent = async |limit: Option<usize>| {
            let (mut socket, client) = pair().await;
            limit.into_iter().for_each(|bytes| socket.limit_unread(bytes).unwrap());
            rustix::net::sockopt::set_socket_send_buffer_size(&client, 16 << 10).unwrap();
            let mut sent = 0;
            while let Ok(Ok(())) = timeout(Duration::from_millis(200), client.writable()).await {
                sent += client.try_write(&[0; 4096]).unwrap_or(0);
            }
            sent
        };
        let (bounded, other) = (sent(Some(4 << 10)).await, sent(None).await);
        assert!(bounded < other / 2, "{bounded} {other}");
    }

    async fn read(socket: &mut Socket) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(64);
        poll_fn(|cx| socket.poll_read(cx, &mut buffer)).await.unwrap();
        buffer
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_registered_or_not() {
        let (mut socket, mut client) = pair().await;
        for _ in 0..3 {
            socket.deregister();
            assert!(!socket.has_input());
            client.write_all(b"GROUP a\r\n").await.unwrap();
            while !socket.has_input() {
                tokio::task::yield_now().await;
            }
            assert_eq!(read(&mut socket).await, b"GROUP a\r\n");
            socket.write([b"211 ", b"1 1 1", b" a\r\n"], Duration::from_secs(60)).await.unwrap();
            let mut answer = [0; 13];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"211 1 1 1 a\r\n");
            // Nothing has arrived: the socket is registered again and the runtime wakes the reader.
            assert!(matches!(socket.0, SocketState::Own(_)));
            let (heard, sent) = tokio::join!(read(&mut socket), async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                client.write_all(b"DATE\r\n").await
            });
            sent.unwrap();
            assert_eq!(heard, b"DATE\r\n");
            assert!(matches!(socket.0, SocketState::Registered(_)));
        }
    }

    #[tokio::test]
    async fn broken_connection_is_seen_behind_unread_input_and_a_half_closed_one_is_not_broken() {
        for registered in [true, false] {
            let (mut socket, mut client) = pair().await;
            if !registered {
                socket.deregister();
            }
            client.write_all(b"DATE\r\n").await.unwrap();
            while !socket.has_input() {
                tokio::task::yield_now().await;
            }
            assert!(!socket.is_broken());
            client.shutdown().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!socket.is_broken());
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            let is_broken = async {
                while !socket.is_broken() {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), is_broken).await.unwrap();
            assert!(socket.has_input());
        }
    }

    #[tokio::test]
    async fn slow_client_receives_everything_and_its_end_is_noticed() {
        let (mut socket, mut client) = pair().await;
        socket.deregister();
        let text = vec![b'x'; 8 << 20];
        let mut got = Vec::new();
        let (sent, taken) = tokio::join!(
            async {
                let sent = socket.write([&text, b"", b"."], Duration::from_secs(60)).await;
                (sent, socket.shutdown().await)
            },
            client.read_to_end(&mut got)
        );
        sent.0.and(sent.1).unwrap();
        assert_eq!((taken.unwrap(), got.len()), (text.len() + 1, text.len() + 1));
        drop(client);
        socket.deregister();
        assert!(socket.has_input());
        assert!(read(&mut socket).await.is_empty());
    }
}
