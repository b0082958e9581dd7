//! TLS between the socket and the session: rustls decides, the buffers are ours.
//!
//! rustls' unbuffered interface is used, so that a connection that waits holds keys and no buffers. Invariants: what
//! rustls gives to be sent is gathered in `outgoing` and leaves in that order; every plaintext record goes to the sink in
//! the call that decrypts it. Called by `Layered`. Sources: RFC 8446, RFC 5246, RFC 4642 section 2.2.2.

use super::super::pool;
use super::socket::Socket;
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Room for what arrives, in bytes: some records.
const INCOMING_BYTES: usize = 48 << 10;
/// Longest record or joined handshake message that is taken, in bytes; rustls itself takes no more.
const INCOMING_BYTES_MAX: usize = 80 << 10;
/// What may wait to be sent that the client has not asked for in NNTP, in bytes: it makes us answer and does not read.
const UNREAD_BYTES_MAX: usize = 64 << 10;
/// What a record may need beyond its content, in bytes.
const RECORD_EXTRA_BYTES: usize = 64;
/// How long a client may take to hear why its handshake failed.
const ALERT_TIMEOUT: Duration = Duration::from_secs(1);

/// What has become of the bytes that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All whole records are handled.
    More,
    /// The client sends nothing more.
    End,
}

/// TLS of one connection.
pub(super) struct TlsLayer {
    connection: UnbufferedServerConnection,
    /// Records that arrived, from `at` on.
    incoming: Vec<u8>,
    at: usize,
    /// Records to send.
    pub(super) outgoing: Vec<u8>,
    ended: bool,
}

impl TlsLayer {
    /// Negotiates TLS over `socket`; a client that does it wrong is told so in an alert.
    pub async fn negotiate(socket: &mut Socket, config: Arc<ServerConfig>) -> io::Result<(Self, Vec<u8>)> {
        let connection = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
        let mut layer = Self { connection, incoming: Vec::new(), at: 0, outgoing: Vec::new(), ended: false };
        let mut early = Vec::new();
        loop {
            let progress = layer.advance(&mut |plain| early.extend_from_slice(plain));
            let sent = socket.write([layer.outgoing.as_slice(), &[], &[]], ALERT_TIMEOUT).await;
            layer.outgoing.clear();
            if progress? == Progress::End {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sent?;
            if !layer.connection.is_handshaking() {
                return Ok((layer, early));
            }
            let room = layer.room()?;
            if poll_fn(|cx| socket.poll_read(cx, room)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    pub fn connection(&self) -> &UnbufferedServerConnection {
        &self.connection
    }

    /// The buffer that the next records are to be read into, with room.
    pub fn room(&mut self) -> io::Result<&mut Vec<u8>> {
        if self.at > 0 {
            self.incoming.drain(..self.at);
            self.at = 0;
        }
        if self.incoming.capacity() == 0 {
            self.incoming = pool::take();
        }
        if self.incoming.len() == self.incoming.capacity() {
            if self.incoming.len() >= INCOMING_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a TLS record without end"));
            }
            let size = if self.incoming.len() < INCOMING_BYTES { INCOMING_BYTES } else { INCOMING_BYTES_MAX };
            self.incoming.reserve_exact(size - self.incoming.len());
        }
        Ok(&mut self.incoming)
    }

    /// Handles every whole record; what they bring goes to `sink`, what they ask for to `outgoing`. After an error an
    /// alert may stand in `outgoing`.
    pub fn advance(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<Progress> {
        let mut failed: Option<io::Error> = None;
        loop {
            let rest = self.incoming.get_mut(self.at..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(rest);
            let mut over = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(invalid)?;
                        discard += record.discard;
                        sink(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(&mut self.outgoing, RECORD_EXTRA_BYTES, |room| match data.encode(room) {
                        Ok(written) => Ok(written),
                        Err(EncodeError::InsufficientSize(size)) => Err(Short::Size(size)),
                        Err(error) => Err(Short::Failed(io::Error::other(error))),
                    })?;
                    if self.outgoing.len() > UNREAD_BYTES_MAX {
                        return Err(io::Error::other("the client takes none of the TLS records it asks for"));
                    }
                }
                Ok(ConnectionState::TransmitTlsData(sent_later)) => sent_later.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.ended = true;
                    over = true;
                }
                Ok(_) => over = true,
                // Asked again, it gives the alert that tells the client.
                Err(error) if failed.is_none() => failed = Some(invalid(error)),
                Err(_) => over = true,
            }
            self.at += discard;
            if self.at >= self.incoming.len() {
                self.incoming.clear();
                self.at = 0;
            }
            if over {
                return match failed {
                    Some(error) => Err(error),
                    None if self.ended => Ok(Progress::End),
                    None => Ok(Progress::More),
                };
            }
        }
    }

    /// Appends `plain`, encrypted, to `outgoing`. Whatever has arrived meanwhile goes to `sink`.
    pub fn encrypt(&mut self, plain: &[u8], sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.advance(sink)?;
        let rest = self.incoming.get_mut(self.at..).unwrap_or_default();
        let UnbufferedStatus { discard, state } = self.connection.process_tls_records(rest);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let extra = plain.len() + RECORD_EXTRA_BYTES * (1 + plain.len() / (16 << 10));
        append(&mut self.outgoing, extra, |room| match traffic.encrypt(plain, room) {
            Ok(written) => Ok(written),
            Err(EncryptError::InsufficientSize(size)) => Err(Short::Size(size)),
            Err(error) => Err(Short::Failed(io::Error::other(error))),
        })?;
        self.at += discard;
        Ok(())
    }

    /// Appends the word that we send nothing more to `outgoing`.
    pub fn close(&mut self) -> io::Result<()> {
        let rest = self.incoming.get_mut(self.at..).unwrap_or_default();
        let UnbufferedStatus { discard, state } = self.connection.process_tls_records(rest);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            append(&mut self.outgoing, RECORD_EXTRA_BYTES, |room| match traffic.queue_close_notify(room) {
                Ok(written) => Ok(written),
                Err(EncryptError::InsufficientSize(size)) => Err(Short::Size(size)),
                Err(error) => Err(Short::Failed(io::Error::other(error))),
            })?;
        }
        self.at += discard;
        Ok(())
    }

    /// Gives buffers back that hold nothing.
    pub fn release(&mut self) {
        for buffer in [&mut self.incoming, &mut self.outgoing] {
            if buffer.is_empty() && buffer.capacity() > 0 {
                pool::give(std::mem::take(buffer));
            }
        }
    }
}

/// Why nothing could be written into the room given.
enum Short {
    Size(InsufficientSizeError),
    Failed(io::Error),
}

/// Appends what `write` writes, which first gets `extra` bytes of room and then as much as it asks for.
fn append(
    buffer: &mut Vec<u8>,
    extra: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Short>,
) -> io::Result<()> {
    if buffer.capacity() == 0 {
        *buffer = pool::take();
    }
    let used = buffer.len();
    let mut room = extra;
    for _ in 0..2 {
        buffer.resize(used + room, 0);
        match write(buffer.get_mut(used..).unwrap_or_default()) {
            Ok(written) => {
                buffer.truncate(used + written);
                return Ok(());
            }
            Err(Short::Size(size)) => room = size.required_size,
            Err(Short::Failed(error)) => {
                buffer.truncate(used);
                return Err(error);
            }
        }
    }
    buffer.truncate(used);
    Err(io::Error::other("TLS asks for more room than it said"))
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
