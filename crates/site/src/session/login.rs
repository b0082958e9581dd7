//! AUTHINFO: USER and PASS, and SASL exchanges.
//!
//! A session logs in once. All decisions are made by the `Gate`; this module has the order of commands and
//! the responses. Called by `dispatch`. Source: RFC 4643.

use super::ConnectedClient;
use crate::site::Site;
use access::sasl;
use access::sasl::{SaslAction, SaslExchange};
use access::users::{NAME_RULE, random};
use access::{LoginDenial, User};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ingest::programs;
use netnews::nntp::command::NntpCommand;
use netnews::nntp::response::{append, append_standard, code};
use site_config::AuthMechanism;
use std::sync::Arc;
use tracing::info;

/// Longest line of AUTHINFO SASL and of a response, in bytes, line end included: base64 of more than the
/// longest names and passwords that are accepted.
pub(super) const SASL_LINE_BYTES_MAX: usize = 4096;
/// Octets of the server's part of a SCRAM nonce.
const NONCE_BYTES: usize = 18;
/// Name of the mechanism for the log.
const SCRAM: &str = "SCRAM-SHA-256";

/// Progress of logging in.
#[derive(Debug, Default)]
pub(super) struct LoginProgress {
    /// Name given by AUTHINFO USER.
    name: Option<Box<[u8]>>,
    exchange: Option<SaslExchange>,
    failures: u32,
}

/// The step after a command or a response.
#[derive(Debug)]
pub(super) enum LoginStep {
    /// It is answered.
    Done,
    /// The client sends another response.
    Respond,
    /// The client has logged in; the data is for the answer.
    LoggedIn(Arc<User>, SuccessData),
    /// The session ends after too many failures.
    Close,
}

/// Data sent to the client after a success.
type SuccessData = Option<String>;

impl LoginProgress {
    pub async fn authinfo(
        &mut self,
        site: &Site,
        client: &ConnectedClient,
        command: &NntpCommand<'_>,
        out: &mut Vec<u8>,
    ) -> LoginStep {
        if let Some((code, text)) = no_authinfo(client, command) {
            append(out, code, text);
            return LoginStep::Done;
        }
        match *command {
            NntpCommand::AuthinfoUser(name) => {
                self.name = Some(name.into());
                append_standard(out, code::PASSWORD_REQUIRED);
                LoginStep::Done
            }
            NntpCommand::AuthinfoPass(password) => {
                let Some(name) = self.name.take() else {
                    append_standard(out, code::AUTHENTICATION_SEQUENCE);
                    return LoginStep::Done;
                };
                let judged = site.gate.password(client.caller(), &name, password, "USER").await;
                self.judged(site, client, judged, None, out)
            }
            NntpCommand::AuthinfoSasl { mechanism, initial } => {
                self.name = None;
                self.exchange = sasl::mechanism(mechanism).and_then(SaslExchange::start);
                match initial {
                    Some(initial) => self.respond(site, client, initial, out).await,
                    None => challenge(b"", out),
                }
            }
            _ => {
                append(out, code::SYNTAX_ERROR, "Unknown AUTHINFO variant");
                LoginStep::Done
            }
        }
    }

    /// Handles a line of an exchange.
    pub async fn response(
        &mut self,
        site: &Site,
        client: &ConnectedClient,
        line: &[u8],
        out: &mut Vec<u8>,
    ) -> LoginStep {
        if line == b"*" {
            self.exchange = None;
            append(out, code::AUTHENTICATION_FAILED, "Authentication aborted as requested");
            return LoginStep::Done;
        }
        self.respond(site, client, line, out).await
    }

    /// Handles a response, still in base64.
    async fn respond(
        &mut self,
        site: &Site,
        client: &ConnectedClient,
        response: &[u8],
        out: &mut Vec<u8>,
    ) -> LoginStep {
        let Some(exchange) = self.exchange.take() else { return LoginStep::Done };
        let Some(response) = sasl::decode(response) else {
            append_standard(out, code::BAD_BASE64);
            return LoginStep::Done;
        };
        let (gate, caller) = (&site.gate, client.caller());
        let (judged, data) = match exchange.respond(&response) {
            SaslAction::Password { name, password } => {
                (gate.password(caller, &name, &password, "PLAIN").await, None)
            }
            SaslAction::Certificate { wanted } => {
                let names: Vec<&str> = client.proven_names().collect();
                (gate.certificate(caller, &names, wanted).await, None)
            }
            SaslAction::Keys { name, first } => {
                match (gate.keys(caller, &name).await, random::<NONCE_BYTES>()) {
                    (Ok(keys), Ok(nonce)) => {
                        let nonce = BASE64_STANDARD.encode(nonce);
                        let (exchange, first) = SaslExchange::with_keys(name, first, keys, &nonce);
                        self.exchange = Some(exchange);
                        return challenge(first.as_bytes(), out);
                    }
                    (Err(denial), _) => (Err(denial), None),
                    (_, Err(_)) => (Err(LoginDenial::Trouble), None),
                }
            }
            SaslAction::Proven { name, data } => {
                (gate.proven(caller, name, SCRAM), Some(sasl::encode(data.as_bytes())))
            }
            SaslAction::Wrong { name } => (Err(gate.deny(caller, name.as_bytes(), SCRAM)), None),
            SaslAction::Refused => (Err(LoginDenial::Wrong), None),
            SaslAction::Malformed => {
                append(out, code::AUTHENTICATION_SEQUENCE, "SASL protocol error");
                return self.failed(client);
            }
        };
        self.judged(site, client, judged, data, out)
    }

    /// Responds to a client whose login the gate denied, or a filter refuses.
    fn judged(
        &mut self,
        site: &Site,
        client: &ConnectedClient,
        judged: Result<Arc<User>, LoginDenial>,
        data: SuccessData,
        out: &mut Vec<u8>,
    ) -> LoginStep {
        match judged {
            Ok(user) if passes_filters(site, client, &user, out) => return LoginStep::LoggedIn(user, data),
            Ok(_) => {}
            Err(LoginDenial::Wrong) => append_standard(out, code::AUTHENTICATION_FAILED),
            Err(LoginDenial::Locked(left)) => {
                let text = format!("Too many failures, try again in {} s", left.as_secs() + 1);
                append(out, code::AUTHENTICATION_FAILED, &text);
            }
            Err(LoginDenial::Nameless) => {
                append(
                    out,
                    code::AUTHENTICATION_FAILED,
                    &format!("Your name is not usable here: {NAME_RULE}"),
                );
            }
            Err(LoginDenial::Trouble) => append_standard(out, code::INTERNAL_FAULT),
        }
        self.failed(client)
    }

    /// Counts a failure; too many end the session.
    fn failed(&mut self, client: &ConnectedClient) -> LoginStep {
        self.failures += 1;
        if self.failures >= client.config().auth.failures_per_connection_max {
            LoginStep::Close
        } else {
            LoginStep::Done
        }
    }
}

fn challenge(challenge: &[u8], out: &mut Vec<u8>) -> LoginStep {
    append(out, code::CONTINUE_SASL, &sasl::encode(challenge));
    LoginStep::Respond
}

/// Asks the filters about a client that has proven its identity; responds if they refuse it.
fn passes_filters(site: &Site, client: &ConnectedClient, user: &User, out: &mut Vec<u8>) -> bool {
    let address = client.address().to_string();
    match site.filer.with_filters(|filters| filters.login(&address, &user.name)) {
        Ok(()) => return true,
        Err(programs::ProgramVerdict::Reject(reason)) => {
            info!(address, user = &*user.name, reason, "login refused by a filter");
            append(out, code::AUTHENTICATION_FAILED, &reason);
        }
        Err(_) => append(out, code::INTERNAL_FAULT, "Logins cannot be judged now, try again later"),
    }
    false
}

/// Returns the refusal of an AUTHINFO command that is not even looked at.
fn no_authinfo(client: &ConnectedClient, command: &NntpCommand<'_>) -> Option<(u16, &'static str)> {
    let mechanism = match command {
        NntpCommand::AuthinfoUser(_) | NntpCommand::AuthinfoPass(_) => Some(AuthMechanism::User),
        NntpCommand::AuthinfoSasl { mechanism, .. } => sasl::mechanism(mechanism),
        _ => return None,
    };
    if client.user().is_some() {
        return Some((code::NOT_PERMITTED, "You are logged in already"));
    }
    if client.is_compressed() {
        return Some((code::NOT_PERMITTED, "AUTHINFO must come before COMPRESS"));
    }
    if !client.offers_login() {
        return Some((code::NOT_SUPPORTED, "Nobody can log in here"));
    }
    let enabled = |mechanism: &AuthMechanism| client.config().auth.mechanisms.contains(mechanism);
    let Some(mechanism) = mechanism.filter(enabled) else {
        return Some((code::NOT_SUPPORTED, "Mechanism not recognized"));
    };
    if client.offers(mechanism) {
        return None;
    }
    Some(match mechanism {
        AuthMechanism::User | AuthMechanism::Plain if !client.may_send_passwords() => {
            (code::PRIVACY_REQUIRED, "Encryption or stronger authentication required")
        }
        AuthMechanism::External if client.tls().is_none() => {
            (code::PRIVACY_REQUIRED, "Encrypt first (STARTTLS) and show your certificate")
        }
        AuthMechanism::External => {
            (code::AUTHENTICATION_FAILED, "You have shown no certificate that is trusted")
        }
        _ => (code::NOT_SUPPORTED, "Mechanism not recognized"),
    })
}
