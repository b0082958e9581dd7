//! What can go wrong between a client and a server, and whether trying again can help.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Connections in a row whose login lapses before they are of any use.
const LAPSES_IN_A_ROW_MAX: u32 = 2;

/// Why a connection failed or a server did not do what it was asked to. After any error but
/// [`Error::Request`] and [`Error::Full`] the connection is of no more use.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The name of the server could not be looked up.
    Lookup {
        /// The name.
        host: Box<str>,
        /// What the system says.
        source: io::Error,
    },
    /// No connection could be made to any of the server's addresses; this is the last of them.
    Connect {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The connection broke.
    Broken(io::Error),
    /// The server ended the connection where more was expected of it.
    Ended,
    /// The server took too long.
    TimedOut(Wait),
    /// TLS could not be negotiated, or the server is not who it should be (RFC 8446 section 6.2).
    Tls(rustls::Error),
    /// The server refused something that the connection needs: to serve us at all, to encrypt, to log us in,
    /// to compress.
    Refused {
        /// What it was asked for.
        step: Step,
        /// The code of its answer.
        code: u16,
        /// The text of its answer; nothing in it is unprintable.
        text: Box<str>,
    },
    /// The server asks for a login (480) though it has accepted one on this connection; this is the text of
    /// its answer. On a new connection it may accept one again (RFC 4643 section 2.2).
    LoggedOut(Box<str>),
    /// The server does not offer what the connection needs.
    NotOffered(&'static str),
    /// The server breaks the protocol.
    Protocol(Fault),
    /// The request cannot be sent as it is; nothing was sent, and the connection is as before.
    Request(&'static str),
    /// As much is queued or unanswered as may be ([`Limits`](crate::Limits)); nothing was sent, and the
    /// connection is as before. Answers have to be taken first.
    Full,
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The name to be looked up, a connection, or the TLS handshake.
    Connecting,
    /// The greeting.
    Greeting,
    /// The first line of an answer.
    Answer,
    /// More of a block.
    Block,
    /// The server to take more of what we send.
    Sending,
}

/// A step of setting a connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The greeting (RFC 3977 section 5.1).
    Greeting,
    /// STARTTLS (RFC 4642).
    StartTls,
    /// MODE READER (RFC 3977 section 5.3).
    ModeReader,
    /// AUTHINFO (RFC 4643).
    Login,
    /// COMPRESS (RFC 8054).
    Compress,
    /// A command of the session itself.
    Command,
}

/// How a server breaks the protocol.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// A line is longer than this many bytes.
    LineTooLong(usize),
    /// A block is longer than this many bytes.
    BlockTooLong(u64),
    /// A line that should begin with a response code does not; this is its beginning.
    NoCode(Box<str>),
    /// An answer with this code makes no sense where it came.
    UnexpectedCode(u16),
    /// The answer to the offer or the transfer of an article is none that the protocol has; this is its
    /// beginning.
    OddAnswer(Box<str>),
    /// Octets arrived where nothing may: after the answer to STARTTLS or COMPRESS. Somebody may have put
    /// them there.
    EarlyInput,
    /// The SASL exchange makes no sense, in this way.
    Sasl(&'static str),
    /// The server could not prove that it knows the password (RFC 5802 section 5).
    ServerProof,
    /// The compressed or encrypted stream is damaged.
    Stream(io::Error),
}

/// Whether and when it makes sense to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Later, with growing pauses: the cause may go away by itself.
    Later,
    /// Not before somebody has changed something here or there.
    Never,
}

impl Error {
    /// Whether trying again later can help. Codes are judged as RFC 3977 section 3.2.1 has them: 400, 403,
    /// 431 and 436 are temporary, other 4xx and 5xx permanent. A broken connection, a silent server and one
    /// that breaks the protocol may be well again later; a wrong certificate or password, or a method that
    /// is not offered, stays so.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Lookup { .. }
            | Self::Connect { .. }
            | Self::Broken(_)
            | Self::Ended
            | Self::LoggedOut(_)
            | Self::TimedOut(_) => Retry::Later,
            Self::Tls(
                rustls::Error::InvalidCertificate(_)
                | rustls::Error::InvalidCertRevocationList(_)
                | rustls::Error::NoCertificatesPresented
                | rustls::Error::NoApplicationProtocol
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::AlertReceived(_),
            ) => Retry::Never,
            Self::Tls(_) => Retry::Later,
            Self::Refused { code: 400 | 403 | 431 | 436, .. } => Retry::Later,
            Self::Protocol(Fault::ServerProof | Fault::Sasl(_)) => Retry::Never,
            Self::Protocol(_) | Self::Full => Retry::Later,
            Self::Refused { .. } | Self::NotOffered(_) | Self::Request(_) => Retry::Never,
        }
    }

    /// Connections in a row that may be of no use before this is trouble of the server, where others may be
    /// so many: one whose login has lapsed is replaced once.
    pub fn tries_max(&self, others: u32) -> u32 {
        if matches!(self, Self::LoggedOut(_)) { others.min(LAPSES_IN_A_ROW_MAX) } else { others }
    }

    /// What an error of the stream means.
    pub(crate) fn of_stream(error: io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>()) {
            return Self::Tls(tls.clone());
        }
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Protocol(Fault::Stream(error)),
            io::ErrorKind::UnexpectedEof => Self::Ended,
            _ => Self::Broken(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { host, source } => write!(f, "cannot look up {host}: {source}"),
            Self::Connect { address, source } => write!(f, "cannot connect to {address}: {source}"),
            Self::Broken(source) => write!(f, "connection broken: {source}"),
            Self::Ended => f.write_str("the server closed the connection"),
            Self::TimedOut(wait) => write!(f, "timed out waiting for {wait}"),
            Self::Tls(source) => write!(f, "TLS failed: {source}"),
            Self::Refused { step, code, text } => write!(f, "the server refused {step}: {code} {text}"),
            Self::LoggedOut(text) => write!(f, "the server no longer honours the login: 480 {text}"),
            Self::NotOffered(what) => write!(f, "the server does not offer {what}"),
            Self::Protocol(fault) => write!(f, "the server breaks the protocol: {fault}"),
            Self::Request(why) => f.write_str(why),
            Self::Full => f.write_str("too many commands wait for their answers"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lookup { source, .. } | Self::Connect { source, .. } | Self::Broken(source) => Some(source),
            Self::Tls(source) => Some(source),
            Self::Protocol(Fault::Stream(source)) => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Lookup { source, .. } | Error::Connect { source, .. } | Error::Broken(source) => {
                source.kind()
            }
            Error::Ended => io::ErrorKind::UnexpectedEof,
            Error::TimedOut(_) => io::ErrorKind::TimedOut,
            Error::Protocol(_) => io::ErrorKind::InvalidData,
            Error::Request(_) => io::ErrorKind::InvalidInput,
            Error::Full => io::ErrorKind::WouldBlock,
            Error::Tls(_) | Error::Refused { .. } | Error::LoggedOut(_) | Error::NotOffered(_) => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "the connection",
            Self::Greeting => "the greeting",
            Self::Answer => "an answer",
            Self::Block => "the rest of an answer",
            Self::Sending => "the server to take what is sent",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greeting => "the connection",
            Self::StartTls => "STARTTLS",
            Self::ModeReader => "MODE READER",
            Self::Login => "the login",
            Self::Compress => "COMPRESS DEFLATE",
            Self::Command => "a command",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineTooLong(bytes_max) => write!(f, "a line of more than {bytes_max} bytes"),
            Self::BlockTooLong(bytes_max) => write!(f, "a block of more than {bytes_max} bytes"),
            Self::NoCode(line) => write!(f, "`{line}` does not begin with a response code"),
            Self::UnexpectedCode(code) => write!(f, "an unexpected answer with code {code}"),
            Self::OddAnswer(line) => write!(f, "unexpected answers about articles, the last `{line}`"),
            Self::EarlyInput => f.write_str("octets before TLS or compression began"),
            Self::Sasl(what) => f.write_str(what),
            Self::ServerProof => f.write_str("the server could not prove that it knows the password"),
            Self::Stream(source) => write!(f, "{source}"),
        }
    }
}

/// What a server has sent, as terminals and logs may show it, cut to a line's length.
pub(crate) fn printable(text: &[u8]) -> Box<str> {
    const CHARS_MAX: usize = 200;
    let shown = String::from_utf8_lossy(text);
    let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    shown.chars().take(CHARS_MAX).map(harmless).collect::<String>().into()
}
