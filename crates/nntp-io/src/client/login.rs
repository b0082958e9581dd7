//! Logging in: AUTHINFO USER and PASS, SASL PLAIN, SCRAM-SHA-256 and EXTERNAL.
//!
//! The best method that the server offers is tried first, and if it is refused, the next one: INN offers SASL
//! mechanisms that its users have no passwords for. An order can be set. A password is never sent over an
//! unencrypted connection unless that is explicitly allowed. Sources: RFC 4643, RFC 4422, RFC 4616, RFC 5802,
//! RFC 7677.

use super::NntpClient;
use super::scram;
use crate::error::{Error, ProtocolFault, SetupStep};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use netnews::nntp::response::code;
use std::fmt;

/// Maximum length of a command line with an initial response (RFC 4643 section 2.4.2), in bytes without CRLF.
const COMMAND_BYTES_MAX: usize = 510;

/// Credentials and methods of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOptions {
    /// Identity of the client.
    pub credentials: ClientCredentials,
    /// Methods in the order in which they are tried, regardless of what the server offers; if empty, those
    /// that it offers: SCRAM-SHA-256, then PLAIN, then USER.
    pub mechanisms: Vec<ClientMechanism>,
    /// True if a password may be sent over a connection that is not encrypted. SCRAM-SHA-256 does not send
    /// it.
    pub clear_passwords: bool,
}

/// Identity of a client.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientCredentials {
    /// A user with a password.
    Password {
        /// The user's name.
        name: String,
        /// The password.
        password: String,
    },
    /// The owner of the certificate shown in the TLS handshake; EXTERNAL is the mechanism.
    Certificate {
        /// The user to act as; `None` lets the server choose.
        identity: Option<String>,
    },
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { name, .. } => {
                f.debug_struct("Password").field("name", name).finish_non_exhaustive()
            }
            Self::Certificate { identity } => {
                f.debug_struct("Certificate").field("identity", identity).finish()
            }
        }
    }
}

/// Method of logging in with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMechanism {
    /// AUTHINFO USER and PASS (RFC 4643 section 2.3).
    User,
    /// SASL PLAIN (RFC 4616).
    Plain,
    /// SASL SCRAM-SHA-256 (RFC 7677): the password is not sent, and the server proves that it knows it.
    ScramSha256,
}

impl LoginOptions {
    /// Returns a login as `name` with `password`, by the best method that the server offers; the password is
    /// not sent in the clear.
    pub fn password(name: impl Into<String>, password: impl Into<String>) -> Self {
        let credentials = ClientCredentials::Password { name: name.into(), password: password.into() };
        Self { credentials, mechanisms: Vec::new(), clear_passwords: false }
    }

    /// Returns a login as the owner of our certificate.
    pub fn certificate() -> Self {
        Self {
            credentials: ClientCredentials::Certificate { identity: None },
            mechanisms: Vec::new(),
            clear_passwords: false,
        }
    }
}

impl NntpClient {
    pub(super) async fn log_in(&mut self, login: &LoginOptions) -> Result<(), Error> {
        match &login.credentials {
            ClientCredentials::Certificate { identity } => {
                let identity = identity.as_deref().unwrap_or_default();
                if self.tls().is_none() {
                    return Err(Error::Request("a login by certificate needs TLS"));
                }
                self.sasl("EXTERNAL", identity.as_bytes()).await.map(drop)
            }
            ClientCredentials::Password { name, password } => {
                let mechanisms = self.mechanisms(login).await?;
                self.log_in_by_one(&mechanisms, name, password).await
            }
        }
    }

    /// Tries one method after the other for as long as the server refuses them and keeps the connection.
    async fn log_in_by_one(
        &mut self,
        mechanisms: &[ClientMechanism],
        name: &str,
        password: &str,
    ) -> Result<(), Error> {
        let mut refused = Error::NotOffered("a way to log in that we know");
        for mechanism in mechanisms {
            self.over = false;
            let tried = match mechanism {
                ClientMechanism::User => self.log_in_by_user(name, password).await,
                ClientMechanism::Plain => {
                    self.sasl("PLAIN", format!("\0{name}\0{password}").as_bytes()).await.map(drop)
                }
                ClientMechanism::ScramSha256 => self.log_in_by_scram(name, password).await,
            };
            match tried {
                // After these codes the server ends the connection (RFC 3977 section 3.2.1).
                Err(error @ Error::Refused { code: code::UNAVAILABLE | code::NOT_PERMITTED, .. }) => {
                    return Err(error);
                }
                Err(error @ Error::Refused { .. }) => refused = error,
                other => return other,
            }
        }
        Err(refused)
    }

    /// Returns the methods of logging in with a password, in the order to try.
    async fn mechanisms(&mut self, login: &LoginOptions) -> Result<Vec<ClientMechanism>, Error> {
        let may_send = login.clear_passwords || self.tls().is_some();
        let is_safe = |mechanism: &ClientMechanism| may_send || *mechanism == ClientMechanism::ScramSha256;
        if !login.mechanisms.is_empty() {
            let safe: Vec<_> = login.mechanisms.iter().copied().filter(is_safe).collect();
            return match safe.is_empty() {
                true => Err(Error::Request(
                    "the password must not be sent over a connection that is not encrypted",
                )),
                false => Ok(safe),
            };
        }
        let known = self.capabilities().await?;
        // For a server that does not list its methods, or is too old to list anything, the oldest is tried.
        let offered = [
            (ClientMechanism::ScramSha256, known.has_argument("SASL", "SCRAM-SHA-256")),
            (ClientMechanism::Plain, known.has_argument("SASL", "PLAIN")),
            (ClientMechanism::User, known.has_argument("AUTHINFO", "USER") || !known.has("AUTHINFO")),
        ];
        let mut offered: Vec<_> =
            offered.into_iter().filter_map(|(way, is_it)| is_it.then_some(way)).collect();
        if offered.is_empty() {
            return Err(Error::NotOffered("a way to log in that we know"));
        }
        offered.retain(is_safe);
        if offered.is_empty() {
            return Err(Error::NotOffered("a way to log in without sending the password in the clear"));
        }
        Ok(offered)
    }

    async fn log_in_by_user(&mut self, name: &str, password: &str) -> Result<(), Error> {
        let both = [code::PASSWORD_REQUIRED, code::AUTHENTICATED];
        let (answer, _) = self.step(&format!("AUTHINFO USER {name}"), SetupStep::Login, &both).await?;
        if answer == code::PASSWORD_REQUIRED {
            self.step(&format!("AUTHINFO PASS {password}"), SetupStep::Login, &[code::AUTHENTICATED]).await?;
        }
        Ok(())
    }

    async fn log_in_by_scram(&mut self, name: &str, password: &str) -> Result<(), Error> {
        let exchange = scram::ScramClient::begin(name)?;
        let (answer, server_first) = self.sasl("SCRAM-SHA-256", exchange.first().as_bytes()).await?;
        if answer != code::CONTINUE_SASL {
            return Err(Error::Protocol(ProtocolFault::ServerProof));
        }
        // Deriving the key takes milliseconds by design.
        let password = password.to_owned();
        let derived = tokio::task::spawn_blocking(move || exchange.answer(&password, &server_first)).await;
        let (last, proof) = derived.map_err(|error| Error::Broken(error.into()))??;
        let (answer, data) = self.respond(last.as_bytes()).await?;
        if data != proof.as_bytes() {
            return Err(Error::Protocol(ProtocolFault::ServerProof));
        }
        // Some servers send their proof as one more challenge, which needs an empty response.
        if answer == code::CONTINUE_SASL {
            let (answer, _) = self.respond(b"").await?;
            return accepted(answer);
        }
        Ok(())
    }

    /// Begins a SASL exchange; returns the code of the answer and its decoded content.
    async fn sasl(&mut self, mechanism: &str, response: &[u8]) -> Result<(u16, Vec<u8>), Error> {
        let command = format!("AUTHINFO SASL {mechanism}");
        let with_response = format!("{command} {}", encoded(response));
        let (answer, data) = if with_response.len() <= COMMAND_BYTES_MAX {
            self.exchanged(&with_response).await?
        } else {
            match self.exchanged(&command).await? {
                (code::CONTINUE_SASL, data) if data.is_empty() => self.respond(response).await?,
                _ => {
                    return Err(Error::Protocol(ProtocolFault::Sasl(
                        "the server did not wait for a response",
                    )));
                }
            }
        };
        // The exchange of these mechanisms has one message.
        if mechanism != "SCRAM-SHA-256" && answer == code::CONTINUE_SASL {
            return Err(Error::Protocol(ProtocolFault::Sasl(
                "the server asks for more than the mechanism has",
            )));
        }
        Ok((answer, data))
    }

    async fn respond(&mut self, response: &[u8]) -> Result<(u16, Vec<u8>), Error> {
        self.exchanged(&encoded(response)).await
    }

    async fn exchanged(&mut self, line: &str) -> Result<(u16, Vec<u8>), Error> {
        let codes = [code::AUTHENTICATED, code::AUTHENTICATED_WITH_DATA, code::CONTINUE_SASL];
        let (answer, text) = self.step(line, SetupStep::Login, &codes).await?;
        if answer == code::AUTHENTICATED {
            return Ok((answer, Vec::new()));
        }
        let data = match text.as_slice() {
            b"=" => Some(Vec::new()),
            text => BASE64_STANDARD.decode(text).ok(),
        };
        data.map(|data| (answer, data))
            .ok_or(Error::Protocol(ProtocolFault::Sasl("what the server says is not base64")))
    }
}

/// Checks that the answer with this code ends the exchange.
fn accepted(answer: u16) -> Result<(), Error> {
    match answer {
        code::CONTINUE_SASL => {
            Err(Error::Protocol(ProtocolFault::Sasl("the server asks for more than the mechanism has")))
        }
        _ => Ok(()),
    }
}

/// Encodes a response for AUTHINFO SASL: base64, or `=` for nothing (RFC 4643 section 2.4.2).
fn encoded(response: &[u8]) -> String {
    if response.is_empty() { "=".to_owned() } else { BASE64_STANDARD.encode(response) }
}
