//! Errors between a client and a server, and when to retry.

use netnews::printable::replaced;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of consecutive connections whose login lapses before they are of any use.
const LAPSES_IN_A_ROW_MAX: u32 = 2;

/// Reason why a connection failed or a server did not do what was requested. After any error but
/// [`Error::Request`] and [`Error::Full`] the connection is of no more use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name of the server could not be looked up.
    #[error("cannot look up {host}: {source}")]
    Lookup {
        /// The name.
        host: Box<str>,
        /// Error of the system.
        source: io::Error,
    },
    /// No connection could be made to any of the server's addresses; this is the last of them.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The connection broke.
    #[error("connection broken: {0}")]
    Broken(#[source] io::Error),
    /// The server ended the connection where more was expected.
    #[error("the server closed the connection")]
    Ended,
    /// The server took too long.
    #[error("timed out waiting for {0}")]
    TimedOut(WaitEvent),
    /// TLS could not be negotiated, or the server's identity is wrong (RFC 8446 section 6.2).
    #[error("TLS failed: {}", tls_fault(.0))]
    Tls(#[source] rustls::Error),
    /// The server refused something that the connection needs: service, encryption, login, compression.
    #[error("the server refused {step}: {code} {text}")]
    Refused {
        /// Step that was refused.
        step: SetupStep,
        /// Code of the server's answer.
        code: u16,
        /// Text of the server's answer, in which nothing is unprintable.
        text: Box<str>,
    },
    /// The server asks for a login (480) though it has accepted one on this connection; the field is the text
    /// of its answer. On a new connection it may accept one again (RFC 4643 section 2.2).
    #[error("the server no longer honours the login: 480 {0}")]
    LoggedOut(Box<str>),
    /// The server does not offer what the connection needs.
    #[error("the server does not offer {0}")]
    NotOffered(&'static str),
    /// The server breaks the protocol.
    #[error("the server breaks the protocol: {0}")]
    Protocol(#[source] ProtocolFault),
    /// The request is invalid; nothing was sent, and the connection is unchanged.
    #[error("{0}")]
    Request(&'static str),
    /// The queue or the number of unanswered commands is at its limit ([`Limits`](crate::Limits)); nothing
    /// was sent, and the connection is unchanged. Answers have to be read first.
    #[error("too many commands wait for their answers")]
    Full,
}

/// Event that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEvent {
    /// The name to be looked up, a connection, or the TLS handshake.
    Connecting,
    /// The greeting.
    Greeting,
    /// The first line of an answer.
    Answer,
    /// More of a block.
    Block,
    /// Progress of the server in reading our output.
    Sending,
}

/// Step of setting up a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupStep {
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

/// Violation of the protocol by a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// A line is longer than this many bytes.
    #[error("a line of more than {0} bytes")]
    LineTooLong(usize),
    /// A block is longer than this many bytes.
    #[error("a block of more than {0} bytes")]
    BlockTooLong(u64),
    /// A block has not ended within this time.
    #[error("a block that takes more than {} s", .0.as_secs())]
    BlockTooSlow(Duration),
    /// A line that should begin with a response code does not; the field is its beginning.
    #[error("`{0}` does not begin with a response code")]
    NoCode(Box<str>),
    /// An answer with this code is not allowed where it came.
    #[error("an unexpected answer with code {0}")]
    UnexpectedCode(u16),
    /// The answer to the offer or the transfer of an article is not one of the protocol; the field is its
    /// beginning.
    #[error("unexpected answers about articles, the last `{0}`")]
    OddAnswer(Box<str>),
    /// Octets arrived where none may: after the answer to STARTTLS or COMPRESS. An attacker may have put them
    /// there.
    #[error("octets before TLS or compression began")]
    EarlyInput,
    /// The SASL exchange is invalid, for this reason.
    #[error("{0}")]
    Sasl(&'static str),
    /// The server could not prove that it knows the password (RFC 5802 section 5).
    #[error("the server could not prove that it knows the password")]
    ServerProof,
    /// The compressed or encrypted stream is damaged.
    #[error("{0}")]
    Stream(io::Error),
}

/// Advice on trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Retry later, with growing pauses: the cause may be temporary.
    Later,
    /// Do not retry before something has been changed here or there.
    Never,
}

impl Error {
    /// Returns whether trying again later can help. Codes are judged as in RFC 3977 section 3.2.1: 400, 403,
    /// 431 and 436 are temporary, other 4xx and 5xx permanent. A broken connection, a silent server and a
    /// violation of the protocol may be temporary; a wrong certificate or password, or a method that is not
    /// offered, is permanent.
    pub fn retry(&self) -> RetryAdvice {
        match self {
            Self::Lookup { .. }
            | Self::Connect { .. }
            | Self::Broken(_)
            | Self::Ended
            | Self::LoggedOut(_)
            | Self::TimedOut(_) => RetryAdvice::Later,
            Self::Tls(
                rustls::Error::InvalidCertificate(_)
                | rustls::Error::InvalidCertRevocationList(_)
                | rustls::Error::NoCertificatesPresented
                | rustls::Error::NoApplicationProtocol
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::AlertReceived(_),
            ) => RetryAdvice::Never,
            Self::Tls(_) => RetryAdvice::Later,
            Self::Refused { code: 400 | 403 | 431 | 436, .. } => RetryAdvice::Later,
            Self::Protocol(ProtocolFault::ServerProof | ProtocolFault::Sasl(_)) => RetryAdvice::Never,
            Self::Protocol(_) | Self::Full => RetryAdvice::Later,
            Self::Refused { .. } | Self::NotOffered(_) | Self::Request(_) => RetryAdvice::Never,
        }
    }

    /// Returns the number of consecutive useless connections that count as trouble of the server, where
    /// `others` applies to other errors: a connection whose login has lapsed is replaced once.
    pub fn tries_max(&self, others: u32) -> u32 {
        if matches!(self, Self::LoggedOut(_)) { others.min(LAPSES_IN_A_ROW_MAX) } else { others }
    }

    /// Converts an error of the stream.
    pub(crate) fn of_stream(error: io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>()) {
            return Self::Tls(tls.clone());
        }
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Protocol(ProtocolFault::Stream(error)),
            io::ErrorKind::UnexpectedEof => Self::Ended,
            _ => Self::Broken(error),
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

impl fmt::Display for WaitEvent {
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

impl fmt::Display for SetupStep {
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

/// Describes a failure of TLS.
fn tls_fault(error: &rustls::Error) -> String {
    untrusted(error).map_or_else(|| error.to_string(), str::to_owned)
}

/// Returns in words why a certificate is not trusted, where tls_ca can help. rustls-webpki returns
/// `CaUsedAsEndEntity` for a certificate that may sign others, as `openssl req -x509` makes them.
fn untrusted(error: &rustls::Error) -> Option<&'static str> {
    use rustls::CertificateError;
    match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
            "the server's certificate is from no authority that is trusted here; if it is the right one, name \
             the file of its authority, or of itself, as tls_ca",
        ),
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            Some(
                "the server's certificate is self-signed (it is that of an authority); if it is the right one, \
                 name its file as tls_ca",
            )
        }
        _ => None,
    }
}

/// Returns received text as terminals and logs may show it, cut to a line's length.
pub(crate) fn printable(text: &[u8]) -> Box<str> {
    const CHARS_MAX: usize = 200;
    let shown = String::from_utf8_lossy(text);
    let shown: String = shown.chars().take(CHARS_MAX).collect();
    replaced(&shown, '\u{fffd}').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_self_signed_certificate_is_named_in_words() {
        /// Named like the variant of rustls-webpki, which rustls wraps.
        #[derive(Debug)]
        struct CaUsedAsEndEntity;
        impl fmt::Display for CaUsedAsEndEntity {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self:?}")
            }
        }
        impl std::error::Error for CaUsedAsEndEntity {}
        let wrapped = rustls::OtherError(std::sync::Arc::new(CaUsedAsEndEntity));
        let text = |cause| Error::Tls(rustls::Error::InvalidCertificate(cause)).to_string();
        let said = text(rustls::CertificateError::Other(wrapped));
        assert!(said.contains("self-signed") && said.contains("tls_ca"), "{said}");
        assert!(text(rustls::CertificateError::UnknownIssuer).contains("tls_ca"));
        assert!(text(rustls::CertificateError::Expired).contains("invalid peer certificate"));
    }
}
