//! TLS above the socket, on either side of a connection: rustls runs the protocol, the buffers are ours.
//!
//! The unbuffered interface of rustls is used, so that a waiting connection holds keys and no buffers.
//! Invariants: output of rustls is gathered in `outgoing` and leaves in that order; every plaintext record is
//! passed to the sink in the call that decrypts it. Called by `LayeredStream`. Sources: RFC 8446, RFC 5246,
//! RFC 4642 section 2.2.2.

use super::socket::Socket;
use crate::pool;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{ClientConfig, CommonState, ServerConfig};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Room for input, in bytes: some records.
const INCOMING_BYTES: usize = 48 << 10;
/// Maximum size of a record or joined handshake message, in bytes; rustls itself accepts no more.
const INCOMING_BYTES_MAX: usize = 80 << 10;
/// Maximum size of TLS's own records that wait to be sent, in bytes: the other side asks for them and does
/// not read.
const UNREAD_BYTES_MAX: usize = 64 << 10;
/// Maximum overhead of a record, in bytes.
const RECORD_EXTRA_BYTES: usize = 64;
/// Time limit for sending the alert that explains a failed handshake.
const ALERT_TIMEOUT: Duration = Duration::from_secs(1);

/// State of the input after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsProgress {
    /// All whole records are handled.
    More,
    /// The other side sends nothing more.
    End,
}

/// Our side of the connection, with its state.
pub(super) enum TlsSide {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl TlsSide {
    /// Creates the side of a server.
    pub fn server(config: Arc<ServerConfig>) -> io::Result<Self> {
        UnbufferedServerConnection::new(config).map(Self::Server).map_err(io::Error::other)
    }

    /// Creates the side of a client that connects to `name`.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        UnbufferedClientConnection::new(config, name).map(Self::Client).map_err(io::Error::other)
    }

    fn state(&self) -> &CommonState {
        match self {
            Self::Server(connection) => connection,
            Self::Client(connection) => connection,
        }
    }
}

/// One step of handling records.
struct RecordStep {
    /// Number of input bytes to be consumed.
    discard: usize,
    then: StepOutcome,
}

/// Action after a step.
enum StepOutcome {
    /// There may be more to do with the same input.
    Again,
    /// Nothing can be done without more input.
    Wait,
    /// The other side has sent its close_notify.
    Ended,
    Failed(rustls::Error),
}

/// TLS of one connection.
pub(super) struct TlsLayer {
    side: TlsSide,
    /// Records that arrived, from `at` on.
    incoming: Vec<u8>,
    at: usize,
    /// Records to send.
    pub(super) outgoing: Vec<u8>,
    ended: bool,
}

impl TlsLayer {
    /// Negotiates TLS over `socket`; also returns the data that arrived right after the handshake. If the
    /// other side makes an error, an alert is sent to it.
    pub async fn negotiate(socket: &mut Socket, side: TlsSide) -> io::Result<(Self, Vec<u8>)> {
        let mut layer = Self { side, incoming: Vec::new(), at: 0, outgoing: Vec::new(), ended: false };
        let mut early = Vec::new();
        loop {
            let progress = layer.advance(&mut |plain| early.extend_from_slice(plain));
            let sent = socket.write([layer.outgoing.as_slice(), &[], &[]], ALERT_TIMEOUT).await;
            layer.outgoing.clear();
            if progress? == TlsProgress::End {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sent?;
            if !layer.state().is_handshaking() {
                return Ok((layer, early));
            }
            let room = layer.room()?;
            if poll_fn(|cx| socket.poll_read(cx, room)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Returns the results of the handshake.
    pub fn state(&self) -> &CommonState {
        self.side.state()
    }

    /// Returns the buffer into which the next records are to be read, with room.
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
                return Err(io::Error::new(io::ErrorKind::InvalidData, "endless TLS record"));
            }
            let size = if self.incoming.len() < INCOMING_BYTES { INCOMING_BYTES } else { INCOMING_BYTES_MAX };
            self.incoming.reserve_exact(size - self.incoming.len());
        }
        Ok(&mut self.incoming)
    }

    /// Handles every whole record; plaintext is passed to `sink`, records to be sent to `outgoing`. After an
    /// error `outgoing` may hold an alert.
    pub fn advance(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<TlsProgress> {
        let mut failed: Option<io::Error> = None;
        loop {
            let Self { side, incoming, at, outgoing, .. } = self;
            let rest = incoming.get_mut(*at..).unwrap_or_default();
            let RecordStep { discard, then } = match side {
                TlsSide::Server(connection) => step(connection.process_tls_records(rest), outgoing, sink)?,
                TlsSide::Client(connection) => step(connection.process_tls_records(rest), outgoing, sink)?,
            };
            self.consume(discard);
            match then {
                StepOutcome::Again => {}
                StepOutcome::Failed(error) => failed = failed.or_else(|| Some(invalid(error))),
                StepOutcome::Ended | StepOutcome::Wait => {
                    self.ended |= matches!(then, StepOutcome::Ended);
                    let progress = if self.ended { TlsProgress::End } else { TlsProgress::More };
                    return failed.map_or(Ok(progress), Err);
                }
            }
            // The rest of the output informs the other side of the error; the input must not be examined
            // again.
            if let Some(error) = failed.take_if(|_| !self.state().wants_write()) {
                return Err(error);
            }
        }
    }

    /// Consumes bytes of input.
    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at >= self.incoming.len() {
            self.incoming.clear();
            self.at = 0;
        }
    }

    /// Appends `plain`, encrypted, to `outgoing`. Input that has arrived meanwhile is passed to `sink`.
    pub fn encrypt(&mut self, plain: &[u8], sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.advance(sink)?;
        self.produce(TlsContent::Text(plain))
    }

    /// Appends close_notify to `outgoing` (RFC 8446 section 6.1).
    pub fn close(&mut self) -> io::Result<()> {
        match self.produce(TlsContent::CloseNotify) {
            // The connection has ended already.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            produced => produced,
        }
    }

    fn produce(&mut self, output: TlsContent<'_>) -> io::Result<()> {
        let rest = self.incoming.get_mut(self.at..).unwrap_or_default();
        let discard = match &mut self.side {
            TlsSide::Server(connection) => {
                write(connection.process_tls_records(rest), output, &mut self.outgoing)?
            }
            TlsSide::Client(connection) => {
                write(connection.process_tls_records(rest), output, &mut self.outgoing)?
            }
        };
        self.at += discard;
        Ok(())
    }

    /// Returns empty buffers to the pool.
    pub fn release(&mut self) {
        for buffer in [&mut self.incoming, &mut self.outgoing] {
            if buffer.is_empty() && buffer.capacity() > 0 {
                pool::give(std::mem::take(buffer));
            }
        }
    }
}

/// Content that is to be encrypted.
#[derive(Clone, Copy)]
enum TlsContent<'a> {
    Text(&'a [u8]),
    CloseNotify,
}

/// Handles one step: `status` determines the action, plaintext is passed to `sink`, TLS's own records to
/// `outgoing`.
fn step<Data>(
    UnbufferedStatus { mut discard, state }: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    sink: &mut dyn FnMut(&[u8]),
) -> io::Result<RecordStep> {
    let mut then = StepOutcome::Again;
    match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(invalid)?;
                discard += record.discard;
                sink(record.payload);
            }
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            append(outgoing, RECORD_EXTRA_BYTES, |room| match data.encode(room) {
                Ok(written) => Ok(written),
                Err(EncodeError::InsufficientSize(size)) => Err(AppendError::Size(size)),
                Err(error) => Err(AppendError::Failed(io::Error::other(error))),
            })?;
            if outgoing.len() > UNREAD_BYTES_MAX {
                return Err(io::Error::other("the other side takes none of the TLS records it asks for"));
            }
        }
        Ok(ConnectionState::TransmitTlsData(sent_later)) => sent_later.done(),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => then = StepOutcome::Ended,
        Ok(_) => then = StepOutcome::Wait,
        Err(error) => then = StepOutcome::Failed(error),
    }
    Ok(RecordStep { discard, then })
}

/// Appends `output`, encrypted, to `outgoing`; returns the number of input bytes to be consumed.
fn write<Data>(
    UnbufferedStatus { discard, state }: UnbufferedStatus<'_, '_, Data>,
    output: TlsContent<'_>,
    outgoing: &mut Vec<u8>,
) -> io::Result<usize> {
    let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let extra = match output {
        TlsContent::Text(plain) => plain.len() + RECORD_EXTRA_BYTES * (1 + plain.len() / (16 << 10)),
        TlsContent::CloseNotify => RECORD_EXTRA_BYTES,
    };
    append(outgoing, extra, |room| {
        let written = match output {
            TlsContent::Text(plain) => traffic.encrypt(plain, room),
            TlsContent::CloseNotify => traffic.queue_close_notify(room),
        };
        match written {
            Ok(written) => Ok(written),
            Err(EncryptError::InsufficientSize(size)) => Err(AppendError::Size(size)),
            Err(error) => Err(AppendError::Failed(io::Error::other(error))),
        }
    })?;
    Ok(discard)
}

/// Reason why nothing could be written into the available room.
enum AppendError {
    Size(InsufficientSizeError),
    Failed(io::Error),
}

/// Appends the output of `write`, which first gets `extra` bytes of room and then as much as it requires.
fn append(
    buffer: &mut Vec<u8>,
    extra: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, AppendError>,
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
            Err(AppendError::Size(size)) => room = size.required_size,
            Err(AppendError::Failed(error)) => {
                buffer.truncate(used);
                return Err(error);
            }
        }
    }
    buffer.truncate(used);
    Err(io::Error::other("TLS asks for more room than it announced"))
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
