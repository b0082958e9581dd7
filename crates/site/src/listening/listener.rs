//! A listening socket, watched by the runtime, or briefly by the accepting task alone.
//!
//! A client that makes one connection after the other waits for a wake-up of ours each time. As with commands
//! (`base/busy_poll.rs`), the accepting task polls for the next connection for a moment when one has quickly
//! followed the other. Called by `accept`.

use nntp_io::Socket;
use rustix::net::{Shutdown, shutdown};
use site_base::busy_poll::{Polling, is_quick};
use std::io;
use std::net::{SocketAddr, TcpListener as OwnListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, mpsc};
use std::time::Instant;
use tokio::net::TcpListener;

/// A connection and the address of its client.
type Accepted = (Socket, SocketAddr);

/// A listening socket.
pub(super) struct PollingListener {
    state: ListenerState,
    /// Time when the last session ended.
    left: Option<Instant>,
    /// Number of connections in a row that came quickly after the end of the previous one.
    quick: u8,
    polling: Arc<Polling>,
    /// Whether the socket is also another process's, for which it stays open.
    is_passed: bool,
    /// Dropped after the socket, which signals to the closing side that it is closed.
    _closing: mpsc::Sender<()>,
}

enum ListenerState {
    Watched(TcpListener),
    /// Watched by the accepting task alone.
    Own(OwnListener),
    /// Registering the socket failed.
    Lost,
}

impl PollingListener {
    /// Creates a listener from a non-blocking socket; `closing` is dropped once it is closed.
    pub fn new(
        listener: OwnListener,
        is_passed: bool,
        closing: mpsc::Sender<()>,
        polling: Arc<Polling>,
    ) -> io::Result<Self> {
        let state = ListenerState::Watched(TcpListener::from_std(listener)?);
        Ok(Self { state, left: None, quick: 0, polling, is_passed, _closing: closing })
    }

    /// Waits for the next connection.
    pub async fn accept(&mut self) -> io::Result<Accepted> {
        let (stream, address) = self.watched()?.accept().await?;
        self.accepted();
        Ok((Socket::new(stream), address))
    }

    /// Returns the next connection if one is waiting.
    pub fn waiting(&mut self) -> Option<Accepted> {
        let (stream, address) = self.deregister()?.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((Socket::own(stream), address))
    }

    /// Records the end of a session. Stays awake for the next connection for a moment, if that is promising.
    pub fn session_ended(&mut self) -> Option<Accepted> {
        self.left = Some(Instant::now());
        let polling = self.polling.clone();
        let guard = polling.begin(self.quick)?;
        let own = self.deregister()?;
        let accepted = guard.poll(|| match own.accept() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            accepted => Some(accepted),
        });
        drop(guard);
        match accepted {
            // An error occurs again at the next accept.
            Some(accepted) => {
                self.accepted();
                let (stream, address) = accepted.ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Socket::own(stream), address))
            }
            None => {
                self.quick = 0;
                None
            }
        }
    }

    /// Returns the socket itself.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            ListenerState::Watched(listener) => Some(listener.as_fd()),
            ListenerState::Own(own) => Some(own.as_fd()),
            ListenerState::Lost => None,
        }
    }

    fn accepted(&mut self) {
        let quick = self.left.take().is_some_and(is_quick);
        self.quick = if quick { self.quick.saturating_add(1) } else { 0 };
    }

    fn deregister(&mut self) -> Option<&OwnListener> {
        if let ListenerState::Watched(_) = &self.state
            && let ListenerState::Watched(listener) = std::mem::replace(&mut self.state, ListenerState::Lost)
        {
            self.state = ListenerState::Own(listener.into_std().ok()?);
        }
        match &self.state {
            ListenerState::Own(own) => Some(own),
            ListenerState::Watched(_) | ListenerState::Lost => None,
        }
    }

    fn watched(&mut self) -> io::Result<&TcpListener> {
        if let ListenerState::Own(_) = &self.state
            && let ListenerState::Own(own) = std::mem::replace(&mut self.state, ListenerState::Lost)
        {
            self.state = ListenerState::Watched(TcpListener::from_std(own)?);
        }
        match &self.state {
            ListenerState::Watched(listener) => Ok(listener),
            ListenerState::Own(_) | ListenerState::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for PollingListener {
    /// Stops listening even while a program that is being started has all descriptors of this process. On a
    /// socket that was passed, clients wait for the next server instead.
    fn drop(&mut self) {
        if let Some(socket) = self.socket().filter(|_| !self.is_passed) {
            let _closed_anyway = shutdown(socket, Shutdown::Both);
        }
    }
}
