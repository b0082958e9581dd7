//! AUTHINFO: USER and PASS, and SASL exchanges.
//!
//! A session logs in once. All decisions are made by the `Gate`; this module has the order of commands and
//! the responses. Called by `dispatch`, and by `rounds` for the lines of a SASL exchange. Source: RFC 4643.

use super::dispatch::CommandOutcome;
use super::rounds::ExpectedInput;
use super::{AdmissionLimit, ConnectedClient, Session};
use access::sasl;
use access::sasl::{SaslAction, SaslExchange};
use access::users::random;
use access::{LoginDenial, User};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ingest::programs;
use netnews::nntp::command::NntpCommand;
use netnews::nntp::response::{append, append_standard, code};
use site_config::AuthMechanism;
use std::sync::Arc;
use tracing::info;
use upstreams::NewsSource;

/// Longest line of AUTHINFO SASL and of a response, in bytes, line end included: base64 of more than the
/// longest names and passwords that are accepted.
pub(super) const SASL_LINE_BYTES_MAX: usize = 4096;
/// Octets of the server's part of a SCRAM nonce.
const NONCE_BYTES: usize = 18;

/// Progress of logging in.
#[derive(Debug, Default)]
pub(super) struct LoginProgress {
    /// Name given by AUTHINFO USER.
    name: Option<Box<[u8]>>,
    exchange: Option<SaslExchange>,
    failures: u32,
}

/// Data sent to the client after a success.
type SuccessData = Option<String>;

impl<S: NewsSource> Session<S> {
    pub(super) async fn authinfo(&mut self, command: &NntpCommand<'_>) -> CommandOutcome {
        if let Some((code, text)) = self.no_authinfo(command) {
            append(self.out.text(), code, text);
            return CommandOutcome::Done;
        }
        match *command {
            NntpCommand::AuthinfoUser(name) => {
                self.login.name = Some(name.into());
                append_standard(self.out.text(), code::PASSWORD_REQUIRED);
                CommandOutcome::Done
            }
            NntpCommand::AuthinfoPass(password) => {
                let Some(name) = self.login.name.take() else {
                    append_standard(self.out.text(), code::AUTHENTICATION_SEQUENCE);
                    return CommandOutcome::Done;
                };
                let judged = self.site.gate.password(self.client.caller(), &name, password, "USER").await;
                self.answer_login(judged, None).await
            }
            NntpCommand::AuthinfoSasl { mechanism, initial } => {
                self.login.name = None;
                self.login.exchange = sasl::mechanism(mechanism).and_then(SaslExchange::start);
                match initial {
                    Some(initial) => self.respond(initial).await,
                    None => self.challenge(b""),
                }
            }
            _ => {
                append(self.out.text(), code::SYNTAX_ERROR, "Unknown AUTHINFO variant");
                CommandOutcome::Done
            }
        }
    }

    /// Returns the refusal of an AUTHINFO command that is not even looked at.
    fn no_authinfo(&self, command: &NntpCommand<'_>) -> Option<(u16, &'static str)> {
        let mechanism = match command {
            NntpCommand::AuthinfoUser(_) | NntpCommand::AuthinfoPass(_) => Some(AuthMechanism::User),
            NntpCommand::AuthinfoSasl { mechanism, .. } => sasl::mechanism(mechanism),
            _ => return None,
        };
        if self.client.user().is_some() {
            return Some((code::NOT_PERMITTED, "You are logged in already"));
        }
        if self.client.is_compressed() {
            return Some((code::NOT_PERMITTED, "AUTHINFO must come before COMPRESS"));
        }
        if !self.client.offers_login() {
            return Some((code::NOT_SUPPORTED, "Nobody can log in here"));
        }
        let enabled = |mechanism: &AuthMechanism| self.client.config().auth.mechanisms.contains(mechanism);
        let Some(mechanism) = mechanism.filter(enabled) else {
            return Some((code::NOT_SUPPORTED, "Mechanism not recognized"));
        };
        if self.client.offers(mechanism) {
            return None;
        }
        Some(match mechanism {
            AuthMechanism::User | AuthMechanism::Plain if !self.client.may_send_passwords() => {
                (code::PRIVACY_REQUIRED, "Encryption or stronger authentication required")
            }
            AuthMechanism::External if self.client.tls().is_none() => {
                (code::PRIVACY_REQUIRED, "Encrypt first (STARTTLS) and show your certificate")
            }
            AuthMechanism::External => {
                (code::AUTHENTICATION_FAILED, "You have shown no certificate that is trusted")
            }
            _ => (code::NOT_SUPPORTED, "Mechanism not recognized"),
        })
    }

    /// Handles a line of an exchange.
    pub(super) async fn sasl_response(&mut self, line: &[u8]) -> CommandOutcome {
        self.expecting = ExpectedInput::Command;
        if line == b"*" {
            self.login.exchange = None;
            append(self.out.text(), code::AUTHENTICATION_FAILED, "Authentication aborted as requested");
            return CommandOutcome::Done;
        }
        self.respond(line).await
    }

    /// Handles a response, still in base64.
    async fn respond(&mut self, response: &[u8]) -> CommandOutcome {
        let Some(exchange) = self.login.exchange.take() else { return CommandOutcome::Done };
        let Some(response) = sasl::decode(response) else {
            append_standard(self.out.text(), code::BAD_BASE64);
            return CommandOutcome::Done;
        };
        let gate = self.site.gate.clone();
        let caller = *self.client.caller();
        const SCRAM: &str = "SCRAM-SHA-256";
        match exchange.respond(&response) {
            SaslAction::Password { name, password } => {
                let judged = gate.password(&caller, &name, &password, "PLAIN").await;
                self.answer_login(judged, None).await
            }
            SaslAction::Certificate { wanted } => {
                let names: Vec<&str> = self.client.proven_names().collect();
                let judged = gate.certificate(&caller, &names, wanted).await;
                self.answer_login(judged, None).await
            }
            SaslAction::Keys { name, first } => {
                match (gate.keys(&caller, &name).await, random::<NONCE_BYTES>()) {
                    (Ok(keys), Ok(nonce)) => {
                        let nonce = BASE64_STANDARD.encode(nonce);
                        let (exchange, challenge) = SaslExchange::with_keys(name, first, keys, &nonce);
                        self.login.exchange = Some(exchange);
                        self.challenge(challenge.as_bytes())
                    }
                    (Err(denial), _) => self.answer_login(Err(denial), None).await,
                    (_, Err(_)) => self.answer_login(Err(LoginDenial::Trouble), None).await,
                }
            }
            SaslAction::Proven { name, data } => {
                let judged = gate.proven(&caller, name, SCRAM);
                self.answer_login(judged, Some(sasl::encode(data.as_bytes()))).await
            }
            SaslAction::Wrong { name } => {
                let denial = gate.deny(&caller, name.as_bytes(), SCRAM);
                self.answer_login(Err(denial), None).await
            }
            SaslAction::Refused => self.answer_login(Err(LoginDenial::Wrong), None).await,
            SaslAction::Malformed => {
                append(self.out.text(), code::AUTHENTICATION_SEQUENCE, "SASL protocol error");
                self.failed_login()
            }
        }
    }

    fn challenge(&mut self, challenge: &[u8]) -> CommandOutcome {
        append(self.out.text(), code::CONTINUE_SASL, &sasl::encode(challenge));
        self.expecting = ExpectedInput::SaslResponse;
        CommandOutcome::Done
    }

    async fn answer_login(
        &mut self,
        judged: Result<Arc<User>, LoginDenial>,
        data: SuccessData,
    ) -> CommandOutcome {
        let user = match judged {
            Ok(user) => match self.judge_login(&user) {
                Ok(()) => user,
                Err(verdict) => return verdict,
            },
            Err(denial) => {
                match denial {
                    LoginDenial::Wrong => append_standard(self.out.text(), code::AUTHENTICATION_FAILED),
                    LoginDenial::Locked(left) => {
                        let text = format!("Too many failures, try again in {} s", left.as_secs() + 1);
                        append(self.out.text(), code::AUTHENTICATION_FAILED, &text);
                    }
                    LoginDenial::Trouble => append_standard(self.out.text(), code::INTERNAL_FAULT),
                }
                return self.failed_login();
            }
        };
        let client = self.client.logged_in(user);
        if let Err(limit) = self.settle(client) {
            append(self.out.text(), code::UNAVAILABLE, &limit.to_string());
            return CommandOutcome::Close;
        }
        let view = self.client.view();
        self.reader.look_with(view).await;
        match data {
            Some(data) => append(self.out.text(), code::AUTHENTICATED_WITH_DATA, &data),
            None => append_standard(self.out.text(), code::AUTHENTICATED),
        }
        CommandOutcome::Done
    }

    /// Asks the filters about a client that has proven its identity; responds if they refuse it.
    fn judge_login(&mut self, user: &User) -> Result<(), CommandOutcome> {
        let address = self.client.address().to_string();
        let judged = self.site.filer.with_filters(|filters| filters.login(&address, &user.name));
        match judged {
            Ok(()) => Ok(()),
            Err(programs::ProgramVerdict::Reject(reason)) => {
                info!(address, user = &*user.name, reason, "login refused by a filter");
                append(self.out.text(), code::AUTHENTICATION_FAILED, &reason);
                Err(self.failed_login())
            }
            Err(_) => {
                append(self.out.text(), code::INTERNAL_FAULT, "Logins cannot be judged now, try again later");
                Err(self.failed_login())
            }
        }
    }

    /// Counts a failure; too many end the session.
    fn failed_login(&mut self) -> CommandOutcome {
        self.login.failures += 1;
        if self.login.failures >= self.client.config().auth.failures_per_connection_max {
            CommandOutcome::Close
        } else {
            CommandOutcome::Done
        }
    }

    /// Continues as `client`: takes the permits that it has a right to and returns the previous ones. The
    /// connection is to be closed after an error, whose text is for the client.
    pub(super) fn settle(&mut self, client: ConnectedClient) -> Result<(), AdmissionLimit> {
        if !self.permit.is_of(client.peer()) {
            let permit = self.site.permits.take(&client.config().limits, client.address(), client.peer());
            self.permit = permit.map_err(AdmissionLimit::Connections)?;
            self.feed = None;
        }
        self.access_permit = None;
        self.access_permit = client.access_permit(&self.site.limits).map_err(AdmissionLimit::Access)?;
        self.out.set_bandwidth(self.access_permit.as_ref().and_then(access::limits::AccessPermit::bandwidth));
        self.client = client;
        self.input.read_ahead(self.client.may_feed());
        Ok(())
    }
}
