//! Setup of a connection from an address: TCP, TLS, greeting, login, compression, in the order that the
//! standards require.
//!
//! TLS comes first, so that nothing confidential is sent in the clear; capabilities are requested again after
//! TLS and after the login (RFC 4642 section 2.2.2, RFC 4643 section 2.2); compression comes last (RFC 8054
//! section 2.2.2).

use super::login::LoginOptions;
use super::{Capabilities, NntpClient};
use crate::connection::Connection;
use crate::error::{Error, ProtocolFault, SetupStep, WaitEvent, printable};
use crate::limits::ClientLimits;
use crate::transport::Socket;
use netnews::nntp::response::code;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

/// Maximum number of lines that are kept of a list of capabilities.
const CAPABILITIES_MAX: usize = 200;

/// A server, and how to connect to it. Everything but the address has a default: no TLS, no login, no
/// compression.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Local address to connect from; `None` leaves that to the system.
    pub bind: Option<IpAddr>,
    /// Encryption of the connection.
    pub security: Security,
    /// Purpose of the connection.
    pub role: Role,
    /// Credentials and methods of the login.
    pub login: Option<LoginOptions>,
    /// Compression of the connection.
    pub compression: CompressionPolicy,
    /// Bounds on the cost of the server.
    pub limits: ClientLimits,
}

impl ConnectOptions {
    /// Returns a server with the default settings.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            bind: None,
            security: Security::None,
            role: Role::Any,
            login: None,
            compression: CompressionPolicy::Never,
            limits: ClientLimits::default(),
        }
    }
}

impl From<SocketAddr> for ConnectOptions {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

/// Encryption of a connection. There is no opportunistic TLS: encryption that an attacker can switch off
/// protects no one (RFC 8143 section 3).
#[derive(Debug, Clone)]
pub enum Security {
    /// No encryption.
    None,
    /// STARTTLS after the greeting (RFC 4642).
    StartTls(TlsOptions),
    /// TLS from the first octet (RFC 8143 section 2).
    Implicit(TlsOptions),
}

/// Parameters of TLS.
#[derive(Clone)]
pub struct TlsOptions {
    /// Trusted roots and our certificate; made by [`tls::client_config`](crate::tls::client_config).
    pub config: Arc<ClientConfig>,
    /// Name that the server must prove to have.
    pub name: ServerName<'static>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// No request for a mode.
    Any,
    /// Reading and posting: MODE READER is sent, which mode-switching servers need and others accept or do
    /// not know (RFC 3977 section 5.3).
    Reader,
    /// Feeding: MODE STREAM is sent to learn whether the server accepts streaming (RFC 4644 section 2.3); see
    /// [`NntpClient::streaming`].
    Transit,
}

/// Use of compression (RFC 8054).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionPolicy {
    /// Never.
    Never,
    /// If the server offers it.
    IfOffered,
    /// Always: a server that does not offer it is unusable.
    Required,
}

impl Connection {
    /// Connects to a server, with TLS if that comes first. Nothing of NNTP is sent or awaited.
    ///
    /// # Errors
    /// [`Error::Lookup`], [`Error::Connect`], and those of [`Connection::start_tls`].
    pub async fn connect(target: &ConnectOptions) -> Result<Self, Error> {
        let stream = connect(target).await?;
        // Without this option a command waits for the acknowledgement of the one before.
        stream.set_nodelay(true).map_err(Error::Broken)?;
        let mut connection = Self::new(Socket::new(stream), target.limits.clone());
        if let Security::Implicit(tls) = &target.security {
            connection.start_tls(tls.config.clone(), tls.name.clone()).await?;
        }
        Ok(connection)
    }
}

impl NntpClient {
    /// Connects to a server and prepares the connection for use.
    ///
    /// # Errors
    /// [`Error::Lookup`], [`Error::Connect`], [`Error::TlsOptions`], [`Error::Refused`] with the step that
    /// was refused, [`Error::NotOffered`], and those of [`NntpClient::answer`]. [`Error::retry`] returns
    /// whether to try again.
    pub async fn connect(target: &ConnectOptions) -> Result<Self, Error> {
        let mut client = Self::new(Connection::connect(target).await?);
        client.set_up(target).await?;
        Ok(client)
    }

    async fn set_up(&mut self, target: &ConnectOptions) -> Result<(), Error> {
        self.greeted().await?;
        if let Security::StartTls(tls) = &target.security {
            self.start_tls(tls).await?;
        }
        let wants_login = target.role == Role::Reader && self.mode_reader(target.login.is_some()).await?;
        if let Some(login) = &target.login {
            self.log_in(login).await?;
            self.capabilities = None;
        }
        if wants_login {
            self.mode_reader(false).await?;
        }
        if target.role == Role::Transit {
            self.mode_stream().await?;
        }
        match target.compression {
            CompressionPolicy::Never => Ok(()),
            CompressionPolicy::IfOffered if !self.offers_compression().await? => Ok(()),
            // A server that does not offer compression refuses.
            CompressionPolicy::IfOffered | CompressionPolicy::Required => self.compress().await,
        }?;
        self.is_logged_in = target.login.is_some();
        Ok(())
    }

    /// Returns the server's capabilities, requested once: the list is kept until TLS or a login makes it
    /// stale.
    ///
    /// # Errors
    /// Errors of [`NntpClient::request`]. A server that does not know the command (introduced by RFC 3977)
    /// has an empty list.
    pub async fn capabilities(&mut self) -> Result<&Capabilities, Error> {
        if self.capabilities.is_none() {
            let mut list = Capabilities::default();
            if self.request("CAPABILITIES").await?.code == code::CAPABILITIES_FOLLOW {
                let mut lines = 0;
                while let Some(line) = self.block_line().await? {
                    list.push(line);
                    lines += 1;
                    if lines > CAPABILITIES_MAX {
                        return Err(Error::Protocol(ProtocolFault::BlockTooLong(CAPABILITIES_MAX as u64)));
                    }
                }
            }
            self.capabilities = Some(list);
        }
        Ok(self.capabilities.get_or_insert_default())
    }

    async fn greeted(&mut self) -> Result<(), Error> {
        self.outstanding.push_back(false);
        let limit = self.connection.limits().greeting_timeout;
        let (code, len, next) = self.first_line(limit, WaitEvent::Greeting).await?;
        self.outstanding.pop_front();
        let line = self.connection.take(next).get(..len).unwrap_or_default();
        let text = printable(line.get(4..).unwrap_or_default());
        match code {
            code::POSTING_ALLOWED | code::POSTING_PROHIBITED => {
                self.greeting = text;
                self.posting_allowed = code == code::POSTING_ALLOWED;
                Ok(())
            }
            400..600 => Err(Error::Refused { step: SetupStep::Greeting, code, text }),
            _ => Err(Error::Protocol(ProtocolFault::UnexpectedCode(code))),
        }
    }

    async fn start_tls(&mut self, tls: &TlsOptions) -> Result<(), Error> {
        self.step("STARTTLS", SetupStep::StartTls, &[code::CONTINUE_TLS]).await?;
        self.connection.start_tls(tls.config.clone(), tls.name.clone()).await?;
        // Capabilities listed before TLS are no longer valid.
        self.capabilities = None;
        Ok(())
    }

    /// Returns true if the server requires a login first, which `may_log_in` allows (RFC 4643 section 2.2).
    async fn mode_reader(&mut self, may_log_in: bool) -> Result<bool, Error> {
        let answer = self.request("MODE READER").await?;
        match answer.code {
            code @ (code::POSTING_ALLOWED | code::POSTING_PROHIBITED) => {
                self.posting_allowed = code == code::POSTING_ALLOWED;
                self.capabilities = None;
                Ok(false)
            }
            // The server knows no modes.
            code::UNKNOWN_COMMAND | code::SYNTAX_ERROR => Ok(false),
            code::AUTHENTICATION_REQUIRED if may_log_in => Ok(true),
            code => Err(Error::Refused { step: SetupStep::ModeReader, code, text: printable(answer.text()) }),
        }
    }

    async fn mode_stream(&mut self) -> Result<(), Error> {
        let known = self.capabilities().await?;
        self.streaming = if known.is_empty() {
            self.request("MODE STREAM").await?.code == code::STREAMING_OK
        } else {
            known.has("STREAMING")
        };
        Ok(())
    }

    async fn offers_compression(&mut self) -> Result<bool, Error> {
        Ok(self.capabilities().await?.has_argument("COMPRESS", "DEFLATE"))
    }

    async fn compress(&mut self) -> Result<(), Error> {
        self.step("COMPRESS DEFLATE", SetupStep::Compress, &[code::COMPRESSION_ACTIVE]).await?;
        self.connection.start_compression().await?;
        self.capabilities = None;
        Ok(())
    }

    /// Sends a command that must be answered by one of `codes`; returns the code, and the text of the answer.
    pub(super) async fn step(
        &mut self,
        command: &str,
        step: SetupStep,
        codes: &[u16],
    ) -> Result<(u16, Vec<u8>), Error> {
        let answer = self.request(command).await?;
        if codes.contains(&answer.code) {
            return Ok((answer.code, answer.text().to_vec()));
        }
        let (code, text) = (answer.code, printable(answer.text()));
        self.over = true;
        if code < 400 {
            Err(Error::Protocol(ProtocolFault::UnexpectedCode(code)))
        } else {
            Err(Error::Refused { step, code, text })
        }
    }
}

/// Connects to the first address of the server that accepts a connection.
async fn connect(target: &ConnectOptions) -> Result<TcpStream, Error> {
    let limit = target.limits.connect_timeout;
    let lookup = timeout(limit, lookup_host((target.host.as_str(), target.port))).await;
    let failed = |source: io::Error| Error::Lookup { host: target.host.as_str().into(), source };
    let addresses = lookup.map_err(|_| Error::TimedOut(WaitEvent::Connecting))?.map_err(failed)?;
    let mut error = failed(io::Error::other("the name has no address that fits"));
    let fits = |address: &SocketAddr| target.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4());
    for address in addresses.filter(fits) {
        match timeout(limit, connect_to(address, target.bind)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(source)) => error = Error::Connect { address, source },
            Err(_) => error = Error::Connect { address, source: io::ErrorKind::TimedOut.into() },
        }
    }
    Err(error)
}

async fn connect_to(address: SocketAddr, bind: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(bind) = bind {
        socket.bind(SocketAddr::new(bind, 0))?;
    }
    socket.connect(address).await
}
